"""Work that a driver starts beside itself, looks at, and can give up without waiting for it.

A driver that awaited a stream or a tool itself could only stop as fast as they do. So each lives in a task of its own,
and the driver waits for news. Giving a child up is cancelling it and hearing no more of it: what it still returns or
raises is dropped. The driver's `Children` are left when all have really stopped, which may be long after the run has
its result.

Any other end is how it ended, whatever was raised: also a GeneratorExit, and a cancellation that neither the driver nor
a scope round it sent. Under asyncio anybody who sees a task can cancel it, and a tool can cancel its own; a driver that
was not told of such an end would wait for good. A child of a loop that was closed tells nobody anything: its driver
has gone the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from handrail.run._loops import Children
from handrail.run._raised import is_cancellation, is_child_cancelled_with_host
from handrail.run._threads import Ended

__all__ = ["Child"]

T = TypeVar("T")

_logger = logging.getLogger("handrail.run")


class Child(Generic[T]):
    """A piece of work in a task: `ended` is how it ended, None until then; `on_end(ended)` is called
    when that is known.

    An exception that is no `Exception` is how it ended, too: it is for the driver to let it through to its host. The
    work is done in `section`, which is the driver's `work(name)`.
    """

    __slots__ = ("_cancel", "_name", "_on_end", "_section", "_work", "ended", "is_given_up")

    def __init__(
        self,
        children: Children,
        work: Callable[[], Awaitable[T]],
        *,
        name: str,
        section: AbstractContextManager[object],
        on_end: Callable[[Ended[T]], object],
    ) -> None:
        # Both mostly lead back to whoever made this child. They are kept no longer than they are needed, so that a run
        # that is over is freed at once and not by the garbage collector.
        self._work: Callable[[], Awaitable[T]] | None = work
        self._on_end: Callable[[Ended[T]], object] | None = on_end
        self._name = name
        self._section = section
        self.ended: Ended[T] | None = None
        self.is_given_up = False
        self._cancel = children.start(self._live, name, self._end_with)

    def give_up(self) -> None:
        """Cancel it and hear no more of it; nothing if it has ended. To be called on its own loop; never waits."""
        if self.ended is None and not self.is_given_up:
            self.is_given_up = True
            self._on_end = None
            self._cancel()

    def take_error(self) -> BaseException | None:
        """What a child that has ended raised, if anything; told once, and kept here no longer."""
        ended = self.ended
        if ended is not None:
            self.ended = Ended(None, None)
        return ended and ended.error

    async def _live(self) -> None:
        work, self._work = self._work, None
        if self.is_given_up or work is None:
            return
        try:
            with self._section:
                ended: Ended[T] = Ended(await work(), None)
        except BaseException as error:
            if is_cancellation(error) and (self.is_given_up or is_child_cancelled_with_host()):
                raise
            self._end_with(error)
        else:
            self._end(ended)

    def _end_with(self, error: BaseException) -> None:
        self._end(Ended(None, error))

    def _end(self, ended: Ended[T]) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            self.ended = ended
            on_end(ended)
        elif ended.error is not None:
            _logger.debug("%s: an error after it was given up", self._name, exc_info=ended.error)
