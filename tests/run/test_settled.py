"""A value set once and awaited from anywhere."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable
from typing import Any

import anyio
import pytest
import trio
from tests.event_loops import EventLoop, run_on

from handrail.errors import HandrailError, NotSettled, UsageError
from handrail.run import RunDriver, Settled
from handrail.run._settled import settle

from ._kit import PATIENCE, Crew, Said, elsewhere, soon, turns


def test_set_once_and_the_first_value_stands(driver: RunDriver[Said]) -> None:
    """R-10"""
    result = driver.run.result
    assert not result.is_set
    with pytest.raises(NotSettled) as caught:
        _ = result.value
    assert isinstance(caught.value, (UsageError, HandrailError, RuntimeError))
    assert str(caught.value)
    driver.finish(None, outcome="failed", error="first")
    first = result.value
    assert result.is_set
    assert first.error == "first"
    driver.finish(None, outcome="failed", error="second")
    assert result.value is first
    assert result.is_set


def test_settled_made_inside_the_package_is_set_once_too() -> None:
    """R-10: `settle` says whether it was the one; None is a value like any other."""
    settled: Settled[object] = Settled()
    assert settle(settled, None) is True
    assert settled.is_set
    assert settled.value is None
    assert settle(settled, "later") is False
    assert settled.value is None
    assert settled.wait() is None


def test_nobody_outside_can_set_it(driver: RunDriver[Said]) -> None:
    """R-10: value and flag are read only, and no public method sets them."""
    for name in ("value", "is_set"):
        with pytest.raises(AttributeError):
            setattr(driver.run.result, name, None)
    public = {name for name in dir(driver.run.result) if not name.startswith("_")}
    assert public == {"is_set", "value", "wait"}


def test_two_asyncio_loops_a_trio_loop_and_a_thread_get_the_same_object(driver: RunDriver[Said]) -> None:
    """R-11: all wait at once, each event loop with three tasks."""
    result = driver.run.result
    waiting = threading.Barrier(5)

    async def several() -> list[Any]:
        values: list[Any] = []

        async def one() -> None:
            values.append(await result)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(one)
                await turns()
                waiting.wait(PATIENCE)
        return values

    def blocking() -> list[Any]:
        waiting.wait(PATIENCE)
        return [result.wait(PATIENCE)]

    crew = Crew()
    crew.start(anyio.run, several)
    crew.start(anyio.run, several)
    crew.start(trio.run, several)
    crew.start(blocking)
    waiting.wait(PATIENCE)
    driver.finish(None, outcome="completed", final="the same")
    values = [value for got in crew.join() for value in got]
    assert len(values) == 10
    assert {id(value) for value in values} == {id(result.value)}


def test_a_value_set_while_many_threads_begin_to_wait_reaches_all() -> None:
    """R-11: a hundred races between the first look, the registration and the setting."""
    for number in range(100):
        settled: Settled[int] = Settled()
        start = threading.Barrier(4)

        async def awaiting(settled: Settled[int] = settled, start: threading.Barrier = start) -> int:
            start.wait(PATIENCE)
            return await settled

        def waiting(settled: Settled[int] = settled, start: threading.Barrier = start) -> int:
            start.wait(PATIENCE)
            return settled.wait(PATIENCE)

        crew = Crew()
        crew.start(waiting)
        crew.start(asyncio.run, awaiting())
        crew.start(trio.run, awaiting)
        start.wait(PATIENCE)
        settle(settled, number)
        assert crew.join() == [number] * 3


def test_wait_for_that_runs_out_leaves_the_value_alone(driver: RunDriver[Said]) -> None:
    """R-12: as an asyncio programmer writes it."""
    run = driver.run

    async def main() -> object:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run.result, 0.01)
        assert not run.result.is_set
        driver.finish(None, outcome="completed", final="after all")
        return await run.result

    assert asyncio.run(main()).final == "after all"  # type: ignore[attr-defined]


async def test_a_cancelled_waiter_touches_neither_value_nor_other_waiters(driver: RunDriver[Said]) -> None:
    """R-12: one scope is cancelled, one runs out, the third waiter gets the outcome."""
    result = driver.run.result
    got: list[str] = []
    both_left = anyio.Event()

    async def patient() -> None:
        got.append((await result).outcome)

    async def leaving(scope: anyio.CancelScope) -> None:
        with scope:
            await result
        assert scope.cancelled_caught
        got.append("left")
        if len(got) == 2:
            both_left.set()

    scopes = [anyio.CancelScope(), anyio.CancelScope(deadline=anyio.current_time() + 0.01)]
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(patient)
            for scope in scopes:
                group.start_soon(leaving, scope)
            await turns()
            scopes[0].cancel()
            await both_left.wait()
            assert got == ["left", "left"]
            assert not result.is_set
            driver.finish(None, outcome="completed")
    assert got == ["left", "left", "completed"]


def test_cancelling_one_task_of_several_leaves_the_others(driver: RunDriver[Said]) -> None:
    """R-12: `task.cancel()` and `asyncio.gather`."""

    async def main() -> None:
        async def wait() -> str:
            return (await driver.run.result).outcome

        tasks = [asyncio.create_task(wait()) for _ in range(3)]
        await turns()
        tasks[1].cancel()
        await turns()
        assert tasks[1].cancelled()
        assert not tasks[0].done()
        driver.finish(None, outcome="failed")
        assert await asyncio.wait_for(asyncio.gather(tasks[0], tasks[2]), PATIENCE) == ["failed", "failed"]

    asyncio.run(main())


@pytest.mark.parametrize("which", ["result", "cancellation", "drained"])
def test_a_waiter_that_leaves_is_forgotten(driver: RunDriver[Said], which: str, anyio_backend: EventLoop) -> None:
    """R-13, R-67: a thousand waiters that were cancelled leave no thousand objects behind."""
    settled: Settled[Any] = getattr(driver.run, which)

    async def wait() -> None:
        await settled

    async def give_up(times: int) -> int:
        for _ in range(times):
            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(wait)
                await turns(2)
                group.cancel_scope.cancel()
        await turns()
        gc.collect()
        return len(gc.get_objects())

    async def main() -> tuple[int, int]:
        return await give_up(5), await give_up(50)

    before, after = run_on(anyio_backend, main)
    assert after - before < 300
    assert not settled.is_set


def test_a_waiter_that_runs_out_of_time_is_forgotten(driver: RunDriver[Said]) -> None:
    """R-13: a thousand times `asyncio.wait_for` with a millisecond, as the specification has it."""

    async def give_up(times: int) -> int:
        for _ in range(times):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(driver.run.result, 0.001)
        gc.collect()
        return len(gc.get_objects())

    async def main() -> tuple[int, int]:
        return await give_up(50), await give_up(1000)

    before, after = asyncio.run(main())
    assert after - before < 300


def test_a_thread_that_leaves_is_forgotten(driver: RunDriver[Said]) -> None:
    """R-13: the same for `wait`."""

    def give_up(times: int) -> int:
        for _ in range(times):
            with pytest.raises(TimeoutError):
                driver.run.result.wait(0.0001)
        gc.collect()
        return len(gc.get_objects())

    before, after = give_up(100), give_up(1000)
    assert after - before < 300


async def test_awaiting_a_set_value_does_not_wait(driver: RunDriver[Said]) -> None:
    """R-14"""
    driver.finish(None, outcome="completed")
    with anyio.fail_after(PATIENCE):
        for _ in range(100):
            assert (await driver.run.result) is driver.run.result.value


async def test_awaiting_a_set_value_delivers_a_pending_cancellation(driver: RunDriver[Said]) -> None:
    """R-14: a cancelled scope is noticed there, though there is nothing to wait for."""
    driver.finish(None, outcome="completed")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await driver.run.result
        pytest.fail("the cancellation was not delivered")
    assert scope.cancelled_caught


def test_awaiting_a_set_value_delivers_a_cancelled_task(driver: RunDriver[Said]) -> None:
    """R-14: the same for `task.cancel()`."""
    driver.finish(None, outcome="completed")

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driver.run.result
        task.uncancel()

    asyncio.run(main())


def test_a_waiter_that_leaves_while_it_is_being_woken(anyio_backend: EventLoop) -> None:
    """R-12, R-13: the thread's wake is under way when the waiter is cancelled; the loop hears of no error."""
    handled: list[object] = []

    async def main() -> None:
        if anyio_backend != "trio":
            asyncio.get_running_loop().set_exception_handler(lambda _loop, context: handled.append(context))
        settled: Settled[str] = Settled()

        async def wait() -> None:
            await settled

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await turns()
            elsewhere(settle, settled, "now")
            group.cancel_scope.cancel()
        await turns()
        assert await settled == "now"

    run_on(anyio_backend, main)
    assert handled == []


def test_a_value_set_from_a_thread_wakes_a_sleeping_loop(anyio_backend: EventLoop) -> None:
    """R-11: nothing else happens in that loop that could wake it by chance."""
    settled: Settled[str] = Settled()
    waiting = threading.Event()

    async def main() -> str:
        async with anyio.create_task_group() as group:
            got: list[str] = []

            async def wait() -> None:
                got.append(await settled)

            group.start_soon(wait)
            await turns()
            waiting.set()
        return got[0]

    crew = Crew()
    crew.start(lambda: run_on(anyio_backend, main))
    assert waiting.wait(PATIENCE)
    elsewhere(settle, settled, "awake")
    assert crew.join() == ["awake"]


async def test_settled_stands_where_an_awaitable_is_asked_for(driver: RunDriver[Said]) -> None:
    """R-11: it can be awaited again and again, and through helpers that take any awaitable."""
    result = driver.run.result
    assert isinstance(result, Awaitable)
    driver.finish(None, outcome="completed")
    assert await soon(result) is await soon(result)
