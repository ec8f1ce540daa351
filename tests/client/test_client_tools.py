"""Client tools: which calls are executed, and when."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import Tool as Declaration
from tests.client.kit import R, answers, echo, finished, ids, session, under, who
from tests.transcript.events import (
    THREAD,
    answered,
    asks,
    ca,
    call,
    cr,
    cs,
    error,
    ms,
    question,
    rf,
    rfx,
    rs,
    said,
    te,
    text,
)
from tests.transcript.reading import calls

from handrail import Finished, RunParams, Tool, abandon, approve, deny

# -- declaring ---------------------------------------------------------------------------------------------------------


async def test_own_tools_are_declared_behind_the_callers() -> None:
    """S-61"""
    made = session(finished(), finished(), tools=[echo])
    await made.run(RunParams(tools=[Declaration(name="search", description="d")]))
    assert [declared.name for declared in made.script.inputs[0].tools or ()] == ["search", "echo"]
    assert (made.script.inputs[0].tools or ())[1].parameters["properties"]["x"]["type"] == "integer"
    await made.run()
    assert [declared.name for declared in made.script.inputs[1].tools or ()] == ["echo"]


async def test_the_callers_declaration_stands_and_the_own_tool_executes_it() -> None:
    """S-61: one warning for the exchange."""
    theirs = Declaration(name="echo", description="theirs")
    made = session(finished(call("c1", '{"x":3}', name="echo")), finished(), tools=[echo])
    await made.run(RunParams(tools=[theirs]))
    assert [given.tools for given in made.script.inputs] == [[theirs], [theirs]]
    assert answers(made.script.inputs[1])["c1"].content == "got 3"
    assert made.codes == ["duplicate-tool"]


async def test_without_tools_nothing_is_declared_or_executed() -> None:
    """S-61, S-73"""
    made = session(finished(call("c1")))
    assert (await made.run()).ok
    assert made.script.inputs[0].tools == []
    assert made.pending_tool_calls == ("c1",)


# -- the round ---------------------------------------------------------------------------------------------------------


async def test_a_round() -> None:
    """S-62, S-76: the tool runs when the run is over, its result goes in a follow-up of the same shape."""
    order: list[str] = []

    def tracked(x: int) -> str:
        order.append("tool")
        return f"got {x}"

    made = session(
        [rs("r1"), call("c1", '{"x":1}', name="tracked", parent="a1"), rf("r1")],
        finished(text("a2", "done")),
        tools=[tracked],
    )
    made.subscribe_events(lambda event: order.append(event.type.value))
    params = RunParams("r1", forwarded_props={"k": 1})
    state = await made.send(said("u1", "go"), params)
    first, second = made.script.inputs
    assert order.index("RUN_FINISHED") < order.index("tool")
    assert ids(second) == ["u1", "a1", "tool(c1)"]
    assert (second.tools, second.context, second.forwarded_props) == (first.tools, first.context, {"k": 1})
    assert second.resume is None
    assert second.run_id != "r1"
    assert state == Finished(THREAD, second.run_id)
    part = calls(made.transcript)["c1"]
    assert (part.status, part.result, part.local) == ("complete", "got 1", True)
    assert [message.role for message in made.messages] == ["user", "assistant", "tool", "assistant"]
    assert [message.exchange for message in made.transcript.messages] == [1, 1, 1]


@pytest.mark.parametrize(
    ("end", "executed"),
    [([rf(R)], 1), ([asks(R, question("i1", "other"))], 1), ([asks(R, question("i1", "c1"))], 0), ([rfx(R)], 0),
     ([error("no")], 0), ([], 0), ([OSError("gone")], 0), ([te("nobody")], 0)],
)  # fmt: skip
async def test_a_tool_runs_only_when_it_is_certain_that_the_call_is_ours(end: Any, executed: int) -> None:
    """S-63, S-65, S-66: after success, or beside a question that does not hold it; never after any other end."""
    ran: list[int] = []

    def act() -> None:
        ran.append(1)

    made = session([rs(R), call("c1", name="act"), *end], finished(), tools=[act])
    await made.run()
    assert len(ran) == executed
    assert len(made.script.inputs) == (2 if executed and end[0].outcome is None else 1)


@pytest.mark.parametrize("pieces", [None, "", "{}", "{"])
@pytest.mark.parametrize("whole", [call("c1"), ms(said("u1", "q"), answered("c1", None, ("c1", "{}")))])
async def test_a_call_that_was_cut_off_is_executed_once_it_is_whole(pieces: str | None, whole: Any) -> None:
    """S-58, S-66, P-51, P-53: whether the next run streams it again or a snapshot brings it; never before."""
    cut = [cs("c1")] if pieces is None else [cs("c1"), ca("c1", pieces)]
    made = session([rs(R), *cut, error()], finished(whole), finished(), tools=[Tool(echo, name="look")])
    await made.send(said("u1", "q"))
    await made.run()
    assert list(map(ids, made.script.inputs)) == [["u1"], ["u1"], ["u1", "c1", "tool(c1)"]]
    assert answers(made.script.inputs[2])["c1"].content == "got 0"
    assert calls(made.transcript)["c1"].status == "complete"


async def test_a_call_that_the_server_answered_before_it_is_never_executed() -> None:
    """S-64, P-62: an answer that came before its call is an answer too."""
    made = session(finished(cr("c1", "theirs"), call("c1", name="echo")), finished(), tools=[echo])
    await made.send("q")
    assert len(made.script.inputs) == 1
    await made.run()
    assert answers(made.script.inputs[1])["c1"].content == "theirs"


async def test_a_call_that_the_server_answered_is_never_executed() -> None:
    """S-64"""
    ran: list[str] = []

    def delete_file(path: str) -> None:
        ran.append(path)

    made = session(
        finished(call("c1", '{"path":"a"}', name="delete_file"), cr("c1", "deleted")), finished(), tools=[delete_file]
    )
    await made.run()
    assert (ran, len(made.script.inputs)) == ([], 1)
    await made.run()
    assert [m.content for m in made.script.inputs[1].messages if m.role == "tool"] == ["deleted"]


async def test_the_agent_may_list_which_calls_are_pending() -> None:
    """S-63: calls of the run outside the list are not executed; unknown and answered ids are skipped."""
    ran: list[int] = []

    def act(x: int) -> str:
        ran.append(x)
        return str(x)

    made = session(
        [rs(R), call("c1", '{"x":1}', name="act"), call("c2", '{"x":2}', name="act"), call("c3"), cr("c3"),
         rf(R, pending=["c2", "nobody", "c3"])],
        finished(),
        tools=[act],
    )  # fmt: skip
    await made.run()
    assert ran == [2]
    assert made.codes[:2] == ["pending-id-unknown", "pending-id-unknown"]
    assert answers(made.script.inputs[1])["c1"].error == "Not executed: the run ended before this call was answered"


@pytest.mark.parametrize("pending", [None, []])
async def test_without_a_list_the_pending_calls_are_derived(pending: Any) -> None:
    """S-63"""
    made = session([rs(R), call("c1", name="echo"), rf(R, pending=pending)], finished(), tools=[echo])
    await made.run()
    assert len(made.script.inputs) == 2


async def test_beside_a_question_what_nothing_holds_runs_at_once() -> None:
    """S-65, S-87: its result is kept, carried by the resume; the held call stays unanswered there."""
    made = session(
        [
            rs(R),
            call("c1", name="echo", parent="a1"),
            call("c2", name="echo", parent="a1"),
            asks(R, question("i1", "c2")),
        ],
        finished(cr("c2", "theirs")),
        tools=[echo],
    )
    state = await made.run()
    assert (state.ok, len(made.script.inputs)) == (False, 1)
    assert calls(made.transcript)["c1"].status == "complete"
    assert calls(made.transcript)["c2"].status == "awaiting_approval"
    await made.resume([approve("i1")])
    assert ids(made.script.inputs[1]) == ["a1", "tool(c1)"]


async def test_a_released_call_is_executed_behind_a_finished_resume() -> None:
    """S-65, S-69: held, neither denied nor abandoned, and still without a result; it is told where it came from."""
    made = session(
        [rs("r1"), call("c1", '{"x":1}', name="who"), asks("r1", question("i1", "c1"))],
        finished(),
        finished(),
        tools=[who],
    )
    await made.run(under("r1"))
    assert (await made.resume([approve("i1")])).ok
    assert len(made.script.inputs) == 3
    assert answers(made.script.inputs[2])["c1"].content.endswith(" r1 False")


@pytest.mark.parametrize("answer", [deny("i1", "too dear"), abandon("i1")])
async def test_a_refused_call_is_never_executed(answer: Any) -> None:
    """S-104: the repair says why, when the server says nothing."""
    ran: list[int] = []

    def pay() -> None:
        ran.append(1)

    made = session([rs(R), call("c1", name="pay"), asks(R, question("i1", "c1"))], finished(), finished(), tools=[pay])
    await made.run()
    await made.resume([answer])
    why = "Denied by the user: too dear" if answer.kind == "deny" else "Abandoned by the user"
    part = calls(made.transcript)["c1"]
    assert (ran, len(made.script.inputs), part.status, part.result) == ([], 2, "denied", why)
    await made.run()
    assert answers(made.script.inputs[2])["c1"].content == why
    assert calls(made.transcript)["c1"].status == "denied"
