"""What a loop says, as AG-UI events: the table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ag_ui.core import Interrupt, RunAgentInput, SystemMessage, TextPart, ToolCall, UserMessage
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


def test_start() -> None:
    """P-87, P-28: ids of the input and our own version; the input is not echoed."""
    given = RunAgentInput(thread_id="t1", run_id="r1", parent_run_id="r0", messages=[USER], protocol_version="0.1")
    assert Wire(given).feed(started).events[0].model_dump(by_alias=True, exclude={"type"}) == {
        "threadId": "t1",
        "runId": "r1",
        "parentRunId": "r0",
        "protocolVersion": "1.0",
    }
    assert "parentRunId" not in Wire().feed(started).events[0].model_dump(by_alias=True)


@pytest.mark.parametrize(
    "event",
    [
        events.RoundStarted(round=1),
        events.Log(level="info", data="the key is k"),
        events.AskPending(interrupt=Interrupt(id="i1", reason="x")),
        events.AskAnswered(interrupt_id="i1"),
        events.ToolStarted(id="c1", name="f", arguments={}, round=1),
        attempt(),
        token(""),
        thought(""),
        succeeded,
        failed,
        events.TurnDiscarded(reason="failed", round=1),
        events.RunCompleted(final="", rounds=1, message_count=1),
        events.RunFailed(error="e", attempts=()),
        events.RunCancelled(stage="start"),
    ],
)
def test_what_is_not_told(event: events.RunEvent) -> None:
    """P-87: rounds, logs, questions in process and starts of tools become nothing; the end waits for the outcome."""
    assert Wire().feed(started, event).said == Wire().feed(started).said


def test_an_answer() -> None:
    """P-87: text, its end at the commit, and nothing twice."""
    wire = Wire().feed(started, attempt(), token("Hel"), token(""), token("lo"), succeeded, committed("a1", "Hello"))
    assert wire.said[1:] == [
        ("TEXT_MESSAGE_START", "a1", "assistant"),
        ("TEXT_MESSAGE_CONTENT", "a1", "Hel"),
        ("TEXT_MESSAGE_CONTENT", "a1", "lo"),
        ("TEXT_MESSAGE_END", "a1"),
    ]


def test_reasoning() -> None:
    """P-87, P-86: a span minted for each stretch, one message for the attempt, closed by text and by success."""
    wire = Wire().feed(
        started, attempt(), thought("be"), thought("cause"), token("So"), thought("!"), succeeded, token(".")
    )
    assert wire.said[1:] == [
        ("REASONING_START", "n1"),
        ("REASONING_MESSAGE_START", "a1:reasoning", "reasoning"),
        ("REASONING_MESSAGE_CONTENT", "a1:reasoning", "be"),
        ("REASONING_MESSAGE_CONTENT", "a1:reasoning", "cause"),
        ("REASONING_MESSAGE_END", "a1:reasoning"),
        ("REASONING_END", "n1"),
        ("TEXT_MESSAGE_START", "a1", "assistant"),
        ("TEXT_MESSAGE_CONTENT", "a1", "So"),
        ("REASONING_START", "n2"),
        ("REASONING_MESSAGE_START", "a1:reasoning", "reasoning"),
        ("REASONING_MESSAGE_CONTENT", "a1:reasoning", "!"),
        ("REASONING_MESSAGE_END", "a1:reasoning"),
        ("REASONING_END", "n2"),
        ("TEXT_MESSAGE_CONTENT", "a1", "."),
    ]


def test_rest_of_an_answer() -> None:
    """P-87: the commit sends what was not streamed, of the text and of the reasoning."""
    wire = Wire().feed(started, attempt(), thought("be"), token("Hel"), committed("a1", "Hello", thoughts="because"))
    assert wire.said[-7:] == [
        ("REASONING_START", "n2"),
        ("REASONING_MESSAGE_START", "a1:reasoning", "reasoning"),
        ("REASONING_MESSAGE_CONTENT", "a1:reasoning", "cause"),
        ("REASONING_MESSAGE_END", "a1:reasoning"),
        ("REASONING_END", "n2"),
        ("TEXT_MESSAGE_CONTENT", "a1", "lo"),
        ("TEXT_MESSAGE_END", "a1"),
    ]


def test_an_answer_that_was_streamed_otherwise() -> None:
    """P-87: if the streamed part is not the beginning of the text, it is retracted."""
    wire = Wire().feed(started, attempt(), token("Hullo"), succeeded, committed("a1", "Hello")).finish()
    assert [name for name, *_ in wire.said][3:6] == ["TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START"]
    assert [message.model_dump() for message in wire.folded().messages][1]["content"] == "Hello"


@pytest.mark.parametrize(
    ("content", "calls", "said"),
    [
        (None, [], ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END"]),
        ("", [], ["TEXT_MESSAGE_START", "TEXT_MESSAGE_END"]),
        (None, [model_call()], []),
    ],
)
def test_an_answer_without_text(content: str | None, calls: list[ToolCall], said: list[str]) -> None:
    """P-87: START and END alone if it has neither text nor calls."""
    wire = Wire().feed(started, attempt(), succeeded, committed("a1", content, *calls))
    assert [name for name, *_ in wire.said][1:] == said


def test_a_cut_character() -> None:
    """P-19, P-87: halves of a character that were streamed apart are the beginning of the whole."""
    wire = Wire().feed(started, attempt(), token("ok \ud83d"), token("\ude00"), committed("a1", "ok 😀!"))
    assert wire.said[-2:] == [("TEXT_MESSAGE_CONTENT", "a1", "!"), ("TEXT_MESSAGE_END", "a1")]


def test_calls_and_results() -> None:
    """P-87, P-86: arguments in one piece or none, the parent named; what went wrong is marked."""
    abandoned = events.ToolAbandoned(
        id="c2", name="f", reason="denied", dispatched=False, content="not run", message_id="t2", round=1
    )
    wire = Wire().feed(
        started,
        attempt(),
        committed("a1", None, model_call(), model_call("c2", "")),
        tool_call(),
        tool_call("c2", ""),
        result(content=[TextPart(type="text", text="x")]),
        abandoned,
        result("c9", "bad", "t9", is_error=True),
    )
    assert wire.said[1:] == [
        ("TOOL_CALL_START", "c1", "f", "a1"),
        ("TOOL_CALL_ARGS", "c1", "{}"),
        ("TOOL_CALL_END", "c1"),
        ("TOOL_CALL_START", "c2", "f", "a1"),
        ("TOOL_CALL_END", "c2"),
        ("TOOL_CALL_RESULT", "t1", "c1", [{"type": "text", "text": "x"}]),
        ("TOOL_CALL_RESULT", {"handrail.error": True}, "t2", "c2", "not run"),
        ("TOOL_CALL_RESULT", {"handrail.error": True}, "t9", "c9", "bad"),
    ]


def test_progress_and_limits() -> None:
    """P-87: CUSTOM events, what is unknown left out."""
    limit = events.LimitReached(
        limit="max-rounds", count=3, max=2, notice=SystemMessage(id="s1", role="system", content="enough")
    )
    wire = Wire().feed(
        started,
        events.ToolProgress(id="c1", progress=1),
        events.ToolProgress(id="c1", progress=2.5, total=5, message="half"),
        limit,
    )
    assert wire.said[1:] == [
        ("CUSTOM", "handrail.tool-progress", {"toolCallId": "c1", "progress": 1}),
        ("CUSTOM", "handrail.tool-progress", {"toolCallId": "c1", "progress": 2.5, "total": 5, "message": "half"}),
        ("CUSTOM", "handrail.limit-reached", {"limit": "max-rounds", "count": 3, "max": 2}),
    ]


def test_steers() -> None:
    """P-87: a steer is a text of the user under the id of its message; parts are stated."""
    plain = UserMessage(id="u2", role="user", content="and?", name="Ann")
    parts = UserMessage(id="u3", role="user", content=[TextPart(type="text", text="see")])
    wire = Wire().feed(started, *(events.Steered(message=message, round=2) for message in (plain, parts))).finish()
    assert wire.said[1:4] == [
        ("TEXT_MESSAGE_START", "u2", "user", "Ann"),
        ("TEXT_MESSAGE_CONTENT", "u2", "and?"),
        ("TEXT_MESSAGE_END", "u2"),
    ]
    assert list(wire.folded().messages) == [USER, plain, parts]


def test_encrypted_values() -> None:
    """P-87: one event for each encrypted value, when the client knows what it belongs to."""
    message = committed("a1", None, model_call(encrypted_value="e1"), thoughts="", encrypted_value="e2")
    assert message.reasoning is not None
    secret = message.reasoning.model_copy(update={"encrypted_value": "e3"})
    wire = Wire().feed(started, attempt(), replace(message, reasoning=secret), tool_call()).finish()
    assert [said for said in wire.said if said[0] == "REASONING_ENCRYPTED_VALUE"] == [
        ("REASONING_ENCRYPTED_VALUE", "message", "a1:reasoning", "e3"),
        ("REASONING_ENCRYPTED_VALUE", "message", "a1", "e2"),
        ("REASONING_ENCRYPTED_VALUE", "tool-call", "c1", "e1"),
    ]
    fold = wire.folded()
    assert [getattr(message, "encrypted_value", None) for message in fold.messages] == [None, "e3", "e2"]
    with_text = Wire().feed(started, attempt(), committed("a1", "x", encrypted_value="e2"))
    assert with_text.said[-1] == ("REASONING_ENCRYPTED_VALUE", "message", "a1", "e2")
