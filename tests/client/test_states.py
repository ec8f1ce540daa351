"""How a session says that a run ended: states, verdicts and the corner matrix."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from ag_ui.core import BaseEvent, RunAgentInput
from tests.client.kit import Agent, Session, calls, ids, session, texts, under
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
    raw,
    result,
    rf,
    rfx,
    rs,
    said,
    ss,
    tc,
    te,
    text,
    ts,
)

from handrail import (
    AgentSession,
    Failed,
    Finished,
    Idle,
    RemoteProtocolError,
    Running,
    RunParams,
    ToolContext,
    TransportError,
)
from handrail.run import Run, RunDriver, drive
from handrail.testing import gate, stall

R = "*"


def two(x: int = 1) -> str:
    """A client tool."""
    return f"two {x}"


# -- construction ------------------------------------------------------------------------------------------------------


async def test_a_new_session_has_sent_nothing() -> None:
    """S-1, S-7"""
    made = session(thread_id=None)
    assert uuid.UUID(made.thread_id).version == 4
    assert made.transcript.run == Idle()
    assert made.messages == ()
    assert made.script.inputs == []
    assert session().thread_id == THREAD


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


# -- verdicts ----------------------------------------------------------------------------------------------------------


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


# -- the corner matrix -------------------------------------------------------------------------------------------------

AFTER = {
    "nothing": [rs("r1")],
    "finished": [rs("r1"), rf("r1")],
    "failed": [rs("r1"), error("no", "X")],
}
VERDICT: dict[str, Any] = {"finished": Finished(THREAD, "r1"), "failed": Failed("no", "X")}


async def outcome_of(stream: list[Any], **options: Any) -> tuple[Any, Session]:
    made = session(stream, grace=5.0, **options)
    with anyio.fail_after(10):
        return await made.run(under("r1")), made


@pytest.mark.parametrize("after", AFTER)
async def test_the_stream_ends(after: str) -> None:
    """S-13, S-18, row 1 of the matrix"""
    state, made = await outcome_of(AFTER[after])
    assert made.codes == []
    if after == "nothing":
        assert (state.kind, state.code) == ("truncated", "CLIENT_ERROR")
    else:
        assert state == VERDICT[after]


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("breaks", [OSError("gone"), te("nobody")])
async def test_the_stream_breaks_or_violates(after: str, breaks: Any) -> None:
    """S-14, S-18, row 2 of the matrix"""
    state, made = await outcome_of([*AFTER[after], breaks])
    if after == "nothing":
        assert (state.kind, state.code) == ("transport" if isinstance(breaks, OSError) else "protocol", "CLIENT_ERROR")
        assert made.codes == []
    else:
        assert state == VERDICT[after]
        assert made.codes == ["transport-after-end" if isinstance(breaks, OSError) else "event-after-end"]


@pytest.mark.parametrize("after", AFTER)
async def test_the_calling_task_is_cancelled(after: str) -> None:
    """S-18, S-41, row 3 of the matrix: recorded, and the cancellation goes on."""
    held = gate()
    made = session([*AFTER[after], held], [rs(R), rf(R)], grace=60.0)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(made.run, under("r1"))
            await held.reached
            scope.cancel()
    assert scope.cancelled_caught
    expected = Failed("Run cancelled", "CANCELLED") if after == "nothing" else VERDICT[after]
    assert made.transcript.run == expected
    assert made.script.runs[0].is_cancelled or made.script.runs[0].is_done
    assert not made.busy
    assert (await made.run()).ok


@pytest.mark.parametrize("after", AFTER)
async def test_stop(after: str) -> None:
    """S-18, S-43, row 4 of the matrix: the call returns."""
    held = gate()
    made = session([*AFTER[after], held], [rs(R), rf(R)], grace=60.0)
    states: list[Any] = []

    async def ask() -> None:
        states.append(await made.run(under("r1")))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await held.reached
        assert made.stop() is None
        made.stop()
    assert states == [Failed("Run cancelled", "CANCELLED") if after == "nothing" else VERDICT[after]]
    assert (await made.run()).ok


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("late", ["stand", "fail"])
async def test_an_error_event(after: str, late: str) -> None:
    """S-19, S-18, row 5 of the matrix"""
    state, made = await outcome_of([*AFTER[after], error("late", "L")], late_run_error=late)
    if after == "nothing":
        assert (state, made.codes) == (Failed("late", "L"), [])
    elif after == "failed":
        assert (state, made.codes) == (VERDICT["failed"], ["event-after-end"])
    else:
        stands = Finished(THREAD, "r1", late_error=Failed("late", "L"))
        assert state == (stands if late == "stand" else Failed("late", "L"))
        assert state.ok == (late == "stand")
        assert made.codes == ["late-run-error"]


@pytest.mark.parametrize("after", AFTER)
async def test_a_finish_event(after: str) -> None:
    """S-18, row 6 of the matrix"""
    state, made = await outcome_of([*AFTER[after], rf("r1", result=2)])
    if after == "nothing":
        assert state == Finished(THREAD, "r1", "success", 2)
    else:
        assert (state, made.codes) == (VERDICT[after], ["event-after-end"])


@pytest.mark.parametrize("after", AFTER)
async def test_a_start_event(after: str) -> None:
    """S-21, row 7 of the matrix"""
    state, made = await outcome_of([*AFTER[after], rs("r2"), rf("r2")])
    if after == "nothing":
        assert (state.kind, state.code) == ("protocol", "CLIENT_ERROR")
    else:
        assert (state, made.codes) == (Finished(THREAD, "r2"), [])


@pytest.mark.parametrize("after", AFTER)
async def test_any_other_event(after: str) -> None:
    """S-18, row 8 of the matrix: dropped behind the end, and not told to subscribers."""
    state, made = await outcome_of([*AFTER[after], ss({"n": 1}), *([rf("r1")] if after == "nothing" else [])])
    if after == "nothing":
        assert (state.ok, made.state) == (True, {"n": 1})
    else:
        assert (state, made.codes, made.state) == (VERDICT[after], ["event-after-end"], {})


@pytest.mark.parametrize("by", ["cancel", "stop"])
async def test_a_tool_still_runs(by: str) -> None:
    """S-46, S-76, row 9 of the matrix: the verdict stands, the call is answered with an error, no follow-up."""
    held = gate()

    async def slow() -> str:
        await held
        return "late"

    made = session([rs("r1"), call("c1", name="slow"), rf("r1")], [rs(R), rf(R)], tools=[slow])
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(made.run, under("r1"))
            await held.reached
            assert calls(made.transcript)["c1"].status == "running"
            if by == "cancel":
                scope.cancel()
            else:
                made.stop()
    assert scope.cancelled_caught == (by == "cancel")
    assert made.transcript.run == Finished(THREAD, "r1")
    part = calls(made.transcript)["c1"]
    assert (part.status, part.error) == ("failed", "Stopped before the tool finished")
    assert len(made.script.inputs) == 1
    assert made.codes == ["tool-loop-stopped"]


@pytest.mark.parametrize("after", ["finished", "failed"])
async def test_the_connection_stays_open(after: str) -> None:
    """S-22, row 10 of the matrix"""
    made = session([*AFTER[after], stall()], grace=0.02)
    with anyio.fail_after(5):
        assert await made.run(under("r1")) == VERDICT[after]


@pytest.mark.parametrize("waits", [1, 3])
async def test_cancelled_while_it_waits_for_its_turn(waits: int) -> None:
    """S-42, row 11 of the matrix: nothing recorded, drawn or sent, and the queue is intact."""
    held = gate()
    made = session([rs("r1"), held, rf("r1")], [rs(R), rf(R)])
    async with anyio.create_task_group() as group:
        group.start_soon(made.run, under("r1"))
        await held.reached
        async with anyio.create_task_group() as waiting:
            for number in range(waits):
                waiting.start_soon(made.send, said(f"w{number}", "never"), under(f"w{number}"))
            await anyio.wait_all_tasks_blocked()
            waiting.cancel_scope.cancel()
        held.open()
    assert made.transcript.run == Finished(THREAD, "r1")
    assert [given.run_id for given in made.script.inputs] == ["r1"]
    assert (await made.send(said("u1", "now"), under("w0"))).ok
    assert texts(made.transcript) == ["now"]


# -- agents that are not ours ------------------------------------------------------------------------------------------


class Foreign:
    """An agent made with `drive`, without checks, warnings or a report."""

    close_grace = 0.02

    def __init__(self, body: Callable[[RunDriver[Any]], Any]) -> None:
        self._body = body

    def start(self, input: RunAgentInput) -> Run[Any]:
        return drive(self._body)


async def test_a_foreign_agent_is_driven_by_its_events() -> None:
    """S-154: the verdict is read from the events, and only without one from the outcome."""

    async def says(driver: RunDriver[Any]) -> None:
        for event in [rs("r1"), *text("m1", "hi"), rf("r1"), raw(1), error("late")]:
            driver.emit(event)
        driver.finish(None, outcome="failed", error="gone")

    told: list[Any] = []
    made = AgentSession(Foreign(says), thread_id=THREAD, on_warning=told.append)
    state = await made.run(under("asked"))
    assert state == Finished(THREAD, "r1", late_error=Failed("late"))
    assert [w.code for w in told] == ["event-after-end", "late-run-error", "transport-after-end", "run-id-mismatch"]


@pytest.mark.parametrize(
    ("finish", "kind", "words"),
    [
        ({"outcome": "completed"}, "truncated", "Stream ended before RUN_FINISHED"),
        ({"outcome": "failed", "error": "it broke"}, "error", "it broke"),
        ({"outcome": "failed"}, "error", "Run failed"),
        ({"outcome": "cancelled"}, "cancelled", "Run cancelled"),
    ],
)
async def test_a_foreign_agent_that_never_said(finish: dict[str, Any], kind: str, words: str) -> None:
    """S-12, S-13, S-16, S-154"""

    async def says(driver: RunDriver[Any]) -> None:
        driver.emit(rs("r1"))
        driver.finish(None, **finish)

    state = await AgentSession(Foreign(says), thread_id=THREAD).run(under("r1"))
    assert isinstance(state, Failed)
    assert state.kind == kind
    assert state.message.startswith(words)


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
