"""Calls that end early: deadlines and cancels."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from handrail import Loop, Tool, ToolContext, events, tool
from handrail.testing import FakeClock, Gate, ScriptedBackend, call, collect, gate, text

from .kit import answers, checked, ends, event

# -- deadlines -------------------------------------------------------------------------------------------------------


async def test_a_deadline_gives_up_one_call_and_those_behind_its_group() -> None:
    """L-92, L-95: outcome unknown, no result; the others of the group end; the later groups are not run; then on."""
    clock, other = FakeClock(), Gate()
    cancelled = []

    @tool(parallel=True, timeout=10)
    async def slow() -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.append(True)
            raise
        return "never"

    @tool(parallel=True)
    async def steady() -> str:
        await other
        return "ok"

    calls = [call("slow", id="a"), call("steady", id="b"), call("later", id="c")]
    backend = ScriptedBackend([calls, text("done")])
    tools = [slow, steady, Tool(lambda: "x", name="later")]
    async with Loop(backends=[backend], tools=tools, clock=clock) as loop:
        run = loop.run("hi")
        await other.reached
        await anyio.wait_all_tasks_blocked()
        clock.advance(9.9)
        await anyio.wait_all_tasks_blocked()
        assert not cancelled
        clock.advance(0.1)
        assert (await event(run, events.ToolAbandoned)).id == "a"
        other.open()
        got = checked(await collect(run))
    assert cancelled == [True]
    assert ends(got) == [("a", "deadline"), ("b", "ok"), ("c", "deadline")]
    assert [e.dispatched for e in got.of(events.ToolAbandoned)] == [True, False]
    assert "unknown" in answers(got)["a"]
    assert "not run" in answers(got)["c"]
    for content in (answers(got)["a"], answers(got)["c"]):
        assert "failed" not in content
        assert "error" not in content
    assert got.outcome.ok
    assert [m.role for m in backend.requests[1].messages].count("tool") == 3


@pytest.mark.parametrize(("own", "common", "limit"), [(5.0, 50.0, 5.0), (None, 7.0, 7.0)])
async def test_whose_timeout(own: float | None, common: float, limit: float) -> None:
    """L-92: the tool's own, else that of the loop."""
    clock = FakeClock()

    async def slow() -> None:
        await anyio.sleep_forever()

    backend = ScriptedBackend([call("slow"), text("done")])
    async with Loop(backends=[backend], tools=[Tool(slow, timeout=own)], tool_timeout=common, clock=clock) as loop:
        run = loop.run("hi")
        await event(run, events.ToolStarted)
        await anyio.wait_all_tasks_blocked()
        clock.advance(limit - 0.5)
        await anyio.wait_all_tasks_blocked()
        assert not run.is_done
        clock.advance(0.5)
        assert (await run.result).ok


async def test_a_thread_past_its_deadline_keeps_its_section() -> None:
    """L-92, L-96: what it says later is published nowhere."""
    clock, held = FakeClock(), Gate()
    told: dict[str, Any] = {}

    @tool(timeout=1)
    def stuck(context: ToolContext) -> str:
        held.wait(10)
        told["cancelled"] = context.cancelled
        told["progress"] = context.progress(1)
        told["log"] = context.log("late")
        raise ValueError("late")

    backend = ScriptedBackend([call("stuck"), text("done")])
    async with Loop(backends=[backend], tools=[stuck], clock=clock) as loop:
        run = loop.run("hi")
        await held.reached
        await anyio.wait_all_tasks_blocked()
        clock.advance(1)
        got = checked(await collect(run))
        assert got.outcome.ok
        assert not run.drained.is_set
        assert "tool stuck" in run.open_work
        held.open()
        await run.drained
    assert told == {"cancelled": True, "progress": False, "log": False}
    assert len(run.events.so_far()) == len(got.events)


# -- cancel ----------------------------------------------------------------------------------------------------------


async def test_a_cancel_while_tools_run() -> None:
    """L-93, L-94, L-95 (case 109): results of earlier calls stay; what runs is unknown; what is behind was not run."""
    held = gate()
    cancelled = []

    async def waits() -> str:
        try:
            await held
        except anyio.get_cancelled_exc_class():
            cancelled.append(True)
            raise
        return "never"

    calls = [call("quick", id="a"), call("waits", id="b"), call("quick", id="c")]
    backend = ScriptedBackend([calls, text("continued")])
    tools = [waits, Tool(lambda: "ok", name="quick")]
    async with Loop(backends=[backend], tools=tools) as loop:
        run = loop.run("hi")
        await held.reached
        run.cancel()
        got = checked(await collect(run))
        await run.drained
        assert cancelled == [True]
        assert isinstance(got.terminal, events.RunCancelled)
        assert got.terminal.stage == "tools"
        assert ends(got) == [("a", "ok"), ("b", "cancelled"), ("c", "cancelled")]
        assert [e.dispatched for e in got.of(events.ToolAbandoned)] == [True, False]
        assert "unknown" in answers(got)["b"]
        assert "cancelled" in answers(got)["b"]
        again = checked(
            await collect(loop.run([*got.outcome.messages, {"id": "u2", "role": "user", "content": "go on"}]))
        )
    assert again.outcome.final == "continued"
    assert again.of(events.Log) == []


async def test_a_cancel_while_a_thread_runs() -> None:
    """L-93, R-76 (case 113): the result is prompt, drained is honest, and the late event is refused."""
    held = gate()
    late = []

    def blocks(context: ToolContext) -> str:
        held.wait(10)
        late.append(context.log("late"))
        return "late"

    async with Loop(backends=[ScriptedBackend([call("blocks", id="c")])], tools=[blocks]) as loop:
        run = loop.run("hi")
        await held.reached
        run.cancel()
        got = checked(await collect(run))
        assert got.outcome.outcome == "cancelled"
        assert not run.drained.is_set
        assert run.open_work[-1] == "tool blocks"
        held.open()
        await run.drained
    assert late == [False]
    assert "unknown" in answers(got)["c"]
    assert run.result.value.messages == got.outcome.messages


async def test_a_tool_that_swallows_the_cancel() -> None:
    """L-93, L-96: the result does not wait for it, drained does; what it returns changes nothing."""
    started, released = gate(), gate()

    async def stubborn() -> str:
        try:
            await started
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await released
        return "late"

    async with Loop(backends=[ScriptedBackend([call("stubborn", id="c")])], tools=[stubborn]) as loop:
        run = loop.run("hi")
        await started.reached
        run.cancel()
        got = checked(await collect(run))
        await released.reached
        assert not run.drained.is_set
        released.open()
        await run.drained
    assert "late" not in str(run.result.value.messages)
    assert got.outcome.outcome == "cancelled"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancel_is_delivered_once_under_asyncio() -> None:
    """L-92, L-93: as asyncio code expects, so that clean-up which awaits can run."""
    started, cleaned = gate(), []

    async def tidy() -> str:
        try:
            await started
        finally:
            await anyio.sleep(0.01)
            cleaned.append(True)
        return "never"

    async with Loop(backends=[ScriptedBackend([call("tidy")])], tools=[tidy]) as loop:
        run = loop.run("hi")
        await started.reached
        run.cancel()
        await run.drained
    assert cleaned == [True]


@pytest.mark.parametrize("what", ["cancel", "deadline"])
async def test_a_call_that_ended_in_the_same_instant_has_ended(what: str) -> None:
    """L-94: done is looked at before cancel and deadline; its result counts."""
    clock, runs = FakeClock(), []

    @tool(timeout=1)
    async def f() -> str:
        if what == "cancel":
            runs[0].cancel()
        else:
            clock.advance(1)
        return "in time"

    async with Loop(backends=[ScriptedBackend([call("f", id="c"), text("x")])], tools=[f], clock=clock) as loop:
        runs.append(loop.run("hi"))
        got = checked(await collect(runs[0]))
    assert ends(got) == [("c", "ok")]
    assert answers(got) == {"c": "in time"}
    assert got.outcome.outcome == ("cancelled" if what == "cancel" else "completed")
