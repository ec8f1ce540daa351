"""An exchange that is cancelled or stopped, and tools that call the session they serve."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from tests.client.kit import CANCELLED, R, ids, session, texts, under
from tests.transcript.events import THREAD, ca, call, cs, rf, rs, tc, ts

from handrail import Finished, ReentrantCallError, approve
from handrail.run import Settled
from handrail.run._settled import settle
from handrail.testing import gate, stall


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
