"""Calls that no tool of the session may be run for, whatever the agent says about them later."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.kit import DONE, R, answers, ids, loaded, session
from tests.transcript.events import answered, asks, call, cr, error, ms, question, result, rf, rfx, rs, said
from tests.transcript.reading import calls

from handrail import Finished, Tool, abandon, deny

ASKS = [rs(R), call("c1"), asks(R, question("i1", "c1"))]


class Look:
    """A tool that counts how often it was run."""

    def __init__(self) -> None:
        self.runs = 0

    def look(self) -> str:
        self.runs += 1
        return "looked"


def forgetful(*turns: str) -> list[Any]:
    """A run whose snapshot knows the call and no answer to it."""
    return [rs(R), ms(said("u1", "q"), answered("c1", None, ("c1", "{}")), *(said(u, "q") for u in turns)), rf(R)]


@pytest.mark.parametrize("no", [deny, abandon], ids=["denied", "abandoned"])
@pytest.mark.parametrize("said_by_server", [False, True], ids=["silent", "answered"])
@pytest.mark.parametrize("saved", [False, True], ids=["kept", "loaded"])
async def test_a_refused_call_whose_answer_a_snapshot_leaves_out(no: Any, said_by_server: bool, saved: bool) -> None:
    """S-104, S-140, S-65: it is never executed, and the refusal is put back."""
    tool = Look()
    resumed = [rs(R), cr("c1", "no such luck"), rf(R)] if said_by_server else DONE
    later = [forgetful("u2"), forgetful("u2", "u3"), DONE]
    made = session(ASKS, resumed, *later, tools=[tool.look])
    await made.send(said("u1", "q"))
    await made.resume([no("i1")])
    if saved:
        made = loaded(made.dump(), *later, tools=[tool.look])
    await made.send(said("u2", "q"))
    await made.send(said("u3", "q"))
    await made.run()
    assert tool.runs == 0
    assert made.pending_tool_calls == ()
    assert calls(made.transcript)["c1"].status == "denied"
    assert ids(made.script.inputs[-1]) == ["u1", "c1", "tool(c1)", "u2", "u3"]
    assert answers(made.script.inputs[-1])["c1"].error.endswith("by the user")


@pytest.mark.parametrize("saved", [False, True], ids=["kept", "loaded"])
async def test_a_call_refused_by_ask_whose_answer_a_snapshot_leaves_out(saved: bool) -> None:
    """S-72, S-104, S-140"""
    tool = Look()
    options: dict[str, Any] = {"tools": [Tool(tool.look, needs_approval=True)], "ask": lambda interrupt: False}
    made = session([rs(R), call("c1"), rf(R)], DONE, forgetful(), **options)
    await made.send(said("u1", "q"))
    if saved:
        made = loaded(made.dump(), forgetful(), **options)
    await made.run()
    assert tool.runs == 0
    assert calls(made.transcript)["c1"].status == "denied"
    assert made.messages[2].role == "tool"


async def test_a_call_that_a_snapshot_drops_and_another_brings_back_is_not_executed_twice() -> None:
    """S-140, S-77"""
    tool = Look()
    made = session(
        [rs(R), call("c1"), rf(R)], DONE, [rs(R), ms(said("u1", "q")), rf(R)], forgetful(), tools=[tool.look]
    )
    await made.send(said("u1", "q"))
    await made.run()
    await made.run()
    assert tool.runs == 1
    assert calls(made.transcript)["c1"].result == "looked"
    assert [message.role for message in made.messages] == ["user", "assistant", "tool"]


async def test_a_call_that_the_agent_answered_before_its_snapshot_left_the_answer_out() -> None:
    """S-64, S-74: what the agent did is not done once more; the application may say what came of it."""
    tool = Look()
    forgets = ms(said("u1", "q"), answered("c1", None, ("c1", "{}")))
    made = session([rs(R), call("c1"), cr("c1"), forgets, rf(R)], DONE, tools=[tool.look])
    assert (await made.send(said("u1", "q"))).ok
    assert tool.runs == 0
    assert made.pending_tool_calls == ("c1",)
    made.answer_tool_call("c1", "found, as we saw")
    await made.run()
    assert tool.runs == 0
    assert ids(made.script.inputs[-1]) == ["u1", "c1", "tool(c1)"]


@pytest.mark.parametrize("saved", [False, True], ids=["kept", "loaded"])
async def test_a_call_that_the_agent_answered_and_snapshots_drop_and_bring_back(saved: bool) -> None:
    """S-64, S-57, S-150: not in a later run either; the next request has an answer for it."""
    tool = Look()
    later = [forgetful(), DONE]
    made = session([rs(R), call("c1"), cr("c1"), rf(R)], [rs(R), ms(said("u1", "q")), rf(R)], *later, tools=[tool.look])
    await made.send(said("u1", "q"))
    await made.run()
    if saved:
        made = loaded(made.dump(), *later, tools=[tool.look])
    await made.run()
    await made.run()
    assert tool.runs == 0
    assert answers(made.script.inputs[-1])["c1"].error == "Not executed: no result was given for this call"


async def test_a_new_call_under_the_id_of_one_that_the_agent_answered_is_executed() -> None:
    """S-133, S-64: also where a snapshot has named both in between."""
    tool = Look()
    calls_of_both = (
        answered("a1", None, ("c1", '{"n":1}')),
        result("t1", "c1", "found"),
        answered("a2", None, ("c1", "{}")),
    )
    snapshot = ms(said("u1", "q"), *calls_of_both)
    made = session(
        [rs(R), call("c1", '{"n":1}', parent="a1"), cr("c1", id="t1"), rf(R)],
        [rs(R), call("c1", parent="a2"), snapshot, rf(R)],
        DONE,
        tools=[tool.look],
    )
    await made.send(said("u1", "q"))
    await made.run()
    assert tool.runs == 1
    assert {name: part.result for name, part in calls(made.transcript).items()} == {"c1": "found", "c1#2": "looked"}


async def test_a_new_call_under_the_id_of_a_refused_one_is_executed() -> None:
    """S-133: another call, about which nobody has said anything."""
    ran: list[int] = []

    def look(n: int = 0) -> str:
        ran.append(n)
        return "looked"

    made = session(ASKS, DONE, [rs(R), call("c1", '{"n":2}'), rf(R)], DONE, tools=[look])
    await made.send(said("u1", "q"))
    await made.resume([deny("i1")])
    await made.run()
    assert ran == [2]
    shown = calls(made.transcript)
    assert (shown["c1"].status, shown["c1#2"].status) == ("denied", "complete")


@pytest.mark.parametrize("end", [error("x"), rfx("r1")], ids=["failed", "cancelled"])
async def test_a_call_of_a_run_that_did_not_succeed_with_one_behind_it_that_did(end: Any) -> None:
    """S-66, S-17, S-21: not executed; the next request says why."""
    tool = Look()
    made = session([rs("r1"), call("c1"), end, rs(), rf()], DONE, grace=1.0, tools=[tool.look])
    assert isinstance(await made.send("q"), Finished)
    assert tool.runs == 0
    assert made.pending_tool_calls == ()
    assert calls(made.transcript)["c1"].status == "failed"
    await made.run()
    assert answers(made.script.inputs[1])["c1"].error.startswith("Not executed: the run ended")
