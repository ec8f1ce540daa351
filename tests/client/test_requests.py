"""What goes out: turns, run ids, history, repairs."""

from __future__ import annotations

import uuid
from typing import Any

import anyio
import pytest
from ag_ui.core import Context, RunAgentInput, TextPart, Tool, UserMessage
from tests.client.kit import answers, calls, ids, roles, session, texts, under
from tests.transcript.events import (
    THREAD,
    acs,
    answered,
    asks,
    ca,
    call,
    ce,
    cr,
    cs,
    encrypted,
    error,
    ms,
    question,
    reasoned,
    rf,
    rs,
    said,
    span,
    tc,
    text,
    thought,
    ts,
)

from handrail import AgentSession, Failed, LocalProtocolError, RunIdReusedError, RunParams, approve
from handrail.testing import gate

R = "*"


def echo(x: int = 0) -> str:
    return f"got {x}"


# -- run ---------------------------------------------------------------------------------------------------------------


async def test_run_adds_no_turn() -> None:
    """S-25, S-26: defaults are a fresh uuid4, [], [], {}."""
    made = session([rs(R), text("m1", "Hel", "lo"), rf(R)], [rs(R), rf(R)])
    await made.run()
    await made.run()
    first, second = made.script.inputs
    assert uuid.UUID(first.run_id).version == 4
    assert first.run_id != second.run_id
    assert (first.messages, first.tools, first.context, first.forwarded_props) == ([], [], [], {})
    assert [(message.id, message.content) for message in second.messages] == [("m1", "Hello")]


async def test_params_pass_unchanged_into_every_kind_of_call() -> None:
    """S-26, S-28"""
    declared = Tool(name="theirs", description="d", parameters={"type": "object"}, metadata={"k": None})
    context = Context(description="d", value="v")
    made = session([rs("r1"), asks("r1", question("i1"))], [rs("r2"), rf("r2")], [rs("r3"), rf("r3")])
    for number, go in ((1, made.send), (2, made.resume), (3, made.run)):
        params = RunParams(f"r{number}", [declared], [context], {"a": [1, None]})
        given: list[Any] = {1: ["hi"], 2: [[approve("i1")]], 3: []}[number]
        await go(*given, params)
    for number, given in enumerate(made.script.inputs, 1):
        assert given.run_id == f"r{number}"
        assert (given.tools, given.context, given.forwarded_props) == ([declared], [context], {"a": [1, None]})


async def test_a_run_id_is_used_once() -> None:
    """S-27: by any request handed to the agent; refused before anything is sent or drawn."""
    made = session([rs("r1"), rf("r1")], [error("no")])
    await made.run(under("r1"))
    await made.run(under("r2"))
    for run_id in ("r1", "r2"):
        with pytest.raises(RunIdReusedError) as caught:
            await made.send("again", under(run_id))
        assert caught.value.run_id == run_id
    assert isinstance(caught.value, ValueError)
    assert len(made.script.inputs) == 2
    assert texts(made.transcript) == []


async def test_a_call_cancelled_in_the_queue_has_not_used_its_id() -> None:
    """S-27, S-42; two calls with one id in the queue: the second is refused when its turn comes."""
    held = gate()
    made = session([rs(R), held, rf(R)], [rs("r2"), rf("r2")])
    failures: list[BaseException] = []

    async def second() -> None:
        try:
            await made.send("second", under("r2"))
        except RunIdReusedError as error:
            failures.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        with anyio.move_on_after(0.01):
            await made.run(under("r2"))
        group.start_soon(made.run, under("r2"))
        await anyio.wait_all_tasks_blocked()
        group.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        held.open()
    assert [given.run_id for given in made.script.inputs][1:] == ["r2"]
    assert len(failures) == 1
    assert texts(made.transcript) == []


async def test_run_is_the_retry_of_a_failed_send() -> None:
    """S-29, S-35: the turn is there, once; a second send would be a second turn."""
    made = session([error("down")], [rs(R), rf(R)], [rs(R), rf(R)])
    assert await made.send(said("u1", "Order tea")) == Failed("down")
    await made.run()
    await made.send(said("u2", "Order tea"))
    assert [ids(given) for given in made.script.inputs] == [["u1"], ["u1"], ["u1", "u2"]]


async def test_a_partial_answer_goes_along_once() -> None:
    """S-58"""
    made = session([rs(R), ts("a1"), tc("a1", "Orde"), OSError("gone")], [rs(R), rf(R)])
    await made.send(said("u1", "Order tea"))
    await made.run()
    assert [(m.id, m.content) for m in made.script.inputs[1].messages] == [("u1", "Order tea"), ("a1", "Orde")]


# -- send --------------------------------------------------------------------------------------------------------------


async def test_a_turn_goes_behind_the_history() -> None:
    """S-31, S-32: plain text gets a fresh uuid4, the same on screen and wire."""
    made = session([rs("r1"), text("a1", "x"), rf("r1")], [rs(R), rf(R)], messages=[said("u0", "first")])
    await made.send(said("u1", "hello"), under("r1"))
    await made.send("plain")
    first, second = made.script.inputs
    assert (first.thread_id, first.run_id, ids(first)) == (THREAD, "r1", ["u0", "u1"])
    assert ids(second)[:3] == ["u0", "u1", "a1"]
    assert uuid.UUID(ids(second)[3]).version == 4
    assert made.transcript.messages[-1].id == ids(second)[3]


@pytest.mark.parametrize("message", [1, None, ["text"], {"role": "user"}, answered("a", "x")])
async def test_another_kind_of_message_is_refused_at_once(message: Any) -> None:
    """S-31"""
    made = session()
    with pytest.raises(TypeError):
        await made.send(message)
    for params in ({"run_id": "r"}, RunParams(run_id=1)):  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await made.run(params)  # type: ignore[arg-type]
    assert made.script.inputs == []


async def test_the_turn_is_on_screen_before_the_answer_begins() -> None:
    """S-33"""
    held = gate()
    made = session([held, rs(R), rf(R)])
    async with anyio.create_task_group() as group:
        group.start_soon(made.send, "hi")
        await held.reached
        assert (roles(made.transcript), made.transcript.run.ok) == (["user"], False)
        assert type(made.transcript.run).__name__ == "Idle"
        held.open()


async def test_a_request_that_cannot_be_sent_is_refused_before_the_turn_is_drawn() -> None:
    """S-34: P-25; transcript and history are as they were, and the run id is free."""
    made = session([rs("r1"), rf("r1")])
    before = made.transcript
    broken = UserMessage.model_construct(id="u1", role="user", content=7)
    with pytest.raises(LocalProtocolError):
        await made.send(broken, under("r1"))
    assert made.transcript is before
    assert (made.messages, made.script.inputs) == ((), [])
    assert not made.busy
    assert (await made.run(under("r1"))).ok


async def test_a_follow_up_that_cannot_be_sent_is_a_failure_of_kind_local() -> None:
    """S-34"""
    tool_props: dict[str, Any] = {}

    def poison() -> str:
        made._exchange._params = RunParams(context=(Context.model_construct(description=7, value="v"),))  # type: ignore[union-attr]
        return "x"

    made = session([rs(R), call("c1", name="poison"), rf(R)], tools=[poison])
    state = await made.run(RunParams(forwarded_props=tool_props))
    assert isinstance(state, Failed)
    assert state.kind == "local"
    assert len(made.script.inputs) == 1


async def test_a_failed_connection_leaves_the_turn() -> None:
    """S-35: nothing is raised."""
    made = session([ConnectionRefusedError("refused")])
    state = await made.send("hi")
    assert isinstance(state, Failed)
    assert (state.kind, texts(made.transcript)) == ("transport", ["hi"])


async def test_a_taken_message_id_stays_the_wires() -> None:
    """S-36"""
    made = session([rs(R), text("m1", "hello"), rf(R)], [rs(R), rf(R)])
    await made.run()
    await made.send(said("m1", "hi"))
    assert [(m.id, m.role) for m in made.script.inputs[1].messages] == [("m1", "assistant"), ("m1", "user")]
    assert texts(made.transcript) == ["hello", "hi"]
    assert made.codes == ["message-id-taken"]


# -- the builder -------------------------------------------------------------------------------------------------------


async def test_every_request_has_the_same_shape() -> None:
    """S-52: version 1.0, no nulls, state left out when null, never an empty resume."""
    made = session([rs(R), rf(R)], [rs(R), rf(R)], state={"n": 1})
    await made.send("hi")
    made.state = None
    await made.run()
    first, second = (given.model_dump(by_alias=True, exclude_unset=True) for given in made.script.inputs)
    assert first["protocolVersion"] == "1.0"
    assert first["state"] == {"n": 1}
    assert "resume" not in first
    assert "state" not in second
    assert None not in second.values()


async def test_texts_and_encrypted_values_go_back_as_they_came() -> None:
    """S-54: reasoning goes back, with empty text too; ids are those that arrived."""
    reasoning = [span("s1")[0], *thought("q1"), encrypted("message", "q1", "b64:AAA=="), span("s1")[1]]
    calling = [*call("c1", parent="a1"), encrypted("tool-call", "c1", "sig:9/zz"), cr("c1", "ok", "t1")]
    made = session([rs(R), reasoning, calling, text("a2", "Ok."), rf(R)], [rs(R), rf(R)])
    await made.send(said("u1", "Hello"))
    await made.run()
    messages = made.script.inputs[1].model_dump(by_alias=True, exclude_none=True)["messages"]
    assert [message["id"] for message in messages] == ["u1", "q1", "a1", "t1", "a2"]
    assert (messages[1]["content"], messages[1]["encryptedValue"]) == ("", "b64:AAA==")
    assert messages[2]["toolCalls"][0]["encryptedValue"] == "sig:9/zz"
    assert made.codes == []
    assert [message.id for message in made.messages] == ["u1", "q1", "a1", "t1", "a2"]


async def test_activities_and_stray_results_are_not_sent() -> None:
    """S-55: the stray result is drawn, and the run does not fail."""
    made = session([rs(R), acs("x", {}), cr("c9", "stray"), rf(R)], [rs(R), rf(R)])
    assert (await made.run()).ok
    await made.run()
    assert ids(made.script.inputs[1]) == []
    assert made.codes == ["result-without-call"]
    assert (calls(made.transcript)["c9"].name, calls(made.transcript)["c9"].status) == ("", "complete")


async def test_a_result_stands_behind_its_call() -> None:
    """S-56: whatever came in between; the latest call owns a repeated id."""
    made = session(
        [rs(R), call("c1", '{"n":1}', parent="a1"), text("a2", "x"), cr("c1", "one"), rf(R)],
        [rs(R), call("c1", '{"n":2}', parent="a3"), text("a4", "y"), cr("c1", "two", "t2"), rf(R)],
        [rs(R), rf(R)],
    )
    for _ in range(3):
        await made.run()
    assert ids(made.script.inputs[1]) == ["a1", "tool(c1)", "a2"]
    assert ids(made.script.inputs[2]) == ["a1", "tool(c1)", "a2", "a3", "tool(c1)", "a4"]
    assert [m.content for m in made.script.inputs[2].messages if m.role == "tool"] == ["one", "two"]
    assert made.codes == ["call-id-reused"]


async def test_no_request_has_a_call_without_an_answer() -> None:
    """S-57: made at request time, drawn on the part, adopted."""
    held = gate()
    made = session([rs(R), call("c1", parent="a1"), held], [rs(R), rf(R)], [rs(R), rf(R)])
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(made.send, said("u1", "test"))
            await held.reached
            scope.cancel()
    assert calls(made.transcript)["c1"].status == "failed"
    await made.send(said("u2", "test"))
    assert ids(made.script.inputs[1]) == ["u1", "a1", "tool(c1)", "u2"]
    repair = answers(made.script.inputs[1])["c1"]
    assert repair.content == repair.error == "Not executed: the run ended before this call was answered"
    part = calls(made.transcript)["c1"]
    assert (part.status, part.result, part.error, part.local) == ("failed", repair.content, repair.error, True)
    assert made.codes == ["call-repaired"]
    await made.run()
    assert ids(made.script.inputs[2]) == ["u1", "a1", "tool(c1)", "u2"]
    assert answers(made.script.inputs[2])["c1"].id == repair.id
    assert made.codes == ["call-repaired"]


async def test_a_call_whose_arguments_never_closed_is_left_out() -> None:
    """S-58: with its message when nothing else is in it; never executed, never answered."""
    made = session(
        [
            rs(R),
            text("a1", "so"),
            cs("c1", parent="a1", name="echo"),
            ca("c1", "{"),
            cs("c2", name="echo"),
            error("cut"),
        ],
        [rs(R), rf(R)],
        tools=[echo],
    )
    await made.run()
    await made.run()
    assert ids(made.script.inputs[1]) == ["a1"]
    assert made.script.inputs[1].messages[0].tool_calls is None  # type: ignore[union-attr]
    assert made.codes == []


async def test_exactly_one_result_for_a_call() -> None:
    """S-59"""
    made = session([rs(R), call("c1"), cr("c1", "one"), cr("c1", "two", "t9"), rf(R)], [rs(R), rf(R)])
    await made.run()
    await made.run()
    assert answers(made.script.inputs[1])["c1"].content == "two"
    assert ids(made.script.inputs[1]) == ["c1", "tool(c1)"]
    assert made.codes == ["second-result"]


async def test_the_input_of_a_run_started_is_added() -> None:
    """S-60"""
    given = RunAgentInput(thread_id=THREAD, run_id="r1", messages=[said("u1", "other"), said("u0", "more")])
    made = session([rs("r1", input=given), text("a1", "x"), rf("r1")], [rs(R), rf(R)])
    await made.send(said("u1", "mine"), under("r1"))
    await made.run()
    assert [(m.id, m.content) for m in made.script.inputs[1].messages] == [("u1", "mine"), ("u0", "more"), ("a1", "x")]
    assert texts(made.transcript) == ["mine", "more", "x"]


async def test_results_and_repairs_go_ahead_of_the_new_turn() -> None:
    """S-38"""
    made = session(
        [rs(R), call("c1", name="echo", parent="a1"), call("c2", parent="a1"), rf(R)], [rs(R), rf(R)], tools=[echo]
    )
    await made.send(said("u1", "go"))
    await made.send(said("u2", "on"))
    assert ids(made.script.inputs[1]) == ["u1", "a1", "tool(c1)", "tool(c2)", "u2"]
    assert answers(made.script.inputs[1])["c1"].content == "got 0"
    assert answers(made.script.inputs[1])["c2"].error == "Not executed: no result was given for this call"


async def test_a_snapshot_decides_what_is_sent() -> None:
    """S-135, S-54"""
    made = session(
        [rs(R), text("a1", "old"), ms(said("u1", "hi"), reasoned("q1", "hm"), answered("a2", "new")), rf(R)],
        [rs(R), rf(R)],
    )
    await made.send(said("u1", "hi"))
    await made.run()
    assert ids(made.script.inputs[1]) == ["u1", "q1", "a2"]


async def test_a_multimodal_turn_is_sent_as_it_is() -> None:
    """S-112, S-31"""
    made = session([rs(R), rf(R)])
    await made.send(said("u1", [TextPart(type="text", text="a"), TextPart(type="text", text="b")]))
    assert [part.text for part in made.script.inputs[0].messages[0].content] == ["a", "b"]  # type: ignore[union-attr]
    assert [part.id for part in made.transcript.messages[0].parts] == ["text:u1#0", "text:u1#1"]


async def test_a_half_character_does_not_break_the_next_request() -> None:
    """S-54: joined where its partner came, and sent as U+FFFD by the encoder where it did not."""
    made = session([rs(R), text("a1", "ok \ud83d", "\ude00 done"), rf(R)], [rs(R), rf(R)])
    await made.run()
    await made.run()
    assert made.script.inputs[1].messages[0].content == "ok 😀 done"


async def test_ids_are_stable_over_many_requests() -> None:
    """S-54: every id in the third request occurred before, but for the new turn."""
    made = session([rs(R), text("a1", "x"), acs("x", {}), rf(R)], [rs(R), text("a2", "y"), rf(R)], [rs(R), rf(R)])
    for turn in ("u1", "u2", "u3"):
        await made.send(said(turn, turn))
    assert ids(made.script.inputs[2]) == ["u1", "a1", "u2", "a2", "u3"]


async def test_two_sessions_share_nothing() -> None:
    """S-6: also with one agent."""
    made = session([rs(R), text("a1", "one"), rf(R)], [rs(R), rf(R)])
    other = AgentSession(made.script, thread_id=THREAD)
    await made.send(said("u1", "x"))
    await other.send(said("u2", "y"))
    assert ids(made.script.inputs[1]) == ["u2"]


async def test_ce_and_cs_in_separate_runs() -> None:
    """S-58, P-51: a call that was cut is not sent; a later run may send it whole under its id."""
    made = session([rs(R), cs("c1"), error("cut")], [rs(R), call("c1", '{"n":1}'), cr("c1"), rf(R)], [rs(R), rf(R)])
    for _ in range(3):
        await made.run()
    assert ids(made.script.inputs[1]) == []
    assert ids(made.script.inputs[2]) == ["c1", "tool(c1)"]
    assert calls(made.transcript)["c1"].arguments == '{"n":1}'
    assert ce("c1").tool_call_id == "c1"  # type: ignore[attr-defined]
