"""A place for runs to live in: `async with RunScope():`.

Runs that are started inside are tasks of the scope's task group, which is what trio asks of every task. The scope is
found through a context variable, so it also covers the tasks that its body starts; it only takes runs that are started
on its own event loop.

Leaving normally waits until every run of the scope is drained: nothing is stopped that nobody asked to stop. Leaving
by an exception or a cancellation first cancels the runs, then the group waits for what is asynchronous in them, and
only blocking threads are left behind (R-94).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from types import TracebackType
from typing import Any

import anyio
from anyio.abc import TaskGroup

from handrail.errors import UsageError
from handrail.run._loops import Home, closed_with_loop, current_home
from handrail.run._raised import is_cancellation
from handrail.run._run import RunDriver

__all__ = ["RunScope", "current_scope"]

_current: ContextVar[RunScope | None] = ContextVar("handrail_run_scope", default=None)

_OWN = (Exception, KeyboardInterrupt, SystemExit)
"""What a body raises itself. A cancellation is the task group's to judge."""


class RunScope:
    """`async with RunScope():` hosts the runs that are started inside; works on asyncio and trio, and trio needs it.

    Leaving waits until every run in it is drained; leaving by an exception or a cancellation cancels them first. A
    scope can be entered again once it was left. Raises `UsageError` when it is entered twice at once.
    """

    def __init__(self) -> None:
        self._group: TaskGroup | None = None
        self._home: Home | None = None
        self._outer: RunScope | None = None
        self._drivers: dict[RunDriver[Any], Callable[[], object]] = {}

    async def __aenter__(self) -> RunScope:
        if self._group is not None:
            raise UsageError("this scope is entered already; make another RunScope()")
        self._home = current_home()
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._outer = _current.get()
        _current.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        assert self._group is not None
        _current.set(self._outer)
        if error is not None and not is_cancellation(error):  # a cancellation reaches them by itself
            for driver in tuple(self._drivers):
                driver.run.cancel()
        try:
            if isinstance(error, _OWN):  # it goes on as it is, not in an exception group
                self._group.cancel_scope.cancel()
                await self._group.__aexit__(None, None, None)
                return None
            return await self._group.__aexit__(kind, error, traceback)
        finally:
            self._group = self._home = None
            while self._drivers:  # tasks that were cancelled before their first step
                _, never_began = self._drivers.popitem()
                never_began()

    def is_open_here(self) -> bool:
        """Whether runs can be started in it by the caller."""
        return self._group is not None and self._home is not None and self._home.is_here()

    def start(
        self, driver: RunDriver[Any], main: Callable[[], Coroutine[Any, Any, None]], never_began: Callable[[], object]
    ) -> None:
        """Host `main`, which drives the run, as a task of the scope; either that or `never_began` is called."""
        assert self._group is not None
        driver.home = self._home
        self._drivers[driver] = never_began
        self._group.start_soon(self._hold, driver, main)

    async def _hold(self, driver: RunDriver[Any], main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await closed_with_loop(main())
        finally:
            self._drivers.pop(driver, None)


def current_scope() -> RunScope | None:
    """The innermost scope that takes runs of the caller, if any."""
    scope = _current.get()
    while scope is not None and not scope.is_open_here():
        scope = scope._outer  # pyright: ignore[reportPrivateUsage]
    return scope
