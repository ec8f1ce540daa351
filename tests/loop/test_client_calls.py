"""Calls to client tools: announced, left open, and answered by the next run."""

from __future__ import annotations

from ag_ui.core import Tool as ClientTool

from handrail import Loop, events
from handrail.loop import LoopRun
from handrail.messages import tool_result
from handrail.testing import ScriptedBackend, call, collect, gate, text, usage

from .kit import checked, event, play
from .shop import Shop, buy

PICK = ClientTool(name="pick", description="Pick a colour", parameters={"type": "object"})


async def test_a_call_to_a_client_tool_is_announced_and_left_open() -> None:
    """L-135: the loop's own calls are executed; then the run ends, without another request."""
    shop = Shop()
    backend = ScriptedBackend([[call("pick", id="p"), call("look", id="l"), call("pick", id="q")], text("never")])
    got = await play(Loop(backends=[backend], tools=shop.tools), tools=[PICK])
    assert got.outcome.ok
    assert isinstance(got.terminal, events.RunCompleted)
    assert got.terminal.pending_calls == got.outcome.pending_calls == ("p", "q")
    assert [c.id for c in got.of(events.ToolCall)] == ["p", "l", "q"]
    assert [s.id for s in got.of(events.ToolStarted)] == ["l"]
    assert len(backend.requests) == 1


async def test_interrupts_and_client_calls_may_be_open_together() -> None:
    """L-135, L-127."""
    got = await play(Shop().loop([call("pick", id="p"), buy("hat", "a")]), tools=[PICK])
    assert isinstance(got.terminal, events.RunCompleted)
    assert got.terminal.pending_calls == ("p",)
    assert [i.id for i in got.outcome.interrupts] == ["a"]
    assert got.outcome.pending_calls == ("p", "a")


async def test_the_next_run_gets_the_clients_results_in_call_order() -> None:
    """L-136: whatever order they came in."""
    first = await play(Shop().loop([call("pick", id="p"), call("pick", id="q")]), tools=[PICK])
    backend = ScriptedBackend([text("ok")])
    messages = [*first.outcome.messages, tool_result("q", "blue"), tool_result("p", "red")]
    got = await play(Loop(backends=[backend]), messages, tools=[PICK])
    assert [getattr(m, "tool_call_id", m.role) for m in backend.requests[0].messages] == ["user", "assistant", "p", "q"]
    assert got.of(events.Log) == []


async def test_a_cancelled_run_leaves_no_client_call_open() -> None:
    """L-17, L-141: its terminal event names none, so each is answered."""
    held = gate()

    async def wait() -> str:
        await held
        return "never"

    backend = ScriptedBackend([[call("pick", id="p"), call("wait", id="w"), usage(1, 1)]])
    async with Loop(backends=[backend], tools=[wait]) as loop:
        run: LoopRun = loop.run("hi", tools=[PICK])
        await event(run, events.ToolStarted)
        await held.reached
        run.cancel()
        got = checked(await collect(run))
    assert [(e.id, e.dispatched) for e in got.of(events.ToolAbandoned)] == [("p", False), ("w", True)]
