"""What waiting needs of trio; the counterpart of `_loops`, whose rules it keeps.

Trio is looked up in `sys.modules` and never imported: where it was not imported nobody runs it, and where it cannot be,
or is just being imported by another thread, it counts as not imported.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

import anyio

from handrail.errors import leaves_of

__all__ = ["GroupChildren", "TrioHome", "TrioWaker", "in_trio_run", "in_trio_task", "trio_cancelled"]


class TrioWaker:
    """Wakes the task that made it."""

    __slots__ = ("_done", "_task", "_token")

    def __init__(self) -> None:
        lowlevel = _lowlevel()
        self._token = lowlevel.current_trio_token()
        self._task = lowlevel.current_task()
        self._done = False

    async def wait(self, timeout: float | None = None) -> None:
        lowlevel = _lowlevel()

        def abort(_: object) -> object:
            self._done = True
            return lowlevel.Abort.SUCCEEDED

        with anyio.move_on_after(timeout):
            await lowlevel.wait_task_rescheduled(abort)

    def wake(self) -> None:
        lowlevel = _lowlevel()
        # A signal handler may have interrupted the waiting task on its way to sleep: it cannot be rescheduled yet.
        if (
            lowlevel.in_trio_task()
            and lowlevel.current_trio_token() is self._token
            and lowlevel.current_task() is not self._task
        ):
            self._set()
        else:
            _call(self._token, self._set)

    def _set(self) -> None:
        if not self._done:
            self._done = True
            _lowlevel().reschedule(self._task)


class TrioHome:
    """The trio loop of the calling thread."""

    __slots__ = ("_token",)
    name = "trio"

    def __init__(self) -> None:
        self._token = _lowlevel().current_trio_token()

    def is_here(self) -> bool:
        lowlevel = _lowlevel()
        return lowlevel.in_trio_run() and lowlevel.current_trio_token() is self._token

    def call(self, fn: Callable[[], object]) -> None:
        _call(self._token, fn)


_inner: ContextVar[anyio.CancelScope] = ContextVar("handrail_child_scope")
"""The scope just round the work of a child: it shields clean-up, which may leave any that was entered later."""


class GroupChildren:
    """Tasks of the task that made them, in a task group."""

    __slots__ = ("_group",)

    def __init__(self) -> None:
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._group.__aexit__(kind, error, traceback)

    def start(self, work: Callable[[], Awaitable[None]], name: str, unstarted: object = None) -> Callable[[], object]:
        scope = anyio.CancelScope()

        async def live() -> None:
            with scope, anyio.CancelScope() as inner:
                _inner.set(inner)
                await work()

        self._group.start_soon(live, name=name)
        return scope.cancel

    async def clean_up(self, seconds: float, work: Callable[[], Awaitable[object]]) -> None:
        scope = _inner.get()
        scope.shield = True
        scope.deadline = anyio.current_time() + seconds
        try:
            await work()
        except BaseException as error:  # the end of the time is no failure; whatever else came out goes on
            if not scope.cancel_called or any(not isinstance(leaf, trio_cancelled()) for leaf in leaves_of(error)):
                raise


def _call(token: Any, fn: Callable[[], object]) -> None:
    try:
        token.run_sync_soon(fn)
    except sys.modules["trio"].RunFinishedError:  # nobody is left there
        return


def _lowlevel() -> Any:
    """trio's lower level, or None."""
    return getattr(sys.modules.get("trio"), "lowlevel", None)


def in_trio_run() -> bool:
    lowlevel = None if "trio" not in sys.modules else _lowlevel()
    return lowlevel is not None and lowlevel.in_trio_run()


def in_trio_task() -> bool:
    lowlevel = None if "trio" not in sys.modules else _lowlevel()
    return lowlevel is not None and lowlevel.in_trio_task()


def trio_cancelled() -> type[BaseException]:
    return sys.modules["trio"].Cancelled
