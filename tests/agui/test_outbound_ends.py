"""How a run ends on the wire."""

from __future__ import annotations

import pytest
from ag_ui.core import AssistantMessage, Interrupt, TextPart, ToolMessage
from tests.agui.outgoing import (
    USER,
    Wire,
    attempt,
    committed,
    model_call,
    result,
    short,
    started,
    thought,
    token,
    tool_call,
)

from handrail.agui._ending import ERROR_TEXTS
from handrail.errors import LocalProtocolError
from handrail.run import Outcome


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
