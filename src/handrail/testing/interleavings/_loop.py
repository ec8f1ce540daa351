"""An event loop of asyncio whose next step is chosen.

It has the callbacks and timers of an ordinary loop, and neither a selector nor sockets. Where that takes the first
callback in line, this one may take another:

- tasks may be late: the next step of any task that can go on may be taken before what stands in line in front of it,
  and the tasks it is taken before are late from then on. They go on when no other task can, or are chosen before that;
- plain callbacks keep their order among each other, as asyncio promises;
- a timer may come early (see `_scheduler`), and time goes on by itself when there is nothing else to do.

Everything else is taken in line, and nobody is late for ever, so what comes again and again starves nobody.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context
from typing import Any, cast

from handrail.testing.interleavings._scheduler import NEVER, Scheduler
from handrail.testing.interleavings._story import called, suspended_at

__all__ = ["run_on_loop"]

_LATENESS = 200
"""How many steps of other tasks a task is late at most."""


def run_on_loop(scheduler: Scheduler, main: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine on a loop of this kind, and then cancel what it left, as `asyncio.run` does.

    Raises RuntimeError for what the loop was told of and nobody caught: a task whose exception was never retrieved.
    """
    loop = _ChosenLoop(scheduler)
    try:
        loop.run_until_complete(main)
    finally:
        try:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        finally:
            loop.close()
    gc.collect(0)  # a task in a cycle tells of its exception when it goes, and the collector is off
    for context in loop.troubles:
        raise RuntimeError(context["message"]) from context.get("exception")


class _ChosenLoop(asyncio.BaseEventLoop):
    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self.troubles: list[dict[str, Any]] = []
        self._scheduler = scheduler
        self._line: list[asyncio.Handle] = []
        self._late: dict[asyncio.Handle, int] = {}
        self._alarms: list[asyncio.TimerHandle] = []

    def time(self) -> float:
        return self._scheduler.now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self._line.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        self._scheduler.point()
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._alarms, handle)
        return handle

    def close(self) -> None:
        super().close()
        self._line.clear()
        self._late.clear()
        self._alarms.clear()

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.troubles.append(context)

    # -- one step ------------------------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        """What `run_forever` calls until it is to stop: here it carries out one callback."""
        scheduler = self._scheduler
        scheduler.point()
        self._ring()
        if not self._line:
            if self._stopping:  # pyright: ignore[reportUnknownMemberType,reportAttributeAccessIssue]  # told by no method
                return
            scheduler.block(self._has_something, self._next_alarm(), self._waiting_tasks)
            self._ring()
        handle = self._take()
        if handle is not None:
            self._carry_out(handle)

    def _has_something(self) -> bool:
        return bool(self._line)

    def _next_alarm(self) -> float | None:
        while self._alarms and self._alarms[0].cancelled():
            heapq.heappop(self._alarms)
        return self._alarms[0].when() if self._alarms else None

    def _ring(self) -> None:
        """Timers whose time has come stand in line."""
        while (when := self._next_alarm()) is not None and when <= self._scheduler.now:
            self._line.append(heapq.heappop(self._alarms))

    def _take(self) -> asyncio.Handle | None:
        """Choose what is carried out next: out of the line, or a timer that comes early."""
        self._line = [handle for handle in self._line if not handle.cancelled()]
        offered = self._offered()
        alarm = self._next_alarm()
        can_be_early = bool(offered) and alarm is not None and alarm - self._scheduler.now < NEVER
        option = self._scheduler.choose(len(offered) + can_be_early)
        if option < len(offered):
            for passed_over in offered[:option]:
                if _task_of(passed_over) is not None:
                    self._late[passed_over] = _LATENESS
            self._late.pop(offered[option], None)
            self._line.remove(offered[option])
            return offered[option]
        if can_be_early and alarm is not None:
            self._scheduler.now = alarm
            return heapq.heappop(self._alarms)
        return None

    def _offered(self) -> list[asyncio.Handle]:
        """The steps of all tasks and the first callback: in line, but what is late behind what is not."""
        callback = next((handle for handle in self._line if _task_of(handle) is None), None)
        offered = [handle for handle in self._line if handle is callback or _task_of(handle) is not None]
        late = [handle for handle in offered if handle in self._late]
        if len(late) + (callback is not None) == len(offered):
            return offered
        for handle in late:
            self._late[handle] -= 1
            if not self._late[handle]:
                del self._late[handle]
        return [handle for handle in offered if handle not in late] + late

    def _carry_out(self, handle: asyncio.Handle) -> None:
        story = self._scheduler.story
        if story is None:
            handle._run()
            return
        task = _task_of(handle)
        with self._scheduler.doing(_name(_callback_of(handle) if task is None else task.get_coro())) as told:
            handle._run()
            if task is None:
                told("is called")
            else:
                told("ends" if task.done() else f"awaits at {suspended_at(task.get_coro())}")

    def _waiting_tasks(self) -> Iterable[str]:
        for task in asyncio.all_tasks(self):
            coro = task.get_coro()
            yield f"task {_name(coro)} awaits at {suspended_at(coro)}"


def _callback_of(handle: asyncio.Handle) -> object:
    return handle._callback  # pyright: ignore  # there is no other way to know a task's step from a plain callback


def _task_of(handle: asyncio.Handle) -> asyncio.Task[Any] | None:
    """The task whose next step this is."""
    owner: object = getattr(_callback_of(handle), "__self__", None)
    return cast("asyncio.Task[Any]", owner) if isinstance(owner, asyncio.Task) else None


def _name(of: Any) -> str:
    return called(getattr(of, "__qualname__", type(of).__name__))
