"""An exchange stopped or cancelled at every place where it waits: whatever it was doing, the session stays sound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import ToolMessage
from tests.client.kit import R, Session, session, violations
from tests.client.suspensions import At
from tests.transcript.events import acs, asks, call, cr, question, rf, rs, said, ss, tc, te, text, thought, ts
from tests.transcript.reading import calls

from handrail import Failed, Finished, Running, RunParams, Tool, approve, tool


class Stage:
    """A session in the state in which an exchange begins, the exchange, and what its tools did."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @tool(parallel=True)
        async def later(x: int = 0) -> str:
            self.ran.append(f"later {x}")
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            return f"later {x}"

        @tool(parallel=True)
        def blocking(x: int = 0) -> str:
            self.ran.append(f"blocking {x}")
            return f"blocking {x}"

        def gated() -> str:
            self.ran.append("gated")
            return "gated"

        async def ask(interrupt: Any) -> bool:
            await anyio.lowlevel.checkpoint()
            return True

        self.session = session(tools=[later, blocking, Tool(gated, needs_approval=True)], ask=ask)
        self.go: Callable[[], Any] = lambda: self.session.send(said("u1", "go"))

    def play(self, *streams: list[Any]) -> None:
        for stream in streams:
            self.session.script.push(stream)


async def talk() -> Stage:
    stage = Stage()
    words = [*thought("q1", "hm"), ts("a1"), *(tc("a1", word) for word in "abc"), te("a1"), acs("x", {}), ss({"n": 1})]
    stage.play([rs(R), words, call("c1"), cr("c1"), rf(R)])
    return stage


async def two_rounds() -> Stage:
    stage = Stage()
    calling = [
        *call("c1", '{"x":1}', "later", "a1"),
        *call("c2", '{"x":2}', "blocking", "a1"),
        *call("c3", name="gated"),
    ]
    stage.play(
        [rs(R), calling, rf(R)], [rs(R), call("c4", '{"x":4}', "later"), rf(R)], [rs(R), text("a9", "done"), rf(R)]
    )
    return stage


async def resumed() -> Stage:
    stage = Stage()
    made = stage.session
    stage.play([rs(R), call("c1", '{"x":1}', "later", "a1"), call("c2", parent="a1"), asks(R, question("i1"))])
    await made.send(said("u1", "go"))
    stage.play([rs(R), text("a5", "so"), cr("c2"), rf(R)], [rs(R), text("a9", "done"), rf(R)])
    stage.go = lambda: made.resume([approve("i1")])
    return stage


async def queued() -> Stage:
    """The exchange waits for its turn behind another, which somebody else runs."""
    stage = Stage()
    made = stage.session
    stage.play([rs(R), text("a0", "first"), rf(R)], [rs(R), text("a1", "second"), rf(R)])

    async def both() -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(made.run)
            await anyio.lowlevel.checkpoint()
            return await made.send(said("u1", "go"))

    stage.go = both
    return stage


SCENARIOS = [talk, two_rounds, resumed, queued]


async def interfered(begin: Callable[[], Any], n: int, by: str) -> tuple[Stage, At[Any]]:
    """The scenario with a stop or a cancel at the n-th suspension of its exchange."""
    stage = await begin()
    with anyio.CancelScope() as scope, anyio.fail_after(20):
        counting: At[Any] = At(stage.go(), n, scope.cancel if by == "cancel" else stage.session.stop)
        await counting
    return stage, counting


async def assert_sound(stage: Stage) -> None:
    """Nothing runs or streams, the books are right, and the session goes on."""
    made = stage.session
    assert not made.busy
    assert not isinstance(made.transcript.run, Running)
    assert not any(message.is_streaming for message in made.transcript.messages)
    assert all(part.status != "running" for part in calls(made.transcript).values())
    with anyio.fail_after(10):
        for run in made.script.runs:
            await run.drained
    assert len(stage.ran) == len(set(stage.ran))
    assert made.dump() == Session.load(made.script, made.dump()).dump()
    made.script._streams.clear()
    made.abandon_interrupts()
    made.script.push([rs(R), text("a-last", "ok"), rf(R)])
    assert (await made.send(said("u-last", "go on"))).ok
    sent = made.script.inputs[-1].messages
    assert violations(sent) == []
    turns = [message.id for message in sent if message.role == "user"]
    assert turns in (["u1", "u-last"], ["u-last"])
    results = [message for message in sent if isinstance(message, ToolMessage)]
    for message in results:  # what a tool gave is what is told, and what is told as given was run
        if message.error is None and message.content not in ("found", "gated"):
            assert message.content in stage.ran


@pytest.mark.slow
@pytest.mark.parametrize("by", ["cancel", "stop"])
@pytest.mark.parametrize("begin", SCENARIOS)
async def test_at_every_suspension(begin: Callable[[], Any], by: str, record_property: Callable[..., None]) -> None:
    """S-41 to S-47, S-93, S-155: cancelled or stopped wherever it waits."""
    points = 0
    while True:
        stage, counting = await interfered(begin, points + 1, by)
        await assert_sound(stage)
        if not counting.acted:
            break
        points += 1
    print(f"{begin.__name__}, {by}: {points} points")
    record_property("points", points)
    assert points >= 5


@pytest.mark.parametrize("begin", [talk, two_rounds, resumed])
async def test_at_every_event(begin: Callable[[], Any]) -> None:
    """S-43, S-45, S-47: stopped by a callback at each event; what comes later is never folded."""
    points = 0
    while True:
        stage = await begin()
        made, seen = stage.session, [0]

        def watch(event: Any, made: Session = made, seen: list[int] = seen, at: int = points) -> None:
            seen[0] += 1
            if seen[0] == at + 1:
                made.stop()

        unsubscribe = made.subscribe_events(watch)
        with anyio.fail_after(20):
            state = await stage.go()
        unsubscribe()
        assert state is made.transcript.run
        last = made.transcript
        await anyio.lowlevel.checkpoint()
        assert made.transcript is last
        stopped = seen[0] > points
        if stopped:
            assert isinstance(state, (Failed, Finished))
        await assert_sound(stage)
        if not stopped:
            break
        points += 1
    print(f"{begin.__name__}, stop at an event: {points} points")
    assert points >= 5


async def test_what_arrives_for_an_exchange_that_is_over_is_not_folded() -> None:
    """S-47: the agent's run goes on saying things while it is cancelled."""
    from handrail.run import Run, RunDriver, drive

    drivers: list[RunDriver[Any]] = []

    class Deaf:
        close_grace = 0.0

        def start(self, input: Any) -> Run[Any]:
            async def body(driver: RunDriver[Any]) -> None:
                drivers.append(driver)
                driver.emit(rs(input.run_id))
                with anyio.CancelScope(shield=True):
                    await done.wait()
                for event in text("a1", "too late"):
                    driver.emit(event)
                driver.finish(None, outcome="cancelled")

            return drive(body)

    from handrail import AgentSession

    done = anyio.Event()
    made = AgentSession(Deaf(), thread_id="t")
    async with anyio.create_task_group() as group:
        group.start_soon(made.run, RunParams("r1"))
        async for transcript in made.changes():
            if isinstance(transcript.run, Running):
                break
        made.stop()
        group.start_soon(_set_soon, done)
    with anyio.fail_after(5):
        await drivers[0].run.drained
    assert made.transcript.run == Failed("Run cancelled", "CANCELLED")
    assert made.transcript.messages == ()


async def _set_soon(event: anyio.Event) -> None:
    await anyio.lowlevel.checkpoint()
    event.set()
