"""Cancelling is asking: from anywhere, at any time, as often as you like."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from typing import Any

import anyio
import pytest

from handrail.run import RunDriver, RunScope, drive

from ._kit import (
    LOADED,
    PATIENCE,
    Completed,
    CountingLoop,
    Crew,
    Said,
    check_order,
    listed,
    soon,
    turns,
)


async def test_six_calls_are_one() -> None:
    """R-60: from the first on it is cancelled, and the hook was called once."""
    hooked: list[bool] = []
    driver: RunDriver[Said] = RunDriver(on_cancel=lambda: hooked.append(driver.run.cancellation.is_set))
    run = driver.run
    assert not run.is_cancelled
    assert not run.cancellation.is_set
    for _ in range(6):
        assert run.cancel() is None
        assert run.is_cancelled
        assert run.cancellation.is_set
    assert hooked == [True]
    assert await soon(run.cancellation) is None
    driver.finish(None, outcome="cancelled")


def test_six_threads_cancel_at_once() -> None:
    """R-60, R-61: one of them calls the hook."""
    for _ in range(100):
        hooked: list[int] = []
        driver: RunDriver[Said] = RunDriver(on_cancel=lambda hooked=hooked: hooked.append(threading.get_ident()))
        start = threading.Barrier(6)

        def cancel(driver: RunDriver[Said] = driver, start: threading.Barrier = start) -> int:
            start.wait(PATIENCE)
            driver.run.cancel()
            assert driver.run.is_cancelled
            assert driver.run.cancellation.is_set
            return threading.get_ident()

        crew = Crew()
        for _ in range(6):
            crew.start(cancel)
        assert set(crew.join()) >= set(hooked)
        assert len(hooked) == 1
        driver.finish(None, outcome="cancelled")


def test_cancel_after_the_home_loop_was_closed() -> None:
    """R-61: the loop is gone, the driver is not; a waiter of another loop hears of it."""

    async def make() -> RunDriver[Said]:
        return RunDriver()

    driver = asyncio.run(make())
    driver.run.cancel()
    assert driver.run.is_cancelled
    asyncio.run(soon(driver.run.cancellation))
    driver.finish(None, outcome="cancelled")


async def test_cancel_before_the_driver_has_begun() -> None:
    """R-61, R-86: at once after `drive`; the run ends as cancelled and nothing is stuck."""
    async with RunScope():

        async def body(driver: RunDriver[Said]) -> None:
            await anyio.sleep_forever()

        run = drive(body)
        run.cancel()
        assert (await soon(run.result)).outcome == "cancelled"
        await soon(run.drained)


def test_the_hook_may_do_anything() -> None:
    """R-62: emit, ask, cancel again and finish, from inside."""
    facts: list[object] = []

    def hook() -> None:
        run = driver.run
        facts.extend([threading.get_ident(), run.is_cancelled, run.cancellation.is_set, run.status])
        facts.append(driver.emit(Said("from the hook")))
        run.cancel()
        facts.append(driver.finish(Completed()))

    driver: RunDriver[Said] = RunDriver(on_cancel=hook)
    crew = Crew()
    thread = crew.start(driver.run.cancel)
    crew.join()
    assert facts == [thread.ident, True, True, "cancelling", True, True]
    check_order(driver.run.events, driver.run.id)


def test_a_hook_that_raises_is_logged_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """R-62, R-60: `cancel` does not raise."""

    def hook() -> None:
        raise RuntimeError("a bad hook")

    driver: RunDriver[Said] = RunDriver(on_cancel=hook)
    with caplog.at_level(logging.DEBUG, logger="handrail.run"):
        assert driver.run.cancel() is None
        assert driver.run.cancel() is None
    records = [record for record in caplog.records if record.exc_info]
    assert [(record.name, str(record.exc_info[1])) for record in records if record.exc_info] == [
        ("handrail.run", "a bad hook")
    ]
    assert driver.run.is_cancelled
    assert driver.run.status == "cancelling"
    driver.finish(None, outcome="cancelled")


def test_a_hook_that_blocks_does_not_hold_the_run(gate: threading.Event) -> None:
    """R-62, R-1: it is outside the critical section; others emit and finish meanwhile, and cancel returns at once."""
    entered = threading.Event()

    def hook() -> None:
        entered.set()
        gate.wait(PATIENCE)

    driver: RunDriver[Said] = RunDriver(on_cancel=hook)
    crew = Crew()
    crew.start(driver.run.cancel)
    assert entered.wait(PATIENCE)
    assert driver.emit(Said()) is True
    driver.run.cancel()
    assert driver.finish(Completed()) is True
    assert driver.run.drained.is_set
    gate.set()
    crew.join()


async def test_cancel_alone_does_not_end_a_run() -> None:
    """R-63"""
    driver: RunDriver[Said] = RunDriver()
    driver.run.cancel()
    await turns()
    assert not driver.run.is_done
    assert not driver.run.result.is_set
    assert driver.run.status == "cancelling"
    assert driver.emit(Said()) is True
    driver.finish(None, outcome="cancelled")
    assert driver.run.is_done


def test_cancel_of_a_finished_run_does_nothing_at_all() -> None:
    """R-64: five cancels, five facts."""
    hooked: list[int] = []
    driver: RunDriver[Said] = RunDriver(on_cancel=lambda: hooked.append(1))
    driver.finish(Completed())
    outcome = driver.run.result.value
    for _ in range(5):
        driver.run.cancel()
    assert not driver.run.cancellation.is_set
    assert not driver.run.is_cancelled
    assert hooked == []
    assert driver.run.result.value is outcome
    assert driver.run.status == "completed"


def test_cancel_against_finish() -> None:
    """R-65, R-1: three hundred races; the hook ran iff it was cancelled, and one outcome stands."""
    for _ in range(300):
        hooked: list[int] = []
        driver: RunDriver[Said] = RunDriver(on_cancel=lambda hooked=hooked: hooked.append(1))
        start = threading.Barrier(2)

        def cancel(driver: RunDriver[Said] = driver, start: threading.Barrier = start) -> None:
            start.wait(PATIENCE)
            driver.run.cancel()

        crew = Crew()
        crew.start(cancel)
        start.wait(PATIENCE)
        assert driver.finish(Completed()) is True
        crew.join()
        assert driver.run.status == "completed"
        assert len(hooked) == driver.run.is_cancelled == driver.run.cancellation.is_set


def test_asked_is_not_stopped() -> None:
    """R-65: both orders, shown one after the other."""
    early: RunDriver[Said] = RunDriver()
    early.run.cancel()
    early.finish(Completed())
    assert (early.run.status, early.run.is_cancelled) == ("completed", True)
    late: RunDriver[Said] = RunDriver()
    late.finish(Completed())
    late.run.cancel()
    assert (late.run.status, late.run.is_cancelled) == ("completed", False)


@pytest.mark.slow
def test_cancel_races_with_the_end_of_a_driven_run() -> None:
    """R-65, R-24: case 112, five hundred runs; one terminal event, and it agrees with the result."""
    dice = random.Random(112)
    outcomes = set()

    async def body(driver: RunDriver[Said]) -> None:
        driver.emit(Said("token"))
        await asyncio.sleep(dice.uniform(0, 0.002))
        driver.finish(Completed())

    for _ in range(500):
        run = drive(body)
        timer = threading.Timer(dice.uniform(0, 0.003), run.cancel)
        timer.start()
        events = list(run.events)
        assert run.result.is_set
        outcome = run.result.value.outcome
        outcomes.add(outcome)
        timer.join(PATIENCE)
        assert run.result.value.outcome == run.status == outcome
        if outcome == "completed":
            check_order(events, run.id)
        else:
            assert outcome == "cancelled"
            assert run.is_cancelled
            assert [event.ends for event in events] == [None] * len(events)
    assert outcomes == {"completed", "cancelled"}


def test_a_hook_reaches_only_its_own_run() -> None:
    """R-66: four threads cancel a finished run two hundred times while another streams."""
    first: RunDriver[Said] = RunDriver(on_cancel=lambda: pytest.fail("the hook of a finished run"))
    first.finish(Completed())
    second_hooked: list[int] = []
    second: RunDriver[Said] = RunDriver(on_cancel=lambda: second_hooked.append(1))
    crew = Crew()
    for _ in range(4):
        crew.start(lambda: [first.run.cancel() for _ in range(200)])
    emitted = [second.emit(Said()) for _ in range(500)]
    crew.join()
    assert all(emitted)
    assert not second.run.is_cancelled
    assert second_hooked == []
    second.run.cancel()
    assert second_hooked == [1]
    second.finish(None, outcome="cancelled")
    assert len(second.run.events.so_far()) == 500


async def test_two_driven_runs_of_one_body_are_cancelled_apart() -> None:
    """R-66: the same body, the same scope."""
    goes_on = anyio.Event()

    async def body(driver: RunDriver[Said]) -> None:
        await goes_on.wait()
        driver.finish(Completed())

    async with RunScope():
        one, other = drive(body), drive(body)
        one.cancel()
        assert (await soon(one.result)).outcome == "cancelled"
        assert other.status == "running"
        goes_on.set()
        assert (await soon(other.result)).outcome == "completed"


def test_waiting_for_the_cancellation_is_one_registration() -> None:
    """R-67: however many events pass, the one who waits is not woken."""
    loop = CountingLoop()

    async def main() -> tuple[int, int]:
        driver: RunDriver[Said] = RunDriver()
        waiter = asyncio.ensure_future(soon(driver.run.cancellation))
        await turns()
        before = loop.callbacks
        for _ in range(1000):
            driver.emit(Said())
        cost = loop.callbacks - before
        driver.run.cancel()
        await waiter
        driver.finish(None, outcome="cancelled")
        return cost, len(driver.run.events.so_far())

    try:
        assert loop.run_until_complete(main()) == (0, 1000)
    finally:
        loop.close()


async def test_cancel_is_quick_wherever_the_body_waits() -> None:
    """R-86, F-13 and case 110: asleep, before the first event, in a nested scope; `drained` follows."""

    async def asleep(driver: RunDriver[Said]) -> None:
        await anyio.sleep(3600)

    async def between_events(driver: RunDriver[Said]) -> None:
        while True:
            driver.emit(Said())
            await anyio.sleep(0.001)

    async def in_a_group(driver: RunDriver[Said]) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            group.start_soon(anyio.sleep_forever)

    async with RunScope():
        for body in (asleep, between_events, in_a_group):
            run = drive(body)
            await turns()
            before = time.monotonic()
            run.cancel()
            run.cancel()
            outcome = await soon(run.result)
            assert time.monotonic() - before < 0.1 * LOADED
            assert outcome.outcome == "cancelled"
            await soon(run.drained)
            events: list[Any] = await listed(run.events)
            await turns()
            assert len(run.events.so_far()) == len(events)


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), SystemExit(1), GeneratorExit()], ids=lambda e: type(e).__name__
)
def test_cancel_never_raises_whatever_its_hook_raises(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """R-60, R-62: to the logger, and nowhere else; also what is no `Exception`."""

    def hook() -> None:
        raise error

    driver: RunDriver[Said] = RunDriver(on_cancel=hook)
    driver.run.cancel()
    assert driver.run.is_cancelled
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]
    driver.finish(Completed())
