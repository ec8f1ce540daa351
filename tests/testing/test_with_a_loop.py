"""The test tools on real runs of a loop: every way a run can go, cancelled at every event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from handrail import Budget, Limits, Loop, LoopRun, RunScope, Tool, ToolContext
from handrail import events as ev
from handrail.testing import (
    FakeClock,
    ScriptedBackend,
    call,
    cancel_everywhere,
    check_messages,
    check_run,
    collect,
    cut,
    delay,
    fail,
    finish,
    gate,
    reasoning,
    text,
    usage,
)

NOW = {"backoff_cap": 0.0, "jitter": 0.0}


async def weather(city: str) -> str:
    """Tell the weather."""
    await anyio.lowlevel.checkpoint()
    return f"{city}: warm"


def slow(ctx: ToolContext) -> str:
    ctx.progress(1, 2)
    return "done"


def broken() -> str:
    raise LookupError("nothing there")


def loop_of(*steps: Any, tools: Any = (weather, slow, broken), **options: Any) -> Loop:
    return Loop(backends=[ScriptedBackend(steps)], tools=tools, **options)


def plain() -> LoopRun:
    return loop_of([reasoning("hm"), text("It is ", "warm."), usage(10, 5)]).run("How is Rome?")


def two_rounds() -> LoopRun:
    calls = [text("Let me look."), call("weather", {"city": "Rome"}), call("slow"), call("broken"), call("nobody")]
    return loop_of(calls, text("Done.")).run("go")


def parallel() -> LoopRun:
    tools = [Tool(weather, parallel=True), Tool(slow, parallel=True)]
    return loop_of([call("weather", {"city": "a"}), call("slow")], text("ok"), tools=tools).run("go")


def retried() -> LoopRun:
    from handrail import RetryPolicy

    backends = [
        ScriptedBackend([[text("half"), fail("http", status=500)], [text("ha"), cut()]], model="a"),
        ScriptedBackend([[text("whole")]], model="b"),
    ]
    return Loop(backends=backends, retry=RetryPolicy(**NOW)).run("go")  # pyright: ignore


def failing() -> LoopRun:
    return loop_of([text("no"), fail("http", status=401)]).run("go")


def truncated() -> LoopRun:
    return loop_of([text("no"), finish("length")]).run("go")


def stopped_by_a_limit() -> LoopRun:
    return loop_of(call("slow"), call("slow"), text("Enough."), limits=Limits(max_rounds=1)).run("go")


def over_budget() -> LoopRun:
    return loop_of([call("slow"), usage(total=100)], text("never"), budget=Budget(max_total_tokens=50)).run("go")


def asking() -> LoopRun:
    tools = [Tool(slow, needs_approval=True), weather]
    return loop_of([call("slow"), call("weather", {"city": "a"})], tools=tools).run("go")


def answered() -> LoopRun:
    tools = [Tool(slow, needs_approval=True)]
    return loop_of([call("slow"), call("slow")], text("ok"), tools=tools, ask=lambda question: True).run("go")


def held_in_a_model() -> LoopRun:
    return loop_of([text("a"), gate(), text("b")]).run("go")


def held_in_tools() -> LoopRun:
    thread, task = gate(), gate()

    def blocked() -> str:
        thread.wait()
        return "thread"

    async def waiting() -> str:
        await task
        return "task"

    return loop_of([call("blocked"), call("waiting")], text("ok"), tools=[blocked, waiting]).run("go")


SCENARIOS = [
    plain,
    two_rounds,
    parallel,
    retried,
    failing,
    truncated,
    stopped_by_a_limit,
    over_budget,
    asking,
    answered,
    held_in_a_model,
    held_in_tools,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_every_event_of_every_kind_of_run(scenario: Callable[[], LoopRun]) -> None:
    """L-164, R-60, L-13 to L-17, L-141: whatever it is doing, it ends as it must wherever it is cancelled."""
    assert await cancel_everywhere(scenario, timeout=10) > 3


async def test_the_checkers_on_a_run_that_asks() -> None:
    """L-163: the calls that are left open are named by the outcome."""
    async with RunScope():
        got = await collect(asking())
    (question,) = got.outcome.interrupts
    assert check_run(got, got.outcome) == []
    assert check_messages(got.outcome.messages, open=[question.id]) == []
    assert check_messages(got.outcome.messages) != []


async def test_a_run_on_a_clock_that_stands_still() -> None:
    """L-160, L-165: a script's delay and the loop's idle timeout are on the same clock."""
    clock = FakeClock()
    backends = [ScriptedBackend([[text("a"), delay(500)]]), ScriptedBackend([text("quick")])]
    loop = Loop(backends=backends, idle_timeout=100, clock=clock)
    async with loop:
        run = loop.run("go")
        with anyio.fail_after(10):
            while clock.sleeping < 2:
                await anyio.lowlevel.checkpoint()
            clock.advance(100)
            got = await collect(run)
    assert [failed.error_class for failed in got.of(ev.AttemptFailed)] == ["timeout"]
    assert got.text() == got.outcome.final == "quick"
    assert check_run(got, got.outcome) == []


async def test_calls_repeat_no_id() -> None:
    """L-160: a script may call as often as it likes; no id is renamed."""
    async with RunScope():
        got = await collect(two_rounds())
    assert got.of(ev.Log) == []
    assert len({called.id for called in got.of(ev.ToolCall)}) == 4
