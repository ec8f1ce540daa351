"""Which interleavings are tried, and in which order. Pure: it knows numbers, and neither threads nor tasks.

One interleaving is a row of choices. Each offers some options; the first is the *beaten track*, where whoever runs goes
on, and of these the first `free` cost nothing: somebody has to go on when the one that ran has to wait. Every other
option takes the turn away from one that could have gone on, and costs one preemption.

A *schedule* says where an interleaving leaves the beaten track, `index.option` for each such choice. The rest follows,
because what is explored does the same thing when it is chosen the same way. So a schedule is short, and one that was
found at random can be played again and made shorter as well as any other.

*Within a number of preemptions* means every schedule there is with so many at most, those with fewer first, each once:
the last deviation of a schedule is taken away to find the one it came from. Most faults need one or two.

*At random*, each choice leaves the beaten track with a chance that is drawn anew for every interleaving, so that some
switch now and then and others all the time.
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple, TypeAlias

__all__ = ["Choices", "Schedule", "at_random", "read_schedule", "shorter", "within", "written"]

Schedule: TypeAlias = tuple[tuple[int, int], ...]

_RATES = (0.02, 0.05, 0.1, 0.3)


class Asked(NamedTuple):
    """A choice: between so many options, of which the first so many are free."""

    options: int
    free: int


class Choices:
    """The choices of one interleaving: as the schedule says, and on the beaten track, or astray, where it says nothing.

    `asked` is what was offered, `taken` the schedule that came of it. `fits` is False when the schedule asked for an
    option that was not there: the scenario did not do the same thing again.
    """

    __slots__ = ("_given", "_stray", "asked", "fits", "taken")

    def __init__(self, schedule: Schedule = (), stray: Callable[[int], int] | None = None) -> None:
        self._given = dict(schedule)
        self._stray = stray
        self.asked: list[Asked] = []
        self.taken: list[tuple[int, int]] = []
        self.fits = True

    def choose(self, options: int, free: int) -> int:
        """The number of the option to take."""
        index = len(self.asked)
        self.asked.append(Asked(options, free))
        option = self._given.get(index)
        if option is None:
            option = 0 if self._stray is None else self._stray(options)
        elif option >= options:
            self.fits = False
            option = 0
        if option:
            self.taken.append((index, option))
        return option

    def branches(self, *, costly: bool) -> Iterator[Choices]:
        """The schedules that leave this one's track once more, behind its last deviation: for nothing, or at a cost."""
        first = self.taken[-1][0] + 1 if self.taken else 0
        for index in range(first, len(self.asked)):
            options, free = self.asked[index]
            for option in range(free, options) if costly else range(1, free):
                yield Choices((*self.taken, (index, option)))


def within(preemptions: int) -> Iterator[Choices]:
    """Every interleaving with so many preemptions at most, those with fewer first. Each is to be run when it comes."""
    fresh: Iterable[Choices] = [Choices()]
    for _ in range(preemptions + 1):
        run: list[Choices] = []
        waiting = deque([iter(fresh)])
        while waiting:
            for choices in waiting.popleft():
                yield choices
                if choices.fits:
                    run.append(choices)
                    waiting.append(choices.branches(costly=False))
        fresh = chain.from_iterable(choices.branches(costly=True) for choices in run)


def at_random(seed: int) -> Iterator[Choices]:
    """Interleavings at random, without end; the same ones for the same seed."""
    number = 0
    while True:
        yield _astray(random.Random(f"{seed}/{number}"))
        number += 1


def _astray(chance: random.Random) -> Choices:
    rate = chance.choice(_RATES)
    return Choices(stray=lambda options: chance.randrange(options) if chance.random() < rate else 0)


def shorter(schedule: Schedule, fails: Callable[[Choices], bool]) -> Schedule:
    """A schedule that still fails: cut off as early as possible, and then without what can be left out, one by one."""

    def try_instead(deviations: Schedule) -> bool:
        nonlocal schedule
        choices = Choices(deviations)
        is_better = fails(choices) and len(choices.taken) < len(schedule)
        if is_better:
            schedule = tuple(choices.taken)
        return is_better

    any(try_instead(schedule[:length]) for length in range(len(schedule)))
    before = None
    while schedule != before:
        before = schedule
        for deviation in reversed(before):
            if deviation in schedule:
                try_instead(tuple(kept for kept in schedule if kept != deviation))
    return schedule


def written(schedule: Schedule) -> str:
    """A schedule as text, for `read_schedule`."""
    return " ".join(f"{index}.{option}" for index, option in schedule)


def read_schedule(text: str) -> Schedule:
    """A schedule from its text. Raises `ValueError` for any other."""
    if not re.fullmatch(r"\s*(\d+\.\d+\s*)*", text):
        raise ValueError(f"a schedule is written as in '12.1 40.2', not {text!r}")
    return tuple((int(index), int(option)) for index, option in re.findall(r"(\d+)\.(\d+)", text))
