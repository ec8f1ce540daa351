"""What the handle costs, in counts that no load can move."""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Awaitable
from typing import Any

import anyio
import pytest

from handrail.run import RunDriver, RunScope, drive

from ._kit import LOADED, CountingLoop, Crew, Said, python_calls, soon, turns

EMIT = 4
"""Python calls of one `emit` that nobody waits for and whose event is not stamped."""

READ = 2
"""Python calls of reading one event that is there."""

WAKE = 34
"""Python calls of one event to one reader that waits for it, from `emit` until the reader has it and waits again.

Those of asyncio (callback, handle, task step) and of the counting loop are among them; an `asyncio.Queue` takes 25.
"""


def filled(count: int) -> RunDriver[int]:
    driver: RunDriver[int] = RunDriver()
    for number in range(count):
        driver.emit(number)
    return driver


def on(loop: asyncio.AbstractEventLoop, main: Awaitable[Any]) -> Any:
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


def test_emit_costs_the_same_however_many_events_are_held() -> None:
    """F-9 and section 5 of the design: at event 10 and at event 50,000, and it is cheap."""
    costs = []
    for held in (10, 50_000):
        driver = filled(held)
        costs.append(python_calls(lambda driver=driver: driver.emit(0)))
        driver.finish(None, outcome="completed")
    assert costs[0] == costs[1] <= EMIT


def test_a_stamped_event_costs_its_stamp_on_top() -> None:
    """F-9: nothing else is called on it."""
    driver: RunDriver[Said] = RunDriver()
    driver.emit(5)  # type: ignore[arg-type]  # what their classes say is looked up once
    driver.emit(Said())
    stamp = python_calls(lambda: Said().stamped("r", 0)) - python_calls(lambda: Said())
    plain = python_calls(lambda: driver.emit(5))  # type: ignore[arg-type]
    said = Said()
    assert python_calls(lambda: driver.emit(said)) <= plain + stamp + 1
    driver.finish(None, outcome="completed")


def test_reading_costs_the_same_at_event_10_as_at_event_100_000() -> None:
    """R-51: a thread's reader and a task's."""
    driver = filled(100_001)
    driver.finish(None, outcome="completed")
    events = driver.run.events
    for start in (10, 100_000):
        iterator = iter(events.after(start - 1))
        assert python_calls(lambda iterator=iterator: next(iterator)) <= READ
        reader = aiter(events.after(start - 1))
        assert python_calls(lambda reader=reader: step(reader)) <= READ + 1


def step(reader: Any) -> None:
    """Take the next event of a reader that has it ready, without an event loop."""
    try:
        anext(reader).send(None)
    except StopIteration:
        return
    raise AssertionError("it waited")


def per_event(readers: int, events: int, held: int) -> tuple[float, float]:
    """Python calls and loop callbacks for each event that `readers` tasks wait for, one at a time."""
    loop = CountingLoop()

    async def main() -> tuple[float, float]:
        driver = filled(held)
        got = 0

        async def read() -> None:
            nonlocal got
            async for _ in driver.run.events.after(held - 1):
                got += 1

        tasks = [asyncio.create_task(read()) for _ in range(readers)]
        await turns(5)
        calls = 0

        def profile(_frame: object, kind: str, _arg: object) -> None:
            nonlocal calls
            calls += kind == "call"

        before = loop.callbacks
        gc.disable()
        sys.setprofile(profile)
        try:
            for number in range(events):
                driver.emit(number)
                while got < (number + 1) * readers:  # noqa: ASYNC110 - the turns of the loop are what is counted
                    await asyncio.sleep(0)
        finally:
            sys.setprofile(None)
            gc.enable()
        callbacks = loop.callbacks - before
        driver.finish(None, outcome="completed")
        await asyncio.gather(*tasks)
        return calls / events, callbacks / events

    return on(loop, main())


def test_a_reader_that_keeps_up_costs_the_same_however_many_events_are_held() -> None:
    """R-51, F-9: one wake-up for each event; the driver's own turns of the loop are counted with it."""
    few, many = per_event(1, 50, 10), per_event(1, 50, 50_000)
    assert few == many
    calls, callbacks = few
    assert calls <= WAKE + 20  # and the driver's two turns of the loop
    assert callbacks <= 3  # the driver's two `sleep(0)` and the reader's one


def test_each_further_reader_costs_as_much_as_the_first() -> None:
    """F-10: ten readers that wait, ten times the calls and callbacks and not more."""
    one, ten = per_event(1, 50, 10), per_event(10, 50, 10)
    assert ten[0] - one[0] <= 9 * WAKE
    assert ten[1] - one[1] <= 9


def test_no_reader_no_callback() -> None:
    """F-9: an emit that nobody waits for touches no event loop; nor does one with a reader that is behind."""
    loop = CountingLoop()

    async def main() -> int:
        driver: RunDriver[int] = RunDriver()
        reader = aiter(driver.run.events)
        driver.emit(0)
        await anext(reader)
        before = loop.callbacks
        for number in range(1000):
            driver.emit(number)
        after = loop.callbacks
        driver.finish(None, outcome="completed")
        return after - before

    assert on(loop, main()) == 0


def test_events_that_come_together_are_one_wake_up() -> None:
    """R-51: a thousand events between two turns of the loop wake a waiting reader once."""
    loop = CountingLoop()

    async def main() -> tuple[int, int]:
        driver: RunDriver[int] = RunDriver()
        got: list[int] = []

        async def read() -> None:
            async for event in driver.run.events:
                got.append(event)  # noqa: PERF401 - one at a time is what is tested

        task = asyncio.create_task(read())
        await turns(5)
        before = loop.callbacks
        for number in range(1000):
            driver.emit(number)
        scheduled = loop.callbacks - before
        driver.finish(None, outcome="completed")
        await task
        return scheduled, len(got)

    assert on(loop, main()) == (1, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("readers", [1, 10])
def test_a_hundred_thousand_events(readers: int) -> None:
    """R-51, R-43, F-10: into one and into ten readers on a loop, with a thread reading beside them."""

    async def main() -> list[int]:
        driver: RunDriver[int] = RunDriver()
        counts: list[int] = []

        async def read() -> None:
            count = 0
            async for event in driver.run.events:
                assert event == count
                count += 1
            counts.append(count)

        async with anyio.create_task_group() as group:
            for _ in range(readers):
                group.start_soon(read)
            for number in range(100_000):
                driver.emit(number)
                if number % 1000 == 0:
                    await asyncio.sleep(0)
            driver.finish(None, outcome="completed")
        crew = Crew()
        crew.start(lambda: sum(1 for _ in driver.run.events))
        return counts + crew.join()

    assert asyncio.run(main()) == [100_000] * (readers + 1)


def test_a_short_driven_run_is_cheap() -> None:
    """F-8: a run with one event on an asyncio task, hosted, read and awaited, in half of what a loop may take."""
    loop = CountingLoop()

    async def body(driver: RunDriver[int]) -> None:
        driver.emit(1)
        driver.finish(None, outcome="completed")

    async def one() -> None:
        run = drive(body)
        async for _ in run.events:
            pass
        await run.result

    async def main() -> tuple[int, int]:
        for _ in range(3):
            await one()
        calls = 0

        def profile(_frame: object, kind: str, _arg: object) -> None:
            nonlocal calls
            calls += kind == "call"

        before = loop.callbacks
        gc.disable()
        sys.setprofile(profile)
        try:
            await one()
        finally:
            sys.setprofile(None)
            gc.enable()
        return calls, loop.callbacks - before

    calls, callbacks = on(loop, main())
    assert calls <= 240
    assert callbacks <= 6


def test_a_driver_and_its_run_are_small() -> None:
    """F-12: the handle itself, without a host, and with one."""

    async def endless(driver: RunDriver[int]) -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> tuple[float, float]:
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        drivers = [RunDriver[int]() for _ in range(200)]
        alone = (tracemalloc.get_traced_memory()[0] - before) / 200
        for driver in drivers:
            driver.finish(None, outcome="completed")
        before = tracemalloc.get_traced_memory()[0]
        runs = [drive(endless) for _ in range(200)]
        await turns()
        hosted = (tracemalloc.get_traced_memory()[0] - before) / 200
        tracemalloc.stop()
        for run in runs:
            run.cancel()
        for run in runs:
            await soon(run.drained)
        return alone, hosted

    alone, hosted = asyncio.run(main())
    assert alone <= 5_000
    assert hosted <= 12_000


async def test_cancel_to_result_is_quick() -> None:
    """F-13: a body that sleeps; the middle of fifty, and generously, since other work shares the machine."""

    async def asleep(driver: RunDriver[int]) -> None:
        await anyio.sleep(3600)

    times = []
    async with RunScope():
        for _ in range(50):
            run = drive(asleep)
            await turns(3)
            before = time.perf_counter()
            run.cancel()
            await soon(run.result)
            times.append(time.perf_counter() - before)
    assert statistics.median(times) < 0.005 * LOADED


def test_polling_is_free_of_calls_into_the_loop() -> None:
    """R-67, R-3: `is_cancelled` and `is_done` are an attribute and a comparison."""
    driver: RunDriver[int] = RunDriver()
    run = driver.run
    for poll in (lambda: run.is_cancelled, lambda: run.is_done):
        assert python_calls(poll) <= 2
    driver.finish(None, outcome="completed")


def test_a_thousand_runs_share_nothing_that_grows() -> None:
    """F-8, R-103: the thousandth run costs what the tenth did."""
    costs: list[int] = []

    def one() -> None:
        driver: RunDriver[int] = RunDriver(run_id="r")
        driver.emit(1)
        driver.finish(None, outcome="completed")

    for number in range(1000):
        if number in (10, 999):
            costs.append(python_calls(one))
        else:
            one()
    assert costs[0] == costs[1]
