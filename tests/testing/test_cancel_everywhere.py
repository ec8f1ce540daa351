"""Every point of a run is tried, and what breaks there is found. The runs are bodies under `drive`."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest

from handrail import Run, drive, user
from handrail import events as ev
from handrail.run import RunDriver, start_thread
from handrail.testing import Gate, cancel_everywhere, gate

from .logs import completed


async def turns() -> None:
    """Long enough for a cancel that was called to arrive."""
    for _ in range(5):
        await anyio.lowlevel.checkpoint()


def plain_run(*, tokens: int = 3, held: Gate | None = None, on_cancel: Any = None) -> Run[Any]:
    """A run of some log lines that ends as it should, cancelled or not."""

    async def body(driver: RunDriver[Any]) -> None:
        try:
            driver.emit(ev.RunStarted(message_count=1))
            for n in range(tokens):
                await turns()
                driver.emit(ev.Log(level="info", data=str(n)))
                if held is not None:
                    await held
            driver.finish(completed(""), messages=[user("hi")])
        except anyio.get_cancelled_exc_class():
            driver.finish(ev.RunCancelled(stage="start"))
            raise

    return drive(body, on_cancel=on_cancel)


async def test_every_event_is_a_point() -> None:
    """L-164: once to the end, then once per event; the number of points is returned."""
    started: list[Run[Any]] = []

    def scenario() -> Run[Any]:
        started.append(plain_run())
        return started[-1]

    assert await cancel_everywhere(scenario) == 5
    assert len(started) == 6
    assert not started[0].is_cancelled
    assert [run.is_cancelled for run in started[1:]] == [True] * 4 + [False]
    assert all(run.drained.is_set for run in started)


async def test_an_async_scenario() -> None:
    """L-164: the scenario may be a coroutine function."""

    async def scenario() -> Run[Any]:
        await turns()
        return plain_run(tokens=1)

    assert await cancel_everywhere(scenario) == 3


async def test_gates_are_opened_here_and_cancelled_in() -> None:
    """L-164: a gate holds the run where nobody speaks; the cancel on the event before it meets the run in there."""
    held_when_cancelled: list[bool] = []

    def scenario() -> Run[Any]:
        held = gate()
        return plain_run(
            tokens=1,
            held=held,
            on_cancel=lambda: held_when_cancelled.append(held.reached.is_set and not held.opened.is_set),
        )

    assert await cancel_everywhere(scenario) == 3
    assert held_when_cancelled == [False, True]


async def test_a_cancel_comes_in_the_call_that_emits() -> None:
    """L-164: on the event, not some time behind it."""
    asked: list[list[bool]] = []

    def scenario() -> Run[Any]:
        mine: list[bool] = []
        asked.append(mine)

        async def body(driver: RunDriver[Any]) -> None:
            for n in range(3):
                driver.emit(ev.Log(level="info", data=str(n)))
                mine.append(driver.run.is_cancelled)
            driver.finish(None, outcome="cancelled" if driver.run.is_cancelled else "completed")

        return drive(body)

    assert await cancel_everywhere(scenario) == 3
    assert asked == [[False] * 3, [True] * 3, [False, True, True], [False, False, True]]


async def test_a_thread_in_a_gate_drains_behind_the_result() -> None:
    """L-164: the result does not wait for a blocking tool; `drained` does, and the gate that holds it is opened."""

    def scenario() -> Run[Any]:
        held = gate()

        async def body(driver: RunDriver[Any]) -> None:
            def tool() -> None:
                held.wait()
                driver.end_work()

            driver.begin_work("tool f")
            start_thread(tool)
            driver.emit(ev.RunStarted(message_count=1))
            driver.finish(completed(""))

        return drive(body)

    assert await cancel_everywhere(scenario) == 2


async def found(scenario: Any, timeout: float = 1.0) -> str:
    with pytest.raises(AssertionError) as raised:
        await cancel_everywhere(scenario, timeout=timeout)
    return str(raised.value)


async def test_a_run_that_does_not_stop() -> None:
    """L-164: it is named with its point and with what still works."""

    def scenario() -> Run[Any]:
        async def body(driver: RunDriver[Any]) -> None:
            driver.emit(ev.RunStarted(message_count=1))
            try:
                await turns()
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True), driver.work("deaf"):
                    await anyio.sleep(0.5)
                raise
            driver.finish(completed(""))

        return drive(body)

    text = await found(scenario, timeout=0.1)
    assert "cancelled at event 0" in text
    assert "did not end within 0.1 s; still working: run, deaf" in text


async def test_a_run_that_does_not_drain() -> None:
    """L-164: a section that is never ended."""

    def scenario() -> Run[Any]:
        async def body(driver: RunDriver[Any]) -> None:
            driver.begin_work("for ever")
            driver.finish(completed(""))

            async def end() -> None:
                await anyio.sleep(0.5)
                driver.end_work()

            await end()

        return drive(body)

    assert "did not drain within 0.1 s; still working: run, for ever" in await found(scenario, timeout=0.1)


async def test_a_run_that_breaks_a_promise() -> None:
    """L-164: the checkers see every run."""

    def scenario() -> Run[Any]:
        async def body(driver: RunDriver[Any]) -> None:
            driver.emit(ev.RunStarted(message_count=1))
            try:
                await turns()
                driver.finish(completed(""))
            except anyio.get_cancelled_exc_class():
                driver.emit(ev.ToolCall(id="c1", name="f", arguments="{}", parent_id="a", round=1))
                driver.finish(ev.RunCancelled(stage="tools"))
                raise

        return drive(body)

    text = await found(scenario)
    assert text.startswith("cancelled at event 0 (run-started, tool-call, run-cancelled):")
    assert "L-17: call c1 has neither" in text


async def test_messages_are_checked_too() -> None:
    """L-164: with the calls that the outcome leaves open."""

    def scenario() -> Run[Any]:
        async def body(driver: RunDriver[Any]) -> None:
            driver.finish(None, outcome="completed", messages=[user("a", id="1"), user("b", id="1")])

        return drive(body)

    assert "L-141: message id 1" in await found(scenario)


async def test_a_thread_left_behind() -> None:
    """L-164: one of ours that outlives `drained`."""
    never = threading.Event()

    def scenario() -> Run[Any]:
        start_thread(never.wait)
        return plain_run()

    try:
        assert "left behind" in await found(scenario, timeout=0.1)
    finally:
        never.set()
