"""From `cancel()` to the end of the run, where the run stands in one of four ways, and what is still at work then.

    cancel FRAMEWORK CASE TIMES     milliseconds to the end of the consumer's loop, the 99th percentile; and how many
                                    tasks and threads of the run work on then, and nothing says so

Cases: tool (an async tool asleep for good), stream (a model that says nothing more), thread (a blocking tool), stubborn
(an async tool that swallows the cancellation and works on).
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks.programs.clock import say
from benchmarks.programs.frameworks import FRAMEWORKS, Framework, Script

PATIENCE = 4.0
"""Seconds after which a consumer's loop counts as not ended."""


class Case:
    """One run that stands still: `reached` says it does, `release` lets go of what cancelling could not stop."""

    def __init__(self, kind: str) -> None:
        self.reached = asyncio.Event()
        self._free, self._free_thread = asyncio.Event(), threading.Event()
        self._loop = asyncio.get_running_loop()
        tools = {"tool": self._sleep, "thread": self._block, "stubborn": self._swallow}
        if kind == "stream":
            self.script = Script(tokens=10, hold=self._free, at_hold=self.reached.set)
        else:
            self.script = Script(rounds=1, tool=self._tool(tools[kind], kind == "thread"))

    def _tool(self, work: Callable[[], Any], blocks: bool) -> Callable[..., Any]:
        def blocking(query: str) -> str:
            """Look one thing up."""
            return work()

        async def waiting(query: str) -> str:
            """Look one thing up."""
            return await work()

        return blocking if blocks else waiting

    async def _sleep(self) -> str:
        self.reached.set()
        await asyncio.sleep(3600)
        return "late"

    def _block(self) -> str:
        self._loop.call_soon_threadsafe(self.reached.set)
        self._free_thread.wait(PATIENCE * 2)
        return "late"

    async def _swallow(self) -> str:
        self.reached.set()
        try:
            await self._free.wait()
        except asyncio.CancelledError:
            await self._free.wait()
        return "late"

    def release(self) -> None:
        self._free.set()
        self._free_thread.set()


async def cancelled(framework: Framework, kind: str) -> tuple[float, int]:
    """Milliseconds until the consumer's loop has ended, and how much works on unsaid."""
    case = Case(kind)
    agent = framework.agent(case.script)
    tasks, threads = asyncio.all_tasks(), set(threading.enumerate())
    handles: list[Any] = []
    consumer = asyncio.create_task(framework.play(agent, lambda: None, handles.append))
    await case.reached.wait()
    await asyncio.sleep(0.02)
    before = time.perf_counter()
    handles[0].cancel()
    await asyncio.wait([consumer], timeout=PATIENCE)
    took = time.perf_counter() - before
    await asyncio.sleep(0.02)
    left = len(asyncio.all_tasks() - tasks - {consumer})
    left += sum(thread.is_alive() for thread in set(threading.enumerate()) - threads)
    drained = getattr(handles[0], "drained", None)
    if drained is not None and not drained.is_set:
        left = 0  # the handle says that something is still at work
    case.release()
    consumer.cancel()
    await asyncio.wait([consumer, *(asyncio.all_tasks() - tasks)], timeout=PATIENCE)
    return took * 1000, left


async def main(framework: Framework, kind: str, count: int) -> tuple[float, int]:
    await framework.play(framework.agent(Script(tokens=5)), lambda: None, lambda run: None)
    rows = [await cancelled(framework, kind) for _ in range(count)]
    slowest = sorted(took for took, _ in rows)
    return slowest[min(len(slowest) - 1, int(len(slowest) * 0.99))], max(left for _, left in rows)


if __name__ == "__main__":
    name, kind, count = sys.argv[1:]
    slowest, left = asyncio.run(main(FRAMEWORKS[name](), kind, int(count)))
    say({name: slowest, f"left by {name}": left})
