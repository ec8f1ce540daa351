"""Time as the loop sees it, injectable; and the one way in which the loop waits.

The loop's task never waits for a stream or a tool itself: those live in tasks and threads of their own, which may take
as long as they like to stop. It waits for *news* (something ended, somebody cancelled) or for the clock, whichever
comes first, and then looks at what is true. So a cancel is answered at once whatever is still running.

Real time is waited for by the event loop itself. An injected clock can only be slept on, and may not know real time at
all: there the sleep is the wait, and news cut it short by cancelling the scope round it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import anyio

from handrail.run._loops import Home, current_home
from handrail.run._waiters import Waiters

__all__ = ["Clock", "SystemClock", "wait_for"]


class Clock(Protocol):
    """Where the loop gets its time from."""

    def now(self) -> datetime:
        """The time of day, aware."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float, /) -> None:
        """Wait on this clock; can be cancelled."""
        ...


class SystemClock:
    """The clock of the machine."""

    def __init__(self) -> None:
        # Compiled code, held as it is: both are asked for every token.
        self.now: Callable[[], datetime] = partial(datetime.now, UTC)
        self.monotonic: Callable[[], float] = time.monotonic

    async def sleep(self, seconds: float, /) -> None:
        await anyio.sleep(seconds)


class _Alarm:
    """Wakes a sleeping task by cancelling the scope it sleeps in."""

    __slots__ = ("_home", "_scope")

    def __init__(self, home: Home, scope: anyio.CancelScope) -> None:
        self._home = home
        self._scope = scope

    def wake(self) -> None:
        self._home.call(self._scope.cancel)


def wait_for(news: Waiters, true: Callable[[], bool], clock: Clock, seconds: float | None = None) -> Awaitable[object]:
    """Wait until `true()`, looked at whenever there are `news`, but no longer than `seconds` on the clock."""
    if seconds is None or isinstance(clock, SystemClock):
        return news.until(true, seconds)
    return _sleep_until(news, true, clock, seconds)


async def _sleep_until(news: Waiters, true: Callable[[], bool], clock: Clock, seconds: float) -> None:
    home = current_home()
    assert home is not None
    until = clock.monotonic() + seconds
    while not true() and (left := until - clock.monotonic()) > 0:
        with anyio.CancelScope() as scope:
            alarm = _Alarm(home, scope)
            wakers = news.wakers
            wakers[alarm] = True
            try:
                if not true():
                    await clock.sleep(left)
            finally:
                wakers.pop(alarm, False)
