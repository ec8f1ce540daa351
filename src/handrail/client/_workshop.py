"""Where the tools of one round run: beside the exchange, so that it can leave without them.

Async tools are tasks, sync ones threads of their own. All belong to a run that is hosted as any other, not to the task
of the exchange: who stops an exchange gets his answer at once, and what has not returned by then shows in `open_work`.

A tool that called its own session would wait for itself. So what is started here carries a mark, in a context variable
that tasks and threads inherit, and the session refuses a call that has the mark of the exchange it is in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

from handrail.run import RunDriver, Settled
from handrail.run._child import Child
from handrail.run._hosting import host
from handrail.run._loops import cancelled_class, children
from handrail.run._settled import settle, when_set
from handrail.run._threads import Ended, start_thread_in
from handrail.run._waiters import Waiters
from handrail.tools import awaited, dropped

__all__ = ["TOOL", "Workshop", "marks"]

T = TypeVar("T")

TOOL = "tool "
"""What the name of a tool's work section begins with, here as in a loop (L-20)."""

_marks: ContextVar[tuple[object, ...]] = ContextVar("handrail_session_marks", default=())


def marks() -> tuple[object, ...]:
    """The marks that the caller carries: one for every workshop in which it was started, the innermost last."""
    return _marks.get()


class Workshop:
    """A place for tools. `news` is rung when one of them has ended; `mark` is what they carry."""

    def __init__(self, mark: object) -> None:
        self.news = Waiters()
        self._mark = mark
        self._opened: Settled[None] = Settled()
        self._closing: Settled[None] = Settled()
        self._driver: RunDriver[Any] = RunDriver()
        self.run = self._driver.run
        host(self._driver, self._main)

    async def open(self) -> None:
        """Wait until tools can be started."""
        await self._opened

    def close(self) -> None:
        """No more tools; those that still run are waited for by nobody but the workshop's own run."""
        settle(self._closing, None)

    def start(self, work: Callable[[], Awaitable[T]], name: str) -> Child[T]:
        """Run something asynchronous."""
        with self._marked():
            return self._child(work, name, self._driver.work(TOOL + name))

    def start_in_thread(
        self, fn: Callable[[], Any], name: str, rest: Callable[[Any], Awaitable[Any]] = awaited
    ) -> Child[Any]:
        """Run something that may block, and then do the `rest` with what it returned.

        Given up, its thread is left behind, and its section open until it returns.
        """

        async def follow() -> Any:
            try:
                value = (await thread).unwrap()
            except cancelled_class():
                when_set(thread, lambda: dropped(thread.value.value))
                raise
            with self._driver.work(TOOL + name):
                return await rest(value)

        with self._marked():
            thread = start_thread_in(self._driver.work(TOOL + name), fn)
            return self._child(follow, name, nullcontext())

    async def in_thread(self, fn: Callable[[], T], name: str) -> T:
        """The same for something that a tool waits for itself."""
        return (await start_thread_in(self._driver.work(TOOL + name), fn)).unwrap()

    def _child(self, work: Callable[[], Awaitable[T]], name: str, section: AbstractContextManager[object]) -> Child[T]:
        return Child(self._children, work, name=name, section=section, on_end=self._ring)

    def _ring(self, ended: Ended[Any]) -> None:
        self.news.wake_all()

    @contextmanager
    def _marked(self) -> Generator[None]:
        token = _marks.set((*_marks.get(), self._mark))
        try:
            yield
        finally:
            _marks.reset(token)

    async def _main(self) -> None:
        try:
            async with children() as self._children:
                settle(self._opened, None)
                await self._closing
                self._driver.finish(None, outcome="completed")
        finally:
            settle(self._opened, None)
