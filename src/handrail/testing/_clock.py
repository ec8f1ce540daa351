"""Time that stands still until a test moves it."""

from __future__ import annotations

import itertools
from bisect import insort
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import anyio.lowlevel

from handrail.run import Settled
from handrail.run._settled import settle

__all__ = ["FakeClock"]


class _Sleeper(NamedTuple):
    until: float
    number: int
    woken: Settled[None]


class FakeClock:
    """A clock for `Loop(clock=...)`: `now`, `monotonic` and `sleep` stand still until `advance`.

    It never advances by itself. `advance(seconds)` wakes whoever's time has come, the earliest first, one after the
    other: each runs on before the next is woken, on trio too. `sleeping` is how many are left. `start` is the aware
    time it shows at first. Safe to advance from any thread.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        if start.tzinfo is None:
            raise ValueError("start needs a time zone: datetime(2026, 1, 1, tzinfo=UTC)")
        self._start = start
        self._elapsed = 0.0
        self._numbers = itertools.count()
        self._sleepers: list[_Sleeper] = []

    def now(self) -> datetime:
        """The time of day, aware."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self._elapsed

    @property
    def sleeping(self) -> int:
        """How many sleep and have not been woken."""
        return sum(sleeper.until > self._elapsed for sleeper in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Sleep until the clock was advanced by so much; not at all if there is nothing to wait for."""
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        sleeper = _Sleeper(self._elapsed + seconds, next(self._numbers), Settled())
        insort(self._sleepers, sleeper)
        try:
            await sleeper.woken
        finally:
            self._sleepers.remove(sleeper)
            self._wake_first()

    def advance(self, seconds: float) -> None:
        """Let so much time pass; returns at once, the sleepers run when their tasks do."""
        if not seconds >= 0:  # nor does it become a number that is none
            raise ValueError(f"time does not go back: advance({seconds})")
        self._elapsed += seconds
        self._wake_first()

    def _wake_first(self) -> None:
        """Wake the earliest whose time has come; leaving `sleep`, it wakes the next one."""
        if self._sleepers and self._sleepers[0].until <= self._elapsed:
            settle(self._sleepers[0].woken, None)

    def __repr__(self) -> str:
        return f"<FakeClock {self.now().isoformat()}, {self.sleeping} sleeping>"
