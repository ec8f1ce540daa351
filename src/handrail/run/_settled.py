"""A value that is set once and waited for by anybody.

`Settled` is the reader's side only: there is no public way to set one. The two functions below are the writer's side.
`put` stores the value and `wake` tells those who wait; they are apart because a run stores its values inside its
critical section, where nothing of an event loop may be touched, and wakes outside. `settle` is both.

Only one thing at a time may put (a run puts inside its critical section). Waiting needs no lock at all: see `_waiters`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from handrail.errors import NotSettled, UsageError
from handrail.run._loops import Home, checkpoint
from handrail.run._waiters import Waiters

__all__ = ["Place", "Settled", "put", "settle", "wake", "when_set"]

T = TypeVar("T")

_UNSET: Any = object()


class Place:
    """Where a run is driven; known when it is hosted, and asked before a thread blocks."""

    __slots__ = ("home",)

    def __init__(self, home: Home | None = None) -> None:
        self.home = home

    def is_here(self) -> bool:
        return self.home is not None and self.home.is_here()


class Settled(Generic[T]):
    """A value that is set once: await it from any event loop, or wait for it in any thread.

    Guarantees: the first value stands; everybody gets the same object; any number of tasks in any number of asyncio and
    trio loops, and any number of threads, may wait at once; cancelling one of them, or its timeout, touches neither the
    value nor the others, and leaves nothing behind (R-10 to R-17).
    """

    __slots__ = ("__weakref__", "_place", "_value", "_waiters")

    def __init__(self, place: Place | None = None, waiters: Waiters | None = None) -> None:
        self._value: T = _UNSET
        self._waiters = waiters or Waiters()  # those of one run share them: who is woken for another's sake looks again
        self._place = place

    @property
    def is_set(self) -> bool:
        """Whether there is a value; goes from False to True and never back."""
        return self._value is not _UNSET

    @property
    def value(self) -> T:
        """The value. Raises `NotSettled` while there is none."""
        value = self._value
        if value is _UNSET:
            raise NotSettled("this value is not set yet; await it, or call wait() in a thread")
        return value

    def __await__(self) -> Generator[Any, Any, T]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> T:
        if self._value is _UNSET:
            await self._waiters.until(self._is_set)
        else:
            await checkpoint()
        return self._value

    def _is_set(self) -> bool:
        return self._value is not _UNSET

    def wait(self, timeout: float | None = None) -> T:
        """Block the calling thread until the value is set, and return it.

        `timeout` is in seconds; 0 only looks. Raises `TimeoutError` when it has passed, and `UsageError` at once where
        blocking would stop the very event loop that has to set the value. KeyboardInterrupt comes through and leaves
        the value alone.
        """
        if self._value is _UNSET:
            if self._place is not None and self._place.is_here():
                raise UsageError(
                    "wait() here would block the event loop that has to set this value, for ever; use `await` instead"
                )
            if not self._waiters.block_until(self._is_set, timeout):
                raise TimeoutError(f"not settled within {timeout} s")
        return self._value

    def __repr__(self) -> str:
        value = self._value
        return "<Settled, not set>" if value is _UNSET else f"<Settled {value!r}>"


def put(settled: Settled[T], value: T) -> bool:
    """Store the value if there is none; True if this call did. Nobody is woken."""
    if settled._value is not _UNSET:  # pyright: ignore[reportPrivateUsage]
        return False
    settled._value = value  # pyright: ignore[reportPrivateUsage]
    return True


def wake(settled: Settled[Any]) -> None:
    """Wake all who wait; safe from any thread, signal handler or finaliser."""
    waiters = settled._waiters  # pyright: ignore[reportPrivateUsage]
    if waiters.wakers:
        waiters.wake_all()


def settle(settled: Settled[T], value: T) -> bool:
    """`put` and `wake`; True the first time."""
    first = put(settled, value)
    wake(settled)
    return first


def when_set(settled: Settled[Any], fn: Callable[[], object]) -> None:
    """Call `fn` once the value is set: now if it is, else on whatever thread sets it. `fn` is not to raise or wait."""
    waker = _Call(settled, fn)
    wakers = settled._waiters.wakers  # pyright: ignore[reportPrivateUsage]
    wakers[waker] = True
    if settled.is_set and wakers.pop(waker, False):
        fn()


class _Call:
    """A waiter that is no task and no thread."""

    __slots__ = ("_fn", "_settled")

    def __init__(self, settled: Settled[Any], fn: Callable[[], object]) -> None:
        self._settled = settled
        self._fn = fn

    def wake(self) -> None:
        if self._settled.is_set:
            self._fn()
        else:
            when_set(self._settled, self._fn)
