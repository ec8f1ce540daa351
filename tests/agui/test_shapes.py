"""Enforcement of shapes: every row of the table of verdicts, at every depth; the quick pass changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import Event
from pydantic import TypeAdapter
from tests.agui.enforcing import TEXT, enforced, finished, refused, said, snapshot, started, text

from handrail.agui._enforce import quick_event, read_event
from handrail.agui._shape_table import EVENT_SHAPES
from handrail.agui._warnings import WarningRecord

BIG = 2**53


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    return snapshot({"id": "a", "role": "assistant", "toolCalls": list(calls)})


IMAGE = {"type": "image", "source": {"type": "url", "value": "https://example.com/x.png"}}


@pytest.mark.parametrize("first", [True, False])
def test_an_unknown_event_is_dropped_and_not_judged(first: bool) -> None:
    """P-21: the warning names the type and shows at most 200 characters of the payload."""
    warnings: list[WarningRecord] = []
    payload = {"type": "FUTURE_EVENT", "messageId": None, "x": ["y" * 500]}
    assert read_event(payload, warnings.append) is None
    assert [record.code for record in warnings] == ["unknown-event"]
    assert "FUTURE_EVENT" in warnings[0].message
    assert "yyy" in warnings[0].message
    assert len(warnings[0].message) < 300


@pytest.mark.parametrize(
    ("payload", "cleaned", "path"),
    [
        (text(futureProp=1), text(), "/futureProp"),
        (text(message_id="m2"), text(), "/message_id"),
        (text(**{"a/b~c": 1}), text(), "/a~1b~0c"),
        (
            calling({"id": "c", "type": "function", "function": {"name": "f", "arguments": "", "x": 2}}),
            calling({"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}),
            "/messages/0/toolCalls/0/function/x",
        ),
        (snapshot(said(TEXT | {"x": 1})), snapshot(said(TEXT)), "/messages/0/content/0/x"),
        (finished(outcome={"type": "success", "x": 1}), finished(outcome={"type": "success"}), "/outcome/x"),
        (finished(usage=[{"model": "m", "x": 1}]), finished(usage=[{"model": "m"}]), "/usage/0/x"),
    ],
)
def test_an_unknown_key_of_a_closed_object_is_removed(payload: dict[str, Any], cleaned: Any, path: str) -> None:
    """P-21: at any depth, spellings of Python included, with a warning that has its path."""
    assert enforced(payload) == (cleaned, [("unknown-property", path)])


@pytest.mark.parametrize(
    ("payload", "cleaned", "path"),
    [
        (finished(outcome={"type": "postponed", "until": None}), finished(), "/outcome"),
        (
            {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "critic"},
            {"type": "TEXT_MESSAGE_START", "messageId": "m1"},
            "/role",
        ),
        (snapshot(said(TEXT, {"type": "hologram", "text": 5})), snapshot(said(TEXT)), "/messages/0/content/1"),
        (snapshot({"role": "critic"}, said(TEXT)), snapshot(said(TEXT)), "/messages/0"),
        (
            {"type": "STATE_DELTA", "delta": [{"op": "merge"}, {"op": "remove", "path": "/a"}]},
            {"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/a"}]},
            "/delta/0",
        ),
        (
            snapshot(said(IMAGE | {"source": {"type": "qubit"}, "x": 1}, TEXT)),
            snapshot(said(TEXT)),
            "/messages/0/content/0",
        ),
        (
            started(
                input={
                    "threadId": "t1",
                    "runId": "r1",
                    "messages": [],
                    "resume": [{"interruptId": "i", "status": "later"}],
                }
            ),
            started(input={"threadId": "t1", "runId": "r1", "messages": [], "resume": []}),
            "/input/resume/0",
        ),
        (
            {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "tool", "entityId": "e", "encryptedValue": "v", "x": 1},
            None,
            "",
        ),
    ],
)
def test_what_is_newer_goes_with_the_smallest_thing_around_it(payload: Any, cleaned: Any, path: str) -> None:
    """P-21, P-22: field, list element or event; reported once, at its own path, and nothing inside it."""
    assert enforced(payload) == (cleaned, [("unknown-value", path)])


@pytest.mark.parametrize(
    ("payload", "path", "words"),
    [
        ({"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "assistant"}, "/role", 'expected "reasoning"'),
        (
            {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "", "role": "user"},
            "/role",
            '"tool"',
        ),
        (
            calling({"id": "c", "type": "http", "function": {"name": "f", "arguments": ""}}),
            "/messages/0/toolCalls/0/type",
            '"function"',
        ),
        (text(delta=42), "/delta", "expected string, received the number 42"),
        (text(messageId=["m"]), "/messageId", "received array"),
        (text(delta=None), "/delta", "received null"),
        ({"type": "TEXT_MESSAGE_START"}, "/messageId", "missing"),
        ({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": 5}, "/role", "string"),
        ({"type": "REASONING_MESSAGE_START", "messageId": "m"}, "/role", "missing"),
        (finished(outcome=[]), "/outcome", "expected object, received array"),
        (finished(outcome="success"), "/outcome", "object"),
        (finished(outcome={}), "/outcome/type", "missing"),
        (finished(outcome={"type": 1}), "/outcome/type", "string"),
        (
            finished(outcome={"type": "interrupt", "interrupts": []}),
            "/outcome/interrupts",
            "at least 1 element, received an array of 0",
        ),
        (finished(outcome={"type": "interrupt"}), "/outcome/interrupts", "missing"),
        (
            finished(outcome={"type": "interrupt", "interrupts": [{"id": "i"}]}),
            "/outcome/interrupts/0/reason",
            "missing",
        ),
        ({"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "a"}]}, "/delta/0/path", "JSON pointer"),
        ({"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/~2"}]}, "/delta/0/path", "JSON pointer"),
        ({"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/~"}]}, "/delta/0/path", "JSON pointer"),
        ({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a"}]}, "/delta/0/value", "missing"),
        ({"type": "STATE_DELTA", "delta": {"op": "add"}}, "/delta", "array"),
        ({"type": "STATE_DELTA", "delta": ["add"]}, "/delta/0", "object"),
        ({"type": "STATE_DELTA", "delta": [{"path": ""}]}, "/delta/0/op", "missing"),
        (text(timestamp=BIG), "/timestamp", "integer"),
        (text(timestamp=-BIG), "/timestamp", "integer"),
        (finished(usage=[{"inputTokens": -1}]), "/usage/0/inputTokens", "integer"),
        (text(metadata=[]), "/metadata", "object"),
        ({"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "x", "content": "y"}, "/content", "object"),
        (
            {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "x", "content": {}, "replace": 1},
            "/replace",
            "boolean",
        ),
        (
            {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": {"type": "text", "text": ""}},
            "/content",
            "array",
        ),
        ({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": None}, "/content", "null"),
        ({"type": "CUSTOM", "name": "x"}, "/value", "missing"),
        ({"type": "RUN_STARTED", "threadId": "t1", "runId": "r1", "input": []}, "/input", "object"),
        (snapshot("hello"), "/messages/0", "object"),
        (snapshot({"id": "a", "role": "assistant", "content": []}), "/messages/0/content", "string"),
        ({"type": "SUBAGENT_STARTED", "subagentRunId": "s"}, "/name", "missing"),
        (calling({"id": "c", "function": {"name": "f", "arguments": ""}}), "/messages/0/toolCalls/0/type", "missing"),
    ],
)
def test_what_is_known_and_wrong_is_fatal(payload: dict[str, Any], path: str, words: str) -> None:
    """P-21, P-23, P-24: constants, types, what is missing, pointers, bounds; the text names type, field and path."""
    error = refused(payload)
    assert error.path == path
    assert words in str(error)
    assert repr(path.rpartition("/")[2]) in str(error)
    assert error.rule == "P-24"
    assert "the agent broke the protocol" in str(error)


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (text(timestamp=None), "/timestamp"),
        (text(metadata=None), "/metadata"),
        (text(subagentRunId=None), "/subagentRunId"),
        ({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": None}, "/role"),
        ({"type": "RUN_ERROR", "message": "x", "code": None}, "/code"),
        (started(protocolVersion=None), "/protocolVersion"),
        (started(input=None), "/input"),
        (finished(usage=None), "/usage"),
        ({"type": "SUBAGENT_FINISHED", "subagentRunId": "s", "outcome": None}, "/outcome"),
        (snapshot({"id": "a", "role": "assistant", "content": None}), "/messages/0/content"),
        (snapshot({"id": "a", "role": "assistant", "toolCalls": None}), "/messages/0/toolCalls"),
        (snapshot(said(TEXT | {"metadata": None})), "/messages/0/content/0/metadata"),
    ],
)
def test_null_in_an_optional_field(payload: dict[str, Any], path: str) -> None:
    """P-21, P-27: fatal, and says what to do instead; with leniency it reads as absent, with a warning."""
    error = refused(payload)
    assert error.path == path
    assert "null; leave the field out" in str(error)
    dumped, warnings = enforced(payload, null_is_absent=True)
    assert dumped is not None
    assert warnings == [("null-read-as-absent", path)]
    assert "null" not in json.dumps(dumped)


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (
            {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": None},
            "/parentMessageId",
        ),
        ({"type": "TOOL_CALL_CHUNK", "parentMessageId": None}, "/parentMessageId"),
        (finished(outcome=None), "/outcome"),
        (finished(result=None), "/result"),
        ({"type": "SUBAGENT_FINISHED", "subagentRunId": "s", "result": None}, "/result"),
        (snapshot(said(IMAGE | {"metadata": None})), "/messages/0/content/0/metadata"),
        (started(input={"threadId": "t", "runId": "r", "messages": [], "state": None}), "/input/state"),
        (
            started(input={"threadId": "t", "runId": "r", "messages": [], "forwardedProps": None}),
            "/input/forwardedProps",
        ),
        (
            started(
                input={
                    "threadId": "t",
                    "runId": "r",
                    "messages": [],
                    "tools": [{"name": "f", "description": "", "parameters": None}],
                }
            ),
            "/input/tools/0/parameters",
        ),
        (
            started(
                input={
                    "threadId": "t",
                    "runId": "r",
                    "messages": [],
                    "resume": [{"interruptId": "i", "status": "resolved", "payload": None}],
                }
            ),
            "/input/resume/0/payload",
        ),
        *[({"type": name, "rawEvent": None}, "/rawEvent") for name in ("TEXT_MESSAGE_CHUNK", "TOOL_CALL_CHUNK")],
        (finished(rawEvent=None), "/rawEvent"),
    ],
)
def test_null_that_old_peers_send_reads_as_absent(payload: dict[str, Any], path: str) -> None:
    """P-26: the listed fields, with a warning that has the path."""
    dumped, warnings = enforced(payload)
    assert warnings == [("null-read-as-absent", path)]
    assert "null" not in json.dumps(dumped)


def test_raw_event_may_be_null_on_every_event() -> None:
    """P-26: `rawEvent` anywhere."""
    assert all(record.fields["rawEvent"].null_is_absent for record in EVENT_SHAPES.values())


ODD = {"a": None, "type": "x", "b": [None, {"snake_case": 1.5}], "": False}


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "CUSTOM", "name": "x", "value": None},
        {"type": "CUSTOM", "name": "", "value": ODD},
        {"type": "STATE_SNAPSHOT", "snapshot": None},
        {"type": "STATE_SNAPSHOT", "snapshot": ODD},
        {"type": "RAW", "event": None},
        {"type": "RAW", "event": ODD, "rawEvent": ODD},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "", "value": None, "extra": ODD}]},
        {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "x", "content": ODD, "metadata": ODD},
        finished(result=ODD),
        finished(result=False),
        finished(
            outcome={
                "type": "interrupt",
                "interrupts": [{"id": "i", "reason": "r", "responseSchema": ODD, "metadata": ODD}],
            }
        ),
        started(
            input={
                "threadId": "",
                "runId": "",
                "messages": [],
                "state": ODD,
                "forwardedProps": 5,
                "tools": [{"name": "f", "description": "", "parameters": ODD}],
                "resume": [{"interruptId": "i", "status": "resolved", "payload": ODD}],
            }
        ),
        snapshot(said(TEXT | {"metadata": [1]})),
        text(messageId="", delta=""),
        {"type": "STATE_DELTA", "delta": []},
        {"type": "STATE_DELTA", "delta": [{"op": "move", "from": "/a~0~1/", "path": "/b\n"}]},
    ],
)
def test_opaque_data_is_untouched(payload: dict[str, Any]) -> None:
    """P-21, P-23: null is data there, keys are nobody's business, extra members of an operation stay; "" is legal."""
    assert enforced(payload) == (payload, [])


@pytest.mark.parametrize(("given", "read"), [(12.0, 12), (-1e3, -1000), (0.0, 0), (12, 12), (float(BIG - 1), BIG - 1)])
def test_a_number_without_a_fraction_is_an_integer(given: float, read: int) -> None:
    """P-18: 12.0 is 12."""
    dumped, warnings = enforced(text(timestamp=given))
    assert warnings == []
    assert dumped["timestamp"] == read
    assert type(dumped["timestamp"]) is int


@pytest.mark.parametrize("given", [12.5, "12", True, False, [], 1e300])
def test_what_is_no_integer_is_malformed(given: Any) -> None:
    """P-18: a fraction, a string, a flag."""
    assert refused(text(timestamp=given)).path == "/timestamp"


def test_instances_are_those_of_the_models() -> None:
    """P-1, P-20: what is built is what the models make of a payload that is right."""
    validate = TypeAdapter[Event](Event).validate_python
    for payload in (
        text(timestamp=5, metadata={"a": 1}),
        {"type": "STATE_DELTA", "delta": [{"op": "move", "from": "/a", "path": "/b", "x": 1}]},
        finished(outcome={"type": "interrupt", "interrupts": [{"id": "i", "reason": "r"}]}),
        snapshot(
            said(TEXT, IMAGE),
            {
                "id": "a",
                "role": "assistant",
                "toolCalls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}],
            },
        ),
    ):
        expected: Any = validate(payload)
        event: Any = read_event(payload, pytest.fail)
        assert event == expected
        assert event.model_fields_set == expected.model_fields_set
        assert event.model_dump_json(by_alias=True) == expected.model_dump_json(by_alias=True)
        assert event.model_copy(deep=True) == expected
        assert repr(event) == repr(expected)


@pytest.mark.parametrize(
    ("payload", "is_quick"),
    [
        (text(), True),
        (text(timestamp=5, subagentRunId="s"), True),
        (text(rawEvent="x"), True),
        (text(timestamp=None), False),
        (text(timestamp=5.0), False),
        (text(metadata={}), True),
        (text(metadata={"a": [1.5, {}]}), True),
        (text(metadata={"a": None}), False),
        (text(rawEvent=1.5), True),
        (text(extra=1), False),
        ({"type": "REASONING_MESSAGE_START", "messageId": "m"}, False),
        ({"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "reasoning"}, True),
        ({"type": "CUSTOM", "name": "x", "value": "y"}, True),
        ({"type": "CUSTOM", "name": "x", "value": None}, False),
        ({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": {}}]}, True),
        ({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/a", "value": {}, "x": 1}]}, False),
        ({"type": "STATE_SNAPSHOT", "snapshot": float("inf")}, False),
        ({"type": "STATE_SNAPSHOT", "snapshot": {"big": 10**400}}, False),
        (snapshot(), False),
        (calling({"id": "c", "function": {"name": "f", "arguments": ""}}), False),
        (started(input={"threadId": "t1", "runId": "r1", "messages": calling({"id": "c"})["messages"]}), False),
        (
            started(
                input={
                    "threadId": "t1",
                    "runId": "r1",
                    "messages": calling({"id": "c", "function": {"name": "f", "arguments": ""}})["messages"],
                }
            ),
            False,
        ),
        (finished(outcome={"type": "success"}), True),
        ({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "x"}, True),
        ({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": []}, True),
        ({"type": "FUTURE"}, False),
        (text(delta="\ud83d"), False),
    ],
)
def test_the_quick_pass_takes_what_can_be_read_in_one_way(payload: dict[str, Any], is_quick: bool) -> None:
    """F-2, P-20: where it gives an event, it is the one that the walk over the table gives."""
    event = quick_event(json.dumps(payload).encode())
    assert (event is not None) is is_quick
    if event is not None:
        walked: Any = read_event(payload, pytest.fail)
        assert event == walked
        assert event.model_fields_set == walked.model_fields_set
