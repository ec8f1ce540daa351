"""The input of a run, in both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import AssistantMessage, FunctionCall, RunAgentInput, RunStartedEvent, ToolCall, UserMessage
from tests.agui.enforcing import TEXT, said, started

from handrail.agui._enforce import read_event
from handrail.agui._input import encode_input, outgoing_input, read_input, read_request
from handrail.agui._warnings import WarningRecord
from handrail.errors import LocalProtocolError, RemoteDecodeError, RemoteProtocolError

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
