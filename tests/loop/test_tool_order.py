"""The order in which calls run, and where."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import anyio
import anyio.lowlevel

from handrail import Loop, events, tool
from handrail.testing import Gate, ScriptedBackend, call, collect, text

from .kit import answers, checked, event, one_turn


async def test_one_call_at_a_time_in_the_models_order() -> None:
    """L-89: the next starts when the previous settled."""
    log = []

    async def f(n: int) -> str:
        log.append(f"start {n}")
        await anyio.lowlevel.checkpoint()
        log.append(f"end {n}")
        return str(n)

    await one_turn(*(call("f", {"n": n}) for n in range(3)), tools=[f])
    assert log == ["start 0", "end 0", "start 1", "end 1", "start 2", "end 2"]


async def test_neighbours_that_are_parallel_run_together() -> None:
    """L-89, L-90 (case 122): started in call order, told as they come, messages in call order, failures apart."""
    first, third = Gate(), Gate()

    @tool(parallel=True)
    async def p(n: int) -> str:
        if n == 2:
            raise ValueError("bad id")
        await (first if n == 1 else third)
        return f"r{n}"

    calls = [call("p", {"n": n}, id=f"c{n}") for n in (1, 2, 3)]
    async with Loop(backends=[ScriptedBackend([calls, text("done")])], tools=[p]) as loop:
        run = loop.run("hi")
        await first.reached
        await third.reached
        assert (await event(run, events.ToolResult)).id == "c2"
        third.open()
        assert (await event(run, events.ToolResult, 2)).id == "c3"
        first.open()
        got = checked(await collect(run))
    assert [e.id for e in got.of(events.ToolStarted)] == ["c1", "c2", "c3"]
    assert list(answers(got)) == ["c1", "c2", "c3"]
    assert answers(got)["c2"] == "ValueError: bad id"
    assert got.outcome.ok


async def test_order_is_never_rearranged() -> None:
    """L-89: p, p, s, p is [p, p], [s], [p]."""
    log: list[str] = []

    async def work(n: int) -> None:
        log.append(f"+{n}")
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        log.append(f"-{n}")

    @tool(parallel=True)
    async def p(n: int) -> None:
        await work(n)

    @tool
    async def s(n: int) -> None:
        await work(n)

    await one_turn(call("p", {"n": 1}), call("p", {"n": 2}), call("s", {"n": 3}), call("p", {"n": 4}), tools=[p, s])
    assert set(log[:2]) == {"+1", "+2"}
    assert set(log[2:4]) == {"-1", "-2"}
    assert log[4:] == ["+3", "-3", "+4", "-4"]


context_variable: contextvars.ContextVar[str] = contextvars.ContextVar("context_variable", default="none")


async def test_where_tools_run() -> None:
    """L-88 (case 113): async ones on the home loop, sync ones each in a daemon thread, with the caller's context."""
    home = threading.get_ident()
    seen: dict[str, Any] = {}

    def sync() -> str:
        thread = threading.current_thread()
        seen["sync"] = (thread.ident == home, thread.daemon, context_variable.get())
        return ""

    async def asynchronous() -> str:
        seen["async"] = (threading.get_ident() == home, context_variable.get())
        return ""

    context_variable.set("mine")
    await one_turn(call("sync"), call("asynchronous"), tools=[sync, asynchronous])
    assert seen == {"sync": (False, True, "mine"), "async": (True, "mine")}


async def test_a_stuck_thread_takes_no_thread_from_another_and_the_loop_is_not_blocked() -> None:
    """L-88 (case 113): 60 threads that block at once, and the loop goes on ticking."""
    held = Gate()
    arrived = threading.Semaphore(0)

    @tool(parallel=True)
    def stuck(n: int) -> str:
        arrived.release()
        held.wait(10)
        return "free"

    calls = [call("stuck", {"n": n}) for n in range(60)]
    async with Loop(backends=[ScriptedBackend([calls, text("done")])], tools=[stuck]) as loop:
        run = loop.run("hi")
        for _ in range(60):
            while not arrived.acquire(blocking=False):  # noqa: ASYNC110  # threads arrive, not tasks
                await anyio.sleep(0.001)
        held.open()
        assert (await run.result).ok
