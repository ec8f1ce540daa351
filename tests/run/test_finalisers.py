"""Finalisers that run in the middle of the critical section."""

from __future__ import annotations

import gc
import typing

import anyio

from handrail.run import RunDriver

from ._kit import Completed, Said, check_order, elsewhere, listed, soon, turns


def test_a_finaliser_that_runs_inside_the_critical_section() -> None:
    """R-84, R-61: what is collected while an event is being stamped ends work, cancels, emits, finishes."""
    hooked: list[bool] = []
    answers: list[object] = []

    class Dying:
        def __init__(self, *asks: typing.Callable[[], object]) -> None:
            self.asks = asks

        def __del__(self) -> None:
            answers.extend(ask() for ask in self.asks)

    class Collecting(Said):
        def stamped(self, run_id: str, seq: int) -> Said:
            doomed.clear()
            gc.collect()
            return Said(self.text, run_id, seq)

    class CollectingEnd(Completed):
        def stamped(self, run_id: str, seq: int) -> Said:
            doomed.clear()
            gc.collect()
            return Completed(self.text, run_id, seq)

    driver: RunDriver[Said] = RunDriver(on_cancel=lambda: hooked.append(elsewhere(driver.emit, Said("hook"))))
    driver.begin_work("a")
    driver.begin_work("b")
    doomed = [Dying(driver.end_work, driver.run.cancel, lambda: driver.emit(Said("from __del__")))]
    assert driver.emit(Collecting("a")) is True
    assert answers == [None, None, True]
    assert driver.run.open_work == ("a",)
    assert driver.run.is_cancelled
    assert hooked == [True]
    assert {event.text for event in driver.run.events.so_far()} == {"a", "from __del__", "hook"}

    answers.clear()
    doomed = [Dying(driver.end_work, driver.run.cancel, lambda: driver.finish(None, outcome="failed"))]
    assert driver.finish(CollectingEnd("end")) is True
    assert answers == [None, None, False]
    assert driver.run.status == "completed"
    assert driver.run.drained.is_set
    check_order(driver.run.events, driver.run.id)


def test_a_finaliser_that_finishes_while_an_event_is_stamped() -> None:
    """R-84, R-1: the event was accepted first; one end, and both callers are told the truth."""
    answers: list[bool] = []

    class Dying:
        def __del__(self) -> None:
            answers.append(driver.finish(Completed("end")))
            answers.append(driver.emit(Said("late")))
            answers.append(driver.begin_work("late"))

    class Collecting(Said):
        def stamped(self, run_id: str, seq: int) -> Said:
            doomed.clear()
            return Said(self.text, run_id, seq)

    driver: RunDriver[Said] = RunDriver()
    doomed = [Dying()]
    assert driver.emit(Collecting("a")) is True
    assert answers == [True, False, False]
    assert [event.text for event in driver.run.events] == ["a", "end"]
    check_order(driver.run.events, driver.run.id)
    assert driver.run.drained.is_set


async def test_what_a_finaliser_asks_inside_the_critical_section_wakes_those_who_wait() -> None:
    """R-84, R-11: the result, `drained`, the cancellation and the next event, though the ask was carried out later."""

    class Dying:
        def __del__(self) -> None:
            driver.run.cancel()
            driver.emit(Said("from __del__"))
            driver.finish(Completed("end"))
            driver.end_work()

    class Collecting(Said):
        def stamped(self, run_id: str, seq: int) -> Said:
            doomed.clear()
            return Said(self.text, run_id, seq)

    driver: RunDriver[Said] = RunDriver()
    driver.begin_work("w")
    doomed = [Dying()]
    run, woken = driver.run, []

    async def wait(name: str) -> None:
        await soon(getattr(run, name))
        woken.append(name)

    async def read() -> None:
        woken.extend([event.text for event in await listed(run.events)])

    async with anyio.create_task_group() as group:
        for name in ("result", "drained", "cancellation"):
            group.start_soon(wait, name)
        group.start_soon(read)
        await turns()
        assert driver.emit(Collecting("a")) is True
    assert sorted(woken) == sorted(["result", "drained", "cancellation", "a", "from __del__", "end"])
