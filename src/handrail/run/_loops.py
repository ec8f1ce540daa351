"""Event loops: the one place that knows asyncio by name.

Everything else of the package waits through here. Three things are needed that no common library offers: to wake a
task from any thread *without waiting* for it, to do so from a signal handler that interrupted the very loop it wakes,
and to know which loop a thread is running.

*Waking.* A `Waker` is made by the task that is about to wait, and `wake()` may then be called once by anybody. If the
caller is a task of the same loop it schedules directly, which costs no system call. Everybody else (other threads,
signal handlers, finalisers, plain callbacks) goes through the loop's thread-safe door, because a signal handler may
have interrupted the loop inside its selector, where scheduling alone would not wake it. A loop that was closed
meanwhile has nobody left to wake: that is no error.

*Leaving.* A task that stops waiting (cancelled, timed out) makes its waker deaf; a `wake()` that is already under way
finds it so and does nothing.

*Trio* has the same things in `_trio`. It is asked first, so that a trio loop run as a guest of asyncio counts as trio
inside its tasks.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import sys
import types
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import anyio
import anyio.lowlevel

from handrail.run._closing import kept_on
from handrail.run._trio import GroupChildren, TrioHome, TrioWaker, in_trio_run, in_trio_task, trio_cancelled

__all__ = [
    "AsyncWaker",
    "Children",
    "Home",
    "Waker",
    "cancelled_class",
    "cancelled_classes",
    "checkpoint",
    "children",
    "closed_with_loop",
    "current_home",
    "is_cancelled_from_outside",
    "new_waker",
    "run_forever",
    "say_library",
    "start_line",
    "start_task",
]

T = TypeVar("T")


class Waker(Protocol):
    """Wakes one waiting task or thread, once."""

    def wake(self) -> None: ...


class AsyncWaker(Waker, Protocol):
    """A waker whose maker is a task."""

    def wait(self, timeout: float | None = None) -> Awaitable[None]:
        """Wait to be woken, but no longer than `timeout` seconds; to be awaited at once, and once."""
        ...


class Home(Protocol):
    """An event loop in one thread; `name` is the library that runs it."""

    name: str

    def is_here(self) -> bool:
        """Whether the calling thread is running this loop right now."""
        ...

    def call(self, fn: Callable[[], object]) -> None:
        """Have `fn` called on the loop soon, from any thread or signal handler; nothing once the loop is closed."""
        ...


class _AsyncioWaker:
    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] = loop.create_future()

    def wait(self, timeout: float | None = None) -> Awaitable[None]:
        return self._future if timeout is None else self._wait_until(timeout)

    async def _wait_until(self, timeout: float) -> None:
        alarm = self._loop.call_later(timeout, self._set)
        try:
            await self._future
        finally:
            alarm.cancel()

    def wake(self) -> None:
        loop = self._loop
        if asyncio._get_running_loop() is loop and asyncio.current_task(loop) is not None:
            self._set()
            return
        try:
            loop.call_soon_threadsafe(self._set)
        except RuntimeError:  # closed: whoever waited there is gone
            return

    def _set(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


class _AsyncioHome:
    """Knows its loop weakly: a handle that is kept must not keep the loop of a run that was never ended."""

    __slots__ = ("_loop",)
    name = "asyncio"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)

    def loop(self) -> asyncio.AbstractEventLoop | None:
        return self._loop()

    def is_here(self) -> bool:
        loop = asyncio._get_running_loop()
        return loop is not None and self._loop() is loop

    def call(self, fn: Callable[[], object]) -> None:
        loop = self._loop()
        if loop is None:
            return
        try:
            if asyncio._get_running_loop() is loop and asyncio.current_task(loop) is not None:
                loop.call_soon(fn)
            else:
                loop.call_soon_threadsafe(fn)
        except RuntimeError:  # closed: nobody is left there
            return


def current_home() -> Home | None:
    """The event loop that the calling thread is running, or None."""
    if in_trio_run() and (in_trio_task() or asyncio._get_running_loop() is None):
        return TrioHome()
    loop = asyncio._get_running_loop()
    return None if loop is None else _AsyncioHome(loop)


def new_waker() -> AsyncWaker:
    """A waker for the calling task."""
    if in_trio_task():
        return TrioWaker()
    return _AsyncioWaker(asyncio.get_running_loop())


@types.coroutine
def start_line() -> Generator[None, None, None]:
    """Where a coroutine waits that is advanced by hand before a task gets it: from there on it sees every end.

    In a task of asyncio this bare `yield` is one turn of the loop.
    """
    yield


def checkpoint() -> Awaitable[None]:
    """Let other tasks run, and a pending cancellation be delivered; to be awaited at once."""
    # Under asyncio anyio does the same, eleven calls further down.
    return anyio.lowlevel.checkpoint() if "trio" in sys.modules and in_trio_task() else start_line()


def cancelled_class() -> type[BaseException]:
    """What a cancellation looks like here; also known where no loop is running any more."""
    return trio_cancelled() if in_trio_run() else asyncio.CancelledError


def cancelled_classes() -> tuple[type[BaseException], ...]:
    """What code may raise that means one: that of this loop, and asyncio's, which anybody can raise anywhere."""
    return asyncio.CancelledError, cancelled_class()


def is_cancelled_from_outside() -> bool:
    """Whether somebody really cancelled the current task or a scope round it.

    A cancellation error that is in flight while this is False was raised by user code and cancels nobody (R-92).
    """
    if anyio.current_effective_deadline() == -math.inf:
        return True
    loop = asyncio._get_running_loop()
    task = None if loop is None else asyncio.current_task(loop)
    return task is not None and task.cancelling() > 0


Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
Hear: TypeAlias = Callable[[BaseException], object]
CleanUp: TypeAlias = Callable[[], Awaitable[object]]


class Children(Protocol):
    """Tasks of the task that made them. Leaving waits for all; leaving by an exception cancels them first.

    A child lets no exception through. Each library keeps its own manner of cancelling: under asyncio it is delivered
    once, so that clean-up which awaits can run, and code that swallows it goes on; under trio every wait is cancelled.
    """

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None: ...

    def start(self, work: Work, name: str, unstarted: Hear | None = None) -> Callable[[], object]:
        """Start a child, which takes its first step later; gives what cancels it, to be called on this loop.

        A child that is cancelled before its first step does not take it; `unstarted` is told instead.
        """
        ...

    async def clean_up(self, seconds: float, work: CleanUp) -> None:
        """For a child: await `work`, not cut short by the cancellation that led to it, but no longer than `seconds`.

        `work` may leave any scope that the child has entered.
        """
        ...


@functools.cache
def _load_anyio() -> None:
    """Have anyio import what it needs under asyncio: 25 ms, which the first cancel of a process would else take."""
    anyio.current_effective_deadline()


class _AsyncioChildren:
    """A task group of `anyio` does more than is needed here, and costs as much as all the rest of a short run."""

    __slots__ = ("_kept", "_loop", "_tasks", "_waker")

    def __init__(self) -> None:
        _load_anyio()
        self._loop = asyncio.get_running_loop()
        self._kept = kept_on(self._loop)
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._waker: _AsyncioWaker | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, GeneratorExit):  # the loop was closed: nothing here can run any more
            return
        if error is not None:
            self._cancel_all()
        cancelled: asyncio.CancelledError | None = None
        while self._tasks:
            self._waker = _AsyncioWaker(self._loop)
            try:
                # Who is cancelled again while he waits passes it on; anyio's scopes would do nothing else all the time.
                with anyio.CancelScope(shield=True) if error or cancelled else contextlib.nullcontext():
                    await self._waker.wait()
            except asyncio.CancelledError as again:
                cancelled = again
                self._cancel_all()
        if cancelled is not None and error is None:
            raise cancelled

    def _cancel_all(self) -> None:
        for key in tuple(self._tasks):
            self._cancel(key)

    def _cancel(self, key: object) -> None:
        task = self._tasks.get(key)
        if task is not None and not self._loop.is_closed():
            task.cancel()

    def start(self, work: Work, name: str, unstarted: Hear | None = None) -> Callable[[], object]:
        # At its start line already, so that a cancellation before its first step, too, ends it where it can tell.
        key = object()
        coro = self._live(work, key, unstarted)
        coro.send(None)
        # Not `create_task`: an eager task factory would run the first step at once.
        task = self._tasks[key] = asyncio.Task(coro, loop=self._loop, name=name)
        task._log_destroy_pending = False  # pyright: ignore  # when its loop is closed early, its coroutine is closed
        self._kept[task] = coro
        return functools.partial(self._cancel, key)

    async def clean_up(self, seconds: float, work: CleanUp) -> None:
        # A scope of anyio round `work` would stand inside those that it is to leave. None is needed: a cancellation is
        # delivered once, and has been.
        timer = asyncio.timeout(seconds)
        try:
            async with timer:
                await work()
        except TimeoutError:
            if not timer.expired():
                raise

    async def _live(self, work: Work, key: object, unstarted: Hear | None) -> None:
        try:
            try:
                await start_line()
            except asyncio.CancelledError as error:
                if unstarted is not None:
                    unstarted(error)
            else:
                await work()
        except asyncio.CancelledError:
            return
        finally:
            self._kept.pop(self._tasks.pop(key, None), None)
            if self._waker is not None and not self._tasks:
                self._waker.wake()


def children() -> Children:
    """For the calling task."""
    return GroupChildren() if in_trio_run() else _AsyncioChildren()


def say_library(context: Context, library: str | None) -> None:
    """Correct what a context that was copied from a task says of the event loop: it is about to run elsewhere."""
    variable: Any = getattr(sys.modules.get("sniffio"), "current_async_library_cvar", None)
    if variable is not None:
        context.run(variable.set, library)


def start_task(home: Home, coro: Coroutine[Any, Any, None], context: Context, name: str) -> None:
    """Run `coro` as a task of an asyncio home, from any thread.

    The task is held strongly until it ends, and if its loop is closed before that, the coroutine is closed.
    """
    loop = home.loop() if isinstance(home, _AsyncioHome) else None
    assert loop is not None, "only asyncio homes take tasks"
    say_library(context, "asyncio")

    def start() -> None:
        # Not `create_task`: an eager task factory would run the first step before the caller has the handle.
        task = asyncio.Task(coro, loop=loop, name=name, context=context)
        task._log_destroy_pending = False  # pyright: ignore  # when its loop is closed early, its coroutine is closed
        kept = kept_on(loop)
        kept[task] = coro
        task.add_done_callback(functools.partial(_let_go, kept))

    if home.is_here():
        start()
    else:
        home.call(start)


def _let_go(kept: dict[object, Any], task: asyncio.Task[None]) -> None:
    """Whatever a host task ends with has been recorded in its run; asyncio need not report it again."""
    kept.pop(task, None)
    if not task.cancelled():
        task.exception()


async def closed_with_loop(coro: Coroutine[Any, Any, T]) -> T:
    """Await `coro`; if the caller's event loop is closed meanwhile, it is closed where it waits, so that it clears up.

    Trio leaves no task behind, and needs none of it.
    """
    home = current_home()
    loop = home.loop() if isinstance(home, _AsyncioHome) else None
    if loop is None:
        return await coro
    kept = kept_on(loop)
    kept[coro] = coro
    try:
        return await coro
    finally:
        kept.pop(coro, None)


def run_forever(started: Callable[[Home], object], failed: Callable[[BaseException], object]) -> None:
    """Run a new asyncio loop in this thread for good; `failed` is told what a task let through (R-87)."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    started(_AsyncioHome(loop))
    while True:
        try:
            loop.run_forever()
        except BaseException as error:
            failed(error)
