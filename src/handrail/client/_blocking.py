"""A call on a thread without an event loop: the same exchange, on the loop that runs of such threads share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from handrail.errors import UsageError
from handrail.run import Ended, RunDriver, drive
from handrail.run._loops import current_home

__all__ = ["block"]

T = TypeVar("T")

_GRACE = 2.0
"""Seconds that a call which was interrupted from the keyboard waits for its exchange to be recorded."""


def block(name: str, call: Callable[[], Awaitable[T]]) -> T:
    """Run `call()` to its end and return what it returns, or raise what it raises.

    Interrupted, it cancels the call, and lets that be recorded first. Raises `UsageError` where an event loop is
    running.
    """
    if current_home() is not None:
        raise UsageError(f"{name}_sync() would block the event loop of this thread; use `await session.{name}()`")
    ended: list[Ended[T]] = []

    async def body(driver: RunDriver[Any]) -> None:
        try:
            ended.append(Ended(await call(), None))
        except BaseException as error:  # it is for the thread that waits
            ended.append(Ended(None, error))
        driver.finish(None, outcome="completed")

    run = drive(body)
    try:
        run.result.wait()
    except BaseException:
        run.cancel()
        with suppress(TimeoutError):
            run.result.wait(_GRACE)
        raise
    return ended[0].unwrap()
