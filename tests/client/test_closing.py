"""A session that is closed, and the handles of its runs, which are never leaked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from tests.client.kit import R, session, texts
from tests.transcript.events import call, rf, rs, text, ts

from handrail import SessionBusyError, SessionClosedError, approve
from handrail.testing import gate, stall


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
        [rs(R), rf(R)], [ts("m")], [rs(R), stall()], [rs(R), rf(R), stall()], [OSError("gone")], grace=0.01
    )  # fmt: skip
    await made.run()
    await made.run()
    with anyio.move_on_after(0.02):
        await made.run()
    await made.run()
    await made.run()
    assert len(made.script.runs) == 5
    for run in made.script.runs:
        with anyio.fail_after(2):
            await run.drained


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
