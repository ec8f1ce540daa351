"""What a loop says, as AG-UI events: the table, retraction, and that a client gets back what the loop has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    Event,
    FunctionCall,
    Interrupt,
    Message,
    ReasoningMessage,
    RunAgentInput,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.effort import effort
from tests.agui.test_conformance import NAMES, fixture
from tests.agui.test_schema import PATH, is_valid
from tests.agui.wires import read, sse, whole

from handrail import Limits, Loop, RetryPolicy, Tool, events
from handrail.agui._encode import encode, encode_next
from handrail.agui._ending import ERROR_TEXTS
from handrail.agui._fold import Fold
from handrail.agui._gate import Gate, _holds_texts_only
from handrail.agui._outbound import Outbound
from handrail.agui._verify import Verifier
from handrail.agui._warnings import WarningRecord
from handrail.errors import LocalProtocolError
from handrail.loop import Usage
from handrail.run import Outcome
from handrail.testing import ScriptedBackend, call, fail, reasoning, text, usage

USER = UserMessage(id="u1", role="user", content="hi")
INPUT = RunAgentInput(thread_id="t1", run_id="r1", messages=[USER])
DONE = Outcome("completed")


class Wire:
    """One run on its way out, and what came out of it."""

    def __init__(self, given: RunAgentInput = INPUT, **options: Any) -> None:
        numbers = iter(range(1, 1000))
        self.told: list[WarningRecord] = []
        self.out = Outbound(given, new_id=lambda: f"n{next(numbers)}", warn=self.told.append, **options)
        self.given = given
        self.events: list[Event] = []

    def feed(self, *said: events.RunEvent) -> Wire:
        for event in said:
            self.events.extend(self.out.feed(event))
        return self

    def finish(self, outcome: Outcome = DONE, **options: Any) -> Wire:
        self.events.extend(self.out.finish(outcome, **options))
        return self

    @property
    def said(self) -> list[tuple[Any, ...]]:
        """The events in short: the type, then the values in their order."""
        return [short(event) for event in self.events]

    def folded(self) -> Fold:
        """What a client makes of it, the order checked once more."""
        verifier, fold = Verifier(thread_id=self.given.thread_id), Fold(self.given.messages)
        for event in self.events:
            verifier.accept(event)
            fold.apply(event)
        return fold


def short(event: Event) -> tuple[Any, ...]:
    values = event.model_dump(by_alias=True)
    return (values.pop("type").value, *values.values())


started = events.RunStarted(message_count=1)


def attempt(message_id: str = "a1") -> events.AttemptStarted:
    return events.AttemptStarted(round=1, attempt=1, backend_index=0, model="m", message_id=message_id)


def token(said: str) -> events.Token:
    return events.Token(text=said, round=1, attempt=1)


def thought(said: str) -> events.ReasoningToken:
    return events.ReasoningToken(text=said, round=1, attempt=1)


failed = events.AttemptFailed(
    round=1, attempt=1, backend_index=0, model="m", error="e", error_class="connection", disposition="retry-same"
)
succeeded = events.AttemptSucceeded(round=1, attempt=1, backend_index=0, model="m", usage=Usage(), latency=0.1)


def committed(
    name: str = "a1", content: str | None = None, *calls: ToolCall, thoughts: str | None = None, **fields: Any
) -> events.AssistantMessage:
    message = AssistantMessage(id=name, role="assistant", content=content, tool_calls=list(calls) or None, **fields)
    before = None if thoughts is None else ReasoningMessage(id=f"{name}:reasoning", role="reasoning", content=thoughts)
    return events.AssistantMessage(message=message, reasoning=before, round=1)


def tool_call(name: str = "c1", arguments: str = "{}", parent: str = "a1") -> events.ToolCall:
    return events.ToolCall(id=name, name="f", arguments=arguments, parent_id=parent, round=1)


def model_call(name: str = "c1", arguments: str = "{}", **fields: Any) -> ToolCall:
    return ToolCall(id=name, type="function", function=FunctionCall(name="f", arguments=arguments), **fields)


def result(name: str = "c1", content: Any = "done", message: str = "t1", is_error: bool = False) -> events.ToolResult:
    return events.ToolResult(id=name, name="f", content=content, is_error=is_error, message_id=message, round=1)


# -- the table -------------------------------------------------------------------------------------------------------


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


# -- retraction ------------------------------------------------------------------------------------------------------


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


# -- the end ---------------------------------------------------------------------------------------------------------


def test_ends() -> None:
    """P-87, P-90: success, pending calls, interrupts, failure, cancelled; once, and nothing behind it."""
    pending = AssistantMessage(id="a1", role="assistant", tool_calls=[model_call()])
    asked = Interrupt(id="c1", reason="tool_call", tool_call_id="c1", metadata={"n": None})
    outcome = {
        "success": Outcome("completed"),
        "pending": Outcome("completed", messages=(pending,)),
        "interrupt": Outcome("completed", messages=(pending,), interrupts=(asked,)),
        "cancelled": Outcome("cancelled"),
    }
    expected = {
        "success": {"type": "success"},
        "pending": {"type": "success", "pendingToolCallIds": ["c1"]},
        "interrupt": {
            "type": "interrupt",
            "interrupts": [{"id": "c1", "reason": "tool_call", "toolCallId": "c1", "metadata": {"n": None}}],
        },
        "cancelled": {"type": "cancelled"},
    }
    for name, how in outcome.items():
        wire = Wire().feed(started).finish(how)
        assert wire.said[1] == ("RUN_FINISHED", "t1", "r1", expected[name])
        assert wire.out.is_over
        assert wire.feed(attempt(), token("late")).finish().finish().said[2:] == []
        assert wire.out.fail() == ()


@pytest.mark.parametrize("reason", [None, "context-exhausted", "budget-exhausted", "completion-truncated"])
def test_failures(reason: str | None) -> None:
    """P-91: a code and a fixed text; exceptions do not go out, unless the application says so."""
    outcome = Outcome("failed", error="KeyError: /etc/secret", reason=reason)
    code = reason or "run-failed"
    assert Wire().feed(started).finish(outcome).said[1] == ("RUN_ERROR", ERROR_TEXTS[code], code)
    told = Wire().feed(started).finish(outcome, error_text=lambda ended: f"sorry: {ended.error}")
    assert told.said[1] == ("RUN_ERROR", "sorry: KeyError: /etc/secret", code)

    def broken(ended: Outcome) -> str:
        raise RuntimeError("no text")

    for error_text, warned in ((broken, ["outgoing"]), (lambda ended: None, [])):
        wire = Wire().feed(started).finish(outcome, error_text=error_text)
        assert wire.said[1][1] == ERROR_TEXTS[code]
        assert [record.code for record in wire.told] == warned


def test_open_things_are_closed_before_the_end() -> None:
    """P-90: innermost first, then the results that the outcome has and the wire has not."""
    messages = (
        USER,
        AssistantMessage(id="a1", role="assistant", tool_calls=[model_call(), model_call("c2")]),
        ToolMessage(id="t1", role="tool", tool_call_id="c1", content="sent"),
        ToolMessage(id="t2", role="tool", tool_call_id="c2", content="not run", error="not run"),
        ToolMessage(id="t0", role="tool", tool_call_id="c0", content="of another run"),
    )
    wire = Wire().feed(started, attempt(), committed("a1", None, model_call(), model_call("c2")))
    wire.feed(tool_call(), tool_call("c2"), result(content="sent"), attempt("a2"), token("x"), thought("y"))
    wire.finish(Outcome("cancelled", messages=messages))
    assert wire.said[-5:] == [
        ("REASONING_MESSAGE_END", "a2:reasoning"),
        ("REASONING_END", "n1"),
        ("TEXT_MESSAGE_END", "a2"),
        ("TOOL_CALL_RESULT", {"handrail.error": True}, "t2", "c2", "not run"),
        ("RUN_FINISHED", "t1", "r1", {"type": "cancelled"}),
    ]


def test_a_run_that_never_started() -> None:
    """P-90: a run that ends before it said anything still opens before it ends."""
    assert [name for name, *_ in Wire().finish(Outcome("cancelled")).said] == ["RUN_STARTED", "RUN_FINISHED"]
    wire = Wire()
    wire.events.extend(wire.out.fail())
    assert wire.said == [("RUN_ERROR", "Internal error.", "internal-error")]


def test_the_endpoint_fails() -> None:
    """P-90, P-91: what is open is closed and RUN_ERROR `internal-error` is the last event."""
    wire = Wire().feed(started, attempt(), token("x"))
    wire.events.extend(wire.out.fail())
    assert wire.said[-2:] == [("TEXT_MESSAGE_END", "a1"), ("RUN_ERROR", "Internal error.", "internal-error")]


def test_an_end_that_is_refused() -> None:
    """P-90, P-85: where the verifier refuses RUN_FINISHED, RUN_ERROR goes instead."""
    asked = Interrupt(id="c1", reason="x")
    wire = Wire().feed(started).finish(Outcome("completed", interrupts=(asked, asked)))
    assert wire.said[-1] == ("RUN_ERROR", "Internal error.", "internal-error")
    assert [record.code for record in wire.told] == ["outgoing"]


def test_shapes_and_order_are_checked() -> None:
    """P-85, P-25: unknown material is removed with a warning, what is wrong is refused, and the run can still end."""
    part = TextPart.model_validate({"type": "text", "text": "x", "secret": 1})
    wire = Wire().feed(started, result(content=[part]))
    assert wire.said[-1][-1] == [{"type": "text", "text": "x"}]
    assert [(record.code, record.path) for record in wire.told] == [("outgoing", "/content/0/secret")]
    broken = Interrupt.model_construct(id=5, reason="x")
    assert wire.finish(Outcome("completed", interrupts=(broken,))).said[-1][0] == "RUN_ERROR"
    early = Wire()
    with pytest.raises(LocalProtocolError, match="RUN_STARTED"):
        early.feed(attempt(), token("x"))
    assert [short(event)[0] for event in early.out.fail()] == ["RUN_ERROR"]


# -- real runs -------------------------------------------------------------------------------------------------------


def double(n: int) -> int:
    """Doubles."""
    return 2 * n


def explode() -> None:
    """Fails."""
    raise ValueError("boom")


def played(
    script: Sequence[Any], *, given: RunAgentInput = INPUT, steer: str | None = None, **options: Any
) -> tuple[Wire, Outcome]:
    """A run of a real loop, sent out as it went."""
    loop = Loop([ScriptedBackend(script)], **options, retry=RetryPolicy(backoff_cap=0, jitter=0))
    run = loop.run(given.messages)
    if steer is not None:
        run.steer(steer)
    wire = Wire(given)
    for event in run.events:
        wire.feed(event)
    outcome = run.result.wait(20)
    return wire.finish(outcome), outcome


def assert_valid(sent: Sequence[Event]) -> None:
    """Every event is valid by the protocol's own schema, where that is beside this checkout."""
    for event in sent:
        document = event.model_dump(by_alias=True, mode="json")
        assert not PATH.is_file() or is_valid(document), document


def essence(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """Ids, content and order, the results of one answer in any order."""
    found: list[tuple[Any, ...]] = []
    for message in messages:
        values = message.model_dump()
        calls = [
            (made["id"], made["function"]["name"], made["function"]["arguments"])
            for made in values.get("tool_calls") or ()
        ]
        found.append((message.role, message.id, values.get("content") or None, calls, values.get("tool_call_id")))
    return sorted_results(found)


def sorted_results(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    ordered: list[tuple[Any, ...]] = []
    block: list[tuple[Any, ...]] = []
    for one in [*found, ("end",)]:
        if one[0] == "tool":
            block.append(one)
            continue
        ordered += sorted(block)
        block = []
        ordered.append(one)
    return ordered


SCRIPTS: dict[str, list[Any]] = {
    "text": [[text("Hel"), text("lo")]],
    "reasoning": [[reasoning("be"), reasoning("cause"), text("4."), usage(1, 2)]],
    "nothing": [[]],
    "tools": [[text("Let me see."), call("double", {"n": 2}), call("double", {"n": 3})], [text("4 and 6.")]],
    "tools without text": [[reasoning("hm"), call("double", {"n": 2})], [call("explode")], [text("It broke.")]],
    "bad calls": [[call("unknown"), call("double", {"n": "x"})], [text("Sorry.")]],
    "retry in mid-text": [[text("The ans"), fail("http", 503)], [text("4.")]],
    "retry after tools": [[call("double", {"n": 2})], [text("So 4"), fail("http", 503)], [text("4.")]],
    "parallel": [[call("slow", {"n": 1}), call("slow", {"n": 2})], [text("ok")]],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_client_gets_what_the_loop_has(name: str) -> None:
    """P-86: folding the stream of a completed run gives the outcome's messages: ids, content, order."""
    tools: list[Any] = [double, explode, Tool(double, name="slow", parallel=True)]
    wire, outcome = played(SCRIPTS[name], tools=tools)
    assert_valid(wire.events)
    assert outcome.outcome == "completed"
    fold = wire.folded()
    assert essence(fold.messages) == essence(outcome.messages)
    assert fold.final == outcome.final
    assert wire.told == []
    ids = [message.id for message in fold.messages]
    assert len(ids) == len(set(ids))


def test_a_client_gets_steers_and_questions() -> None:
    """P-86, P-87: a steer, a question, and its answer in the next run."""
    wire, outcome = played([[text("One.")], [text("Two.")]], steer="and?")
    assert essence(wire.folded().messages) == essence(outcome.messages)
    gated = Tool(double, needs_approval=True)
    wire, outcome = played([[text("May I?"), call("double", {"n": 2})]], tools=[gated])
    assert [interrupt.id for interrupt in outcome.interrupts]
    assert wire.said[-1][3]["type"] == "interrupt"
    assert essence(wire.folded().messages) == essence(outcome.messages)


def test_a_limit() -> None:
    """P-86, P-87: all but the limit notice, which stays with the loop."""
    script = [[call("double", {"n": 2})], [call("double", {"n": 2})], [text("Enough.")]]
    wire, outcome = played(script, tools=[double], limits=Limits(max_rounds=1))
    kept = [message for message in outcome.messages if message.role != "system"]
    assert essence(wire.folded().messages) == essence(kept)
    assert "handrail.limit-reached" in [said[1] for said in wire.said if said[0] == "CUSTOM"]


@effort(25)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([reasoning("r"), text("a"), text("😀"), fail("http", 503)]), max_size=4),
            st.booleans(),
        ),
        max_size=3,
    )
)
def test_scripts_at_random(rounds: list[tuple[list[Any], bool]]) -> None:
    """P-85, P-86, P-88: whatever the model does, the stream is legal, ends once, and folds to the outcome."""
    script = [[*moves, *([call("double", {"n": 1})] if calls else [])] for moves, calls in rounds]
    wire, outcome = played([*script, [text("end")], [text("end")], [text("end")]], tools=[double])
    fold = wire.folded()
    assert [said[0] for said in wire.said].count("RUN_FINISHED") + [said[0] for said in wire.said].count(
        "RUN_ERROR"
    ) == 1
    if outcome.outcome == "completed":
        sent = [one for one in essence(fold.messages) if one[0] != "reasoning"]
        assert sent == [one for one in essence(outcome.messages) if one[0] != "reasoning"]


MOVES: list[events.RunEvent] = [
    started,
    attempt("a1"),
    attempt("a2"),
    *[token(said) for said in ("", "a", "\u2028\ud83d", "\ude00")],
    *[thought(said) for said in ("", "b", "\ud83d")],
    failed,
    succeeded,
    committed("a1", "aa"),
    committed("a2", "b", thoughts="bb"),
    events.TurnDiscarded(reason="failed", round=1),
    tool_call(),
    result(),
    events.ToolProgress(id="c1", progress=0.5),
    events.Log(level="info", data="x"),
    events.Steered(message=USER),
]


@effort(150)
@given(st.lists(st.sampled_from(MOVES), max_size=25), st.sampled_from(["live", "committed"]), st.booleans())
def test_the_short_way_gives_the_same_bytes(moves: list[events.RunEvent], stream: Any, fails: bool) -> None:
    """P-83, P-85: whatever a loop says, and in whatever order, deltas written after one another change no byte of it.

    Where the verifier refuses an event it is refused both ways.
    """

    def sent(is_short: bool) -> list[bytes]:
        wire, frames = Wire(stream=stream), list[bytes]()
        try:
            for event in [started, *moves]:
                if is_short and (delta := wire.out.next_delta(event)) is not None:
                    frames.append(encode_next(len(frames), *delta))
                else:
                    frames += [encode(len(frames) + more, one) for more, one in enumerate(wire.out.feed(event))]
        except LocalProtocolError:
            fails_now = True
        else:
            fails_now = fails
        last = wire.out.fail() if fails_now else wire.out.finish(DONE)
        assert all(wire.out.next_delta(event) is None for event in MOVES)
        return frames + [encode(len(frames) + more, one) for more, one in enumerate(last)]

    assert sent(is_short=True) == sent(is_short=False)


def test_most_tokens_go_the_short_way() -> None:
    """F-14: all but the first of a stretch, also where the loop says something of its own business in between."""
    wire = Wire().feed(started, attempt(), thought("x"))
    assert wire.out.next_delta(thought("y")) == (wire.events[-1], "y")
    assert wire.out.next_delta(token("x")) is None
    wire.feed(token("x"), events.Log(level="info", data="x"))
    assert wire.out.next_delta(token("y")) == (wire.events[-1], "y")
    assert wire.feed(committed("a1", "xy", thoughts="xy")).said[-1] == ("TEXT_MESSAGE_END", "a1")


@pytest.mark.parametrize("name", NAMES)
def test_what_holds_texts_only_is_in_shape(name: str) -> None:
    """P-85: of an event that its model has made of texts the table of shapes changes nothing and remarks on nothing."""
    for event in read(whole(sse(fixture(name)["stream"]))).events:
        again = type(event).model_validate(event.model_dump(by_alias=True))
        told: list[WarningRecord] = []
        gate = Gate("t", told.append)
        if _holds_texts_only(again):
            assert gate._in_shape(again) == again
            assert told == []
