"""The log of a run: one order, many readers.

Events are appended to one list and stay there; the place of an event is its number. Only the run appends, inside its
critical section. Readers take no lock: an index below the length of a list that only grows is always good, so a reader
is an index and nothing else, and reading costs the same at the first event as at the last. Everybody may start at the
first event whenever they come, and nobody can hold up anybody.

`end` is where the log ends. It is stored *before* the terminal event is appended: a reader that stands before `end`
waits for the event that is about to come, and one that stands at `end` is through. It could not be told apart the other
way round.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from handrail.errors import UsageError
from handrail.run._loops import checkpoint, say_library
from handrail.run._settled import Place
from handrail.run._waiters import Waiters

__all__ = ["EventStream", "Log"]

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)

_logger = logging.getLogger("handrail.run")

_FAIRNESS = 0x7F
"""A reader that finds its next event ready does not suspend, except at every 128th, to let other tasks run."""


class Log(Generic[E]):
    """The events of one run, in order."""

    __slots__ = ("end", "items", "waiters")

    def __init__(self) -> None:
        self.items: list[E] = []
        self.end: int | None = None
        self.waiters = Waiters()

    def has_more(self, index: int) -> bool:
        """Whether there is something to tell a reader at `index`: an event, or the end."""
        return len(self.items) > index or self.is_over(index)

    def __aiter__(self) -> AsyncIterator[E]:
        return _AsyncReader(self, 0)

    def is_over(self, index: int) -> bool:
        end = self.end
        return end is not None and index >= end


class _AsyncReader(Generic[E]):
    __slots__ = ("_log", "_next", "_shown")

    def __init__(self, log: Log[E], start: int, shown: Callable[[E], E] | None = None) -> None:
        self._log = log
        self._next = start
        self._shown = shown

    def __aiter__(self) -> AsyncIterator[E]:
        return self

    async def __anext__(self) -> E:
        index = self._next
        log = self._log
        items = log.items
        if index < len(items):
            if index & _FAIRNESS == _FAIRNESS:
                await checkpoint()
        else:
            if log.end is None or index < log.end:
                await log.waiters.until(lambda: index < len(items) or (log.end is not None and index >= log.end))
            if log.end is not None and index >= log.end:
                raise StopAsyncIteration
        self._next = index + 1
        event = items[index]
        return event if self._shown is None else self._shown(event)


class _BlockingReader(Generic[E]):
    __slots__ = ("_log", "_next", "_place", "_shown", "_stopped")

    def __init__(self, log: Log[E], start: int, place: Place, shown: Callable[[E], E] | None) -> None:
        self._log = log
        self._next = start
        self._place = place
        self._shown = shown
        self._stopped = False

    def __iter__(self) -> Iterator[E]:
        return self

    def __next__(self) -> E:
        index = self._next
        log = self._log
        if index >= len(log.items):
            if not log.is_over(index):
                if self._place.is_here():
                    raise UsageError(
                        "a `for` loop here would block the event loop that drives this run, for ever; "
                        "use `async for` instead"
                    )
                log.waiters.block_until(lambda: self._stopped or log.has_more(index))
            if self._stopped or log.is_over(index):
                raise StopIteration
        self._next = index + 1
        event = log.items[index]
        return event if self._shown is None else self._shown(event)

    def stop(self) -> None:
        self._stopped = True
        self._log.waiters.wake_all()


class _Subscription(Generic[E]):
    """Delivers a run to a plain function, on a thread of its own, so that a function that blocks delays only itself."""

    __slots__ = ("_callback", "_ended", "_reader")

    def __init__(self, reader: _BlockingReader[E], callback: Callable[[E], object]) -> None:
        self._reader = reader
        self._callback = callback
        self._ended = False

    def deliver(self) -> None:
        callback = self._callback
        for event in self._reader:
            try:
                if self._ended:
                    return
                callback(event)
            except (
                BaseException
            ):  # whatever a callback raises costs it this one event; nothing else runs on this thread
                _logger.exception("a subscriber raised; it loses this event and gets the next")

    def end(self) -> None:
        self._ended = True
        self._reader.stop()


class EventStream(Generic[E_co]):
    """The events of a run, to be read by anybody, any number of times.

    `for` and `async for` each start a new reader, and every reader gets the whole run from its first event, whenever it
    comes; it ends after the last one, whatever the outcome, and never raises for a reason of the run. Leaving early
    stops only the watching (R-43 to R-46). The price is memory: a run keeps its events as long as the `Run` or a
    reader lives (R-52).
    """

    __slots__ = ("_log", "_place", "_shown", "_start")

    def __init__(
        self, log: Log[E_co], place: Place, start: int = 0, *, shown: Callable[[Any], E_co] | None = None
    ) -> None:
        self._log = log
        self._place = place
        self._start = start
        self._shown = shown  # what each reader is given of an event, where that is not the event itself

    def __aiter__(self) -> AsyncIterator[E_co]:
        return _AsyncReader(self._log, self._start, self._shown)

    def __iter__(self) -> Iterator[E_co]:
        """Read in a thread. Where it would block the loop that drives the run it raises `UsageError` instead."""
        return _BlockingReader(self._log, self._start, self._place, self._shown)

    def after(self, seq: int) -> EventStream[E_co]:
        """The events behind number `seq`, for a reader that has seen it; -1 is everything.

        Raises `ValueError` for a number below -1.
        """
        if seq < -1:
            raise ValueError(f"after({seq}): events are numbered from 0; after(-1) is everything")
        return EventStream(self._log, self._place, seq + 1, shown=self._shown)

    def so_far(self) -> tuple[E_co, ...]:
        """What has been accepted until now, without waiting."""
        events = self._log.items[self._start :]
        return tuple(events if self._shown is None else map(self._shown, events))

    def subscribe(self, callback: Callable[[E_co], object]) -> Callable[[], None]:
        """Have a plain function called with every event, in order, one call at a time, on a thread of its own.

        Returns the function that ends the subscription: call it any number of times, also from inside the callback;
        no new call begins after it returned. A callback has the context variables of whoever subscribed it; one that
        raises loses that one event, and the exception is logged to `handrail.run`. Raises `TypeError` for a coroutine
        function: use `async for` there (R-48 to R-50).
        """
        if not callable(callback):
            raise TypeError(f"subscribe() takes a function, not {type(callback).__name__}")
        call: Any = getattr(callback, "__call__", None)  # noqa: B004  # an object with an async __call__ counts too
        if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(call):
            raise TypeError("subscribe() calls plain functions; in a task use `async for event in run.events`")
        reader = _BlockingReader(self._log, self._start, self._place, self._shown)
        subscription = _Subscription(reader, callback)
        context = contextvars.copy_context()
        say_library(context, None)
        deliver = partial(context.run, subscription.deliver)
        threading.Thread(target=deliver, name="handrail subscriber", daemon=True).start()
        return subscription.end

    def __repr__(self) -> str:
        return f"<EventStream, {len(self._log.items)} events{', over' if self._log.end is not None else ''}>"
