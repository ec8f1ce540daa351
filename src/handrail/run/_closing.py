"""What is left on an event loop that is closed (R-100).

Nothing runs on a closed loop any more, and nobody is told: a task that was not cancelled before stays where it waits,
for good, with all that it holds. So what must not be lost that way is kept here while it waits, and closed when its
loop is: GeneratorExit is raised where it stands, and its clean-up runs, on no loop at all and in the order in which
things were entered. Clean-up that waits is cut short at each of its waits.

A loop tells nobody that it closes, but it drops its timers. What is kept hangs on a timer that never comes, and so it
goes when the loop does. Collecting the loop would be too late: scopes inside a task may keep it alive for good.
"""

from __future__ import annotations

import inspect
import logging
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

__all__ = ["kept_on"]

_logger = logging.getLogger("handrail.run")

_NEVER = 1e9
"""Seconds; some thirty years."""
_MOST_WAITS = 100
"""How often what clears up may wait before it is left where it is."""

Waiting = Coroutine[Any, Any, Any]


class Loop(Protocol):
    """What is needed of an event loop."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object: ...
    def is_closed(self) -> bool: ...


_kept: weakref.WeakKeyDictionary[Loop, dict[object, Waiting]] = weakref.WeakKeyDictionary()


def kept_on(loop: Loop) -> dict[object, Waiting]:
    """What waits on `loop`, by a key that lives as long; whoever enters something takes it out when it is over."""
    kept = _kept.get(loop)
    if kept is None:
        kept = _kept[loop] = {}
        _Closing(loop, kept)
    return kept


class _Closing:
    def __init__(self, loop: Loop, kept: dict[object, Waiting]) -> None:
        self._loop = weakref.ref(loop)
        self._kept = kept
        loop.call_later(_NEVER, self._never)

    def _never(self) -> None: ...

    def __del__(self) -> None:
        loop = self._loop()
        if loop is None or loop.is_closed():
            for key, coro in tuple(self._kept.items()):
                _close(coro)
                self._kept.pop(key, None)


def _close(coro: Waiting) -> None:
    for _ in range(_MOST_WAITS):
        try:
            coro.close()
        except BaseException:  # of clean-up without a loop; the others have to be closed, too
            _logger.debug("%s could not clear up on a closed event loop", coro.__qualname__, exc_info=True)
        if inspect.getcoroutinestate(coro) != inspect.CORO_SUSPENDED:
            return
