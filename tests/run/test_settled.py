"""A value set once and awaited from anywhere."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
from tests.event_loops import EventLoop, run_on

from handrail.errors import HandrailError, NotSettled, UsageError
from handrail.run import RunDriver, Settled
from handrail.run._settled import settle

from ._kit import LOADED, PATIENCE, Completed, Crew, Said, elsewhere, soon, turns


@pytest.fixture
def driver() -> Iterator[RunDriver[Said]]:
    """A driver whose run is open, and finished behind the test."""
    driver: RunDriver[Said] = RunDriver()
    yield driver
    driver.finish(None, outcome="completed")


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


def test_wait_runs_out_after_its_timeout(driver: RunDriver[Said]) -> None:
    """R-15: not earlier, and not much later; the run is left alone."""
    before = time.monotonic()
    with pytest.raises(TimeoutError):
        driver.run.result.wait(0.05)
    assert 0.045 <= time.monotonic() - before < 0.05 * 20
    with pytest.raises(TimeoutError):
        driver.run.result.wait(timeout=0.001)
    assert driver.run.status == "running"


def test_wait_with_no_time_only_looks(driver: RunDriver[Said]) -> None:
    """R-15"""
    before = time.monotonic()
    with pytest.raises(TimeoutError):
        driver.run.result.wait(0)
    assert time.monotonic() - before < 0.01 * LOADED
    driver.finish(None, outcome="completed")
    assert driver.run.result.wait(0) is driver.run.result.value
    assert driver.run.result.wait() is driver.run.result.value


def test_keyboard_interrupt_ends_the_wait_and_nothing_else(driver: RunDriver[Said]) -> None:
    """R-15: a signal that raises, in the middle of a wait without a timeout."""

    def interrupt(_signum: int, _frame: object) -> None:
        raise KeyboardInterrupt

    with alarm(interrupt), pytest.raises(KeyboardInterrupt):
        driver.run.result.wait()
    assert driver.run.status == "running"
    assert not driver.run.is_cancelled
    assert driver.emit(Said())
    driver.finish(None, outcome="completed")
    assert driver.run.result.wait(PATIENCE).outcome == "completed"


@contextmanager
def alarm(handler: Callable[[int, Any], object], after: float = 0.05) -> Iterator[None]:
    """One signal, that much later, in the main thread."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("which", ["result", "cancellation", "drained"])
async def test_wait_on_the_home_thread_is_refused_at_once(which: str) -> None:
    """R-16: it would block the event loop that must set the value; the sentence names `await`."""
    driver: RunDriver[Said] = RunDriver()
    settled: Settled[Any] = getattr(driver.run, which)
    with pytest.raises(UsageError, match="await") as caught:
        settled.wait()
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(UsageError, match="await"):
        settled.wait(0.5)
    assert driver.run.status == "running"
    driver.run.cancel()
    driver.finish(None, outcome="cancelled")
    assert settled.wait() is settled.value
    assert settled.wait(0) is settled.value


def test_wait_on_the_home_thread_after_its_loop_has_ended_blocks() -> None:
    """R-16: no loop runs there any more, so nothing can deadlock; nor is the next loop there the home."""

    async def make() -> RunDriver[Said]:
        return RunDriver()

    driver = asyncio.run(make())

    async def look() -> None:
        with pytest.raises(TimeoutError):
            driver.run.result.wait(0.01)

    asyncio.run(look())
    with pytest.raises(TimeoutError):
        driver.run.result.wait(0.01)
    crew = Crew()
    crew.start(lambda: driver.finish(None, outcome="completed"))
    assert driver.run.result.wait(PATIENCE).outcome == "completed"
    crew.join()


@pytest.mark.parametrize("run_loop", [asyncio.run, trio.run], ids=["asyncio", "trio"])
def test_wait_under_another_loop_blocks_that_thread_as_asked(
    driver: RunDriver[Said], run_loop: Callable[..., Any]
) -> None:
    """R-16: the run's home is no loop or another one."""

    async def main() -> str:
        with pytest.raises(TimeoutError):
            driver.run.result.wait(0.01)
        crew = Crew()
        crew.start(lambda: driver.finish(None, outcome="completed", final="there"))
        return driver.run.result.wait(PATIENCE).final

    assert (run_loop(main()) if run_loop is asyncio.run else run_loop(main)) == "there"


async def test_wait_from_a_thread_beside_the_home_loop_is_fine() -> None:
    """R-16, R-11: only the home thread is refused."""
    driver: RunDriver[Said] = RunDriver()
    crew = Crew()
    started = threading.Event()

    def waiting() -> str:
        started.set()
        return driver.run.result.wait(PATIENCE).outcome

    crew.start(waiting)
    started.wait(PATIENCE)
    await turns()
    driver.finish(None, outcome="failed")
    assert crew.join() == ["failed"]


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


def test_an_interrupt_that_came_just_before_the_thread_was_blocked_is_heard() -> None:
    """R-15: it interrupts no system call of the main thread; here another thread takes it, to the same effect."""
    settled: Settled[str] = Settled()
    heard = threading.Event()

    def interrupt() -> None:
        while not settled._waiters.wakers:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
        heard.wait(PATIENCE)
        settle(settled, "in the end")

    threading.Thread(target=interrupt, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with pytest.raises(KeyboardInterrupt):
            settled.wait()
        assert not settled.is_set
    finally:
        heard.set()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


async def test_settled_stands_where_an_awaitable_is_asked_for(driver: RunDriver[Said]) -> None:
    """R-11: it can be awaited again and again, and through helpers that take any awaitable."""
    result = driver.run.result
    assert isinstance(result, Awaitable)
    driver.finish(None, outcome="completed")
    assert await soon(result) is await soon(result)
