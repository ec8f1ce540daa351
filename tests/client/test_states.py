"""How a session says that a run ended: states and verdicts."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from ag_ui.core import BaseEvent, RunAgentInput
from tests.client.kit import R, session, texts, under
from tests.transcript.events import (
    THREAD,
    answered,
    asks,
    ca,
    call,
    ce,
    cr,
    cs,
    error,
    ms,
    question,
    rf,
    rfx,
    rs,
    ss,
    tc,
    te,
    text,
    ts,
)
from tests.transcript.reading import calls

from handrail import AgentSession, Failed, Finished, Idle, RemoteProtocolError, Running, ToolContext, TransportError
from handrail.run import Run
from handrail.testing import gate, stall


async def test_a_finished_run() -> None:
    """S-9, S-10: the returned state is the transcript's; ids and result are the agent's."""
    made = session([rs("r1"), text("m1", "Hel", "lo"), rf("r1", result={"n": 1})])
    state = await made.run(under("r1"))
    assert state == Finished(THREAD, "r1", "success", {"n": 1})
    assert state is made.transcript.run
    assert texts(made.transcript) == ["Hello"]
    assert not made.transcript.messages[0].is_streaming
    assert made.codes == []


@pytest.mark.parametrize(
    ("stream", "state"),
    [
        ([rs(R), error("upstream said no", "SERVER")], Failed("upstream said no", "SERVER")),
        ([error("upstream said no", "SERVER")], Failed("upstream said no", "SERVER")),
        ([rs(R), error("plain")], Failed("plain", None)),
    ],
)
async def test_an_error_of_the_agent_is_its_own(stream: Any, state: Failed) -> None:
    """S-11: with and without a start; a code only if the agent gave one."""
    made = session(stream)
    assert await made.run() == state
    assert state.kind == "agent"
    assert made.codes == []


async def test_a_failure_the_client_finds_is_folded_and_not_raised() -> None:
    """S-12: and no RUN_ERROR is made of it."""
    made = session([ts("m1")])
    seen: list[BaseEvent] = []
    made.subscribe_events(seen.append)
    state = await made.run()
    assert isinstance(state, Failed)
    assert (state.code, state.kind) == ("CLIENT_ERROR", "protocol")
    assert "RUN_STARTED" in state.message
    assert isinstance(state.cause, RemoteProtocolError)
    assert seen == []


async def test_an_agent_that_cannot_start() -> None:
    """S-12, S-53: the exception is the cause, and the request is history all the same."""

    class Offline:
        def start(self, input: RunAgentInput) -> Run[Any]:
            raise OSError("offline")

    made = AgentSession(Offline(), thread_id=THREAD)
    state = await made.send("hi")
    assert isinstance(state, Failed)
    assert (state.message, state.code, state.kind) == ("offline", "CLIENT_ERROR", "error")
    assert isinstance(state.cause, OSError)
    assert texts(made.transcript) == ["hi"]


async def test_a_failure_without_text_is_named_by_its_class() -> None:
    """S-12"""

    class Silent:
        def start(self, input: RunAgentInput) -> Run[Any]:
            raise ValueError

    state = await AgentSession(Silent()).run()
    assert isinstance(state, Failed)
    assert state.message == "ValueError"


async def test_a_stream_without_a_terminal_event_is_a_failure() -> None:
    """S-13: text is kept and settled."""
    made = session([rs(R), ts("m1"), tc("m1", "part")])
    state = await made.run()
    assert isinstance(state, Failed)
    assert (state.code, state.kind) == ("CLIENT_ERROR", "truncated")
    assert state.message.startswith("Stream ended before RUN_FINISHED")
    assert texts(made.transcript) == ["part"]
    assert not made.transcript.messages[0].is_streaming


async def test_an_empty_stream_is_a_failure_after_a_finished_run_too() -> None:
    """S-13: never the old verdict."""
    made = session([rs(R), rf(R)], [])
    assert (await made.run()).ok
    state = await made.run()
    assert isinstance(state, Failed)
    assert state.kind == "truncated"


async def test_what_was_delivered_before_a_failure_stays() -> None:
    """S-14: text, state, calls and results."""
    made = session(
        [rs(R), ss({"n": 1}), ts("m1"), tc("m1", "partial"), call("c0"), cr("c0"), cs("c1"), ca("c1", "{"),
         OSError("socket closed")]
    )  # fmt: skip
    state = await made.run()
    assert isinstance(state, Failed)
    assert (state.message, state.code, state.kind) == ("socket closed", "CLIENT_ERROR", "transport")
    assert isinstance(state.cause, TransportError)
    assert made.transcript.messages[0].text == "partial"
    assert not made.transcript.messages[0].is_streaming
    shown = calls(made.transcript)
    assert (shown["c0"].status, shown["c1"].status, shown["c1"].error) == ("complete", "failed", "socket closed")
    assert made.state == {"n": 1}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_what_is_no_exception_is_raised_and_recorded(kind: type[BaseException]) -> None:
    """S-15: no caret is left blinking."""

    def interrupt(event: BaseEvent) -> None:
        if event.type.value == "TEXT_MESSAGE_CONTENT":
            raise kind("now")

    made = session([rs(R), ts("m1"), tc("m1", "part"), stall()])
    made.subscribe_events(interrupt)
    with pytest.raises(kind):
        await made.run()
    assert isinstance(made.transcript.run, Failed)
    assert made.transcript.run.code == "CLIENT_ERROR"
    assert not made.transcript.messages[0].is_streaming
    assert not made.busy


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio's Cancelled cannot be made by user code
async def test_a_cancellation_that_nobody_sent_is_a_failure() -> None:
    """S-16"""

    class Confused:
        def start(self, input: RunAgentInput) -> Run[Any]:
            raise anyio.get_cancelled_exc_class()("not yours")

    state = await AgentSession(Confused()).run()
    assert isinstance(state, Failed)
    assert (state.code, state.message) == ("CLIENT_ERROR", "not yours")


async def test_a_run_cancelled_by_another_holder() -> None:
    """S-16: not raised."""
    held = gate()
    made = session([rs(R), held, rf(R)])
    states: list[Any] = []

    async def ask() -> None:
        states.append(await made.run())

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await held.reached
        made.script.runs[0].cancel()
    assert states == [Failed("Run cancelled", "CANCELLED")]
    assert states[0].kind == "cancelled"


async def test_a_cancelled_outcome_is_neither_success_nor_failure() -> None:
    """S-17: text kept, no tool executed, no follow-up, nothing pending; the next run is an ordinary one."""
    ran: list[int] = []

    def tool(x: int = 0) -> None:
        ran.append(x)

    made = session([rs("r1"), text("m1", "Half"), call("c1", name="tool"), rfx("r1")], [rs(R), rf(R)], tools=[tool])
    state = await made.run(under("r1"))
    assert state == Finished(THREAD, "r1", "cancelled")
    assert not state.ok
    assert (ran, len(made.script.inputs), made.pending_tool_calls, made.pending_interrupts) == ([], 1, (), ())
    assert calls(made.transcript)["c1"].status == "failed"
    assert (await made.run()).ok
    assert made.script.inputs[1].resume is None


async def test_each_event_is_applied_before_the_next_is_judged() -> None:
    """S-20: the error was observed, and what follows it changes nothing."""
    made = session([rs(R), error("no", "SERVER"), rf(R)], grace=5.0)
    seen: list[str] = []
    made.subscribe_events(lambda event: seen.append(event.type.value))
    assert await made.run() == Failed("no", "SERVER")
    assert seen == ["RUN_STARTED", "RUN_ERROR"]
    assert made.codes == ["event-after-end"]


async def test_a_further_run_on_the_stream_has_its_own_verdict() -> None:
    """S-21"""
    broken = [rs("r1"), rf("r1"), rs("r2"), ts("m"), tc("m", "x"), OSError("gone")]
    made = session(broken, [rs("r3"), rf("r3"), rs("r4"), rf("r4")], grace=5.0)
    state = await made.run(under("r1"))
    assert isinstance(state, Failed)
    assert not made.transcript.messages[0].is_streaming
    assert await made.run(under("r4")) == Finished(THREAD, "r4")


async def test_a_connection_that_stays_open_costs_no_more_than_the_grace() -> None:
    """S-22"""
    made = session([rs(R), rf(R), stall()], [rs(R), error("no"), stall()], grace=0.05)
    with anyio.fail_after(5):
        assert (await made.run()).ok
        assert await made.run() == Failed("no")
    assert all(run.is_done for run in made.script.runs)
    assert made.codes == []


async def test_a_foreign_thread_or_a_disagreeing_end_fails_the_run() -> None:
    """S-23"""
    for stream in ([rs("r1", thread_id="other")], [rs("r1"), rf("r1", thread_id="other")], [rs("r1"), rf("r9")]):
        made = session(stream)
        state = await made.run(under("r1"))
        assert isinstance(state, Failed)
        assert state.kind == "protocol"


async def test_a_run_under_another_id_is_accepted_as_told() -> None:
    """S-23: with a warning; tools are told the id that was asked for."""
    told: list[str] = []

    def tool(context: ToolContext) -> None:
        told.append(context.run_id)

    made = session([rs("mine"), call("c1", name="tool"), rf("mine")], [rs(R), rf(R)], tools=[tool])
    await made.run(under("yours"))
    assert made.codes == ["run-id-mismatch"]
    assert told == ["yours"]


async def test_a_question_of_a_failed_run_is_no_question() -> None:
    """S-24, S-82: a violation behind the end changes neither questions nor answers; a malformed one asks nothing."""
    made = session([rs("r1"), asks("r1", question("i1")), te("nobody")], grace=5.0)
    state = await made.run(under("r1"))
    assert isinstance(state, Finished)
    assert [interrupt.id for interrupt in made.pending_interrupts] == ["i1"]
    twice = session([rs("r1"), asks("r1", question("i1"), question("i1"))])
    state = await twice.run(under("r1"))
    assert isinstance(state, Failed)
    assert (state.kind, twice.pending_interrupts) == ("protocol", ())


async def test_running_has_the_ids_of_the_event() -> None:
    """S-7"""
    held = gate()
    made = session([held, rs("r1"), stall()])
    async with anyio.create_task_group() as group:
        group.start_soon(made.run, under("r1"))
        await held.reached
        assert made.transcript.run == Idle()
        held.open()
        async for transcript in made.changes():
            if transcript.run != Idle():
                break
        assert made.transcript.run == Running(THREAD, "r1")
        made.stop()


async def test_snapshots_and_calls_end_settled() -> None:
    """S-10, S-117"""
    made = session([rs(R), ms(answered("a1", "hi")), call("c1"), ce("c1")])
    state = await made.run()
    assert isinstance(state, Failed)
    assert texts(made.transcript) == ["hi"]
