"""The explorer: what it can choose between, what it calls a fault, and that it does the same thing again."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.effort import effort
from tests.testing.exploring import fault_in

from handrail import UsageError
from handrail.run import Settled, _core
from handrail.run._settled import settle
from handrail.testing import InterleavingError, explore, replay
from handrail.testing.interleavings import _scheduler
from handrail.testing.interleavings._search import Choices, at_random, read_schedule, shorter, within, written

HERE = [__name__]

Players = list[Callable[[], object]]


# -- which interleavings -----------------------------------------------------------------------------------------------


def carried_out(choices: Choices, *lengths: int) -> tuple[str, int]:
    """Processes of so many steps each, as a row of their letters, and how often one was left that could go on."""
    left = dict(zip("abcd", lengths, strict=False))
    row, running, preemptions = "", "", 0
    while any(left.values()):
        able = sorted((name for name in left if left[name]), key=lambda name: name != running)
        free = 1 if running in able else len(able)
        option = choices.choose(len(able), free) if len(able) > 1 else 0
        preemptions += option >= free
        running = able[option]
        left[running] -= 1
        row += running
    return row, preemptions


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2))
@effort(30)
def test_all_interleavings_come_once_each(a: int, b: int, c: int) -> None:
    """With preemptions enough these are all the orders there are, and none of them comes twice."""
    rows = [carried_out(choices, a, b, c)[0] for choices in within(a + b + c)]
    count = math.factorial(a + b + c) // (math.factorial(a) * math.factorial(b) * math.factorial(c))
    assert len(rows) == len(set(rows)) == count


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 3))
@effort(30)
def test_few_preemptions_come_first(a: int, b: int, limit: int) -> None:
    """All with so many at most, in the order of how many they have, and no others."""
    tried = [carried_out(choices, a, b) for choices in within(limit)]
    everything = [carried_out(choices, a, b) for choices in within(a + b)]
    assert [count for _, count in tried] == sorted(count for _, count in tried)
    assert set(tried) == {(row, count) for row, count in everything if count <= limit}


@given(st.integers(0, 5), st.integers(0, 30))
@effort(30)
def test_what_was_taken_is_taken_again(seed: int, number: int) -> None:
    """An interleaving at random has a schedule, and that is the same interleaving; the seed gives it again."""
    first, second = at_random(seed), at_random(seed)
    for _ in range(number):
        next(first), next(second)
    choices = next(first)
    row = carried_out(choices, 4, 4, 4)
    again = Choices(read_schedule(written(tuple(choices.taken))))
    assert carried_out(again, 4, 4, 4) == row == carried_out(next(second), 4, 4, 4)
    assert again.fits
    assert again.taken == choices.taken


def test_a_schedule_is_made_shorter() -> None:
    """What does not matter is left out; what is left fails."""

    def fails(choices: Choices) -> bool:
        return carried_out(choices, 4, 4)[0].startswith("aab")

    choices = next(choices for choices in at_random(0) if fails(choices))
    assert len(shorter(tuple(choices.taken), fails)) == 1


def test_a_schedule_of_something_else_does_not_fit() -> None:
    """An option that is not offered is not taken."""
    choices = Choices(((0, 7),))
    assert carried_out(choices, 1, 1) == ("ab", 0)
    assert not choices.fits


@pytest.mark.parametrize("text", ["1", "1.2.3", "a.b", "1,2"])
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(ValueError, match="a schedule is written as"):
        replay(lost_update, text)


# -- threads -----------------------------------------------------------------------------------------------------------


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


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_tasks_go_on_in_any_order() -> None:
    """What is between two awaits happens at once, and nothing else does."""

    def scenario() -> Iterator[Players]:
        count = [0]

        async def add() -> None:
            read = count[0]
            await asyncio.sleep(0)
            count[0] = read + 1

        async def main() -> None:
            await asyncio.gather(add(), add())

        yield [main]
        assert count == [2]

    assert "awaits at" in str(fault_in(scenario))


def test_tasks_that_start_late_are_in_any_order() -> None:
    """Every order of three tasks that wait for nothing comes up."""
    orders: set[str] = set()

    def scenario() -> Iterator[Players]:
        order: list[str] = []

        async def say(name: str) -> None:
            order.append(name)

        async def main() -> None:
            await asyncio.gather(*(say(name) for name in "abc"))

        yield [main]
        orders.add("".join(order))

    assert explore(scenario, random=0).exhausted
    assert orders == {"abc", "acb", "bac", "bca", "cab", "cba"}


def test_callbacks_keep_their_order() -> None:
    """asyncio promises it; and a call from another thread stands in the same line."""

    def scenario() -> Iterator[Players]:
        row: list[int] = []
        ready: Settled[Any] = Settled()

        async def main() -> None:
            loop = asyncio.get_running_loop()
            done = loop.create_future()
            for number in range(3):
                loop.call_soon(row.append, number)
            settle(ready, (loop, done))
            await done

        def calls() -> None:
            loop, done = ready.wait()
            loop.call_soon_threadsafe(row.append, 3)
            loop.call_soon_threadsafe(done.set_result, None)

        yield [main, calls]
        assert row == [0, 1, 2, 3]

    assert explore(scenario, limit=150, random=50).count > 100


def test_a_task_that_waits_for_good_is_a_deadlock() -> None:
    """It says what the tasks of a loop wait for."""

    def scenario() -> Iterator[Players]:
        async def main() -> None:
            await Settled()

        yield [main]

    assert "main: task main awaits at" in str(fault_in(scenario))


def test_tasks_that_are_left_are_cancelled() -> None:
    """As `asyncio.run` does."""

    def scenario() -> Iterator[Players]:
        cancelled: list[bool] = []

        async def waits() -> None:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                cancelled.append(True)
                raise

        async def main() -> None:
            main.task = asyncio.create_task(waits())  # type: ignore[attr-defined]
            await asyncio.sleep(0)

        yield [main]
        assert cancelled == [True]

    explore(scenario, preemptions=0, random=0)


def test_an_exception_that_nobody_retrieves() -> None:
    """What a loop would only log is a fault."""

    def scenario() -> Iterator[Players]:
        async def fails() -> None:
            raise ValueError("nobody listens")

        async def main() -> None:
            asyncio.create_task(fails())  # noqa: RUF006  # that is the point
            await asyncio.sleep(0)

        yield [main]

    fault = fault_in(scenario)
    assert "Task exception was never retrieved" in str(fault)
    assert isinstance(fault.__cause__, RuntimeError)
    assert isinstance(fault.__cause__.__cause__, ValueError)


# -- the scenario ------------------------------------------------------------------------------------------------------


def test_a_player_that_raises() -> None:
    """Its exception is the cause, whatever it is."""

    def scenario() -> Iterator[Players]:
        def fails() -> None:
            raise KeyboardInterrupt("mine")

        yield [fails]

    fault = fault_in(scenario)
    assert "fails raises KeyboardInterrupt: mine" in str(fault)
    assert isinstance(fault.__cause__, KeyboardInterrupt)


def test_what_is_no_scenario() -> None:
    """It is said before anything is explored."""

    def yields(what: Any) -> Callable[[], Iterator[Any]]:
        def scenario() -> Iterator[Any]:
            yield what

        return scenario

    def twice() -> Iterator[Players]:
        yield [lambda: None]
        yield [lambda: None]

    def breaks() -> Iterator[Players]:
        raise LookupError("in the set-up")
        yield []

    with pytest.raises(TypeError, match="a generator function"):
        explore(lambda: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="yields none"):
        explore(yields([]))
    with pytest.raises(TypeError, match="yields functions, not 3"):
        explore(yields([3]))
    with pytest.raises(InterleavingError, match="yields once"):
        explore(twice)
    with pytest.raises(LookupError, match="in the set-up"):
        explore(breaks)
    with pytest.raises(TypeError, match="lines_of is a list"):
        explore(lost_update, lines_of=__name__)
    with pytest.raises(ValueError, match="limit is a number from 0"):
        explore(lost_update, limit=-1)
    with pytest.raises(UsageError, match=r"no interleaving '0.7'"):
        replay(lost_update, "0.7")
    assert explore(yields(lambda: None)).count == 1


def test_one_at_a_time_and_nothing_stays() -> None:
    """A second exploration is refused; behind one, modules and the collector are as they were."""

    def scenario() -> Iterator[Players]:
        assert _core.threading is not threading
        assert not gc.isenabled()
        yield [lambda: explore(lost_update)]

    assert "UsageError: one exploration at a time" in str(fault_in(scenario))
    assert _core.threading is threading
    assert gc.isenabled()
    assert explore(lost_update).count > 0
