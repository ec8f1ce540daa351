"""What a run promises holds in every interleaving of its threads and tasks, and a broken promise is found.

Each scenario drives one run from several sides at once, mostly with somebody who looks on, and then asks all that can
be asked of a run that is over. The second half plants bugs, one for each promise, and has them found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import anyio
import pytest
from tests.run._kit import Cancelled, Completed, Said, check_order
from tests.testing.exploring import Explorer, Players, Scenario, explored, found

from handrail import Run, RunDriver, drive
from handrail.run import Outcome, Settled
from handrail.run._core import Core, Section
from handrail.run._lifecycle import TABLE, Do
from handrail.run._loops import new_waker
from handrail.run._settled import put, settle
from handrail.run._waiters import Waiters, _ThreadWaker
from handrail.testing import explore

__all__ = ["explored"]


# -- what is asked of every run ----------------------------------------------------------------------------------------


def look_at(run: Run[Any]) -> None:
    """What must be true at any moment: of two facts the later one is read first, and implies the earlier."""
    if run.drained.is_set:
        assert run.is_done, "R-70: drained before the result"
        assert run.open_work == (), "R-70: drained with work open"
    if any(event.ends for event in run.events.so_far()):
        assert run.is_done, "R-24: the terminal event can be read before the result"
    if run.status in ("completed", "failed", "cancelled"):
        assert run.is_done, "R-3: over, and no result"


def check_over(run: Run[Any]) -> None:
    """What must be true when all is over."""
    events = run.events.so_far()
    assert run.drained.is_set
    assert run.open_work == ()
    assert [event.ends for event in events].index(run.status) == len(events) - 1, "R-42: the terminal event is not last"
    check_order(events, run.id)
    assert events[-1].ends == run.result.value.outcome == run.status
    assert list(run.events) == list(events), "R-43: a late reader gets everything"
    waiting = [run.result._waiters, run.cancellation._waiters, run.drained._waiters, run._core.log.waiters]
    assert not any(waiters.wakers for waiters in waiting), "R-13: somebody is still registered"
    before = run.status, run.is_cancelled
    run.cancel()
    assert (run.status, run.is_cancelled) == before, "R-64: a cancel of a run that is over does nothing"
    assert run.events.so_far() == events


class Readers:
    """Readers of one run, of different kinds."""

    def __init__(self, run: Run[Any]) -> None:
        self.run = run
        self.logs: list[list[Any]] = []

    def _reader(self) -> Callable[[Any], None]:
        log: list[Any] = []
        self.logs.append(log)

        def take(event: Any) -> None:
            log.append(event)
            assert self.run.is_done or event.ends is None, "R-24: the terminal event came before the result"

        return take

    def thread(self) -> None:
        take = self._reader()
        for event in self.run.events:
            take(event)

    async def task(self) -> None:
        take = self._reader()
        async for event in self.run.events:
            take(event)

    def subscribe(self) -> None:
        self.run.events.subscribe(self._reader())

    def check(self) -> None:
        whole = list(self.run.events.so_far())
        assert all(log == whole for log in self.logs), f"R-43: {whole} was read as {self.logs}"


# -- the scenarios -----------------------------------------------------------------------------------------------------


def read_from_all_sides() -> Iterator[Players]:
    driver: RunDriver[Said] = RunDriver(run_id="r")
    readers = Readers(driver.run)

    def drives() -> None:
        assert driver.emit(Said("a"))
        assert driver.finish(Completed())

    yield [drives, readers.thread, readers.task, readers.subscribe]
    readers.check()
    assert len(readers.logs) == 3
    check_over(driver.run)


def read_twice() -> Iterator[Players]:
    driver: RunDriver[Said] = RunDriver(run_id="r")
    readers = Readers(driver.run)

    def drives() -> None:
        driver.emit(Said("a"))
        driver.finish(Completed())

    yield [readers.thread, readers.task, drives]
    readers.check()


def look_on() -> Iterator[Players]:
    driver: RunDriver[Said] = RunDriver(run_id="r")
    run = driver.run

    def drives() -> None:
        with driver.work("tool"):
            driver.emit(Said("a"))
            driver.finish(Completed())

    yield [drives, lambda: look_at(run), lambda: look_at(run)]
    check_over(run)


def emit_against_finish() -> Iterator[Players]:
    driver: RunDriver[Said] = RunDriver(run_id="r")
    answers: list[bool] = []

    def emits() -> None:
        answers.append(driver.emit(Said("a")))
        answers.append(driver.emit(Said("b")))

    yield [emits, emits, lambda: driver.finish(Completed())]
    assert len(driver.run.events.so_far()) == answers.count(True) + 1, "R-41: accepted is published, and nothing else"
    check_over(driver.run)


def end_twice() -> Iterator[Players]:
    driver: RunDriver[Said] = RunDriver(run_id="r")
    won: list[bool] = []

    def finish(terminal: Said) -> Callable[[], None]:
        return lambda: won.append(driver.finish(terminal))

    yield [finish(Completed()), finish(Cancelled()), lambda: look_at(driver.run)]
    assert sorted(won) == [False, True], "R-1: a run ends once"
    check_over(driver.run)


def cancel_against_finish() -> Iterator[Players]:
    hooked: list[bool] = []
    driver: RunDriver[Said] = RunDriver(run_id="r", on_cancel=lambda: hooked.append(driver.run.is_cancelled))
    run = driver.run

    yield [run.cancel, run.cancel, lambda: driver.finish(Completed())]
    assert hooked == [True] * run.is_cancelled, "R-60, R-62: the hook is called once, if it was cancelled in time"
    check_over(run)


def work_against_finish() -> Iterator[Players]:
    driver: RunDriver[Said] = RunDriver(run_id="r")
    run = driver.run

    def works() -> None:
        with driver.work("tool") as is_open:
            assert not (is_open and run.drained.is_set), "R-70: drained while work was open"

    def watches() -> None:
        run.drained.wait()
        look_at(run)

    yield [works, works, lambda: driver.finish(Completed()), watches]
    check_over(run)


def wait_and_leave() -> Iterator[Players]:
    settled: Settled[str] = Settled()
    got: list[str] = []

    def leaves() -> None:
        with suppress(TimeoutError):
            got.append(settled.wait(1))

    def stays() -> None:
        got.append(settled.wait())

    async def is_cancelled() -> None:
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                got.append(await settled)

            group.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    yield [leaves, stays, is_cancelled, lambda: settle(settled, "x")]
    assert set(got) == {"x"}
    assert not settled._waiters.wakers, "R-13: somebody is still registered"


def wait_on_two_loops() -> Iterator[Players]:
    driver: RunDriver[Said] = RunDriver(run_id="r")
    got: list[Outcome] = []

    async def awaits() -> None:
        got.append(await driver.run.result)
        await driver.run.drained

    yield [awaits, awaits, lambda: driver.finish(Completed())]
    assert got == [driver.run.result.value] * 2
    check_over(driver.run)


def unsubscribe() -> Iterator[Players]:
    driver: RunDriver[Said] = RunDriver(run_id="r")
    calls: list[str] = []

    def drives() -> None:
        driver.emit(Said("a"))
        driver.finish(Completed("z"))

    def watches() -> None:
        end = driver.run.events.subscribe(lambda event: calls.append(event.text))
        end()
        calls.append("ended")

    yield [drives, watches]
    behind = calls[calls.index("ended") + 1 :]
    assert len(behind) <= 1, f"R-48: more than the call that was under way came behind the end: {calls}"
    assert [text for text in calls if text != "ended"] in ([], ["a"], ["a", "z"])
    check_over(driver.run)


def cancel_a_driven_run() -> Iterator[Players]:
    runs: list[Run[Said]] = []
    made: Settled[Run[Said]] = Settled()

    async def body(driver: RunDriver[Said]) -> None:
        driver.emit(Said("a"))
        await anyio.lowlevel.checkpoint()
        try:
            await driver.run.cancellation
        except anyio.get_cancelled_exc_class():
            driver.finish(Cancelled())
            raise
        driver.finish(Cancelled())

    async def home() -> None:
        run = drive(body, run_id="r")
        runs.append(run)
        settle(made, run)
        await run.drained

    def cancels() -> None:
        made.wait().cancel()

    yield [home, cancels, lambda: look_at(made.wait())]
    assert runs[0].result.value.outcome == "cancelled"
    assert runs[0].drained.is_set


SCENARIOS: dict[str, tuple[Scenario, int]] = {
    "readers": (read_from_all_sides, 80),
    "a look": (look_on, 90),
    "emit and finish": (emit_against_finish, 90),
    "two ends": (end_twice, 90),
    "cancel and finish": (cancel_against_finish, 90),
    "work and finish": (work_against_finish, 90),
    "waiters that leave": (wait_and_leave, 90),
    "two loops": (wait_on_two_loops, 70),
    "unsubscribing": (unsubscribe, 90),
    "a driven run": (cancel_a_driven_run, 70),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_promises_hold(name: str, explored: Explorer) -> None:
    """R-1, R-11 to R-13, R-24, R-41 to R-43, R-48, R-60 to R-65, R-70, R-86: in every interleaving that is tried."""
    scenario, limit = SCENARIOS[name]
    assert explored(scenario, limit=limit, random=50).count > limit


def test_every_interleaving_there_is(explored: Explorer) -> None:
    """R-65: with one switch at most, a cancel against a finish has so many interleavings, and no others."""

    def scenario() -> Iterator[Players]:
        driver: RunDriver[Said] = RunDriver(run_id="r")
        yield [driver.run.cancel, lambda: driver.finish(Completed())]
        check_over(driver.run)

    assert explored(scenario, preemptions=1, random=0).exhausted


# -- planted bugs ------------------------------------------------------------------------------------------------------


def close_too_early(self: Core[Any], terminal: Any, outcome: Outcome) -> bool:
    """`Core._close`, but the terminal event comes before the result."""
    cell = self._row.finish
    if cell.do is Do.CLOSE:
        self.log.end = len(self.log.items) + 1
        self.log.items.append(self._stamp(terminal))
        put(self.result, outcome)
        self.ended = outcome.outcome
        if not self.sections:
            put(self.drained, None)
        self._row = TABLE[cell.then]
    return cell.answer is True


def end_too_early(self: Core[Any], section: Section | None) -> bool:
    """`Core._end`, but the last section counts as ended before it is."""
    is_last = self.ended is not None and len(self.sections) == 1 and put(self.drained, None)
    if section is not None and section in self.sections:
        self.sections.remove(section)
    return is_last


def block_without_a_second_look(self: Waiters, true: Callable[[], bool], timeout: float | None = None) -> bool:
    """`Waiters.block_until`, but what comes true between the look and the registering is missed."""
    while not true():
        waker = _ThreadWaker()
        self.wakers[waker] = True
        waker.wait(3600)
        self.wakers.pop(waker, False)
    return True


async def wait_without_a_second_look(self: Waiters, true: Callable[[], bool], timeout: float | None = None) -> bool:
    """The same in a task."""
    while not true():
        waker = new_waker()
        self.wakers[waker] = True
        await waker.wait()
    return True


def wake_all_at_once(self: Waiters) -> None:
    """`Waiters.wake_all`, but two wakings that meet lose who registered between them."""
    wakers = self.wakers
    for waker in tuple(wakers):
        waker.wake()
    self.wakers = {}


def cancel_twice(self: Core[Any]) -> None:
    """`Core.cancel`, but decided outside the section."""
    if self._row.cancel.do is Do.CALL_OFF:
        self._call_off()
        self._call_hook(self.driver().on_cancel)


def emit_too_late(self: Core[Any], event: Any) -> bool:
    """`Core.emit`, but decided before the section."""
    if self._row.emit.do is not Do.APPEND:
        return False
    with self._lock:
        self.log.items.append(self._stamp(event))
    self.log.waiters.wake_all()
    return True


def finish_twice(self: Core[Any], terminal: Any, outcome: Outcome) -> bool:
    """`Core.finish`, but it does not take the lock."""
    closed = self._close(terminal, outcome)
    self.wake_all()
    return closed


PLANTED: dict[str, tuple[type, str, Any, Scenario, str]] = {
    "the result is set after the terminal event is published": (Core, "_close", close_too_early, look_on, "R-24"),
    "a reader meets the terminal event before the result": (Core, "_close", close_too_early, read_twice, "R-24"),
    "drained is set before the last section ended": (Core, "_end", end_too_early, work_against_finish, "R-70"),
    "a thread's wake-up is lost": (Waiters, "block_until", block_without_a_second_look, read_twice, "deadlock"),
    "a task's wake-up is lost": (Waiters, "until", wait_without_a_second_look, wait_on_two_loops, "deadlock"),
    "who registers during a wake-up is lost": (Waiters, "wake_all", wake_all_at_once, read_twice, "deadlock"),
    "a cancel is recorded twice": (Core, "cancel", cancel_twice, cancel_against_finish, "R-60"),
    "an event comes behind the terminal one": (Core, "emit", emit_too_late, emit_against_finish, "R-42"),
    "a run ends twice": (Core, "finish", finish_twice, end_twice, "R-1"),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """R-1, R-13, R-24, R-42, R-60, R-70: with the bug in place an interleaving fails, and fails again when replayed."""
    cls, name, broken, scenario, told = PLANTED[bug]
    monkeypatch.setattr(cls, name, broken)
    how = found(bug, scenario, told, lines_of=[__name__])
    with capsys.disabled():
        print(f"\n{how}", end="")
    monkeypatch.undo()
    explore(scenario, limit=10, random=10)
