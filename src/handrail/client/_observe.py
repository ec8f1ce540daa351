"""Who watches a session: transcripts as they are published, events as they were folded, warnings.

Callbacks run in the task of the exchange, one after the other, so theirs is its time; one that raises loses its own
call. A reader of `changes()` has its own pace: it gets the latest there is, and delays nobody.
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from ag_ui.core import Event

from handrail.agui._copies import copied
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.run._loops import cancelled_class
from handrail.run._waiters import Waiters
from handrail.transcript import Transcript

__all__ = ["Changes", "Observers", "Warnings"]

T = TypeVar("T")

_logger = logging.getLogger("handrail")

_KEPT = 1_000


class Warnings:
    """The warnings of a session: the last 1,000 are kept, each is told once, to `sink` or the log."""

    def __init__(self, sink: WarningSink | None) -> None:
        self._sink = sink
        self._kept: deque[WarningRecord] = deque(maxlen=_KEPT)

    @property
    def records(self) -> tuple[WarningRecord, ...]:
        return tuple(self._kept)

    def __call__(self, record: WarningRecord) -> None:
        self._kept.append(record)
        if self._sink is None:
            _logger.warning("%s: %s", record.code, record.message)
            return
        try:
            self._sink(record)
        except Exception:  # a warning changes nothing, nor does the telling of it
            _logger.exception("on_warning raised on %s", record.code)


class Observers:
    """What was published last, and who is told."""

    def __init__(self, current: Transcript, warn: WarningSink) -> None:
        self.current = current
        self.waiters = Waiters()
        self.is_closed = False
        self._warn = warn
        self._of_transcripts: dict[object, Callable[[Transcript], object]] = {}
        self._of_events: dict[object, Callable[[Event], object]] = {}

    def publish(self, transcript: Transcript) -> None:
        """Tell of a transcript, if it is another than the last."""
        if transcript is self.current:
            return
        self.current = transcript
        if self.waiters.wakers:
            self.waiters.wake_all()
        for callback in tuple(self._of_transcripts.values()) if self._of_transcripts else ():
            self._call(callback, transcript)

    def tell(self, event: Event) -> None:
        """Tell of an event that was folded: each callback by a copy, since the history stands on the event."""
        for callback in tuple(self._of_events.values()) if self._of_events else ():
            self._call(callback, copied(event))

    def subscribe(self, callback: Callable[[Transcript], object]) -> Callable[[], None]:
        return _subscribed(self._of_transcripts, callback, "subscribe")

    def subscribe_events(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        return _subscribed(self._of_events, callback, "subscribe_events")

    def changes(self) -> Changes:
        """The current transcript, then the latest whenever there is another."""
        return Changes(self)

    def close(self) -> None:
        """Readers of changes get what they have not seen yet, and then end."""
        self.is_closed = True
        self.waiters.wake_all()

    def _call(self, callback: Callable[[T], object], value: T) -> None:
        try:
            callback(value)
        except (Exception, cancelled_class()) as error:  # it cannot wait: a cancellation in it is its own
            words = (
                f"the callback {getattr(callback, '__qualname__', callback)!r} raised {type(error).__name__}: {error}"
            )
            _logger.debug("%s", words, exc_info=error)
            self._warn(WarningRecord("callback-raised", words))


def _subscribed(
    callbacks: dict[object, Callable[[T], object]], callback: Callable[[T], object], method: str
) -> Callable[[], None]:
    """Enter a callback under a place of its own; gives what takes it out again. Raises `TypeError` for an async one."""
    if not callable(callback):
        raise TypeError(f"{method}() takes a function, not {type(callback).__name__}")
    call: Any = getattr(callback, "__call__", None)  # noqa: B004  # an object with an async __call__ counts too
    if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(call):
        raise TypeError(f"{method}() calls plain functions; in a task use `async for transcript in session.changes()`")
    place = object()
    callbacks[place] = callback

    def end() -> None:
        callbacks.pop(place, None)

    return end


class Changes(AsyncIterator[Transcript]):
    """A reader of a session's transcripts, at its own pace; `aclose` ends it, and nothing else has to."""

    __slots__ = ("_is_closed", "_observers", "_seen")

    def __init__(self, observers: Observers) -> None:
        self._observers = observers
        self._seen: Any = None
        self._is_closed = False

    async def aclose(self) -> None:
        """Read no further, also where a task waits for the next; any number of times."""
        self._is_closed = True
        self._observers.waiters.wake_all()

    async def __anext__(self) -> Transcript:
        observers = self._observers
        await observers.waiters.until(
            lambda: observers.current is not self._seen or observers.is_closed or self._is_closed
        )
        current = observers.current  # once: another thread may publish between two looks
        if self._is_closed or current is self._seen:
            raise StopAsyncIteration
        self._seen = current
        return current
