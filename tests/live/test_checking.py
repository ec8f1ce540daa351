"""The judge of the live tests is judged: a faultless conversation, and one fault at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from ag_ui.core import AssistantMessage
from tests.agui.wires import sse
from tests.live.checking import Spoken, faults

THREAD = {"threadId": "t1"}
CALL = {"id": "c1", "type": "function", "function": {"name": "erase", "arguments": "{}"}}
QUESTION = {"id": "i1", "reason": "tool_call", "toolCallId": "c1"}
USER = {"id": "u1", "role": "user", "content": "Erase it"}
CALLING = {"id": "a1", "role": "assistant", "toolCalls": [CALL]}
RESULT = {"id": "x1", "role": "tool", "toolCallId": "c1", "content": "gone"}
ANSWER = {"id": "a2", "role": "assistant", "content": "Done."}
AGAIN = {"id": "u2", "role": "user", "content": "Thanks"}

Thread = list[tuple[dict[str, Any], list[dict[str, Any]]]]


def asking(run_id: str, *messages: Any, **fields: Any) -> dict[str, Any]:
    plain = {"tools": [], "context": [], "forwardedProps": {}, "state": {"n": None}}
    return {"protocolVersion": "1.0", "runId": run_id, "messages": [*messages], **THREAD, **plain, **fields}


def answering(run_id: str, *events: dict[str, Any], outcome: Any = None) -> list[dict[str, Any]]:
    ids = THREAD | {"runId": run_id}
    end: dict[str, Any] = {"type": "RUN_FINISHED", **ids} | ({} if outcome is None else {"outcome": outcome})
    return [{"type": "RUN_STARTED", **ids}, *events, end]


def conversation() -> Thread:
    """A question about a call, the answer to it, and another turn."""
    calls = [
        {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "erase", "parentMessageId": "a1"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{}"},
        {"type": "TOOL_CALL_END", "toolCallId": "c1"},
    ]
    results = [
        {"type": "TOOL_CALL_RESULT", "toolCallId": "c1", "messageId": "x1", "content": "gone", "role": "tool"},
        {"type": "TEXT_MESSAGE_START", "messageId": "a2", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a2", "delta": "Done."},
        {"type": "TEXT_MESSAGE_END", "messageId": "a2"},
    ]
    approved = {"interruptId": "i1", "status": "resolved", "payload": {"approved": True}}
    return copy.deepcopy(
        [
            (asking("r1", USER), answering("r1", *calls, outcome={"type": "interrupt", "interrupts": [QUESTION]})),
            (asking("r2", USER, CALLING, resume=[approved]), answering("r2", *results)),
            (asking("r3", USER, CALLING, RESULT, ANSWER, AGAIN), answering("r3")),
        ]
    )


def spoken(thread: Thread) -> list[Spoken]:
    return [Spoken(request, sse(events)) for request, events in thread]


def older(thread: Thread) -> None:
    """The question and its answer as older servers have them."""
    del thread[0][1][-1]["outcome"]
    thread[0][1].insert(-1, {"type": "CUSTOM", "name": "on_interrupt", "value": "Erase?"})
    del thread[1][0]["resume"]
    thread[1][0]["forwardedProps"] = {"command": {"resume": {"approved": True}}}


def older_unanswered(thread: Thread) -> None:
    older(thread)
    thread[1][0]["forwardedProps"] = {}


@pytest.mark.parametrize("change", [lambda thread: None, older], ids=["1.0", "older"])
def test_a_faultless_conversation(change: Callable[[Thread], None]) -> None:
    """S-52, S-57, S-83: nothing is found."""
    thread = conversation()
    change(thread)
    assert faults(spoken(thread)) == []


def put(request: int, **fields: Any) -> Callable[[Thread], None]:
    return lambda thread: thread[request][0].update(copy.deepcopy(fields))


def leave_out(request: int, name: str) -> Callable[[Thread], None]:
    return lambda thread: thread[request][0].pop(name)


FAULTS: dict[str, tuple[Callable[[Thread], object], str]] = {
    "no version": (leave_out(0, "protocolVersion"), "protocolVersion"),
    "a null": (put(0, parentRunId=None), "/parentRunId is null"),
    "a null in a message": (put(0, messages=[USER | {"name": None}]), "/messages/0/name is null"),
    "a run id again": (put(2, runId="r1"), "used again"),
    "another thread": (put(2, threadId="t2"), "thread id"),
    "no answer to the question": (leave_out(1, "resume"), "open are ['i1']"),
    "the call of that question": (leave_out(1, "resume"), "c1 has no answer"),
    "an empty resume": (put(0, resume=[]), "resume is empty"),
    "an answer too many": (put(2, resume=[{"interruptId": "i1", "status": "cancelled"}]), "open are []"),
    "an answer twice": (put(1, resume=[{"interruptId": "i1", "status": "cancelled"}] * 2), "answered twice"),
    "a command nobody wants": (put(2, forwardedProps={"command": {"resume": 1}}), "nobody asked"),
    "an older question": (older_unanswered, "older kind"),
    "a call without its result": (put(2, messages=[USER, CALLING, ANSWER, AGAIN]), "c1 has no answer"),
    "a result elsewhere": (put(2, messages=[USER, CALLING, ANSWER, RESULT, AGAIN]), "c1 has no answer"),
    "a result twice": (put(2, messages=[USER, CALLING, RESULT, RESULT | {"id": "x2"}, ANSWER]), "is not due"),
    "an id twice": (put(2, messages=[USER, CALLING, RESULT, ANSWER, ANSWER]), "a2 is used twice"),
    "half the history": (put(2, messages=[USER, ANSWER, AGAIN]), "history"),
    "a changed history": (put(2, messages=[USER, CALLING, RESULT, ANSWER | {"content": "No"}]), "history"),
    "history in another order": (put(2, messages=[ANSWER, USER, CALLING, RESULT, AGAIN]), "history"),
    "words nobody said": (put(2, messages=[USER, CALLING, RESULT, ANSWER, ANSWER | {"id": "a3"}]), "never said"),
    "a turn in the middle": (put(2, messages=[USER, AGAIN, CALLING, RESULT, ANSWER]), "never said"),
    "another state": (put(2, state={"n": 1}), "state"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    """Every rule has something that breaks it."""
    change, words = FAULTS[name]
    thread = conversation()
    change(thread)
    assert any(words in fault for fault in faults(spoken(thread)))


def test_what_the_session_took_is_held_against_the_stream() -> None:
    """Events that were left out, or that were not there, and messages that the events do not give."""
    thread = spoken(conversation())
    thread[1].taken = thread[1].reading.events[1:]
    assert any("other events" in fault for fault in faults(thread))

    thread = spoken(conversation())
    thread[1].messages = thread[1].reading.inbound.fold.messages
    assert faults(thread) == []
    thread[1].messages = (*thread[1].messages, AssistantMessage(id="a9", content="never"))
    assert any("other said" in fault for fault in faults(thread))

    thread = spoken(conversation())
    thread[1].taken = thread[1].reading.events[:-1]
    thread[1].messages = thread[1].reading.inbound.fold.messages
    assert any("had a verdict" in fault for fault in faults(thread))


def test_a_question_that_was_given_up() -> None:
    """S-99: then the next request answers nothing, and the call in the usual way."""
    thread = conversation()[:1]
    repaired = {"id": "x9", "role": "tool", "toolCallId": "c1", "content": "no", "error": "no"}
    thread.append((asking("r2", USER, CALLING, repaired, AGAIN), answering("r2")))
    assert faults(spoken(thread), given_up={"i1"}) == []
    assert any("open are" in fault for fault in faults(spoken(thread)))
