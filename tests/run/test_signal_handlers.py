"""Signal handlers that cancel the run whose code, wait or event loop they interrupted."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import pytest

from handrail.run import RunDriver, RunScope, drive

from ._kit import (
    LOADED,
    PATIENCE,
    Completed,
    Said,
    check_order,
    child,
    elsewhere,
    listed,
    soon,
)


@contextmanager
def on_signal(handler: Callable[[], object]) -> Iterator[None]:
    """While it lasts, SIGUSR1 calls `handler` in the main thread."""
    before = signal.signal(signal.SIGUSR1, lambda _signum, _frame: handler())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def interrupt() -> None:
    """The handler runs before this returns, in the thread that calls it."""
    signal.raise_signal(signal.SIGUSR1)


class Interrupted(Said):
    """A signal arrives while it is being stamped, in the middle of the critical section."""

    def stamped(self, run_id: str, seq: int) -> Said:
        interrupt()
        return Said(self.text, run_id, seq)


class InterruptedEnd(Completed):
    """The same for the terminal event."""

    def stamped(self, run_id: str, seq: int) -> Said:
        interrupt()
        return Completed(self.text, run_id, seq)


class Watching:
    """A hook that notes whether the critical section is free: an emit of another thread is answered meanwhile."""

    def __init__(self) -> None:
        self.driver: RunDriver[Said] = RunDriver(on_cancel=self)
        self.answers: list[bool] = []

    def __call__(self) -> None:
        self.answers.append(elsewhere(self.driver.emit, Said("while the hook runs")))


def test_a_signal_handler_that_cancels_in_the_middle_of_emit() -> None:
    """R-61, R-62: the cancel is not lost, and the hook is called once, outside the critical section."""
    hook = Watching()
    driver = hook.driver
    with on_signal(driver.run.cancel):
        assert driver.emit(Interrupted("a")) is True
        assert driver.emit(Interrupted("b")) is True
    assert driver.run.status == "cancelling"
    assert driver.run.cancellation.is_set
    assert hook.answers == [True]
    driver.finish(Completed("end"))
    assert sorted(event.text for event in driver.run.events) == ["a", "b", "end", "while the hook runs"]
    check_order(driver.run.events, driver.run.id)


def test_a_signal_handler_that_cancels_in_the_middle_of_finish() -> None:
    """R-61, R-65: either the cancel came first or it was too late, and all the facts say the same."""
    hook = Watching()
    driver = hook.driver
    with on_signal(driver.run.cancel):
        assert driver.finish(InterruptedEnd()) is True
    assert driver.run.status == "completed"
    assert len(hook.answers) == driver.run.is_cancelled == driver.run.cancellation.is_set
    assert len(driver.run.events.so_far()) == 1 + hook.answers.count(True)
    assert driver.run.drained.is_set


def test_a_signal_handler_that_cancels_in_the_middle_of_cancel() -> None:
    """R-61, R-60: the second one finds it done; the hook is called once."""
    calls: list[str] = []

    def hook() -> None:
        calls.append("hook")
        interrupt()
        calls.append("interrupted")

    driver: RunDriver[Said] = RunDriver(on_cancel=hook)
    with on_signal(driver.run.cancel):
        driver.run.cancel()
    assert calls == ["hook", "interrupted"]
    driver.finish(None, outcome="cancelled")


def test_a_signal_handler_that_cancels_inside_a_section() -> None:
    """R-61, R-72: between begin and end of work, and on a run that is already closed."""
    driver: RunDriver[Said] = RunDriver()
    with on_signal(driver.run.cancel), driver.work("w"):
        interrupt()
        driver.finish(Completed())
        interrupt()
    assert driver.run.is_cancelled
    assert driver.run.drained.is_set


@pytest.mark.parametrize("which", ["result", "cancellation", "drained"])
def test_a_signal_handler_that_cancels_during_a_wait(which: str) -> None:
    """R-61: the waiting thread itself is interrupted, cancels, and its hook even ends the run."""
    driver: RunDriver[Said] = RunDriver(on_cancel=lambda: driver.finish(None, outcome="cancelled"))
    before = signal.signal(signal.SIGALRM, lambda _signum, _frame: driver.run.cancel())
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        getattr(driver.run, which).wait(PATIENCE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert driver.run.result.value.outcome == "cancelled"


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_a_signal_handler_that_cancels_while_the_loop_sleeps(library: str) -> None:
    """R-61: the main thread is in its selector and nothing else would wake it; the body is cancelled at once."""

    async def endless(driver: RunDriver[Said]) -> None:
        await anyio.sleep_forever()

    async def main() -> float:
        async with RunScope():
            run = drive(endless)
            before = signal.signal(signal.SIGALRM, lambda _signum, _frame: run.cancel())
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            started = time.monotonic()
            try:
                assert (await run.result).outcome == "cancelled"
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            return time.monotonic() - started

    assert anyio.run(main, backend=library) < 0.2 * LOADED


@pytest.mark.parametrize("library", ["asyncio", "trio"])
@pytest.mark.parametrize("which", ["cancellation", "result", "events"])
def test_a_signal_handler_wakes_whoever_waits_in_the_loop_it_interrupted(library: str, which: str) -> None:
    """R-61, R-11: the loop sleeps in its selector, and no host of the run is there to wake it."""

    async def main() -> float:
        driver: RunDriver[Said] = RunDriver(on_cancel=lambda: driver.finish(Completed()))
        wait = listed(driver.run.events) if which == "events" else soon(getattr(driver.run, which))
        before = signal.signal(signal.SIGALRM, lambda _signum, _frame: driver.run.cancel())
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        started = time.monotonic()
        try:
            await wait
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return time.monotonic() - started

    assert anyio.run(main, backend=library) < 0.5 * LOADED


def test_a_signal_handler_that_cancels_during_a_blocking_read() -> None:
    """R-61: the same for a thread that waits for the next event."""
    driver: RunDriver[Said] = RunDriver(on_cancel=lambda: driver.finish(None, outcome="cancelled"))
    before = signal.signal(signal.SIGALRM, lambda _signum, _frame: driver.run.cancel())
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        assert list(driver.run.events) == []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
def test_a_storm_of_signals() -> None:
    """R-61: for two seconds a handler cancels some thousand times a second, wherever the thread happens to be."""
    done = child(
        """
        import signal, sys, time
        from handrail.run import RunDriver

        class End:
            ends = "completed"
            def stamped(self, run_id, seq):
                return self

        hooked, current, fired = [], [], 0

        def handler(signum, frame):
            global fired
            fired += 1
            for driver in current:
                driver.run.cancel()

        def hook():
            hooked.append(1)

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
        runs = cancelled = 0
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            driver = RunDriver(on_cancel=hook)
            current[:] = [driver]
            hooked.clear()
            for number in range(20):
                assert driver.emit(number) is True
            driver.begin_work("w")
            if runs % 3 == 0:
                driver.run.cancel()
            try:
                driver.run.result.wait(0.0001)
            except TimeoutError:
                pass
            assert driver.finish(End()) is True
            driver.end_work()
            current.clear()
            assert driver.run.drained.is_set and driver.run.result.is_set
            assert driver.run.is_cancelled == driver.run.cancellation.is_set == bool(hooked)
            assert len(hooked) <= 1
            assert len(list(driver.run.events)) == 21
            runs += 1
            cancelled += driver.run.is_cancelled
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(runs, cancelled, fired)
        assert fired > 100 and cancelled > runs / 3
        """
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert int(done.stdout.split()[0]) > 50
