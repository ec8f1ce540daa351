"""What a session asks: turns and run ids."""

from __future__ import annotations

import uuid
from typing import Any

import anyio
import pytest
from ag_ui.core import Context, Tool, UserMessage
from tests.client.kit import R, ids, roles, session, texts, under
from tests.transcript.events import THREAD, answered, asks, call, error, question, rf, rs, said, tc, text, ts

from handrail import AgentSession, Failed, LocalProtocolError, RunIdReusedError, RunParams, approve
from handrail.testing import gate

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


async def test_two_sessions_share_nothing() -> None:
    """S-6: also with one agent."""
    made = session([rs(R), text("a1", "one"), rf(R)], [rs(R), rf(R)])
    other = AgentSession(made.script, thread_id=THREAD)
    await made.send(said("u1", "x"))
    await other.send(said("u2", "y"))
    assert ids(made.script.inputs[1]) == ["u2"]
