"""`explore` and `replay`: many interleavings of one scenario, or a certain one."""

from __future__ import annotations

import gc
import inspect
import itertools
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TypeAlias, cast

from handrail.errors import UsageError
from handrail.testing.interleavings._crew import Crew
from handrail.testing.interleavings._lines import Lines
from handrail.testing.interleavings._loop import run_on_loop
from handrail.testing.interleavings._scheduler import Fault, Scheduler
from handrail.testing.interleavings._search import (
    Choices,
    Schedule,
    at_random,
    read_schedule,
    shorter,
    within,
    written,
)
from handrail.testing.interleavings._stand_ins import StandIns
from handrail.testing.interleavings._story import Story

__all__ = ["Explored", "InterleavingError", "explore", "replay"]

Player: TypeAlias = Callable[[], object]
Scenario: TypeAlias = Callable[[], Generator[Iterable[Player] | Player, None, object]]

_MEETING_PLACES = ("handrail.run", "handrail.client._turns")
"""Where the threads of this package meet."""

_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class Explored:
    """How many different interleavings were carried out, none of which failed.

    `at_random` were found at random, from `seed`; `systematic` are further ones with `preemptions` at most, and
    `exhausted` says that there are no others of these.
    """

    at_random: int
    systematic: int
    preemptions: int
    exhausted: bool
    seed: int

    @property
    def count(self) -> int:
        """All of them."""
        return self.systematic + self.at_random

    def __str__(self) -> str:
        extent = "all" if self.exhausted else "not all"
        return (
            f"{self.count} interleavings explored: {self.at_random} at random (seed {self.seed}), "
            f"{self.systematic} more with up to {self.preemptions} preemptions ({extent} there are)"
        )


class InterleavingError(AssertionError):
    """An interleaving in which the scenario fails.

    `schedule` is what `replay` takes to carry out the same one again, `tried` the number of those before it. The text
    says what went wrong and who did what until then; an exception of a player or of the checks is the cause.
    """

    def __init__(self, what: str, schedule: str, tried: int, story: str) -> None:
        super().__init__(f"{what}\n\n{story}\n\n{tried} interleavings before it; again: replay(scenario, {schedule!r})")
        self.schedule = schedule
        self.tried = tried


def explore(
    scenario: Scenario,
    *,
    preemptions: int = 2,
    limit: int = 1_000,
    random: int = 500,
    seed: int = 0,
    lines_of: Sequence[str] = (),
    max_steps: int = 20_000,
) -> Explored:
    """Carry out a scenario in many interleavings of its threads and tasks; raise at the first that fails.

        def scenario():
            driver = RunDriver()
            seen = []
            yield (
                lambda: driver.finish(None, outcome="completed"),
                lambda: seen.append(driver.run.result.wait()),
            )
            assert seen[0].ok

    `scenario` makes everything afresh, yields once the players, and checks when all have ended and nothing moves any
    more. A player is a function, which gets a thread, or an async function, which gets a thread with an asyncio loop.
    Tasks and threads that players start take part.

    A thread may be left before every line of `handrail.run`, of the queue of a session, and of the modules `lines_of`
    with all that is inside them; and before every lock that they or the rest of this package take. A loop may go on
    with any task that can. In all these modules `threading.Lock`, `RLock`, `Event` and `Thread`, and `time.monotonic`
    and `sleep`, are stand-ins meanwhile. A timeout under an hour may come at any time, and no real time passes. First
    come `random` interleavings, which find most faults soonest; then all with no preemption, with one, and so on up to
    `preemptions`, at most `limit` of them. The same arguments try the same ones.

    Raises `InterleavingError`, an `AssertionError`, where a player or a check raises, nobody can go on, a task's
    exception is not retrieved, there is no end after `max_steps` steps, or a thread waits for something that is none of
    the above. What the scenario raises before it yields comes as it is. Raises `TypeError` for what is no scenario,
    `ValueError` for counts below 0, `UsageError` while another exploration is going on.

    It does not see: threads and locks of other modules, executors, sockets, trio, and orders that only a processor
    makes. `drive` in a player that is no async function runs on a thread for the whole process, and is not explored.
    """
    for name, count in (("preemptions", preemptions), ("limit", limit), ("random", random)):
        if count < 0:
            raise ValueError(f"{name} is a number from 0, not {count}")
    with _exploring(scenario, lines_of, max_steps) as stage:
        stage.rehearse()
        for choices in itertools.islice(at_random(seed), random):
            stage.carry_out(choices)
        found_at_random = stage.count
        exhausted = True
        for tried, choices in enumerate(within(preemptions)):
            if tried == limit:
                exhausted = False
                break
            stage.carry_out(choices)
            exhausted = exhausted and choices.fits
        return Explored(found_at_random, stage.count - found_at_random, preemptions, exhausted, seed)


def replay(scenario: Scenario, schedule: str, *, lines_of: Sequence[str] = (), max_steps: int = 20_000) -> None:
    """Carry out one interleaving: that of an `InterleavingError`, with the same `lines_of`.

    Raises the error again if it still fails, and else returns. Raises `ValueError` for a text that is no schedule, and
    `UsageError` for one that is of another scenario.
    """
    deviations = read_schedule(schedule)
    with _exploring(scenario, lines_of, max_steps) as stage:
        stage.rehearse()
        choices = Choices(deviations)
        stage.carry_out(choices)
        if tuple(choices.taken) != deviations:
            raise UsageError(f"this scenario has no interleaving {schedule!r}; it did not do the same thing again")


@contextmanager
def _exploring(scenario: Scenario, lines_of: Sequence[str], max_steps: int) -> Generator[_Stage]:
    if isinstance(lines_of, str):
        raise TypeError(f"lines_of is a list of names of modules, not {lines_of!r}")
    for name in (*_MEETING_PLACES, *lines_of):
        if name != "__main__":
            import_module(name)
    if not _one_at_a_time.acquire(blocking=False):
        raise UsageError("one exploration at a time: another is going on in this process")
    collects = gc.isenabled()
    gc.disable()  # what it finds, and when, would depend on what was explored before
    crew = Crew()
    try:
        yield _Stage(scenario, crew, (*_MEETING_PLACES, *lines_of), max_steps)
    finally:
        crew.dismiss()
        if collects:
            gc.enable()
        _one_at_a_time.release()


class _Stage:
    """Where a scenario is carried out, again and again; `count` is how many interleavings it was, each counted once."""

    def __init__(self, scenario: Scenario, crew: Crew, lines_of: Sequence[str], max_steps: int) -> None:
        self._scenario = scenario
        self._lines_of = lines_of
        self._max_steps = max_steps
        self._crew = crew
        self._lines = Lines(lines_of)
        self._stand_ins = StandIns(lines_of)
        self._seen: set[Schedule] = set()
        self._tried = 0

    @property
    def count(self) -> int:
        return len(self._seen)

    def rehearse(self) -> None:
        """Once on the beaten track, uncounted: what is done only the first time, such as an import, is behind us."""
        fault = self._perform(Choices())
        if fault is not None and fault.is_stuck:
            self._report(fault, ())
        self._stand_ins = StandIns(self._lines_of)

    def carry_out(self, choices: Choices) -> None:
        """Carry it out; raises `InterleavingError` if it fails."""
        fault = self._perform(choices)
        if fault is not None:
            if fault.in_setup and fault.cause is not None:
                raise fault.cause
            self._report(fault, tuple(choices.taken))
        self._seen.add(tuple(choices.taken))

    def _report(self, fault: Fault, schedule: Schedule) -> None:
        story = Story()
        if fault.is_stuck:
            raise InterleavingError(fault.what, written(schedule), self.count, "to be seen in a debugger")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # what fails leaves things open, and here it fails often
            schedule = shorter(schedule, lambda choices: self._perform(choices) is not None)
            fault = self._perform(Choices(schedule), story) or fault
        raise InterleavingError(fault.what, written(schedule), self.count, str(story)) from fault.cause

    def _perform(self, choices: Choices, story: Story | None = None) -> Fault | None:
        scheduler = Scheduler(choices, self._crew, self._lines, self._max_steps, story)
        self._lines.point = scheduler.point
        try:
            with self._stand_ins.of(scheduler):
                return scheduler.perform(lambda: self._direct(scheduler))
        finally:
            gc.collect(0)

    def _direct(self, scheduler: Scheduler) -> None:
        acts = self._scenario()
        if not inspect.isgenerator(acts):
            raise TypeError(f"a scenario is a generator function that yields its players, not {self._scenario!r}")
        given: object = next(cast("Iterator[object]", acts), ())
        for player in _players(given):
            name = getattr(player, "__name__", type(player).__name__)
            scheduler.start(partial(_play, scheduler, player), name, is_staged=True)
        scheduler.block(lambda: scheduler.at_rest)
        if next(acts, acts) is not acts:
            raise TypeError("a scenario yields once: its players, all together")


def _play(scheduler: Scheduler, player: Player) -> None:
    """Call a player; what gives a coroutine is async, whether it is a function, a partial, a lambda or an object."""
    given = player()
    if inspect.iscoroutine(given):
        run_on_loop(scheduler, given)


def _players(given: object) -> Iterator[Player]:
    players = tuple(cast("Iterable[object]", given)) if isinstance(given, Iterable) else (given,)
    if not players:
        raise TypeError("a scenario yields its players, and this one yields none")
    for player in players:
        if not callable(player):
            raise TypeError(f"a scenario yields functions, not {player!r}")
        yield player
