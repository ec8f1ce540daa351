"""Work that a driver starts beside itself, looks at, and can give up without waiting for it.

A driver that awaited a stream or a tool itself could only stop as fast as they do. So each lives in a task of its own
in the driver's task group, and the driver waits for news. Giving a child up is cancelling it, once, and hearing no more
of it: what it still returns or raises is dropped. The group is left when all children have really stopped, which may be
long after the run has its result.

A cancellation error that reaches a child although nobody cancelled it was raised by user code, and is how it failed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from anyio.abc import TaskGroup

from handrail.run._loops import cancelled_class, is_cancelled_from_outside, own_cancellation
from handrail.run._threads import Ended

__all__ = ["Child"]

T = TypeVar("T")

_logger = logging.getLogger("handrail.run")


class Child(Generic[T]):
    """A task of a group: `ended` is how it ended, None until then; `on_end` is called when that is known."""

    __slots__ = ("_cancel", "_name", "_on_end", "_work", "ended", "is_given_up")

    def __init__(
        self, tasks: TaskGroup, work: Callable[[], Awaitable[T]], *, name: str, on_end: Callable[[], object]
    ) -> None:
        self._work = work
        self._name = name
        self._on_end = on_end
        self._cancel: Callable[[], object] | None = None
        self.ended: Ended[T] | None = None
        self.is_given_up = False
        tasks.start_soon(self._live, name=name)

    def give_up(self) -> None:
        """Cancel it and hear no more of it; nothing if it has ended. To be called on its own loop; never waits."""
        if self.ended is None and not self.is_given_up:
            self.is_given_up = True
            if self._cancel is not None:
                self._cancel()

    async def _live(self) -> None:
        if self.is_given_up:
            return
        with own_cancellation() as self._cancel:
            ended = await self._outcome()
            self._cancel = None
            if not self.is_given_up:
                self.ended = ended
                self._on_end()
            elif ended.error is not None:
                _logger.debug("%s: an error after it was given up", self._name, exc_info=ended.error)

    async def _outcome(self) -> Ended[T]:
        try:
            return Ended(await self._work(), None)
        except cancelled_class() as error:
            if self.is_given_up or is_cancelled_from_outside():
                raise
            return Ended(None, error)
        except Exception as error:
            return Ended(None, error)
