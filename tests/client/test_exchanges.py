"""One exchange at a time: the queue, cancelling, stopping, blocking forms, closing."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from tests.client.kit import Session, ids, roles, session, texts, under
from tests.transcript.events import (
    THREAD,
    asks,
    ca,
    call,
    cs,
    question,
    rf,
    rs,
    said,
    tc,
    text,
    ts,
)

from handrail import (
    Failed,
    Finished,
    InterruptedThreadError,
    NotInterruptedError,
    ReentrantCallError,
    ResumeError,
    SessionBusyError,
    SessionClosedError,
    UsageError,
    approve,
)
from handrail.client._turns import Turns
from handrail.run import Settled
from handrail.run._settled import settle
from handrail.testing import gate, stall

R = "*"
CANCELLED = Failed("Run cancelled", "CANCELLED")


# -- the queue ---------------------------------------------------------------------------------------------------------


async def test_a_second_call_waits_for_its_turn() -> None:
    """S-39: it is drawn when its turn comes, and its request has the first answer in it."""
    held = gate()
    made = session([rs("r1"), held, text("a1", "one"), rf("r1")], [rs(R), text("a2", "two"), rf(R)])
    async with anyio.create_task_group() as group:
        group.start_soon(made.run, under("r1"))
        await held.reached
        group.start_soon(made.send, said("u1", "second"))
        await anyio.wait_all_tasks_blocked()
        assert (roles(made.transcript), len(made.script.inputs)) == ([], 1)
        held.open()
    assert roles(made.transcript) == ["assistant", "user", "assistant"]
    assert ids(made.script.inputs[1]) == ["a1", "u1"]


async def test_the_turn_covers_the_follow_ups() -> None:
    """S-39: a send that arrives during a tool round waits for the last of them."""
    held = gate()

    async def slow() -> str:
        await held
        return "x"

    made = session(
        [rs(R), call("c1", name="slow"), rf(R)], [rs(R), text("a2", "done"), rf(R)], [rs(R), rf(R)], tools=[slow]
    )
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        assert made.busy
        assert isinstance(made.transcript.run, Finished)
        group.start_soon(made.send, said("u1", "next"))
        await anyio.wait_all_tasks_blocked()
        assert len(made.script.inputs) == 1
        held.open()
    assert ids(made.script.inputs[2]) == ["c1", "tool(c1)", "a2", "u1"]
    assert not made.busy


async def test_first_come_first_served() -> None:
    """S-39"""
    held = gate()
    streams = [[rs(R), rf(R)] for _ in range(6)]
    made = session([rs(R), held, rf(R)], *streams)
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        for number in range(6):
            group.start_soon(made.send, said(f"u{number}", "x"))
            await anyio.wait_all_tasks_blocked()
        held.open()
    assert ids(made.script.inputs[-1]) == [f"u{number}" for number in range(6)]


def test_one_queue_across_threads_and_event_loops() -> None:
    """S-39, S-49: asyncio loops, a trio loop and blocking callers on one session; nothing lost or doubled."""
    count = 12
    made = session(*([rs(R), text(f"a{number}", "x"), rf(R)] for number in range(count)))
    started = threading.Barrier(4)
    states: list[Any] = []

    async def some(name: str) -> None:
        states.extend([await made.send(said(f"{name}{number}", "x")) for number in range(3)])

    def blocking() -> None:
        started.wait()
        states.extend(made.send_sync(said(f"sync{number}", "x")) for number in range(3))

    def running(name: str, backend: str) -> Callable[[], None]:
        def run() -> None:
            started.wait()
            anyio.run(some, name, backend=backend)

        return run

    threads = [
        threading.Thread(target=target)
        for target in (blocking, running("one", "asyncio"), running("two", "asyncio"), running("trio", "trio"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [state.ok for state in states] == [True] * count
    last = made.script.inputs[-1]
    assert len(last.messages) == 2 * count - 1
    assert [message.role for message in last.messages] == (["user", "assistant"] * count)[:-1]
    users = [message.id for message in last.messages if message.role == "user"]
    for name in ("sync", "one", "two", "trio"):
        assert [user for user in users if user.startswith(name)] == [f"{name}{number}" for number in range(3)]


async def test_a_turn_given_to_somebody_who_just_left_is_handed_on() -> None:
    """S-42: cancelled in the very moment in which the turn is his."""
    turns = Turns()
    await turns.take()
    got: list[str] = []

    async def taking(name: str) -> None:
        await turns.take()
        got.append(name)
        turns.give()

    leaving = anyio.CancelScope()

    async def leave() -> None:
        with leaving:
            await taking("left")

    async with anyio.create_task_group() as group:
        group.start_soon(leave)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(taking, "second")
        await anyio.wait_all_tasks_blocked()
        turns.give()
        leaving.cancel()
    assert got in (["second"], ["left", "second"])
    assert turns.is_free


async def test_what_depends_on_the_thread_is_judged_at_once_when_nothing_runs() -> None:
    """S-40"""
    made = session([rs(R), asks(R, question("i1"))])
    await made.run()
    for refused in (made.send("never"), made.run()):
        with pytest.raises(InterruptedThreadError) as caught:
            await refused
        assert [interrupt.id for interrupt in caught.value.interrupts] == ["i1"]
    assert texts(made.transcript) == []
    assert len(made.script.inputs) == 1


async def test_and_again_when_the_turn_comes() -> None:
    """S-40: a send behind a run that ends by asking is refused then, and drawn nowhere."""
    held = gate()
    made = session([rs(R), held, asks(R, question("i1"))])
    refused: list[BaseException] = []

    async def sending() -> None:
        try:
            await made.send(said("u2", "never"))
        except InterruptedThreadError as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        group.start_soon(sending)
        await anyio.wait_all_tasks_blocked()
        assert refused == []
        held.open()
    assert len(refused) == 1
    assert (texts(made.transcript), made.messages) == ([], ())


@pytest.mark.parametrize("first_fails", [False, True])
async def test_two_resumes_at_once(first_fails: bool) -> None:
    """S-40: one request; the second is refused if the first finished, and a retry if it failed."""
    held = gate()
    made = session(
        [rs(R), asks(R, question("i1"))],
        [rs(R), held, *([OSError("down")] if first_fails else [rf(R)])],
        [rs(R), rf(R)],
    )
    await made.run()
    ended: list[Any] = []

    async def resuming() -> None:
        try:
            ended.append(await made.resume([approve("i1")]))
        except NotInterruptedError as error:
            ended.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(resuming)
        await held.reached
        group.start_soon(resuming)
        await anyio.wait_all_tasks_blocked()
        held.open()
    assert [type(one).__name__ for one in ended] == (
        ["Failed", "Finished"] if first_fails else ["Finished", "NotInterruptedError"]
    )
    assert len(made.script.inputs) == (3 if first_fails else 2)


async def test_arguments_are_judged_before_anything_else() -> None:
    """S-40, S-84: while another exchange runs, too."""
    held = gate()
    made = session([rs("r1"), held, rf("r1")])
    async with anyio.create_task_group() as group:
        group.start_soon(made.run, under("r1"))
        await held.reached
        with anyio.fail_after(1):
            with pytest.raises(TypeError):
                await made.send(5)  # type: ignore[arg-type]
            with pytest.raises(ResumeError) as caught:
                await made.resume([approve("i1"), approve("i1")])
            assert caught.value.duplicate == ("i1",)
            with pytest.raises(ValueError, match="r1"):
                await made.run(under("r1"))
        held.open()


# -- cancelling and stopping -------------------------------------------------------------------------------------------


async def test_cancelling_the_caller() -> None:
    """S-41: settled, recorded with the fixed message, the agent's run cancelled, and usable at once."""
    held = gate()
    made = session([rs(R), ts("a1"), tc("a1", "part"), cs("c1"), ca("c1", "{"), held], [rs(R), rf(R)])
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(made.send, "hi")
            await held.reached
            scope.cancel()
    assert scope.cancelled_caught
    assert made.transcript.run == CANCELLED
    assert texts(made.transcript) == ["hi", "part"]
    assert not made.transcript.messages[1].is_streaming
    with anyio.fail_after(1):
        await made.script.runs[0].drained
    assert made.script.runs[0].status == "cancelled"
    assert (await made.run()).ok


async def test_a_timeout_round_a_call_is_a_cancellation() -> None:
    """S-41"""
    made = session([rs(R), stall()], [rs(R), rf(R)])
    with pytest.raises(TimeoutError), anyio.fail_after(0.02):
        await made.run()
    assert made.transcript.run == CANCELLED
    assert (await made.run()).ok


async def test_stop_with_nothing_in_flight_does_nothing() -> None:
    """S-44"""
    made = session([rs(R), rf(R)])
    made.stop()
    assert (await made.run()).ok


async def test_stop_leaves_those_who_wait_alone() -> None:
    """S-43, S-44: from another thread."""
    held = gate()
    made = session([rs(R), held, rf(R)], [rs(R), rf(R)])
    states: list[Any] = []

    async def running() -> None:
        states.append(await made.run())

    async with anyio.create_task_group() as group:
        group.start_soon(running)
        await held.reached
        group.start_soon(running)
        await anyio.wait_all_tasks_blocked()
        threading.Thread(target=made.stop).start()
    assert states[0] == CANCELLED
    assert states[1].ok


async def test_stop_in_the_moment_of_the_end_starts_no_follow_up() -> None:
    """S-45: from a callback that sees the run finish; the finished state stands, and the result is not lost."""
    ran: list[str] = []

    def tool() -> str:
        ran.append("x")
        return "x"

    made = session([rs("r1"), call("c1", name="tool"), rf("r1")], [rs(R), rf(R)], tools=[tool])
    made.subscribe_events(lambda event: made.stop() if event.type.value == "RUN_FINISHED" else None)
    assert await made.run(under("r1")) == Finished(THREAD, "r1")
    assert (len(made.script.inputs), made.codes) == (1, ["tool-loop-stopped"])
    assert (await made.run()).ok
    assert ids(made.script.inputs[1]) == ["c1", "tool(c1)"]


async def test_stop_when_the_last_tool_has_answered_starts_no_follow_up() -> None:
    """S-45, S-46: the ready result is kept, and goes out with the next request."""
    made = session([rs("r1"), call("c1", name="tool"), rf("r1")], [rs(R), rf(R)], tools=[tool_that_says("done")])

    def watch(transcript: Any) -> None:
        if made.busy and any(getattr(p, "result", None) == "done" for m in transcript.messages for p in m.parts):
            made.stop()

    made.subscribe(watch)
    assert await made.run(under("r1")) == Finished(THREAD, "r1")
    assert (len(made.script.inputs), made.codes) == (1, ["tool-loop-stopped"])
    await made.run()
    assert [m.content for m in made.script.inputs[1].messages if m.role == "tool"] == ["done"]


def tool_that_says(text: str) -> Callable[..., str]:
    def tool() -> str:
        return text

    return tool


async def test_stop_during_a_follow_up() -> None:
    """S-45: the follow-up is recorded as cancelled."""
    held = gate()
    made = session([rs(R), call("c1", name="tool"), rf(R)], [rs(R), held], tools=[tool_that_says("x")])
    states: list[Any] = []

    async def running() -> None:
        states.append(await made.run())

    async with anyio.create_task_group() as group:
        group.start_soon(running)
        await held.reached
        made.stop()
    assert states == [CANCELLED]
    assert made.codes == []


async def test_a_tool_may_not_call_its_own_session() -> None:
    """S-48: in its task and in its thread; another session is another matter."""
    seen: list[BaseException] = []
    other = session([rs(R), rf(R)], [rs(R), rf(R)])

    async def in_task() -> str:
        for go in (lambda: made.send("x"), made.run, lambda: made.resume([approve("i")])):
            try:
                await go()
            except ReentrantCallError as error:
                seen.append(error)
        return ((await other.run()).ok and "fine") or "bad"

    def in_thread() -> str:
        try:
            made.run_sync()
        except ReentrantCallError as error:
            seen.append(error)
        return (other.run_sync().ok and "fine") or "bad"

    made = session(
        [rs(R), call("c1", name="in_task"), call("c2", name="in_thread"), rf(R)],
        [rs(R), rf(R)],
        tools=[in_task, in_thread],
    )
    with anyio.fail_after(10):
        assert (await made.run()).ok
    assert len(seen) == 4
    assert [m.content for m in made.script.inputs[1].messages if m.role == "tool"] == ["fine", "fine"]


async def test_a_refused_call_that_the_tool_lets_through_is_its_error() -> None:
    """S-48, S-80"""

    async def tool() -> Any:
        return await made.run()

    made = session([rs(R), call("c1", name="tool"), rf(R)], [rs(R), rf(R)], tools=[tool])
    assert (await made.run()).ok
    assert "ReentrantCallError" in made.script.inputs[1].messages[1].content  # type: ignore[operator]


async def test_the_mark_ends_with_the_exchange() -> None:
    """S-48: a thread that a tool left behind may call later."""
    done: Settled[Any] = Settled()
    late = threading.Event()

    def tool() -> str:
        threading.Thread(target=call_later).start()
        return "x"

    def call_later() -> None:
        late.wait(10)
        settle(done, made.run_sync())

    made = session([rs(R), call("c1", name="tool"), rf(R)], [rs(R), rf(R)], [rs(R), rf(R)], tools=[tool])
    await made.run()
    late.set()
    with anyio.fail_after(10):
        assert (await done).ok


async def test_a_callback_may_schedule_a_call() -> None:
    """S-48: it waits for its turn."""
    made = session([rs(R), rf(R)], [rs(R), rf(R)])
    async with anyio.create_task_group() as group:
        made.subscribe_events(
            lambda event: (
                group.start_soon(made.send, "from a callback")
                if event.type.value == "RUN_FINISHED" and len(made.script.inputs) == 1
                else None
            )
        )
        await made.run()
    assert texts(made.transcript) == ["from a callback"]


async def test_busy_covers_the_whole_call() -> None:
    """S-50"""
    held = gate()
    made = session([rs(R), held, rf(R)])
    assert not made.busy
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        assert made.busy
        held.open()
    assert not made.busy


# -- blocking ----------------------------------------------------------------------------------------------------------


def test_blocking_calls_any_number_of_times_from_any_thread() -> None:
    """S-49"""
    made = session(*([rs(R), text(f"a{n}", str(n)), rf(R)] for n in range(6)))
    assert made.send_sync("a").ok
    assert made.run_sync().ok
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(made.send_sync("b"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [state.ok for state in results] == [True, True]
    assert asyncio.run(_one_run(made)).ok
    assert made.run_sync().ok


async def _one_run(made: Session) -> Any:
    return await made.run()


def test_a_blocking_resume() -> None:
    """S-49"""
    made = session([rs(R), asks(R, question("i1"))], [rs(R), rf(R)])
    made.run_sync()
    with pytest.raises(ResumeError):
        made.resume_sync([approve("other")])
    assert made.resume_sync([approve("i1")]).ok


async def test_blocking_forms_are_refused_where_a_loop_runs() -> None:
    """S-49: naming the async method, and leaving no coroutine that nobody awaits."""
    made = session()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, go in (
            ("send", lambda: made.send_sync("x")),
            ("run", made.run_sync),
            ("resume", lambda: made.resume_sync([approve("i")])),
        ):
            with pytest.raises(UsageError, match=rf"await session\.{name}"):
                go()
        gc.collect()


def test_an_interrupted_blocking_call_is_recorded_as_cancelled() -> None:
    """S-49: by a real interrupt from the keyboard."""
    held = gate()
    made = session([rs(R), held], [rs(R), rf(R)])

    def interrupt() -> None:
        held.reached.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        made.run_sync()
    assert made.transcript.run == CANCELLED
    assert made.run_sync().ok


# -- closing -----------------------------------------------------------------------------------------------------------


async def test_closing_stops_what_runs_and_refuses_what_waits() -> None:
    """S-51: values stay readable."""
    held = gate()
    made = session([rs(R), text("a1", "x"), held])
    ended: list[Any] = []

    async def going(go: Callable[[], Any]) -> None:
        try:
            ended.append(await go())
        except SessionClosedError as error:
            ended.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(going, made.run)
        await held.reached
        group.start_soon(going, made.run)
        await anyio.wait_all_tasks_blocked()
        await made.aclose()
        assert not made.busy
    assert sorted(type(one).__name__ for one in ended) == ["Failed", "SessionClosedError"]
    for go in (made.run, lambda: made.send("x"), lambda: made.resume([approve("i")])):
        with pytest.raises(SessionClosedError):
            await go()
    with pytest.raises(SessionClosedError):
        made.abandon_interrupts()
    assert texts(made.transcript) == ["x"]
    await made.aclose()


async def test_closing_waits_for_what_still_runs() -> None:
    """S-51, S-46: a blocking tool that was stopped keeps it; `still_running` names it."""
    held = gate()

    def slow() -> str:
        held.wait(10)
        return "late"

    made = session([rs(R), call("c1", name="slow"), rf(R)], tools=[slow])
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        made.stop()
    assert made.still_running() == ("slow",)
    with pytest.raises(TimeoutError):
        await made.aclose(timeout=0.02)
    held.open()
    with anyio.fail_after(5):
        await made.aclose()
    assert made.still_running() == ()


async def test_leaving_a_session_closes_it() -> None:
    """S-51"""
    async with session([rs(R), rf(R)]) as made:
        assert (await made.run()).ok
    with pytest.raises(SessionClosedError):
        await made.run()


async def test_a_stopped_call_does_not_wait_for_a_blocking_tool() -> None:
    """S-46, S-155"""
    held = gate()

    def slow() -> str:
        held.wait(10)
        return "late"

    made = session([rs(R), call("c1", name="slow"), rf(R)], [rs(R), rf(R)], tools=[slow])
    before = time.monotonic()
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        made.stop()
    assert time.monotonic() - before < 5
    await made.run()
    held.open()
    await made.aclose()
    assert made.still_running() == ()
    tool_messages = [m for m in made.messages if m.role == "tool"]
    assert [m.content for m in tool_messages] == ["Stopped before the tool finished"]


async def test_handles_are_never_leaked() -> None:
    """S-155: ended, violated, cancelled, stopped, out of grace."""
    made = session(
        [rs(R), rf(R)], [ts("m")], [rs(R), stall()], [rs(R), rf(R), stall()], [error_after()], grace=0.01
    )  # fmt: skip
    await made.run()
    await made.run()
    with anyio.move_on_after(0.02):
        await made.run()
    await made.run()
    await made.run()
    for run in made.script.runs:
        with anyio.fail_after(2):
            await run.drained


def error_after() -> Any:
    return OSError("gone")


async def test_the_other_methods_are_refused_during_an_exchange() -> None:
    """S-74, S-99"""
    held = gate()
    made = session([rs(R), held, rf(R)])
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        with pytest.raises(SessionBusyError):
            made.abandon_interrupts()
        with pytest.raises(SessionBusyError):
            made.answer_tool_call("c1", 1)
        held.open()
