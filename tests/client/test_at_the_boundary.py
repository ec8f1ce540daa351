"""What is handed in is judged before anything changes, and what is handed out does not reach back."""

from __future__ import annotations

import contextlib
from typing import Any

import anyio
import pytest
from ag_ui.core import Event, RunAgentInput
from tests.client.kit import DONE, R, loaded, session
from tests.transcript.events import THREAD, asks, call, question, rf, rs, said, ss, text
from tests.transcript.reading import calls

from handrail import AgentSession, Failed, LocalProtocolError, RunParams, Transcript, answer
from handrail.run import Run, RunDriver, drive
from handrail.testing import ScriptedAgent

NO_JSON = [float("nan"), {1, 2}, object(), {"a": [float("inf")]}]


@pytest.mark.parametrize("value", NO_JSON, ids=["nan", "set", "object", "inside"])
async def test_a_request_that_json_cannot_hold_is_refused_before_the_turn_is_drawn(value: Any) -> None:
    """S-34, P-25: in forwarded props and in an answer; nothing has changed."""
    made = session(DONE, [rs(R), call("c1"), asks(R, question("i1", "c1"))], DONE)
    before = made.dump()
    with pytest.raises(LocalProtocolError):
        await made.send("a", RunParams(forwarded_props={"x": value}))
    assert (made.dump(), made.script.inputs) == (before, [])
    await made.send("a")
    await made.run()
    before = made.dump()
    with pytest.raises(LocalProtocolError):
        await made.resume([answer("i1", value)])
    assert made.dump() == before
    assert len(made.script.inputs) == 2


@pytest.mark.parametrize("value", NO_JSON, ids=["nan", "set", "object", "inside"])
def test_a_state_that_json_cannot_hold_is_refused_at_once(value: Any) -> None:
    """S-3, S-34"""
    with pytest.raises(ValueError, match="JSON"):
        AgentSession(ScriptedAgent(), state=value)
    made = session(state={"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        made.state = value
    assert made.state == {"a": 1}


async def test_what_is_read_does_not_reach_back() -> None:
    """S-143, S-6: messages, state, the transcript's state, questions and answers."""
    asking = [rs(R), ss({"a": {"b": 1}}), call("c1"), asks(R, question("i1", "c1", metadata={"k": 1}))]
    made = session(asking, [rs(R)], DONE)
    await made.send(said("u1", "q"))
    message: Any = made.messages[0]
    message.content = "changed"
    made.state["a"]["b"] = 2
    made.transcript.state["a"]["b"] = 3
    asked: Any = made.pending_interrupts[0]
    asked.metadata["k"] = 2
    assert made.pending_interrupts[0].metadata == {"k": 1}
    await made.resume([answer("i1", {"v": 1})])
    owed: Any = made.owed_answers[0]
    owed.payload["v"] = 2
    await made.run()
    given = made.script.inputs[2]
    assert given.messages[0].content == "q"
    assert given.state == {"a": {"b": 1}}
    assert [entry.payload for entry in given.resume or []] == [{"v": 1}]
    assert made.dump()["state"] == {"a": {"b": 1}}


async def test_an_empty_error_of_the_application_is_an_error() -> None:
    """S-74, S-122: never shown as success."""
    made = session([rs(R), call("c1"), rf(R)])
    await made.run()
    made.answer_tool_call("c1", "x", error="")
    shown = calls(made.transcript)["c1"]
    assert (shown.status, shown.error) == ("failed", "")


async def test_an_empty_run_id_is_a_run_id() -> None:
    """S-26, S-32"""
    made = session(DONE)
    await made.run(RunParams(run_id=""))
    assert made.script.inputs[0].run_id == ""


@pytest.mark.parametrize("version", [True, 0, 2, "1", 1.0])
def test_a_version_that_never_was_is_refused(version: Any) -> None:
    """S-151"""
    with pytest.raises(ValueError, match="version"):
        loaded({**session().dump(), "version": version})


async def test_one_function_that_subscribed_twice_ends_each_by_itself() -> None:
    """S-145"""
    made = session(DONE, DONE)
    shown: list[Transcript] = []
    first, second = made.subscribe(shown.append), made.subscribe(shown.append)
    await made.run()
    assert len(shown) % 2 == 0
    before = len(shown)
    first()
    first()
    await made.run()
    assert len(shown) == before + before // 2
    second()


async def _waits(value: object) -> None:
    raise AssertionError("never called")


@pytest.mark.parametrize("callback", [_waits, "no function"])
def test_a_callback_that_cannot_be_called_plainly_is_refused(callback: Any) -> None:
    """S-145 to S-147"""
    made = session()
    with pytest.raises(TypeError, match=r"subscribe\(\)"):
        made.subscribe(callback)
    with pytest.raises(TypeError, match=r"subscribe_events\(\)"):
        made.subscribe_events(callback)


async def test_a_reader_of_changes_can_be_closed() -> None:
    """S-144"""
    made = session([rs(R), text("a", "hi"), rf(R)])
    async with contextlib.aclosing(made.changes()) as changes:
        assert await anext(changes) == made.transcript
    assert [shown async for shown in changes] == []


class Foreign:
    """An agent that is not ours: it checks nothing, and says what it was told to."""

    close_grace = 0.5

    def __init__(self, *events: Any) -> None:
        self._events = events

    def start(self, input: RunAgentInput, /) -> Run[Event]:
        async def body(driver: RunDriver[Event]) -> None:
            for event in self._events:
                driver.emit(event)
            driver.finish(None, outcome="completed")

        return drive(body)


@pytest.mark.parametrize(
    "events",
    [(rs("r1", thread_id="other"),), (rs("r1"), rf("r1", thread_id="other")), (rs("r1"), rf("r2"))],
    ids=["started", "finished", "another-run"],
)
async def test_an_agent_that_checks_nothing_answers_for_another_thread_or_run(events: Any) -> None:
    """S-23"""
    state = await AgentSession(Foreign(*events), thread_id=THREAD).run()
    assert isinstance(state, Failed)
    assert state.kind == "protocol"
    assert "thread" in state.message


async def test_another_threads_run_behind_the_verdict_is_dropped() -> None:
    """S-23, S-18"""
    made = AgentSession(Foreign(rs("r1"), rf("r1"), rs("r2", thread_id="other")), thread_id=THREAD)
    assert (await made.run()).ok
    assert "event-after-end" in [warning.code for warning in made.warnings]


async def test_who_is_cancelled_already_gets_no_turn() -> None:
    """S-42: nothing is drawn, and nothing sent."""
    made = session(DONE)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await made.send("q")
    assert (made.transcript.messages, made.messages, made.script.inputs) == ((), (), [])
    assert (await made.run()).ok
