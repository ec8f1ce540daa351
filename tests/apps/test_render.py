"""What the events of a run look like, on sequences made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest
from ag_ui import core as agui

from handrail import events as ev
from handrail.apps._render import Piece, Screen, last_line
from handrail.loop import Usage
from handrail.run import Outcome, Spend

HOSTILE = "\x1b[2J\u202e"
HOSTILE_SHOWN = r"\x1b[2J\u202e"


def pieces(*events: ev.RunEvent) -> list[Piece]:
    screen = Screen()
    return [piece for event in events for piece in screen.show(event)]


def text_of(shown: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in shown)


def styles_of(shown: Iterable[Piece], text: str) -> set[str]:
    return {piece.style for piece in shown if text in piece.text}


def attempt(number: int = 1, round: int = 1) -> ev.AttemptStarted:
    return ev.AttemptStarted(round=round, attempt=number, backend_index=0, model="m", message_id="m1")


def token(text: str) -> ev.Token:
    return ev.Token(text=text, round=1, attempt=1)


def failed(**changed: Any) -> ev.AttemptFailed:
    said: dict[str, Any] = {
        "round": 1,
        "attempt": 1,
        "backend_index": 0,
        "model": "m",
        "error": "connection lost",
        "error_class": "connection",
        "disposition": "retry-same",
        "backoff": 1.25,
    }
    return ev.AttemptFailed(**(said | changed))


def succeeded() -> ev.AttemptSucceeded:
    return ev.AttemptSucceeded(round=1, attempt=1, backend_index=0, model="m", usage=Usage(), latency=0.1)


def committed(text: str) -> ev.AssistantMessage:
    return ev.AssistantMessage(message=agui.AssistantMessage(id="m1", role="assistant", content=text), round=1)


def test_text_comes_as_it_is_sent_and_ends_its_line_once() -> None:
    screen = Screen()
    assert text_of(screen.show(ev.RoundStarted(round=1))) == ""
    assert text_of(screen.show(attempt())) == "round 1 · m\n"
    assert [text_of(screen.show(token(part))) for part in ("Hel", "lo", "", " you")] == ["Hel", "lo", "", " you"]
    assert text_of(screen.show(succeeded())) == ""
    assert text_of(screen.show(committed("Hello you"))) == "\n"
    assert text_of(screen.end_line()) == ""


def test_reasoning_is_dim_and_does_not_run_into_the_answer() -> None:
    shown = pieces(attempt(), ev.ReasoningToken(text="Hm.", round=1, attempt=1), token("Yes."))
    assert text_of(shown).endswith("Hm.\nYes.")
    assert styles_of(shown, "Hm.") == {"reasoning"}
    assert styles_of(shown, "Yes.") == {"text"}


def test_a_failed_attempt_is_visibly_retracted() -> None:
    shown = pieces(attempt(), token("The ans"), token("wer"), failed(), attempt(2), token("Four."))
    assert text_of(shown) == (
        "round 1 · m\nThe answer\n"
        "✗ retracted: The answer\n"
        "  attempt 1 failed: connection lost; trying again in 1.2 s\n"
        "round 1, attempt 2 · m\nFour."
    )
    assert [piece.text for piece in shown if piece.style == "retracted"] == ["The answer"]


def test_only_what_the_failed_attempt_showed_is_retracted() -> None:
    shown = pieces(attempt(), token("Kept."), succeeded(), committed("Kept."), attempt(1, 2), token("Lost"), failed())
    assert [piece.text for piece in shown if piece.style == "retracted"] == ["Lost"]


def test_an_attempt_that_showed_nothing_retracts_nothing() -> None:
    assert "retracted" not in text_of(pieces(attempt(), failed()))


@pytest.mark.parametrize(
    ("changed", "ending"),
    [
        ({"disposition": "advance", "backoff": None}, "connection lost; giving up on this model\n"),
        ({"disposition": "abort", "backoff": None}, "connection lost\n"),
        ({"disposition": "retry-same", "backoff": None}, "connection lost; trying again\n"),
    ],
)
def test_a_failure_says_what_happens_next(changed: dict[str, Any], ending: str) -> None:
    assert text_of(pieces(attempt(), failed(**changed))).endswith(ending)


def test_a_cancelled_attempt_is_retracted_and_not_called_a_failure() -> None:
    shown = text_of(pieces(token("half"), failed(error_class="cancelled", disposition="abort", error="cancelled")))
    assert "✗ retracted: half\n" in shown
    assert "failed" not in shown


def test_a_discarded_turn_is_retracted() -> None:
    shown = text_of(pieces(token("Let me"), succeeded(), ev.TurnDiscarded(reason="limit", round=1)))
    assert shown == "Let me\n✗ retracted: Let me\n"


def test_a_tool_call_shows_its_arguments_and_its_result() -> None:
    shown = pieces(
        ev.ToolCall(id="c", name="forecast", arguments='{"city":\n "Bergen"}', parent_id="m1", round=1),
        ev.ToolProgress(id="c", progress=1, total=2, message="asking"),
        ev.ToolProgress(id="c", progress=0.5),
        ev.ToolResult(
            id="c", name="forecast", content="rain\nwind", is_error=False, message_id="t", round=1, duration=2
        ),
    )
    assert text_of(shown) == (
        '→ forecast {"city": "Bergen"}\n  … 1 of 2 · asking\n  … 0.5\n← forecast (2.0 s) rain\n  wind\n'
    )


def test_an_error_result_and_an_abandoned_call_stand_out() -> None:
    shown = pieces(
        ev.ToolResult(id="c", name="f", content="ValueError: no", is_error=True, message_id="t", round=1),
        ev.ToolAbandoned(
            id="d", name="g", reason="deadline", dispatched=True, content="outcome unknown", message_id="t", round=1
        ),
    )
    assert text_of(shown) == "← f ValueError: no\n✗ g (deadline) outcome unknown\n"
    assert {piece.style for piece in shown} == {"warning"}


def test_a_result_made_of_parts_shows_its_text_and_names_the_rest() -> None:
    image = agui.ImageInputContent(
        type="image", source=agui.InputContentUrlSource(type="url", value="https://example.org/a.png")
    )
    parts = [agui.TextInputContent(type="text", text="a map"), image]
    shown = pieces(ev.ToolResult(id="c", name="f", content=parts, is_error=False, message_id="t", round=1))
    assert text_of(shown) == "← f a map\n  [image]\n"


def test_remarks_interrupt_a_line_and_are_told() -> None:
    notice = agui.SystemMessage(id="n", role="system", content="no more tools")
    question = agui.Interrupt(id="c", reason="tool_call", message="Delete it?")
    shown = text_of(
        pieces(
            token("half"),
            ev.Log(level="warning", data="odd"),
            ev.Log(level="debug", data="not for people"),
            ev.LimitReached(limit="max-rounds", count=3, max=3, notice=notice),
            ev.Steered(message=agui.UserMessage(id="u", role="user", content="and now?")),
            ev.RunCompleted(final="", rounds=3, message_count=4, interrupts=(question,)),
            ev.RunFailed(error="every backend failed", attempts=()),
        )
    )
    assert shown == (
        "half\nwarning: odd\nlimit max-rounds reached: 3 of 3\nyou: and now?\n"
        "waits for an answer: Delete it?\nevery backend failed\n"
    )


def test_a_run_that_failed_with_its_attempts_does_not_say_so_twice() -> None:
    shown = pieces(
        ev.RoundStarted(round=1), attempt(), failed(), ev.RunFailed(error="every backend failed", attempts=())
    )
    assert "every backend failed" not in text_of(shown)
    shown = pieces(failed(error="cut"), ev.RunFailed(error="cut", attempts=(), reason="completion-truncated"))
    assert text_of(shown).count("cut") == 1
    shown = pieces(failed(), ev.RunFailed(error="the cap is 50", attempts=(), reason="budget-exhausted"))
    assert text_of(shown).endswith("the cap is 50\n")
    shown = pieces(failed(), ev.RoundStarted(round=2), ev.RunFailed(error="boom", attempts=()))
    assert text_of(shown).endswith("boom\n")


def test_rounds_stand_apart() -> None:
    screen = Screen()
    shown = [text_of(screen.show(event)) for event in (ev.RoundStarted(round=1), ev.RoundStarted(round=2))]
    assert shown == ["", "\n"]
    assert screen.rounds == 2


@pytest.mark.parametrize(
    "event",
    [
        token(HOSTILE),
        ev.ReasoningToken(text=HOSTILE, round=1, attempt=1),
        ev.AttemptStarted(round=1, attempt=1, backend_index=0, model=HOSTILE, message_id="m"),
        failed(error=HOSTILE),
        ev.ToolCall(id="c", name=HOSTILE, arguments="", parent_id="m", round=1),
        ev.ToolCall(id="c", name="f", arguments=HOSTILE, parent_id="m", round=1),
        ev.ToolProgress(id="c", progress=1, message=HOSTILE),
        ev.ToolResult(id="c", name=HOSTILE, content="", is_error=False, message_id="t", round=1),
        ev.ToolResult(id="c", name="f", content=HOSTILE, is_error=False, message_id="t", round=1),
        ev.ToolAbandoned(id="c", name="f", reason="denied", dispatched=False, content=HOSTILE, message_id="t", round=1),
        ev.Log(level="error", data={"said": HOSTILE}),
        ev.RunFailed(error=HOSTILE, attempts=()),
        ev.Steered(message=agui.UserMessage(id="u", role="user", content=HOSTILE)),
        ev.RunCompleted(
            final="", rounds=1, message_count=1, interrupts=(agui.Interrupt(id="i", reason="x", message=HOSTILE),)
        ),
    ],
    ids=lambda event: event.kind,
)
def test_nothing_an_event_carries_is_obeyed(event: ev.RunEvent) -> None:
    shown = text_of(pieces(event))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert HOSTILE_SHOWN in shown


def spend(**changed: Any) -> Spend:
    said: dict[str, Any] = {
        "total_tokens": 0,
        "wall_clock": 1.234,
        "complete": True,
        "cost": None,
        "prompt_tokens": None,
        "completion_tokens": None,
        "cached_prompt_tokens": None,
    }
    return Spend(**(said | changed))


def ended(outcome: str = "completed", *, running: tuple[str, ...] = (), asked: bool = False, **parts: Any) -> str:
    how: Any = outcome
    return last_line(Outcome(outcome=how, **parts), rounds=2, running=running, asked=asked).text


def test_the_last_line_says_how_it_ended() -> None:
    spent = spend(total_tokens=1_061, prompt_tokens=1_050, completion_tokens=11, cost=Decimal("0.00012"))
    assert ended(spent=spent) == "completed · 2 rounds · 1,050 tokens in, 11 out · cost 0.00012 · 1.2 s · drained\n"


def test_what_nobody_reported_is_unknown_and_not_zero() -> None:
    assert ended() == "completed · 2 rounds · tokens unknown · cost unknown · time unknown · drained\n"
    assert "· tokens unknown · cost unknown · 1.2 s ·" in ended(spent=spend(complete=False))
    assert "· 61 tokens ·" in ended(spent=spend(total_tokens=61))
    assert "· at least 61 tokens ·" in ended(spent=spend(total_tokens=61, complete=False))
    assert "· 0 tokens in, 0 out ·" in ended(spent=spend(prompt_tokens=0, completion_tokens=0))


@pytest.mark.parametrize(
    ("outcome", "parts", "beginning"),
    [
        ("failed", {"error": "x"}, "failed · "),
        ("failed", {"error": "x", "reason": "budget-exhausted"}, "failed (budget-exhausted) · "),
        ("cancelled", {}, "cancelled · "),
        ("cancelled", {"asked": True}, "cancelled by Ctrl-C · "),
        ("completed", {"asked": True}, "completed before Ctrl-C took effect · "),
        ("completed", {"interrupts": (agui.Interrupt(id="i", reason="x"),)}, "completed, 1 waiting for an answer · "),
    ],
)
def test_every_ending_has_its_own_words(outcome: str, parts: dict[str, Any], beginning: str) -> None:
    assert ended(outcome, **parts).startswith(beginning)


def test_the_last_line_names_what_is_still_running() -> None:
    assert ended("cancelled", running=("tool slow", HOSTILE)).endswith(
        f" · still running: tool slow, {HOSTILE_SHOWN}\n"
    )


def test_leaving_before_the_end_has_a_last_line_too() -> None:
    line = last_line(None, rounds=1, running=("run",), asked=True).text
    assert line == (
        "left by a second Ctrl-C, the run had not ended · 1 round · "
        "tokens unknown · cost unknown · time unknown · still running: run\n"
    )
