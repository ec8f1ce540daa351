"""What belongs to one event loop and ends with it: an HTTP client with its connections.

Each is made at its first use in a loop and entered by a generator, which is then suspended. asyncio and trio both close
what is suspended when they end, so a program that never calls `aclose()` leaves no connection behind, and an object
that was used in one loop works in the next.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import RunVar

__all__ = ["PerLoop"]

T = TypeVar("T")


class _Held(Generic[T]):
    """The value of one loop; entered under the lock, by whoever comes first."""

    def __init__(self, made: AbstractAsyncContextManager[T]) -> None:
        self.lock = anyio.Lock()
        self.entered = _until_closed(made)


class PerLoop(Generic[T]):
    """`make()`'s context manager, entered once in each event loop and left when the loop ends, or in `aclose()`."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._make = make
        self._held: RunVar[_Held[T] | None] = RunVar("handrail per loop", None)

    async def get(self) -> T:
        """The value for the running loop."""
        held = self._held.get()
        if held is None:
            held = _Held(self._make())
            self._held.set(held)
        try:
            async with held.lock:
                return await held.entered.asend(None)
        except Exception:
            self._held.set(None)
            raise

    async def aclose(self) -> None:
        """Leave the running loop's, if it has one; `get` then makes another."""
        held = self._held.get()
        self._held.set(None)
        if held is not None:
            await held.entered.aclose()


async def _until_closed(made: AbstractAsyncContextManager[T]) -> AsyncGenerator[T, None]:
    async with made as value:
        while True:
            yield value
