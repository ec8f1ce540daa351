"""A call on a thread without an event loop: the same exchange, on the loop that runs of such threads share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from handrail.errors import UsageError
from handrail.run import Ended, Run, RunDriver, Settled, drive
from handrail.run._loops import current_home
from handrail.run._settled import settle

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
    ended: Settled[Ended[T]] = Settled()
    runs: list[Run[Any]] = []
    is_interrupted = False

    async def body(driver: RunDriver[Any]) -> None:
        runs.append(driver.run)
        if is_interrupted:
            driver.run.cancel()
        try:
            outcome: Ended[T] = Ended(await call(), None)
        except BaseException as error:  # it is for the thread that waits
            outcome = Ended(None, error)
        settle(ended, outcome)
        driver.finish(None, outcome="completed")

    try:
        drive(body)
        return ended.wait().unwrap()
    except BaseException:
        is_interrupted = True  # an interrupt may come at any point, also before the run is known here
        for run in runs:
            run.cancel()
        with suppress(TimeoutError):
            ended.wait(_GRACE)
        raise
