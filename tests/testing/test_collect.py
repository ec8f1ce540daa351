"""A whole run as one value."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from handrail import RunScope, drive
from handrail import events as ev
from handrail.run import RunDriver
from handrail.testing import Collected, collect

from .logs import (
    attempt_failed,
    attempt_started,
    attempt_succeeded,
    committed,
    completed,
    discarded,
    tokens,
)


async def test_collect_gives_everything() -> None:
    """L-162: the events as a sequence, of(cls), kinds(), text(), terminal, outcome."""

    async def body(driver: RunDriver[ev.RunEvent]) -> None:
        driver.emit(ev.RunStarted(message_count=1))
        driver.emit(attempt_started())
        for token in tokens("It is ", "warm."):
            driver.emit(token)
        driver.emit(attempt_succeeded())
        driver.emit(committed("It is warm."))
        driver.finish(completed("It is warm."), final="It is warm.")

    async with RunScope():
        got = await collect(drive(body))
    assert got.kinds() == [
        "run-started",
        "attempt-started",
        "token",
        "token",
        "attempt-succeeded",
        "assistant-message",
        "run-completed",
    ]
    assert [token.text for token in got.of(ev.Token)] == ["It is ", "warm."]
    assert len(got.of((ev.Token, ev.RunStarted))) == 3
    assert got.text() == got.outcome.final == "It is warm."
    assert got.terminal is got[-1]
    assert got.terminal.kind == "run-completed"
    assert [event.seq for event in got] == list(range(7))
    assert list(got) == list(got.events) == list(got[:])
    assert "completed" in repr(got)


async def test_collect_raises_on_its_deadline() -> None:
    """L-162: it says how far the run came, and leaves it alone."""
    may_end = anyio.Event()

    async def body(driver: RunDriver[ev.RunEvent]) -> None:
        driver.emit(ev.RunStarted(message_count=1))
        with driver.work("tool slow"):
            await may_end.wait()
        driver.finish(completed(""))

    async with RunScope():
        run = drive(body, run_id="r7")
        with pytest.raises(TimeoutError, match=r"r7 .* 1 events, the last is run-started; still working: .*tool slow"):
            await collect(run, timeout=0.05)
        assert not run.is_cancelled
        may_end.set()
        assert (await collect(run)).outcome.ok


async def test_collect_of_a_run_that_says_nothing() -> None:
    """L-162: any driver's events will do, or none at all."""

    async def body(driver: RunDriver[Any]) -> None:
        driver.emit("a")
        driver.finish(None, outcome="failed", error="broken")

    async with RunScope():
        got = await collect(drive(body))
    assert (got.kinds(), got.terminal, got.text(), got.outcome.error) == (["str"], None, "", "broken")
    assert Collected([], got.outcome).terminal is None


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([attempt_started(), *tokens("a", "b"), attempt_succeeded(), committed("ab")], "ab"),
        (
            [
                *(attempt_started(), *tokens("no"), attempt_failed()),
                *(attempt_started(2), *tokens("yes", attempt=2), attempt_succeeded(2), committed("yes")),
            ],
            "yes",
        ),
        (
            [
                *(attempt_started(), *tokens("first"), attempt_succeeded(), committed("first")),
                *(attempt_started(), *tokens("cut sh"), attempt_failed(), discarded()),
            ],
            "first",
        ),
        ([attempt_started(), *tokens("x"), attempt_succeeded(), discarded("limit")], ""),
        ([attempt_started(), attempt_succeeded(), committed("")], ""),
        ([], ""),
    ],
)
def test_folding(events: list[ev.RunEvent], text: str) -> None:
    """L-16: start at AttemptStarted, drop at AttemptFailed and TurnDiscarded, keep at AssistantMessage."""
    assert Collected(events, outcome=None).text() == text  # pyright: ignore
