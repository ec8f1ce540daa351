"""What was streamed and does not stand is taken back."""

from __future__ import annotations

import pytest
from ag_ui.core import AssistantMessage, Message, ReasoningMessage, RunAgentInput, UserMessage
from tests.agui.outgoing import (
    USER,
    Wire,
    attempt,
    committed,
    failed,
    model_call,
    result,
    started,
    succeeded,
    thought,
    token,
    tool_call,
)

from handrail import events
from handrail.run import Outcome


def test_retraction() -> None:
    """P-88: closed at the failure, retracted right before the next attempt shows something, never joined."""
    activity = {"id": "x1", "role": "activity", "activityType": "plan", "content": {}}
    given = RunAgentInput.model_validate({"threadId": "t1", "runId": "r1", "messages": [USER, activity]})
    wire = Wire(given).feed(started, attempt("a"), token("The ans"), failed)
    assert wire.said[-1] == ("TEXT_MESSAGE_END", "a")
    wire.feed(attempt("b"))
    assert wire.said[-1] == ("TEXT_MESSAGE_END", "a")
    wire.feed(token("4."), succeeded, committed("b", "4.")).finish()
    assert [name for name, *_ in wire.said] == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "MESSAGES_SNAPSHOT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert wire.said[4][1] == [{"id": "u1", "role": "user", "content": "hi"}]
    fold = wire.folded()
    assert [message.id for message in fold.messages] == ["u1", "x1", "b"]
    assert fold.final == "4."


def test_retraction_before_reasoning() -> None:
    """P-88: whatever is shown first comes behind the snapshot."""
    wire = Wire().feed(started, attempt("a"), token("The ans"), failed, attempt("b"), thought("hm"))
    assert [name for name, *_ in wire.said][4:] == [
        "MESSAGES_SNAPSHOT",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
    ]


def test_retraction_keeps_this_run() -> None:
    """P-88: the snapshot holds the input's messages, then this run's, in their places."""
    given = RunAgentInput(
        thread_id="t1",
        run_id="r1",
        messages=[USER, AssistantMessage(id="a0", role="assistant", tool_calls=[model_call("c0")]), replace_user("u2")],
    )
    wire = Wire(given).feed(
        started,
        result("c0", "late", "t0"),
        attempt("a1"),
        committed("a1", "first", model_call()),
        tool_call(),
        result(),
        attempt("a2"),
        token("void"),
        events.TurnDiscarded(reason="limit", round=2),
        attempt("a3"),
        token("last"),
    )
    snapshot = next(said[1] for said in wire.said if said[0] == "MESSAGES_SNAPSHOT")
    assert [message["id"] for message in snapshot] == ["u1", "a0", "t0", "u2", "a1", "t1"]
    wire.feed(committed("a3", "last")).finish()
    assert [message.id for message in wire.folded().messages] == ["u1", "a0", "t0", "u2", "a1", "t1", "a3"]


def replace_user(name: str) -> UserMessage:
    return USER.model_copy(update={"id": name})


@pytest.mark.parametrize("is_other_left", [False, True])
def test_retracted_reasoning(is_other_left: bool) -> None:
    """P-88: it survives a snapshot without reasoning, so it is restated as empty when no other is left."""
    before = ReasoningMessage(id="g0", role="reasoning", content="old")
    messages: list[Message] = [USER, before] if is_other_left else [USER]
    given = RunAgentInput(thread_id="t1", run_id="r1", messages=messages)
    wire = Wire(given).feed(
        started, attempt("a"), thought("hm"), failed, attempt("b"), token("4."), committed("b", "4.")
    )
    kept = [(message.id, message.model_dump()["content"]) for message in wire.finish().folded().messages]
    assert kept == [("u1", "hi"), ("g0", "old") if is_other_left else ("a:reasoning", ""), ("b", "4.")]


def test_what_was_seen_stays_if_the_run_ends() -> None:
    """P-88: no snapshot is sent for a run that ends; the client keeps what it saw."""
    wire = Wire().feed(
        started,
        attempt("a"),
        token("The ans"),
        failed,
        attempt("b"),
        failed,
        events.TurnDiscarded(reason="failed", round=1),
    )
    wire.finish(Outcome("failed", error="e"))
    assert "MESSAGES_SNAPSHOT" not in [name for name, *_ in wire.said]
    assert wire.folded().final == "The ans"


def test_committed_stream() -> None:
    """P-89: text and reasoning are held back until they stand, and nothing is retracted."""
    wire = Wire(stream="committed").feed(
        started, attempt("a"), thought("x"), token("The ans"), failed, attempt("b"), thought("be"), token("4")
    )
    assert len(wire.events) == 1
    wire.feed(succeeded, committed("b", "4.", thoughts="because"))
    assert wire.said[1:] == [
        ("REASONING_START", "n1"),
        ("REASONING_MESSAGE_START", "b:reasoning", "reasoning"),
        ("REASONING_MESSAGE_CONTENT", "b:reasoning", "because"),
        ("REASONING_MESSAGE_END", "b:reasoning"),
        ("REASONING_END", "n1"),
        ("TEXT_MESSAGE_START", "b", "assistant"),
        ("TEXT_MESSAGE_CONTENT", "b", "4."),
        ("TEXT_MESSAGE_END", "b"),
    ]
    with pytest.raises(ValueError, match="committed"):
        Wire(stream="later")
