"""One exchange at a time: who waits for whom, and what is judged when."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from tests.client.kit import R, ids, roles, session, texts, under
from tests.transcript.events import asks, call, question, rf, rs, said, text

from handrail import Finished, InterruptedThreadError, NotInterruptedError, ResumeError, approve
from handrail.client._turns import Turns
from handrail.testing import gate


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
