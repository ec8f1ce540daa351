"""Runs of every kind in one process, host by host: a task of asyncio or of trio, and the thread of our own.

A kind of run is a function that starts it, plays whoever watches, and says what came of it that should not have. All
wait for `drained`, so that what is left behind them is left by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import anyio
from tests.endurance.model import new_loop
from tests.event_loops import HERE, run_on

from handrail import AgentSession, Loop, LoopAgent, Outcome, Run, RunDriver, RunScope, approve, deny, drive

AT_ONCE = 20
ON_ONE_EVENT_LOOP = 100
"""Runs between the making of an event loop and its end."""


def expect(outcome: Outcome, how: str) -> None:
    assert outcome.outcome == how, f"{outcome.outcome} instead of {how}: {outcome.error}"


async def until(run: Run[Any], kind: str) -> None:
    """Read a run until it has said this, and leave the stream."""
    async for event in run.events:
        if event.kind == kind:
            return


# -- kinds of runs that a task watches ---------------------------------------------------------------------------------


async def to_its_end(loop: Loop, asked: str, how: str = "completed") -> None:
    run = loop.run(asked)
    async for _ in run.events:
        pass
    expect(await run.result, how)
    await run.drained


async def unread(loop: Loop) -> None:
    run = loop.run("talk")
    expect(await run.result, "completed")
    await run.drained


async def many_readers(loop: Loop) -> None:
    run = loop.run("look")
    unsubscribe = run.events.subscribe(lambda event: None)

    async def read() -> None:
        async for _ in run.events:
            pass

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(read)
        await until(run, "tool-result")
    unsubscribe()
    expect(await run.result, "completed")
    await run.drained


async def cancelled_while(loop: Loop, asked: str, kind: str) -> None:
    run = loop.run(asked)
    await until(run, kind)
    run.cancel()
    expect(await run.result, "cancelled")
    await run.drained


async def cancelled_at_once(loop: Loop) -> None:
    run = loop.run("talk")
    run.cancel()
    expect(await run.result, "cancelled")
    await run.drained


async def cancelled_from_outside(loop: Loop) -> None:
    """The scope that the run lives in is cancelled, and its watcher with it."""
    runs: list[Run[Any]] = []
    with anyio.CancelScope() as outside:
        async with RunScope():
            runs.append(loop.run("stall"))
            await until(runs[0], "token")
            outside.cancel()
            await runs[0].result
    with anyio.CancelScope(shield=True):
        expect(await runs[0].result, "cancelled")
        await runs[0].drained


async def watcher_gives_up(loop: Loop) -> None:
    run = loop.run("stall")
    with anyio.move_on_after(0.001):
        await run.result
    run.cancel()
    expect(await run.result, "cancelled")
    await run.drained


async def steered(loop: Loop) -> None:
    run = loop.run("look")
    run.steer("talk")
    expect(await run.result, "completed")
    await run.drained


async def asked_and_answered(loop: Loop) -> None:
    """Approvals across two runs, one given and one denied."""
    for answer in (approve, deny):
        asking = await loop.run("delete").result
        assert len(asking.interrupts) == 1
        run = loop.run(asking.messages, answers=[answer(asking.interrupts[0])])
        expect(await run.result, "completed")
        await run.drained


async def driven(loop: Loop) -> None:
    """Not a loop's: a body that raises, and one that goes on."""

    async def raises(driver: RunDriver[int]) -> None:
        driver.emit(1)
        raise RuntimeError("no luck")

    async def waits(driver: RunDriver[int]) -> None:
        await anyio.sleep_forever()

    failing, waiting = drive(raises), drive(waits)
    waiting.cancel()
    expect(await failing.result, "failed")
    expect(await waiting.result, "cancelled")
    await failing.drained
    await waiting.drained


def here(n: int) -> str:
    return "here"


async def there(n: int) -> str:
    return "there"


async def session(loop: Loop) -> None:
    """Client tools, a question and its answer, an exchange that is stopped, a dump: all on one thread."""
    async with AgentSession(LoopAgent(loop), tools=[here, there], on_warning=lambda record: None) as talk:
        assert (await talk.send("client")).ok
        await talk.send("delete")
        assert (await talk.resume([approve(question) for question in talk.pending_interrupts])).ok
        talk.subscribe_events(lambda event: talk.stop())
        await talk.send("stall")
        again = AgentSession.load(LoopAgent(loop), talk.dump(), on_warning=lambda record: None)
        assert again.messages == talk.messages


Kind: TypeAlias = Callable[[Loop, Loop], Coroutine[Any, Any, None]]

KINDS: dict[str, Kind] = {
    # given a loop that asks in process, and one whose runs end by asking
    "completed": lambda asks, ends: to_its_end(asks, "talk"),
    "unread": lambda asks, ends: unread(asks),
    "many readers": lambda asks, ends: many_readers(asks),
    "tools": lambda asks, ends: to_its_end(asks, "look"),
    "broken tools": lambda asks, ends: to_its_end(asks, "break"),
    "failed": lambda asks, ends: to_its_end(asks, "refuse", "failed"),
    "retried": lambda asks, ends: to_its_end(asks, "flaky"),
    "timed out": lambda asks, ends: to_its_end(asks, "slow"),
    "limited": lambda asks, ends: to_its_end(asks, "endless", "failed"),
    "approved": lambda asks, ends: to_its_end(asks, "delete"),
    "cancelled in a stream": lambda asks, ends: cancelled_while(asks, "stall", "token"),
    "cancelled in a thread": lambda asks, ends: cancelled_while(asks, "block", "tool-started"),
    "cancelled and swallowed": lambda asks, ends: cancelled_while(asks, "hold", "tool-started"),
    "cancelled at once": lambda asks, ends: cancelled_at_once(asks),
    "cancelled from outside": lambda asks, ends: cancelled_from_outside(asks),
    "given up by its watcher": lambda asks, ends: watcher_gives_up(asks),
    "steered": lambda asks, ends: steered(asks),
    "asked and answered": lambda asks, ends: asked_and_answered(ends),
    "driven": lambda asks, ends: driven(asks),
    "session": lambda asks, ends: session(ends),
}


# -- kinds of runs that a thread watches -------------------------------------------------------------------------------


def read_by_a_thread(loop: Loop, asked: str, how: str) -> None:
    run = loop.run(asked)
    for _ in run.events:
        pass
    expect(run.result.wait(), how)
    run.drained.wait()


def cancelled_by_a_thread(loop: Loop, asked: str, kind: str) -> None:
    run = loop.run(asked)
    next(event for event in run.events if event.kind == kind)
    run.cancel()
    expect(run.result.wait(), "cancelled")
    run.drained.wait()


def session_of_a_thread(loop: Loop) -> None:
    talk = AgentSession(LoopAgent(loop), tools=[here, there], on_warning=lambda record: None)
    assert talk.send_sync("client").ok
    talk.send_sync("delete")
    assert talk.resume_sync([approve(question) for question in talk.pending_interrupts]).ok


KINDS_WITHOUT: dict[str, Callable[[Loop, Loop], None]] = {
    "completed": lambda asks, ends: read_by_a_thread(asks, "talk", "completed"),
    "tools": lambda asks, ends: read_by_a_thread(asks, "look", "completed"),
    "failed": lambda asks, ends: read_by_a_thread(asks, "refuse", "failed"),
    "approved": lambda asks, ends: read_by_a_thread(asks, "delete", "completed"),
    "cancelled in a stream": lambda asks, ends: cancelled_by_a_thread(asks, "stall", "token"),
    "cancelled in a thread": lambda asks, ends: cancelled_by_a_thread(asks, "block", "tool-started"),
    "session": lambda asks, ends: session_of_a_thread(ends),
}


# -- all of them -------------------------------------------------------------------------------------------------------


def play(count: int) -> None:
    """So many runs: an event loop full of them on each host in turn, and as many without any."""
    asks, ends = new_loop(asks=True), new_loop(asks=False)
    kinds_without = list(KINDS_WITHOUT.values())
    left = iter(range(count))
    while True:
        for event_loop in (*HERE.values(), None):
            batch = list(islice(left, ON_ONE_EVENT_LOOP))
            if not batch:
                return
            if event_loop is not None:
                run_on(event_loop, partial(_on_one_event_loop, asks, ends, batch))
                continue
            for number in batch:
                kinds_without[number % len(kinds_without)](asks, ends)


async def _on_one_event_loop(asks: Loop, ends: Loop, numbers: Iterable[int]) -> None:
    kinds = list(KINDS.values())
    left = iter(numbers)
    async with RunScope():
        while batch := list(islice(left, AT_ONCE)):
            async with anyio.create_task_group() as group:
                for number in batch:
                    group.start_soon(kinds[number % len(kinds)], asks, ends)
