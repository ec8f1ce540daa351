"""Waiters and readers of event loops that were closed."""

from __future__ import annotations

import asyncio
import threading

from handrail.run import RunDriver

from ._kit import PATIENCE, Completed, Crew, Said


def test_a_waiter_of_a_closed_loop_is_skipped(driver: RunDriver[Said]) -> None:
    """R-17: whoever sets the value sees no error, and the waiters of living loops get it."""
    result = driver.run.result
    loop = asyncio.new_event_loop()

    async def wait() -> object:
        return await result

    async def begin() -> asyncio.Task[object]:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        return task

    lost = loop.run_until_complete(begin())
    lost._log_destroy_pending = False  # type: ignore[attr-defined]  # what we leave behind on purpose
    loop.close()

    ready = threading.Event()

    async def living() -> object:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        ready.set()
        return await asyncio.wait_for(task, PATIENCE)

    crew = Crew()
    crew.start(asyncio.run, living())
    assert ready.wait(PATIENCE)
    assert driver.finish(None, outcome="completed") is True
    assert crew.join() == [result.value]
    assert not lost.done()
    assert driver.run.drained.is_set


def test_a_reader_of_a_closed_loop_is_skipped(driver: RunDriver[Said]) -> None:
    """R-17, R-50: the same for somebody who waits for events."""
    loop = asyncio.new_event_loop()

    async def read() -> None:
        async for _ in driver.run.events:
            pass

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        return task

    lost = loop.run_until_complete(begin())
    lost._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    assert driver.emit(Said("one")) is True
    assert driver.run.cancel() is None
    assert driver.finish(Completed()) is True
    assert [event.seq for event in driver.run.events] == [0, 1]
