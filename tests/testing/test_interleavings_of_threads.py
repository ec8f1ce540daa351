"""The explorer and threads: where one may be left, what it waits for, and what is a fault."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.testing.exploring import Players, fault_in

from handrail.run import Settled
from handrail.run._settled import settle
from handrail.testing import InterleavingError, explore, replay
from handrail.testing.interleavings import _scheduler

HERE = [__name__]


def lost_update() -> Iterator[Players]:
    count = [0]

    def add() -> None:
        read = count[0]
        count[0] = read + 1

    yield [add, add]
    assert count == [2]


def test_a_lost_update_is_found_and_found_again() -> None:
    """A thread is left between two lines of a module that was named; the text says where, the check is the cause."""
    fault = fault_in(lost_update, lines_of=HERE)
    assert "add       is left before" in str(fault)
    assert "count[0] = read + 1" in str(fault)
    assert isinstance(fault.__cause__, AssertionError)
    with pytest.raises(InterleavingError, match=r"count\[0\] = read \+ 1"):
        replay(lost_update, fault.schedule, lines_of=HERE)
    assert explore(lost_update).count > 0, "nobody is left in lines that were not named"


def test_the_same_arguments_try_the_same() -> None:
    """The seed decides, and nothing else."""
    faults = [fault_in(lost_update, lines_of=HERE, seed=seed) for seed in (1, 1, 2, 3, 4, 5)]
    assert len({(fault.schedule, fault.tried) for fault in faults[:2]}) == 1
    assert len({(fault.schedule, fault.tried) for fault in faults}) > 1


def test_all_there_are() -> None:
    """`exhausted` says that there are no others; a limit that cuts some off says so too."""

    def scenario() -> Iterator[Players]:
        settled: Settled[int] = Settled()
        yield [lambda: settle(settled, 1), lambda: settled.is_set]

    whole = explore(scenario, preemptions=1, random=0)
    assert whole.exhausted
    assert explore(scenario, preemptions=1, random=0, limit=whole.count).exhausted
    assert not explore(scenario, preemptions=1, random=0, limit=whole.count - 1).exhausted
    assert str(whole).startswith(f"{whole.count} interleavings explored: 0 at random (seed 0), ")


def test_a_lock_is_waited_for() -> None:
    """Whoever holds it may be left, and nobody else comes in; an RLock lets its owner in again."""

    def scenario() -> Iterator[Players]:
        lock, again, count, tried = threading.Lock(), threading.RLock(), [0], []

        def add() -> None:
            with lock, again, again:
                read = count[0]
                count[0] = read + 1

        def tries() -> None:
            tried.append(lock.acquire(blocking=False))
            if tried[-1]:
                assert lock.locked()
                lock.release()

        yield [add, add, tries]
        assert count == [2]
        assert not lock.locked()
        for held in (lock, again):
            with pytest.raises(RuntimeError, match="release"):
                held.release()

    assert explore(scenario, lines_of=HERE, limit=150, random=100).count > 150


def test_a_deadlock_is_seen_at_once() -> None:
    """Two locks in two orders: it says who waits where, and from where."""

    def scenario() -> Iterator[Players]:
        one, two = threading.Lock(), threading.Lock()

        def ahead() -> None:
            with one, two:
                pass

        def back() -> None:
            with two, one:
                pass

        yield [ahead, back]

    began = time.monotonic()
    text = str(fault_in(scenario, lines_of=HERE))
    assert time.monotonic() - began < 20
    assert "deadlock, nobody can go on:\n  ahead waits at" in text
    assert "with one, two:" in text


def test_threads_events_and_joins() -> None:
    """Threads that players start take part, and the check comes behind them; one that waits for good is left over."""
    started: list[Any] = []

    def scenario() -> Iterator[Players]:
        told, never, done = threading.Event(), threading.Event(), []

        def work() -> None:
            told.set()
            done.append("work")

        def starts() -> None:
            thread = threading.Thread(target=work, name="worker")
            started.append(thread)
            thread.start()
            assert told.wait()
            thread.join()
            assert not thread.is_alive()
            assert done == ["work"]
            threading.Thread(target=never.wait).start()
            threading.Thread(target=lambda: done.append("late")).start()
            with pytest.raises(RuntimeError, match="started once"):
                thread.start()

        yield [starts]
        assert done == ["work", "late"]

    assert explore(scenario, lines_of=HERE, limit=200, random=50).count > 100
    assert started[0].name == "worker"
    for thread in threading.enumerate():
        if thread.name == "explored":
            thread.join(10)
            assert not thread.is_alive()


def test_time_passes_when_it_has_to() -> None:
    """An hour's sleep less a second takes no time, and who waits for less goes on first."""

    def scenario() -> Iterator[Players]:
        row: list[str] = []

        def sleeps(seconds: float) -> Callable[[], None]:
            def sleep() -> None:
                began = time.monotonic()
                time.sleep(seconds)
                row.append(f"{time.monotonic() - began:.0f}")

            return sleep

        yield [sleeps(3599), sleeps(60)]
        assert sorted(row, key=int) == row == ["60", "3599"]

    began = time.monotonic()
    explore(scenario, lines_of=HERE, limit=50, random=0, preemptions=0)
    assert time.monotonic() - began < 20


def test_a_timeout_may_come_early() -> None:
    """Whoever relies on being fast enough is found out; a wait of an hour has no end."""

    def scenario(timeout: float) -> Iterator[Players]:
        told = threading.Event()
        yield [lambda: told.wait(timeout) or pytest.fail("it was too late"), told.set]

    assert "it was too late" in str(fault_in(lambda: scenario(5), lines_of=HERE))
    assert explore(lambda: scenario(3600), lines_of=HERE, limit=50, random=50).count > 1


def test_steps_without_end() -> None:
    """A thread that spins is a fault; it says where it is."""

    def scenario() -> Iterator[Players]:
        stopped: list[bool] = []

        def spins() -> None:
            while not stopped:
                time.monotonic()

        yield [spins, lambda: None]

    assert "no end after 500 steps; the last is spins at" in str(fault_in(scenario, lines_of=HERE, max_steps=500))


def test_a_wait_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that was made elsewhere is no lock of the scheduler: that is told instead of waited for."""
    monkeypatch.setattr(_scheduler, "PATIENCE", 0.2)
    real = threading.Lock()

    def scenario() -> Iterator[Players]:
        def waits() -> None:
            with real:
                pass

        yield [waits]

    with (
        real,
        pytest.raises(InterleavingError, match=r"waits waits for something that is not explored, at .* with real:"),
    ):
        explore(scenario, lines_of=HERE)


def test_whatever_gives_a_coroutine_is_an_async_player() -> None:
    """A function, a partial, a lambda, an object: none of them ends without having been carried out."""
    done: list[str] = []

    async def note(what: str) -> None:
        await asyncio.sleep(0)
        done.append(what)

    class Noting:
        async def __call__(self) -> None:
            await note("object")

    def scenario() -> Iterator[Players]:
        done.clear()
        yield [partial(note, "partial"), lambda: note("lambda"), Noting()]
        assert sorted(done) == ["lambda", "object", "partial"]

    explore(scenario, random=5, limit=5)


def test_what_does_not_end_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A player that lets nothing through is told of when the interleaving is over."""
    monkeypatch.setattr(_scheduler, "PATIENCE", 0.2)
    held = threading.Lock()

    def scenario() -> Iterator[Players]:
        def stays() -> None:
            try:
                threading.Event().wait()
            finally:
                held.acquire()

        yield [stays]

    with held, pytest.raises(InterleavingError, match=r"stays does not end when all is over, at .* held.acquire"):
        explore(scenario, lines_of=HERE)


def test_what_is_given_up_ends_when_it_can_and_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread stays behind: neither one that turns in a circle, nor one whose lock comes free in the end."""
    monkeypatch.setattr(_scheduler, "PATIENCE", 0.2)
    before = set(threading.enumerate())
    real = threading.Lock()

    def turning() -> Iterator[Players]:
        def turns() -> None:
            for _ in iter(int, 1):
                pass

        yield [turns]

    def waiting() -> Iterator[Players]:
        yield [real.acquire]

    with pytest.raises(InterleavingError, match="turns waits for something that is not explored"):
        explore(turning)
    with real, pytest.raises(InterleavingError, match="acquire waits for something that is not explored"):
        explore(waiting)
    left = set(threading.enumerate()) - before
    assert len(left) <= 2
    for thread in left:
        thread.join(10)
        assert not thread.is_alive()
