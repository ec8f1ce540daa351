"""What a session is made with: history, state, tools, and what is refused."""

from __future__ import annotations

import uuid
from typing import Any

import anyio
import pytest
from tests.client.kit import Agent, R, ids, session
from tests.transcript.events import THREAD, answered, result, rf, rs, said, ss
from tests.transcript.reading import calls

from handrail import AgentSession, Idle, Loop, RunParams
from handrail.testing import ScriptedBackend, gate


def two(x: int = 1) -> str:
    """A client tool."""
    return f"two {x}"


async def test_a_new_session_has_sent_nothing() -> None:
    """S-1, S-7"""
    made = session(thread_id=None)
    assert uuid.UUID(made.thread_id).version == 4
    assert made.transcript.run == Idle()
    assert made.messages == ()
    assert made.script.inputs == []
    assert session().thread_id == THREAD


@pytest.mark.parametrize(
    ("agent", "options", "words"),
    [
        ("http://127.0.0.1:9/", {}, r"str is no agent: HttpAgent\(url\)"),
        (Loop([ScriptedBackend([])]), {}, r"Loop is no agent: .*LoopAgent\(loop\)"),
        (Agent(), {"ask": True}, "ask is a function of an interrupt"),
        (Agent(), {"ask": lambda: True}, "ask is a function of an interrupt"),
        (Agent(), {"on_warning": lambda: None}, "on_warning is a function of a WarningRecord"),
    ],
)
def test_what_cannot_work_is_named_at_once(agent: Any, options: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        AgentSession(agent, **options)


def test_a_session_shows_itself() -> None:
    """In a notebook it is the last line of a cell."""
    made = session(messages=[said("u0", "hi")])
    assert repr(made) == f"<AgentSession {THREAD}, 1 messages, at rest>"


async def test_initial_messages_begin_the_history() -> None:
    """S-2: [u0, a0 with call c0, t0] are two messages on screen, and go out again in front of the turn."""
    begun = session([rs(R), rf(R)], messages=[said("u0", "hi"), answered("a0", None, ("c0", "{}")), result("t0", "c0")])
    assert [message.role for message in begun.transcript.messages] == ["user", "assistant"]
    assert calls(begun.transcript)["c0"].status == "complete"
    await begun.send(said("u1", "go on"))
    assert ids(begun.script.inputs[0]) == ["u0", "a0", "tool(c0)", "u1"]


def test_initial_messages_are_messages() -> None:
    """S-2: of ag_ui, or in the wire's form; anything else is refused."""
    assert session(messages=[{"role": "user", "id": "u0", "content": "hi"}]).messages == (said("u0", "hi"),)
    with pytest.raises(TypeError):
        session(messages=["hi", 5])


async def test_state_is_what_the_next_request_carries() -> None:
    """S-3, S-53: None means {}; assigning replaces it; a delta applies to what was sent."""
    made = session([rs(R), rf(R)], [rs(R), ss({"n": 2}), rf(R)], [rs(R), rf(R)])
    assert made.state == {}
    made.state = {"n": 1}
    assert made.transcript.state == {"n": 1}
    await made.run()
    await made.run()
    await made.run()
    assert [given.state for given in made.script.inputs] == [{"n": 1}, {"n": 1}, {"n": 2}]


async def test_state_cannot_be_assigned_during_an_exchange() -> None:
    """S-3"""
    held = gate()
    made = session([rs(R), held, rf(R)])
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        with pytest.raises(RuntimeError, match="exchange"):
            made.state = 1
        held.open()
    made.state = 1
    assert made.state == 1


@pytest.mark.parametrize(
    "options",
    [
        {"tools": [two, two]},
        {"max_tool_rounds": -1},
        {"max_tool_rounds": True},
        {"max_tool_rounds": 1.5},
        {"late_run_error": "ignore"},
    ],
)
def test_what_cannot_be_is_refused_at_construction(options: dict[str, Any]) -> None:
    """S-4, S-5"""
    with pytest.raises(ValueError, match=r"."):
        AgentSession(Agent(), **options)


async def test_tools_are_a_tuple_in_order() -> None:
    """S-4"""
    assert [tool.name for tool in session(tools=[two]).tools] == ["two"]


async def test_what_was_handed_in_is_copied() -> None:
    """S-6"""
    first, turn, state = said("u0", "hi"), said("u1", "go"), {"n": [1]}
    params = RunParams(forwarded_props={"a": [1]})
    held = gate()
    made = session([rs(R), held, rf(R)], [rs(R), rf(R)], messages=[first], state=state)
    async with anyio.create_task_group() as group:
        group.start_soon(made.send, turn, params)
        await held.reached
        first.content = turn.content = "changed"
        state["n"].append(2)
        params.forwarded_props["a"].append(2)
        held.open()
    await made.run()
    for given in made.script.inputs:
        assert [message.content for message in given.messages] == ["hi", "go"]
        assert given.state == {"n": [1]}
    assert made.script.inputs[0].forwarded_props == {"a": [1]}
