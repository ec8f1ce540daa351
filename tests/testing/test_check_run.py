"""The checker of runs: silent about right ones, and it finds each fault that is planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from ag_ui.core import Interrupt, ResumeEntry

from handrail import Outcome, RunScope, drive, user
from handrail import events as ev
from handrail.messages import tool_call
from handrail.run import RunDriver
from handrail.testing import check_run, collect

from .logs import (
    attempt_failed,
    attempt_record,
    attempt_started,
    attempt_succeeded,
    committed,
    completed,
    discarded,
    tokens,
)

Log = list[Any]
NO = {"error": "no", "disposition": "retry-same"}
Fault = Callable[[Log, Outcome], tuple[Log, Outcome]]


def stamped(events: Log) -> Log:
    return [event.stamped("r", seq) for seq, event in enumerate(events)]


def tool_events(id: str, round: int = 1) -> Log:
    return [
        ev.ToolStarted(id=id, name="f", arguments={}, round=round),
        ev.ToolProgress(id=id, progress=1),
        ev.ToolResult(id=id, name="f", content="1", is_error=False, message_id=f"t-{id}", round=round),
    ]


def announced(id: str, round: int = 1) -> ev.ToolCall:
    return ev.ToolCall(id=id, name="f", arguments="{}", parent_id=f"a{round}", round=round)


def completed_run() -> tuple[Log, Outcome]:
    """Two rounds: a retry in the first, calls and a question in it, an answer in the second, one call left open."""
    calls = [tool_call("f", id="c1"), tool_call("f", id="c2"), tool_call("f", id="c3")]
    log = [
        ev.RunStarted(message_count=1),
        ev.RoundStarted(round=1),
        attempt_started(1),
        *tokens("half"),
        attempt_failed(1, status=500, error_class="http"),
        attempt_started(2),
        ev.ReasoningToken(text="hm", round=1, attempt=2),
        *tokens("Let me ", "look.", attempt=2),
        attempt_succeeded(2),
        committed("Let me look.", calls=calls),
        announced("c1"),
        announced("c2"),
        announced("c3"),
        *tool_events("c1"),
        ev.AskPending(interrupt=Interrupt(id="c2", reason="tool_call", tool_call_id="c2")),
        ev.AskAnswered(interrupt_id="c2", answer=ResumeEntry(interrupt_id="c2", status="cancelled")),
        ev.ToolAbandoned(
            id="c2", name="f", reason="withdrawn", dispatched=False, content="not run", message_id="t2", round=1
        ),
        ev.RoundStarted(round=2),
        attempt_started(1, round=2),
        *tokens("Done.", round=2),
        attempt_succeeded(1, round=2),
        committed("Done.", round=2),
        completed("Done.", pending_calls=("c3",)),
    ]
    attempts = (
        attempt_record(1, result="failed", text="half", error_class="http", status=500, **NO),
        attempt_record(2),
        attempt_record(None, round=2, result="skipped", error="too big"),
        attempt_record(1, round=2),
    )
    return stamped(log), Outcome(outcome="completed", final="Done.", attempts=attempts)


def failed_run() -> tuple[Log, Outcome]:
    """One attempt, and it was cut."""
    attempts = (attempt_record(1, result="failed", error="no", error_class="length", disposition="abort", text="ha"),)
    log = [
        ev.RunStarted(message_count=1),
        ev.RoundStarted(round=1),
        attempt_started(),
        *tokens("ha"),
        attempt_failed(error_class="length", disposition="abort"),
        discarded(),
        ev.RunFailed(error="cut", attempts=attempts, reason="completion-truncated"),
    ]
    outcome = Outcome(outcome="failed", error="cut", attempts=attempts, reason="completion-truncated")
    return stamped(log), outcome


def cancelled_run() -> tuple[Log, Outcome]:
    """Stopped in the middle of the text."""
    said = {"error": "cancelled", "error_class": "cancelled", "disposition": "abort"}
    log = [
        ev.RunStarted(message_count=1),
        ev.RoundStarted(round=1),
        attempt_started(),
        *tokens("ha"),
        attempt_failed(**said),
        discarded("cancelled"),
        ev.RunCancelled(stage="streaming", round=1),
    ]
    attempts = (attempt_record(1, result="cancelled", text="ha", **said),)
    return stamped(log), Outcome(outcome="cancelled", attempts=attempts)


@pytest.mark.parametrize("run", [completed_run, failed_run, cancelled_run])
def test_a_right_run_has_no_violations(run: Callable[[], tuple[Log, Outcome]]) -> None:
    """L-163: empty means right."""
    assert check_run(*run()) == []


# Faults. Each takes a right run and breaks one promise.


def index_of(log: Log, kind: str, nth: int = 0) -> int:
    return [i for i, event in enumerate(log) if event.kind == kind][nth]


def without(kind: str, nth: int = 0) -> Fault:
    def plant(log: Log, outcome: Outcome) -> tuple[Log, Outcome]:
        at = index_of(log, kind, nth)
        return stamped(log[:at] + log[at + 1 :]), outcome

    return plant


def twice(kind: str, nth: int = 0) -> Fault:
    def plant(log: Log, outcome: Outcome) -> tuple[Log, Outcome]:
        at = index_of(log, kind, nth)
        return stamped([*log[: at + 1], *log[at:]]), outcome

    return plant


def moved(kind: str, by: int, nth: int = 0) -> Fault:
    def plant(log: Log, outcome: Outcome) -> tuple[Log, Outcome]:
        at = index_of(log, kind, nth)
        rest = log[:at] + log[at + 1 :]
        return stamped([*rest[: at + by], log[at], *rest[at + by :]]), outcome

    return plant


def changed(kind: str, nth: int = 0, **changes: Any) -> Fault:
    def plant(log: Log, outcome: Outcome) -> tuple[Log, Outcome]:
        at = index_of(log, kind, nth)
        return [*log[:at], replace(log[at], **changes), *log[at + 1 :]], outcome

    return plant


def behind(kind: str, *events: Any, nth: int = 0) -> Fault:
    def plant(log: Log, outcome: Outcome) -> tuple[Log, Outcome]:
        at = index_of(log, kind, nth)
        return stamped([*log[: at + 1], *events, *log[at + 1 :]]), outcome

    return plant


def ends_with(**changes: Any) -> Fault:
    return lambda log, outcome: (log, replace(outcome, **changes))


def recorded(nth: int, **changes: Any) -> Fault:
    def plant(log: Log, outcome: Outcome) -> tuple[Log, Outcome]:
        records = list(outcome.attempts)
        records[nth] = replace(records[nth], **changes)
        return log, replace(outcome, attempts=tuple(records))

    return plant


def attempts_dropped(log: Log, outcome: Outcome) -> tuple[Log, Outcome]:
    return log, replace(outcome, attempts=outcome.attempts[1:])


C2 = Interrupt(id="c2", reason="tool_call", tool_call_id="c2")
ask = ev.AskAnswered(interrupt_id="c9")
result = ev.ToolResult(id="c9", name="f", content="", is_error=False, message_id="x", round=1)


@pytest.mark.parametrize(
    ("run", "plant", "rule", "words"),
    [
        (completed_run, changed("token", seq=99), "R-40", "seq 99"),
        (completed_run, changed("token", run_id="other"), "R-40", "more than one run: other, r"),
        (completed_run, without("run-completed"), "R-42", "no terminal"),
        (completed_run, twice("run-completed"), "R-42", "2 terminal"),
        (completed_run, moved("run-completed", -1), "R-42", "1 events behind"),
        (completed_run, ends_with(outcome="failed"), "R-22", "outcome is failed"),
        (failed_run, ends_with(reason=None), "R-27", "completion-truncated"),
        (cancelled_run, ends_with(reason="budget-exhausted"), "R-27", "budget-exhausted"),
        (failed_run, ends_with(reason="tired"), "R-27", "no reason"),
        (completed_run, without("attempt-failed"), "L-13", "starts while attempt 1 of round 1 is open"),
        (cancelled_run, without("attempt-failed"), "L-13", "open at the end"),
        (completed_run, twice("attempt-failed"), "L-13", "not open"),
        (completed_run, without("attempt-started"), "L-13", "not open"),
        (cancelled_run, changed("attempt-failed", disposition="advance"), "L-13", "disposition is advance"),
        (completed_run, changed("token", nth=1, text="Let you "), "L-14", "streamed 'Let you look.'"),
        (completed_run, without("token", nth=3), "L-14", "committed 'Done.'"),
        (completed_run, moved("token", 1), "L-14", "not open"),
        (completed_run, changed("reasoning-token", attempt=1), "L-14", "not open"),
        (completed_run, without("assistant-message", nth=1), "L-15", "neither committed nor discarded"),
        (completed_run, twice("assistant-message"), "L-15", "committed or discarded before"),
        (completed_run, behind("assistant-message", discarded()), "L-15", "committed or discarded before"),
        (completed_run, behind("attempt-failed", discarded()), "L-15", "starts in a round"),
        (completed_run, behind("round-started", committed("")), "L-15", "no attempt succeeded"),
        (completed_run, ends_with(final="Something else"), "L-16", "fold to 'Done.'"),
        (completed_run, without("tool-result"), "L-17", "call c1 has neither"),
        (completed_run, without("tool-abandoned"), "L-17", "call c2 has neither"),
        (completed_run, changed("run-completed", pending_calls=()), "L-17", "call c3 has neither"),
        (completed_run, twice("tool-result"), "L-17", "c1, which has its end"),
        (completed_run, behind("tool-result", result), "L-17", "c9, which nobody announced"),
        (completed_run, twice("tool-call"), "L-17", "announced twice"),
        (completed_run, without("tool-call"), "L-17", "tool-started for call c1, which is not open"),
        (completed_run, changed("run-completed", pending_calls=("c3", "c1")), "L-17", "c1 has its end, and the run"),
        (completed_run, changed("run-completed", pending_calls=("c3",), interrupts=(C2,)), "L-17", "c2 has its end"),
        (completed_run, changed("token", text=None), "L-14", "no string: None"),
        (completed_run, changed("reasoning-token", text=5), "L-14", "no string: 5"),
        (completed_run, without("ask-answered"), "L-17", "question c2"),
        (completed_run, twice("ask-answered"), "L-17", "nobody asked"),
        (completed_run, behind("tool-result", ask), "L-17", "c9, which nobody asked"),
        (completed_run, attempts_dropped, "L-46", "3 attempts in the events, 2 in the outcome"),
        (failed_run, attempts_dropped, "L-46", "not those of the outcome"),
        (completed_run, recorded(1, result="failed"), "L-46", "ended by attempt-succeeded"),
        (completed_run, recorded(0, result="ok"), "L-46", "ended by attempt-failed"),
        (completed_run, recorded(0, error="else"), "L-46", "error is 'no'"),
        (completed_run, recorded(0, status=None), "L-46", "status is 500"),
        (completed_run, recorded(0, text=""), "L-46", "streamed 'half'"),
        (completed_run, recorded(1, model="n"), "L-46", "model is 'n'"),
        (completed_run, recorded(2, attempt=3), "L-46", "'skipped' with attempt 3"),
    ],
)
def test_each_fault_is_found(run: Callable[[], tuple[Log, Outcome]], plant: Fault, rule: str, words: str) -> None:
    """L-163: R-40, R-42, R-22, R-27, L-13 to L-17 and L-46, each broken on purpose, each named."""
    violations = check_run(*plant(*run()))
    assert any(v.startswith(f"{rule}: ") and words in v for v in violations), violations


def test_answers_to_calls_of_the_input_need_no_announcement() -> None:
    """L-129: a continuation answers in round 0 what an earlier run announced; once."""
    log, outcome = cancelled_run()
    early = replace(result, round=0)
    assert check_run(*behind("run-started", early)(log, outcome)) == []
    assert check_run(*behind("run-started", early, early)(log, outcome)) != []


def test_interrupts_excuse_their_calls() -> None:
    """L-17: a call that a question of the terminal event names may stay open."""
    log, outcome = completed_run()
    question = Interrupt(id="c3", reason="tool_call", tool_call_id="c3")
    assert check_run(*changed("run-completed", pending_calls=(), interrupts=(question,))(log, outcome)) == []


async def test_the_runs_of_other_libraries() -> None:
    """L-163: events that are not ours are passed over; what is known of the outcome is still checked."""

    class Ended:
        ends = "completed"

    async def body(driver: RunDriver[Any]) -> None:
        driver.emit({"any": "thing"})
        driver.finish(Ended(), messages=[user("hi")])

    async with RunScope():
        got = await collect(drive(body))
    assert check_run(got, got.outcome) == []
    assert check_run(got, replace(got.outcome, outcome="failed"))[0].startswith("R-22")
    assert check_run([], got.outcome) == []


def test_events_as_plain_data_are_refused() -> None:
    """L-163: what `to_dict` gives would say nothing against any run."""
    log, outcome = completed_run()
    with pytest.raises(TypeError, match="the events themselves"):
        check_run([event.to_dict() for event in log], outcome)
