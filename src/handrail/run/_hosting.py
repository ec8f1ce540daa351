"""Where a driver runs: the table of hosts, and what a host owes to a run.

| called                                            | host                                                  |
|---------------------------------------------------|-------------------------------------------------------|
| inside `async with scope:` on the scope's loop    | the scope's task group                                |
| with an asyncio loop running                      | a task of that loop                                   |
| under trio without a scope                        | refused: trio has no tasks without a nursery          |
| in a thread with no event loop                    | one daemon thread for the process, running asyncio    |

Whatever happens to the host task, the run ends: `_hosted` turns each way out of the driver's main function into a
verdict. Four ways need care.

*A cancellation error* is real if somebody cancelled the task or a scope round it; then the run ends as cancelled and
the cancellation goes on to the host. Otherwise user code raised it, and it is an ordinary failure (R-91, R-92).

*A loop that is closed early* throws nothing into its tasks; their coroutines are closed (`_closing`), which raises
GeneratorExit inside, on no loop at all (R-100). But into a coroutine that never ran, nothing can be thrown:
neither that nor a cancellation before its first step. So `_hosted` is advanced to its start line by hand before a task
gets it, and from there on every end of it comes through its `except` clauses.

*The interpreter's exit* ends runs on the shared thread: they are cancelled and their results waited for, two seconds
in all, and then the process goes. The thread is a daemon, and Python 3.12 starts none at that point (R-101).

*A fork* leaves the shared thread behind in the parent: the child starts its own (R-95).
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import functools
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, NoReturn, TypeVar

import anyio

from handrail.errors import UsageError
from handrail.run._loops import (
    Home,
    current_home,
    is_cancelled_from_outside,
    run_forever,
    start_line,
    start_task,
)
from handrail.run._outcome import Verdict, error_line
from handrail.run._raised import is_cancellation, is_for_host
from handrail.run._run import Run, RunDriver, check_hook
from handrail.run._scope import current_scope
from handrail.run._settled import Settled, settle

__all__ = ["LOOP_CLOSED", "drive", "host", "is_cancelled_from_outside"]

E = TypeVar("E")

LOOP_CLOSED = "the event loop closed before the run ended"
"""What a run failed with whose event loop was closed, or whose coroutine was."""
EXIT_GRACE = 2.0
"""Seconds that live runs of the shared thread have, all together, when the interpreter exits."""

Main = Callable[[], Awaitable[object]]


def drive(
    body: Callable[[RunDriver[E]], Awaitable[object]],
    *,
    run_id: str | None = None,
    on_cancel: Callable[[], object] | None = None,
    verdict: Callable[[E], Verdict | None] | None = None,
) -> Run[E]:
    """Put anything asynchronous behind a `Run`: start `body(driver)` and return its handle at once.

    `body` emits what it has to say and finishes the run. If it does not, the run ends all the same: cancelled if that
    was asked for, failed if it raised or just returned. `run.cancel()` cancels the body where it awaits, behind
    `on_cancel`. `run_id`, `on_cancel` and `verdict` are as in `RunDriver`. Where it runs: see `RunScope` for trio; an
    asyncio task where a loop is running; else a thread of ours. Raises `UsageError` where there is no host (R-85 to
    R-87).
    """
    if not callable(body):
        raise TypeError(f"drive() takes an async function of the driver, not {type(body).__name__}")
    check_hook("on_cancel", on_cancel)  # here, because what the driver gets is a hook of ours
    scopes: list[anyio.CancelScope] = []

    def cancel_body() -> None:
        try:
            if on_cancel is not None:
                on_cancel()
        finally:
            if driver.home is not None and scopes:
                driver.home.call(scopes[0].cancel)

    driver = RunDriver(run_id=run_id, on_cancel=cancel_body, verdict=verdict)

    async def main() -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            if driver.run.is_cancelled:  # asked before there was a scope to cancel
                scope.cancel()
            working: object = body(driver)
            if not isinstance(working, Awaitable):  # pyright: ignore[reportUnnecessaryIsInstance]  # not everybody checks
                raise TypeError(f"drive() takes an async function; this one returned {type(working).__name__}")
            await working

    host(driver, main)
    return driver.run


def host(driver: RunDriver[Any], main: Main) -> None:
    """Start `main`, which drives `driver`'s run, by the table above; returns at once.

    The run has a work section "run" until `main` has ended, and is finished whatever `main` does. Reacting to
    `run.cancel()` is for `main`. Raises `UsageError`, before anything happened, where there is no host.
    """
    scope = current_scope()
    home = current_home()
    if scope is None and home is not None and home.name == "trio":
        _refuse(
            driver, "under trio a run needs a place to live in: use `async with RunScope():`, or `async with loop:`"
        )
    if scope is None and home is None:
        home = _shared_home()
        if home is None:
            _refuse(
                driver, "no thread can be started for this run, as at the exit of the interpreter; start it earlier"
            )
        _live_on_shared.add(driver.run)
    section = driver.work("run")
    section.__enter__()
    if scope is not None:
        scope.start(driver, lambda: _hosted(driver, main, section), lambda: _end(driver, section, "cancelled", None))
    elif home is not None:
        _start(home, driver, main, section)


def _refuse(driver: RunDriver[Any], refusal: str) -> NoReturn:
    driver.finish(None, outcome="failed", error=refusal)  # nobody has seen the run: it is not lost, it never was
    raise UsageError(refusal)


def _start(home: Home, driver: RunDriver[Any], main: Main, section: AbstractContextManager[bool]) -> None:
    driver.home = home
    coro = _hosted(driver, main, section, at_start_line=True)
    coro.send(None)
    start_task(home, coro, contextvars.copy_context(), name=f"handrail run {driver.run.id}")


def _end(driver: RunDriver[Any], section: AbstractContextManager[bool], verdict: Verdict, error: str | None) -> None:
    """The epilogue of every host: finish the run if its driver did not, and end its outermost section (R-77)."""
    driver.finish(None, outcome=verdict, error=error)
    section.__exit__(None, None, None)
    _live_on_shared.discard(driver.run)


async def _hosted(
    driver: RunDriver[Any], main: Main, section: AbstractContextManager[bool], at_start_line: bool = False
) -> None:
    """Run `main` and see to it that the run ends."""
    run = driver.run
    verdict: Verdict = "cancelled"
    error: str | None = None
    try:
        if at_start_line:
            await start_line()
        await main()
        if not run.is_cancelled:
            verdict, error = "failed", "the driver ended without finishing the run"
    except BaseException as failure:
        if is_cancellation(failure) and is_cancelled_from_outside():
            raise
        verdict, error = "failed", error_line(failure)
        if driver.home is None or not driver.home.is_here():
            error = LOOP_CLOSED
            verdict = "cancelled" if run.is_cancelled else "failed"
        if is_for_host(failure) or isinstance(failure, GeneratorExit):
            raise
    finally:
        _end(driver, section, verdict, error)
    if not run.drained.is_set and driver.home is not None and driver.home.is_here():
        await run.drained


# -- the shared thread -------------------------------------------------------------------------------------------------

_live_on_shared: set[Run[Any]] = set()
_starting = threading.RLock()
_shared: Settled[Home] | None = None


def _shared_home() -> Home | None:
    """The event loop of the process's one daemon thread; started on first use. None if it cannot be started."""
    global _shared
    with _starting:
        shared = _shared
        if shared is None:
            shared = Settled[Home]()
            started = functools.partial(settle, shared)
            thread = threading.Thread(target=run_forever, args=(started, _report), name="handrail runs", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # at the exit of the interpreter, or where the machine has none left
                return None
            _shared = shared
    return shared.wait()


def _report(error: BaseException) -> None:
    """A run let something through that is no Exception; the thread has other runs to go on with."""
    threading.excepthook(
        threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
    )


def _cancel_at_exit() -> None:
    runs = tuple(_live_on_shared)
    for run in runs:
        run.cancel()
    deadline = time.monotonic() + EXIT_GRACE
    for run in runs:
        with contextlib.suppress(TimeoutError):
            run.result.wait(max(0.0, deadline - time.monotonic()))


def _forget_shared() -> None:
    global _shared, _starting
    _starting = threading.RLock()
    _shared = None
    _live_on_shared.clear()


atexit.register(_cancel_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_shared)
