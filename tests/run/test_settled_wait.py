"""Waiting for a value in a thread that is blocked by it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio

from handrail.errors import UsageError
from handrail.run import RunDriver, Settled
from handrail.run._settled import settle

from ._kit import LOADED, PATIENCE, Crew, Said, turns


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
