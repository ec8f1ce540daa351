"""A run that is over is freed when it is let go of: it is no circle that waits for the garbage collector."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from handrail import BackendRequest, Budget, Loop, RetryPolicy, RunDriver, RunScope, TextDelta, drive, tool
from handrail.client import LoopAgent
from handrail.errors import BackendError
from handrail.testing import ScriptedBackend, call, reasoning, stall, text

ONCE = RetryPolicy(max_attempts=1)
ASKED = {"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "go"}]}


@tool
async def nap() -> str:
    """Rest."""
    return "rested"


@tool
def block() -> str:
    """Do it in a thread."""
    return "done"


class Broken:
    """A backend whose every stream breaks off, each by an exception of its own."""

    model = "broken"
    max_tokens = None

    @asynccontextmanager
    async def stream(self, request: BackendRequest) -> AsyncIterator[AsyncIterator[TextDelta]]:
        async def deltas() -> AsyncIterator[TextDelta]:
            yield TextDelta("H")
            raise BackendError("broken", "response")

        yield deltas()


def loop_of(*scripts: Any, **options: Any) -> Loop:
    return Loop(backends=[ScriptedBackend(scripts)], **options)


async def ended(run: Any) -> None:
    await run.result
    await run.drained


async def cancelled(run: Any) -> None:
    async for event in run.events:
        if event.kind == "token":
            run.cancel()
    await ended(run)


async def driven() -> None:
    async def body(driver: RunDriver[str]) -> None:
        driver.emit("a word")
        driver.finish(None, outcome="completed")

    await ended(drive(body, verdict=lambda word: None))


SCENARIOS: dict[str, Callable[[], Awaitable[None]]] = {
    "an answer": lambda: ended(loop_of([reasoning("Hm."), text("Hi.")]).run("go")),
    "with a budget": lambda: ended(loop_of([text("Hi.")], budget=Budget(max_total_tokens=10)).run("go")),
    "an async tool": lambda: ended(loop_of(call("nap"), text("Hi."), tools=[nap]).run("go")),
    "a tool in a thread": lambda: ended(loop_of(call("block"), text("Hi."), tools=[block]).run("go")),
    "a second backend": lambda: ended(Loop([Broken(), ScriptedBackend([text("Hi.")])], retry=ONCE).run("go")),
    "a failure": lambda: ended(Loop([Broken()], retry=ONCE).run("go")),
    "a cancel": lambda: cancelled(loop_of([text("H"), stall()]).run("go")),
    "behind an agent": lambda: ended(LoopAgent(loop_of([text("Hi.")])).start(ASKED)),
    "a driver of one's own": driven,
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
async def test_a_run_that_is_over_is_freed_at_once(scenario: Callable[[], Awaitable[None]]) -> None:
    """L-20, R-83: whatever became of it; a server of many runs would else keep each until a collection finds it."""
    async with RunScope():
        await scenario()
        gc.collect()
        gc.disable()
        try:
            await scenario()
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = Counter(type(one).__qualname__ for one in gc.garbage if type(one).__module__.startswith("handrail"))
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert not left
