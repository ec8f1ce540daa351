"""An event loop closed in the middle of an exchange: the session ends it, keeps everything, and goes on elsewhere.

Asyncio lets a loop be closed while tasks still wait on it, and runs no step of them any more. Trio cancels them first.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import anyio
import pytest
from tests.client.kit import R, Session, answers, ids, session, texts
from tests.transcript.events import asks, ca, call, cs, question, rf, rs, said, tc, text, ts
from tests.transcript.reading import calls

from handrail import (
    AgentSession,
    Failed,
    Finished,
    Loop,
    LoopAgent,
    RunScope,
    RunState,
    SessionClosedError,
    Tool,
    Transcript,
    approve,
)
from handrail.testing import ScriptedBackend, gate, stall
from handrail.testing import text as says

T = TypeVar("T")
CLOSED = Failed("the event loop closed before the run ended", "CLIENT_ERROR")
STOPPED = "Stopped before the tool finished"
PATIENCE = 20.0


@pytest.fixture(autouse=True)
def noise(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[list[object]]:
    """R-100: nothing here is noisy: no exception that nobody can catch, no log of ours, no task of ours destroyed."""
    heard: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: heard.append((args.exc_value, args.object)))
    yield heard
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    assert heard == []
    ours = [
        record for record in caplog.records if record.name.startswith("handrail") and record.levelno >= logging.ERROR
    ]
    destroyed = [record for record in caplog.records if record.name == "asyncio" and "name='handrail" in record.message]
    assert ours + destroyed == []


def left_behind(begin: Callable[[], Coroutine[Any, Any, T]], last: Callable[[], object] = lambda: None) -> T:
    """What `begin` gives on an event loop that is closed then, without a word to the tasks that wait on it.

    `last` is done before, where the loop hears nothing of it any more.
    """
    loop = asyncio.new_event_loop()
    try:
        made = loop.run_until_complete(asyncio.wait_for(begin(), PATIENCE))
        last()
        return made
    finally:
        loop.close()


async def shown(made: AgentSession, what: Callable[[Transcript], bool]) -> None:
    """Wait until the screen is so."""
    async for transcript in made.changes():
        if what(transcript):
            return


def call_is(status: str, call_id: str = "c1") -> Callable[[Transcript], bool]:
    return lambda transcript: call_id in calls(transcript) and calls(transcript)[call_id].status == status


def leave(made: AgentSession, what: Callable[[Transcript], bool], *exchanges: Coroutine[Any, Any, RunState]) -> Any:
    """Begin these exchanges, and close their event loop when the screen is so. Gives their tasks."""

    async def begin() -> list[asyncio.Task[RunState]]:
        tasks = [asyncio.ensure_future(exchange) for exchange in exchanges]
        await shown(made, what)
        return tasks

    return left_behind(begin)


def in_a_thread(ask: Callable[[], Coroutine[Any, Any, RunState]]) -> RunState:
    got: list[RunState] = []
    thread = threading.Thread(target=lambda: got.append(asyncio.run(ask())), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return got[0]


def without_a_loop(made: Session) -> RunState:
    return made.send_sync("again")


ELSEWHERE: dict[str, Callable[[Session], RunState]] = {
    "another asyncio loop": lambda made: asyncio.run(made.send("again")),
    "a loop in another thread": lambda made: in_a_thread(lambda: made.send("again")),
    "trio": lambda made: anyio.run(made.send, "again", backend="trio"),
    "a thread without a loop": without_a_loop,
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_the_next_call_works_elsewhere(where: str) -> None:
    """S-39, S-35, R-100: the run has failed, what was said is kept, and the turn is free."""
    made = session([rs(R), ts("a1"), tc("a1", "half"), stall()], [rs(R), text("a2", "whole"), rf(R)])
    tasks = leave(made, lambda t: "half" in t.text, made.send(said("u1", "go")))
    assert not made.busy
    assert made.transcript.run == CLOSED
    assert texts(made.transcript) == ["go", "half"]
    assert not made.transcript.messages[-1].is_streaming
    assert made.script.runs[0].result.value.outcome == "cancelled"  # by the exchange, which ends first
    assert made.script.runs[0].drained.is_set
    assert ELSEWHERE[where](made).ok
    assert ids(made.script.inputs[1])[:2] == ["u1", "a1"]
    assert texts(made.transcript) == ["go", "half", "again", "whole"]
    before = made.dump()
    del tasks
    gc.collect()  # the coroutines of the dead loop end only now
    assert made.dump() == before
    assert made.codes == []


def test_a_turn_whose_agent_has_not_spoken_is_kept() -> None:
    """S-29, S-53: `run()` asks again, with the turn that is in the history."""
    made = session([stall()], [rs(R), text("a1"), rf(R)])
    leave(made, lambda t: len(t.messages) == 1, made.send(said("u1", "go")))
    assert made.transcript.run == CLOSED
    assert asyncio.run(made.run()).ok
    assert [ids(given) for given in made.script.inputs] == [["u1"], ["u1"]]


def test_an_exchange_that_was_stopped_is_cancelled() -> None:
    """S-43, R-100: cancelled if that was asked for; the loop was closed before it could be heard."""
    made = session([rs(R), ts("a1"), stall()])

    async def begin() -> asyncio.Task[RunState]:
        task = asyncio.ensure_future(made.send("go"))
        await shown(made, lambda t: len(t.messages) == 2)
        return task

    task = left_behind(begin, made.stop)
    assert not task.done()
    assert made.transcript.run == Failed("Run cancelled", "CANCELLED")
    assert not made.busy


def test_a_verdict_stands() -> None:
    """S-18: the agent had finished; its stream was still open."""
    made = session([rs("r1"), text("a1"), rf("r1"), stall()], [rs(R), rf(R)], grace=PATIENCE)
    tasks = leave(made, lambda t: isinstance(t.run, Finished), made.run())
    assert made.transcript.run == Finished(made.thread_id, "r1")
    assert asyncio.run(made.run()).ok
    assert not tasks[0].done()


def test_async_tools_are_stopped_and_their_calls_answered() -> None:
    """S-46, S-45, S-79: what was ready is kept, the rest is answered with an error, and the next request says so."""
    story: list[str] = []

    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            story.append("closed")
        return "never"

    def quick() -> str:
        return "here"

    made = session(
        [rs(R), call("c0", name="quick"), call("c1", name="slow"), call("c2", name="slow"), rf(R)],
        [rs(R), rf(R)],
        tools=[slow, quick],
    )
    leave(made, call_is("running"), made.send(said("u1", "go")))
    assert isinstance(made.transcript.run, Finished)
    assert made.still_running() == ()
    assert story == ["closed"]
    assert made.codes == ["tool-loop-stopped"]
    asyncio.run(made.send(said("u2", "on")))
    sent = answers(made.script.inputs[1])
    assert {name: message.content for name, message in sent.items()} == {
        "c0": "here",
        "c1": STOPPED,
        "c2": "Not executed: the run ended before this call was answered",
    }
    assert len(made.script.inputs) == 2


def test_a_blocking_tool_is_left_in_its_thread() -> None:
    """S-46: told by `still_running` until it returns; what it returns late is dropped, and closing waits for it."""
    held = gate()

    def slow() -> str:
        held.wait(PATIENCE)
        return "late"

    made = session([rs(R), call("c1", name="slow"), rf(R)], [rs(R), rf(R)], tools=[slow])
    leave(made, call_is("running"), made.send(said("u1", "go")))
    assert made.still_running() == ("slow",)
    assert asyncio.run(made.send("on")).ok
    assert answers(made.script.inputs[1])["c1"].content == STOPPED
    held.open()
    asyncio.run(made.aclose(PATIENCE))
    assert made.still_running() == ()
    assert calls(made.transcript)["c1"].result == STOPPED


def test_a_question_that_nobody_has_answered_yet() -> None:
    """S-72: the person was still thinking; the tool is not run."""
    ran: list[str] = []

    def danger() -> None:
        ran.append("danger")

    thinking = gate()

    async def ask(interrupt: Any) -> bool:
        await thinking
        return True

    tools = [Tool(danger, needs_approval=True)]
    made = session([rs(R), call("c1", name="danger"), rf(R)], [rs(R), rf(R)], tools=tools, ask=ask)

    async def begin() -> asyncio.Task[RunState]:
        task = asyncio.ensure_future(made.send("go"))
        await thinking.reached
        return task

    task = left_behind(begin)
    assert asyncio.run(made.run()).ok
    assert answers(made.script.inputs[1])["c1"].error is not None
    assert ran == []
    assert not task.done()


def test_a_follow_up_carries_its_results_again() -> None:
    """S-77: they are in the history, and nothing is executed twice."""
    ran: list[int] = []

    def look() -> str:
        ran.append(1)
        return "seen"

    made = session([rs(R), call("c1"), rf(R)], [rs(R), ts("a2"), stall()], [rs(R), text("a3"), rf(R)], tools=[look])
    leave(made, lambda t: len(t.messages) == 3, made.send(said("u1", "go")))
    assert made.transcript.run == CLOSED
    assert asyncio.run(made.run()).ok
    assert answers(made.script.inputs[1])["c1"] == answers(made.script.inputs[2])["c1"]
    assert ran == [1]


def test_answers_stay_owed_and_go_out_again_once() -> None:
    """S-93, S-94, S-96: pending and owed as after any failure; the next request carries the same entry, and its run
    retires it."""
    made = session(
        [rs(R), call("c1", parent="a1"), asks(R, question("i1", "c1"))],
        [rs(R), ts("a2"), tc("a2", "half"), stall()],
        [rs(R), rf(R)],
        [rs(R), rf(R)],
    )
    asyncio.run(made.send(said("u1", "go")))
    leave(made, lambda t: "half" in t.text, made.resume([approve("i1")]))
    assert made.transcript.run == CLOSED
    assert [one.id for one in made.pending_interrupts] == ["i1"]
    assert [one.interrupt_id for one in made.owed_answers] == ["i1"]
    assert calls(made.transcript)["c1"].status == "awaiting_approval"
    assert asyncio.run(made.run()).ok
    assert made.script.inputs[1].resume == made.script.inputs[2].resume
    assert made.pending_interrupts == made.owed_answers == ()
    assert made.codes == ["answers-resent"]
    asyncio.run(made.send("on"))
    assert made.script.inputs[3].resume is None


def test_a_call_that_waits_on_the_same_loop_is_passed_over() -> None:
    """S-42: it has drawn and sent nothing; the turn goes to whoever waits where a loop runs."""
    made = session([rs(R), ts("a1"), stall()], [rs(R), text("a2", "for the thread"), rf(R)])
    states: list[RunState] = []
    asked = threading.Event()

    async def elsewhere() -> None:
        task = asyncio.ensure_future(made.send("from the thread"))
        await asyncio.sleep(0)
        asked.set()
        states.append(await task)

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()), daemon=True)

    async def begin() -> list[asyncio.Task[RunState]]:
        tasks = [asyncio.ensure_future(made.send(word)) for word in ("first", "never drawn", "nor this")]
        await shown(made, lambda t: len(t.messages) == 2)
        return tasks

    def last() -> None:
        thread.start()
        assert asked.wait(PATIENCE)

    tasks = left_behind(begin, last)
    thread.join(PATIENCE)
    assert [state.ok for state in states] == [True]
    assert texts(made.transcript) == ["first", "", "from the thread", "for the thread"]
    assert len(made.script.inputs) == 2
    assert not made.busy
    assert not any(task.done() for task in tasks)


def test_closing_the_session_elsewhere() -> None:
    """S-51: who waits for its end is told."""
    made = session([rs(R), ts("a1"), stall()])
    closing: list[str] = []
    waits = threading.Event()

    async def close() -> None:
        closed = asyncio.ensure_future(made.aclose(PATIENCE))
        await asyncio.sleep(0)
        waits.set()
        await closed
        closing.append("closed")

    thread = threading.Thread(target=lambda: asyncio.run(close()), daemon=True)

    async def begin() -> asyncio.Task[RunState]:
        task = asyncio.ensure_future(made.send("go"))
        await shown(made, lambda t: len(t.messages) == 2)
        return task

    def last() -> None:
        thread.start()
        assert waits.wait(PATIENCE)

    task = left_behind(begin, last)
    thread.join(PATIENCE)
    assert closing == ["closed"]
    assert made.transcript.run == Failed("Run cancelled", "CANCELLED")
    with pytest.raises(SessionClosedError):
        made.send_sync("more")
    assert not task.done()


def test_inside_a_run_scope() -> None:
    """R-100, S-155: the agent's run lives in the scope, whose tasks are left behind like any."""
    made = session([rs(R), ts("a1"), stall()], [rs(R), rf(R)])

    async def scoped() -> RunState:
        async with RunScope():
            return await made.send("go")

    leave(made, lambda t: len(t.messages) == 2, scoped())
    assert made.transcript.run == CLOSED
    assert made.script.runs[0].drained.is_set
    assert asyncio.run(made.send("on")).ok


def test_a_loop_in_process() -> None:
    """R-100, S-156: the run of the loop ends as that of the agent does."""
    backend = ScriptedBackend([[says("half"), stall()], says("whole")])
    made = AgentSession(LoopAgent(Loop([backend])))
    leave(made, lambda t: "half" in t.text, made.send("go"))
    assert made.transcript.run == CLOSED
    assert asyncio.run(made.send("on")).ok
    assert texts(made.transcript)[-1] == "whole"


def test_a_call_cut_off_in_its_arguments() -> None:
    """S-58, S-57: it is left out of the next request."""
    made = session([rs(R), ts("a1"), tc("a1", "x"), cs("c1", parent="a1"), ca("c1", '{"a"'), stall()], [rs(R), rf(R)])
    leave(made, lambda t: "c1" in calls(t) and calls(t)["c1"].arguments != "", made.send(said("u1", "go")))
    assert calls(made.transcript)["c1"].status == "failed"
    asyncio.run(made.run())
    assert ids(made.script.inputs[1]) == ["u1", "a1"]
