"""Enforcement of shapes: every row of the table of verdicts, at every depth; the quick pass changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    Event,
    FunctionCall,
    RunAgentInput,
    RunStartedEvent,
    ToolCall,
    UserMessage,
)
from pydantic import BaseModel, TypeAdapter

from handrail.agui._enforce import quick_event, read_event
from handrail.agui._input import encode_input, outgoing_input, read_input, read_request
from handrail.agui._shape_table import EVENT_SHAPES, INPUT_SHAPE
from handrail.agui._shapes import Choice, Field, Many, OneOf, Reading, Record, Shape, TextOrMany
from handrail.agui._warnings import WarningRecord
from handrail.errors import LocalProtocolError, RemoteDecodeError, RemoteProtocolError

BIG = 2**53


def enforced(payload: dict[str, Any], **options: Any) -> tuple[Any, list[tuple[str, str | None]]]:
    """The event as the wire has it, or None, and the codes and paths of the warnings."""
    before = json.dumps(payload)
    warnings: list[WarningRecord] = []
    event = read_event(payload, warnings.append, **options)
    assert json.dumps(payload) == before
    dumped = None if event is None else event.model_dump(by_alias=True, exclude_unset=True, mode="json")
    return dumped, [(record.code, record.path) for record in warnings]


def refused(payload: dict[str, Any], **options: Any) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        enforced(payload, **options)
    assert caught.value.event_type == payload["type"]
    assert payload["type"] in str(caught.value)
    assert caught.value.path is not None
    assert caught.value.path in str(caught.value)
    return caught.value


def started(**fields: Any) -> dict[str, Any]:
    return {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1", **fields}


def finished(**fields: Any) -> dict[str, Any]:
    return {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1", **fields}


def text(**fields: Any) -> dict[str, Any]:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "x", **fields}


def snapshot(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "MESSAGES_SNAPSHOT", "messages": list(messages), **fields}


def said(*parts: Any) -> dict[str, Any]:
    return {"id": "u1", "role": "user", "content": list(parts)}


def calling(*calls: dict[str, Any]) -> dict[str, Any]:
    return snapshot({"id": "a", "role": "assistant", "toolCalls": list(calls)})


TEXT = {"type": "text", "text": "x"}
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


# The input of a run, in both directions.

ASKED = {"threadId": "t1", "runId": "r1", "messages": [said(TEXT)], "tools": [], "context": [], "forwardedProps": {}}


def sent(given: Any, **options: Any) -> tuple[dict[str, Any], list[WarningRecord]]:
    warnings: list[WarningRecord] = []
    return outgoing_input(given, warnings.append, **options), warnings


def test_an_input_goes_out_cleaned_and_complete() -> None:
    """P-25, P-28: unknown material goes with an `outgoing` warning, nulls silently; the version is ours."""
    given = {
        "threadId": "t1",
        "runId": "r1",
        "protocolVersion": "9.9",
        "messages": [said(TEXT | {"x": 1}, {"type": "hologram"}), {"id": "c", "role": "critic"}],
        "state": None,
        "parentRunId": None,
        "thread_id": "t2",
        "tools": [{"name": "f", "description": "", "parameters": None}],
    }
    before = json.dumps(given)
    payload, warnings = sent(given)
    assert payload == ASKED | {"protocolVersion": "1.0", "tools": [{"name": "f", "description": ""}]}
    assert {record.code for record in warnings} == {"outgoing"}
    assert sorted(str(record.path) for record in warnings) == [
        "/messages/0/content/0/x",
        "/messages/0/content/1",
        "/messages/1",
        "/thread_id",
    ]
    assert json.dumps(given) == before


def test_an_input_may_be_a_model_or_hold_models() -> None:
    """P-66, P-25: a model, a dict of the wire's shape, and a dict with models in its lists go out alike."""
    model = read_input(ASKED, pytest.fail)
    assert sent(model) == sent(ASKED) == sent(ASKED | {"messages": model.messages})
    assert sent(model)[0] == ASKED | {"protocolVersion": "1.0"}


def test_models_in_an_input_go_out_in_the_names_of_the_wire() -> None:
    """P-25, P-66: what they hold is judged here, and by nobody before."""
    called = ToolCall(id="c", type="function", function=FunctionCall(name="f", arguments="{}"), encrypted_value="v")
    spoken = AssistantMessage(id="a", role="assistant", tool_calls=[called])
    on_the_wire = {
        "id": "a",
        "role": "assistant",
        "toolCalls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "encryptedValue": "v"}
        ],
    }
    asked = RunAgentInput(thread_id="t1", run_id="r1", messages=[spoken])
    for given in (asked, ASKED | {"messages": [spoken]}, ASKED | {"messages": [on_the_wire]}):
        assert sent(given)[0]["messages"] == [on_the_wire]
    wrong = UserMessage.model_construct(id=5, role="user", content="x")
    for given in (asked.model_copy(update={"messages": [wrong]}), ASKED | {"messages": [wrong]}):
        with pytest.raises(LocalProtocolError, match="/messages/0/id"):
            sent(given)


def test_what_goes_out_malformed_is_refused() -> None:
    """P-25, P-5: before a byte leaves, with rule and path."""
    for given, path in (
        (ASKED | {"messages": [{"id": 5, "role": "user", "content": ""}]}, "/messages/0/id"),
        ({"runId": "r1", "messages": []}, "/threadId"),
        (ASKED | {"resume": [{"interruptId": "i"}]}, "/resume/0/status"),
    ):
        with pytest.raises(LocalProtocolError) as caught:
            sent(given)
        assert caught.value.path == path
        assert caught.value.rule == "P-25"
        assert path in str(caught.value)


def test_what_json_has_no_name_for_is_named_as_python_does() -> None:
    """P-25, P-7: a tuple is no array that was received as one."""
    with pytest.raises(LocalProtocolError, match="expected array, received a Python tuple"):
        sent(ASKED | {"tools": ()})


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_opaque_data_that_json_cannot_hold_is_refused(value: Any) -> None:
    """P-25: state and the like are not looked into, but they have to be JSON."""
    payload, _ = sent(ASKED | {"state": {"x": value}})
    with pytest.raises(LocalProtocolError, match="JSON"):
        encode_input(payload)


def test_a_state_too_deep_to_be_written_is_refused() -> None:
    """P-25: with the rule, like anything that cannot be sent."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(LocalProtocolError, match="JSON") as caught:
        encode_input({"state": deep})
    assert caught.value.rule == "P-25"


def test_a_body_is_utf8_json() -> None:
    """P-19, P-68: lone halves of a pair are U+FFFD in a body, and nothing raises."""
    payload, _ = sent(
        ASKED | {"messages": [{"id": "u\ud83d", "role": "user", "content": "ok \ud83d"}], "state": "\ude00"}
    )
    body = json.loads(encode_input(payload))
    assert body["messages"] == [{"id": "u�", "role": "user", "content": "ok �"}]
    assert body["state"] == "�"


def test_the_state_goes_out_as_it_is() -> None:
    """P-25, P-27: false, 0, "" and [] are states; none is left out, or {} for an old server."""
    for state in (False, 0, "", [], {}, {"a": None}):
        assert sent(ASKED | {"state": state})[0]["state"] == state
    assert "state" not in sent(ASKED)[0]
    assert sent(ASKED, lenient=True)[0]["state"] == {}
    assert sent(ASKED | {"state": 0}, lenient=True)[0]["state"] == 0


def served(payload: dict[str, Any]) -> tuple[Any, list[tuple[str, str | None]]]:
    warnings: list[WarningRecord] = []
    read = read_input(payload, warnings.append)
    return read, [(record.code, record.path) for record in warnings]


def test_a_request_is_read_by_the_same_rules() -> None:
    """P-79: unknown material is removed with a warning and the request served; what is known and wrong is refused."""
    read, warnings = served(ASKED | {"x": 1, "messages": [said(TEXT, {"type": "hologram"})], "state": None})
    assert read.model_dump(by_alias=True) == ASKED
    assert sorted(warnings) == [
        ("null-read-as-absent", "/state"),
        ("unknown-property", "/x"),
        ("unknown-value", "/messages/0/content/1"),
    ]
    for payload, path in ((ASKED | {"tools": None}, "/tools"), ({"messages": []}, "/threadId")):
        with pytest.raises(RemoteProtocolError, match="the client broke the protocol") as caught:
            served(payload)
        assert caught.value.path == path


def test_the_refusal_of_a_request_says_what_is_wrong_where() -> None:
    """P-79, P-24"""
    with pytest.raises(RemoteProtocolError) as caught:
        served(ASKED | {"messages": [{"id": "u", "role": "user"}]})
    assert (caught.value.rule, caught.value.path) == ("P-24", "/messages/0/content")
    assert "'content' at /messages/0/content: the required field 'content' is missing" in str(caught.value)


def test_spellings_of_python_clients_are_read() -> None:
    """P-79: at the top level, where the wire's names are absent, with one `legacy` warning."""
    asked = {"thread_id": "t1", "run_id": "r1", "parent_run_id": "r0", "forwarded_props": {"a": 1}, "messages": []}
    read, warnings = served(asked)
    assert (read.thread_id, read.run_id, read.parent_run_id, read.forwarded_props) == ("t1", "r1", "r0", {"a": 1})
    assert warnings == [("legacy", None)]
    read, warnings = served(ASKED | {"thread_id": "t2"})
    assert read.thread_id == "t1"
    assert warnings == [("unknown-property", "/thread_id")]


def test_the_body_of_a_request_is_one_json_object() -> None:
    """P-79, P-16: by the same JSON rules."""
    assert read_request(b'{"a": "\\ud83d"}', pytest.fail) == {"a": "\ud83d"}
    warnings: list[WarningRecord] = []
    assert read_request(b'{"a": "\xff"}', warnings.append) == {"a": "�"}
    assert [record.code for record in warnings] == ["encoding"]
    for body in (b"", b"[]", b"1", b'{"a":NaN}', b'{"a":1e999}', b"{} {}", b"[" * 10_000):
        with pytest.raises(RemoteDecodeError):
            read_request(body, pytest.fail)


def test_a_run_that_states_its_input_is_read_with_it() -> None:
    """P-20: the input inside RUN_STARTED is of the same table."""
    event = read_event(started(input=ASKED | {"protocolVersion": "1.0"}), pytest.fail)
    assert isinstance(event, RunStartedEvent)
    assert event.input is not None
    assert event.input.model_dump(by_alias=True, exclude_unset=True) == ASKED | {"protocolVersion": "1.0"}


# -- the table as a whole, against the models --------------------------------------------------------------------------


def records() -> dict[str, Record]:
    """Every object that the table knows, by the name of its model."""
    found: dict[str, Record] = {}
    waiting: list[Shape] = [*EVENT_SHAPES.values(), INPUT_SHAPE]
    while waiting:
        match waiting.pop():
            case Record() as record if record.model.__name__ not in found:
                found[record.model.__name__] = record
                waiting += [slot.shape for slot in record.fields.values()]
            case Many(item=item):
                waiting.append(item)
            case TextOrMany(many=many):
                waiting.append(many)
            case OneOf(members=members):
                waiting += members.values()
            case _:
                pass
    return found


@pytest.mark.parametrize("name", records())
def test_the_table_says_what_the_models_say(name: str) -> None:
    """P-20, P-21: keys, attributes, defaults; required is what pydantic requires, and the constants."""
    record = records()[name]
    schema = record.model.model_json_schema(by_alias=True)
    constants = {key for key, rules in schema["properties"].items() if "const" in rules}
    assert record.fields.keys() == schema["properties"].keys()
    assert {key for key, slot in record.fields.items() if slot.required} == {*schema.get("required", ()), *constants}
    assert record.required == {slot.name: key for key, slot in record.fields.items() if slot.required}
    assert {slot.name for slot in record.fields.values()} == record.model.model_fields.keys() == record.absent.keys()
    optional = record.model.model_construct(**dict.fromkeys(record.required, "x"))
    assert {n: v for n, v in record.absent.items() if n not in record.required} == {
        n: v for n, v in optional.__dict__.items() if n not in record.required
    }


def test_which_fields_old_peers_may_write_as_null() -> None:
    """P-26: these and no others, and `rawEvent` on every event."""
    listed = {
        (name, key) for name, record in records().items() for key, slot in record.fields.items() if slot.null_is_absent
    }
    assert {name for name, key in listed if key == "rawEvent"} == {one.model.__name__ for one in EVENT_SHAPES.values()}
    assert {pair for pair in listed if pair[1] != "rawEvent"} == {
        ("ToolCallStartEvent", "parentMessageId"),
        ("ToolCallChunkEvent", "parentMessageId"),
        ("RunFinishedEvent", "outcome"),
        ("RunFinishedEvent", "result"),
        ("SubagentFinishedEvent", "result"),
        *((f"{medium}Part", "metadata") for medium in ("Image", "Audio", "Video", "Document")),
        ("ResumeEntry", "payload"),
        ("Tool", "parameters"),
        ("RunAgentInput", "forwardedProps"),
        ("RunAgentInput", "state"),
    }


@pytest.mark.parametrize("content", [{}, 5, True])
def test_a_content_is_text_or_parts(content: Any) -> None:
    """P-21, P-24: what is neither is refused, and told what it may be."""
    for payload in (
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": content},
        snapshot({"id": "u", "role": "user", "content": content}),
    ):
        assert "expected string or array, received" in str(refused(payload))


class Inner(BaseModel):
    kind: str


class Outer(BaseModel):
    inner: Inner | None = None


def test_what_is_dropped_as_a_whole_is_reported_once() -> None:
    """P-22: an optional object that holds something newer goes with all that would have been said of it."""
    choice = Field("kind", Choice(frozenset({"old"})), required=True)
    inner = Record(Inner, fields={"kind": choice}, required={"kind": "kind"}, absent={"kind": None})
    outer = Record(Outer, fields={"inner": Field("inner", inner, required=False)}, absent={"inner": None})
    reading = Reading()
    assert outer.read({"more": 1, "inner": {"extra": 1, "kind": "new"}}, "", reading) == Outer()
    assert [(record.code, record.path) for record in reading.warnings] == [
        ("unknown-property", "/more"),
        ("unknown-value", "/inner"),
    ]
    reading = Reading()
    assert outer.read({"inner": {"extra": 1, "kind": "old"}}, "", reading) == Outer(inner=Inner(kind="old"))
    assert [(record.code, record.path) for record in reading.warnings] == [("unknown-property", "/inner/extra")]
