"""Worker threads of our own: daemons, one for each job.

A blocking function cannot be stopped, so a thread that runs one must never hold up anything else: not the exit of the
process (it is a daemon, R-101) and not another job (it is not shared, so a stuck one takes no place in a pool). Whoever
waits for its end does so through a `Settled`, from any thread or event loop, and may as well leave.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from handrail.run._loops import say_library
from handrail.run._settled import Settled, settle

__all__ = ["Ended", "start_thread", "start_thread_in"]

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """How a job ended: with a value, or with an exception."""

    value: T | None
    error: BaseException | None

    def unwrap(self) -> T:
        """The value, or raises the exception."""
        if self.error is not None:
            raise self.error
        return self.value  # pyright: ignore[reportReturnType]  # without an error the value is a T, which may be None


def start_thread(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Settled[Ended[T]]:
    """Run `fn` in a daemon thread of its own, with the caller's context variables.

    Returns at once; what it returns is set when the thread has done its work, whatever came of it. Raises RuntimeError
    where no thread can be started any more (the interpreter is shutting down).
    """
    ended: Settled[Ended[T]] = Settled()
    context = contextvars.copy_context()
    say_library(context, None)

    def work() -> None:
        try:
            outcome: Ended[T] = Ended(context.run(fn, *args, **kwargs), None)
        except BaseException as error:  # recorded for whoever waits: in a thread nobody else could see it
            outcome = Ended(None, error)
        settle(ended, outcome)

    threading.Thread(target=work, name=f"handrail {getattr(fn, '__name__', 'worker')}", daemon=True).start()
    return ended


def start_thread_in(section: AbstractContextManager[object], fn: Callable[[], T]) -> Settled[Ended[T]]:
    """The same inside a work section, which is entered here and left by the thread."""
    section.__enter__()

    def in_section() -> T:
        try:
            return fn()
        finally:
            section.__exit__(None, None, None)

    try:
        return start_thread(in_section)
    except BaseException:
        section.__exit__(None, None, None)
        raise
