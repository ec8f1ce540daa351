"""Rounds of client tools: follow-ups that call again, that fail, that are stopped, and what a later request carries."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import pytest
from tests.client.kit import R, answers, echo, finished, ids, session, under
from tests.transcript.events import answered, asks, call, cr, error, ms, question, rf, rs, said, te, text
from tests.transcript.reading import calls

from handrail import Failed, ToolContext, approve, tool
from handrail.testing import gate


async def test_follow_ups_that_call_tools_are_answered_too() -> None:
    """S-75"""
    made = session(finished(call("c1", name="echo")), finished(call("c2", name="echo")), finished(), tools=[echo])
    assert (await made.run()).ok
    assert ids(made.script.inputs[2]) == ["c1", "tool(c1)", "c2", "tool(c2)"]
    assert len({given.run_id for given in made.script.inputs}) == 3


@pytest.mark.parametrize("limit", [0, 1])
async def test_the_limit_of_rounds(limit: int) -> None:
    """S-75: the calls are left, surfaced and warned; 0 means never."""
    streams = [finished(call(f"c{n}", name="echo")) for n in range(3)]
    made = session(*streams, tools=[echo], max_tool_rounds=limit)
    state = await made.run()
    assert (state.ok, len(made.script.inputs)) == (True, limit + 1)
    assert made.pending_tool_calls == (f"c{limit}",)
    assert made.codes == ["tool-rounds-exhausted"]
    await made.run()
    assert answers(made.script.inputs[limit + 1])[f"c{limit}"].error == (
        f"Not executed: limit of {limit} tool rounds reached"
    )


async def test_a_follow_up_that_fails_keeps_its_results() -> None:
    """S-77: run carries them again, and nothing is executed twice."""
    ran: list[int] = []

    def count() -> str:
        ran.append(1)
        return "x"

    made = session(finished(call("c1", name="count")), [OSError("down")], finished(), tools=[count])
    assert isinstance(await made.run(), Failed)
    await made.run()
    assert ids(made.script.inputs[1]) == ids(made.script.inputs[2]) == ["c1", "tool(c1)"]
    assert answers(made.script.inputs[1])["c1"].id == answers(made.script.inputs[2])["c1"].id
    assert ran == [1]


@pytest.mark.parametrize("late", [error("late"), te("nobody"), OSError("gone")])
async def test_what_comes_behind_the_end_does_not_stop_the_round(late: Any) -> None:
    """S-78, S-18"""
    made = session([rs(R), call("c1", name="echo"), rf(R), late], finished(), tools=[echo], grace=5.0)
    assert (await made.run()).ok
    assert len(made.script.inputs) == 2


async def test_stopped_between_the_tools_of_a_round() -> None:
    """S-46, S-79: ready results are kept, the others answered with an error, all ahead of the next turn."""
    held = gate()

    async def slow() -> str:
        await held
        return "late"

    calling = [call(f"c{n}", name=name, parent="a1") for n, name in ((1, "echo"), (2, "slow"), (3, "echo"))]
    made = session(finished(*calling), finished(), tools=[echo, slow])
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(made.run)
            await held.reached
            scope.cancel()
    await made.send(said("u1", "on"))
    assert ids(made.script.inputs[1]) == ["a1", "tool(c1)", "tool(c2)", "tool(c3)", "u1"]
    given = answers(made.script.inputs[1])
    assert (given["c1"].content, given["c1"].error) == ("got 0", None)
    assert given["c2"].error == "Stopped before the tool finished"
    assert given["c3"].error == "Not executed: the run ended before this call was answered"


async def test_a_stopped_tool_is_told() -> None:
    """S-46, S-69: async ones are cancelled, sync ones see it in their context; a late value is dropped."""
    held, seen = gate(), threading.Event()
    contexts: list[ToolContext] = []
    ended: list[str] = []

    @tool(parallel=True)
    def blocking(context: ToolContext) -> str:
        contexts.append(context)
        held.wait(10)
        if context.cancelled:
            seen.set()
        return "late"

    @tool(parallel=True)
    async def waiting() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    made = session(
        finished(call("c1", name="blocking"), call("c2", name="waiting")), finished(), tools=[blocking, waiting]
    )
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        await anyio.wait_all_tasks_blocked()
        made.stop()
    held.open()
    await made.aclose()
    assert seen.is_set()
    assert ended == ["cancelled"]
    assert [m.content for m in made.messages if m.role == "tool"] == ["Stopped before the tool finished"] * 2


async def test_a_snapshot_keeps_results_it_was_not_told() -> None:
    """S-140: one result for the call in every later request; a call that is gone is warned about."""
    made = session(
        [
            rs(R),
            call("c1", name="echo", parent="a1"),
            call("c2", name="other", parent="a1"),
            asks(R, question("i1", "c2")),
        ],
        [rs(R), ms(answered("a1", None, ("c1", "{}"), ("c2", "{}"))), cr("c2", "ok"), rf(R)],
        finished(),
        tools=[echo],
    )
    await made.run()
    await made.resume([approve("i1")])
    assert calls(made.transcript)["c1"].status == "complete"
    await made.run()
    assert ids(made.script.inputs[2]) == ["a1", "tool(c1)", "tool(c2)"]
    assert made.codes == []


async def test_a_replayed_run_executes_nothing_again() -> None:
    """S-98: a run that this thread has seen finish is folded, and changes nothing else."""
    ran: list[int] = []

    def count() -> str:
        ran.append(1)
        return "x"

    made = session(
        [rs("r1"), call("c1", name="count"), rf("r1")], finished(),
        [rs("r1"), call("c1", name="count"), asks("r1", question("i9")), rs(R), text("a2", "new"), rf(R)],
        tools=[count], grace=5.0,
    )  # fmt: skip
    await made.run(under("r1"))
    assert (await made.run()).ok
    assert (ran, made.pending_interrupts) == ([1], ())
    assert len(made.script.inputs) == 3
