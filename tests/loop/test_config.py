"""The configuration of a loop, and starting a run."""

from __future__ import annotations

import asyncio
import math
import threading
from decimal import Decimal
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ag_ui import core as agui

from handrail import Budget, Limits, Loop, RetryPolicy, Tool, UsageError, Window, assistant, events, system, tool, user
from handrail.agui import approve
from handrail.testing import FakeClock, ScriptedBackend, call, collect, gate, stall, text

from .kit import checked, play, roles


class Half:
    model = "half"


class Nameless:
    model = 7

    def stream(self, request: object) -> None: ...


def named(name: str) -> Any:
    def fn() -> None: ...

    return Tool(fn, name=name)


def starred(*args: int) -> None: ...


def positional(a: int, /) -> None: ...


GOOD: dict[str, Any] = {"backends": [ScriptedBackend()]}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Loop(backends=[]),
        lambda: Loop(backends="openai:gpt"),  # type: ignore[arg-type]
        lambda: Loop(backends=[Half()]),  # type: ignore[list-item]
        lambda: Loop(backends=[Nameless()]),  # type: ignore[list-item]
        lambda: Loop(**GOOD, tools=[named("f"), named("f")]),
        lambda: Loop(**GOOD, tools=[named("no spaces")]),
        lambda: Loop(**GOOD, tools=[named("x" * 65)]),
        lambda: Loop(**GOOD, tools=["f"]),  # type: ignore[list-item]
        lambda: Loop(**GOOD, tools=[starred]),
        lambda: Loop(**GOOD, tools=[positional]),
        lambda: Loop(**GOOD, tools=[Tool(lambda: 0, name="f", timeout=0)]),
        lambda: Loop(**GOOD, tool_timeout=0),
        lambda: Loop(**GOOD, idle_timeout=-1),
        lambda: Loop(**GOOD, ask="yes"),  # type: ignore[arg-type]
        lambda: Loop(**GOOD, system=7),  # type: ignore[arg-type]
        lambda: Loop(**GOOD, budget=100),  # type: ignore[arg-type]
        lambda: Loop(**GOOD, limits=3),  # type: ignore[arg-type]
        lambda: Loop(**GOOD, retry=3),  # type: ignore[arg-type]
        lambda: Loop(**GOOD, budget=Budget(windows={"another": Window(context=10)})),
        lambda: Loop(**GOOD, tool_timeout=math.nan),
        lambda: Loop(**GOOD, idle_timeout="5"),  # type: ignore[arg-type]
        lambda: Loop(**GOOD, clock=object()),  # type: ignore[arg-type]
        lambda: Loop(**GOOD, clock=FakeClock),  # type: ignore[arg-type]
        lambda: Loop(**GOOD, new_id=5),  # type: ignore[arg-type]
        lambda: Budget(windows={"scripted": 128_000}),  # type: ignore[dict-item]
        lambda: Budget(windows=[("scripted", Window(context=10))]),  # type: ignore[arg-type]
        lambda: Budget(max_cost=math.nan),
        lambda: Budget(max_cost=Decimal("NaN")),
        lambda: Budget(max_cost="5"),  # type: ignore[arg-type]
        lambda: Budget(max_total_tokens=math.nan),  # type: ignore[arg-type]
        lambda: Budget(max_wall_clock=math.nan),
        lambda: Budget(count=5),  # type: ignore[arg-type]
        lambda: Window(context=math.nan),  # type: ignore[arg-type]
        lambda: Window(context=10, reserve=math.nan),  # type: ignore[arg-type]
        lambda: Window(context=10, margin=math.nan),  # type: ignore[arg-type]
        lambda: RetryPolicy(max_attempts=1.5),  # type: ignore[arg-type]
        lambda: RetryPolicy(max_attempts=math.nan),  # type: ignore[arg-type]
        lambda: RetryPolicy(backoff_cap=math.nan),
        lambda: RetryPolicy(jitter=math.nan),
        lambda: RetryPolicy(classify=5),  # type: ignore[arg-type]
        lambda: Limits(max_rounds=math.nan),  # type: ignore[arg-type]
        lambda: Limits(max_identical_calls="3"),  # type: ignore[arg-type]
        lambda: Tool(lambda: 0, name=5),  # type: ignore[arg-type]
        lambda: Tool(lambda: 0, name="f", description=5),  # type: ignore[arg-type]
        lambda: Tool(lambda: 0, name="f", parallel="no"),  # type: ignore[arg-type]
        lambda: Tool(lambda: 0, name="f", needs_approval=None),  # type: ignore[arg-type]
        lambda: Tool(lambda: 0, name="f", timeout=math.nan),
        lambda: Tool(lambda: 0, name="f", schema={"a": object()}),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(wrong: Any) -> None:
    """L-2: when it is made, with a sentence of ours."""
    with pytest.raises((TypeError, ValueError), match=r"\w+ \w+.*(:|,)|^.* (is|are|has|needs) "):
        wrong()


@pytest.mark.parametrize(
    ("messages", "options", "error"),
    [
        ([], {}, ValueError),
        (7, {}, TypeError),
        ([{"role": "nobody"}], {}, ValueError),
        ("hi", {"answers": [approve("c"), approve("c")]}, ValueError),
        ("hi", {"answers": ["yes"]}, TypeError),
        ("hi", {"tools": [named("known")]}, ValueError),
        ("hi", {"context": [{"value": "no description"}]}, ValueError),
    ],
)
async def test_wrong_arguments_are_refused_by_run_itself(
    messages: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    """L-3, L-6: no run is made."""
    backend = ScriptedBackend()
    async with Loop(backends=[backend], tools=[named("known")]) as loop:
        with pytest.raises(error):
            loop.run(messages, **options)
    assert backend.requests == []


async def test_what_was_passed_in_is_copied() -> None:
    """L-4: a list of one has one element afterwards, and changing it during the run changes nothing."""
    held = gate()
    loop = Loop(backends=[ScriptedBackend([[text("a"), held, text("b")]])])
    given = [user("one")]
    async with loop:
        run = loop.run(given)
        await held.reached
        given.append(user("two"))
        given[0].content = "changed"
        held.open()
        got = checked(await collect(run))
    assert [m.content for m in got.outcome.messages] == ["one", "ab"]
    assert len(given) == 2


async def test_the_system_turn_is_on_the_wire_only() -> None:
    """L-5: one system turn of the system text and a block for each context item; system messages stay in place."""
    backend = ScriptedBackend([text("ok")])
    loop = Loop(backends=[backend], system="Be brief.")
    context = [agui.Context(description="City", value="Rome"), {"description": "Hour", "value": "9"}]
    got = await play(loop, [user("u"), system("own")], context=context)
    sent = backend.requests[0].messages
    assert [m.role for m in sent] == ["system", "user", "system"]
    first = str(sent[0].content)
    assert first.index("Be brief.") < first.index("City") < first.index("Rome") < first.index("Hour") < first.index("9")
    assert roles(got) == ["user", "system", "assistant"]
    assert "Be brief." not in str(got.outcome.messages)


async def test_no_system_turn_without_a_system_text() -> None:
    """L-5: a request begins with the conversation then."""
    backend = ScriptedBackend([text("ok")])
    await play(Loop(backends=[backend]))
    assert [m.role for m in backend.requests[0].messages] == ["user"]


async def test_tools_of_one_run() -> None:
    """L-6: functions are executed here; a declaration under a name that the loop has is ignored, with a warning."""

    def extra() -> str:
        return "mine"

    backend = ScriptedBackend([[call("extra", id="c1")], text("done"), text("again")])
    loop = Loop(backends=[backend], tools=[named("known")])
    taken = agui.Tool(name="known", description="the client's", parameters={"type": "object"})
    got = await play(loop, tools=[extra, taken, agui.Tool(name="other", description="o")])
    assert [t.name for t in backend.requests[0].tools] == ["known", "extra", "other"]
    assert backend.requests[0].tools[0].description == ""
    assert [log.level for log in got.of(events.Log)] == ["warning"]
    assert [r.content for r in got.of(events.ToolResult)] == ["mine"]
    await play(loop, "and again")
    assert [t.name for t in backend.requests[2].tools] == ["known"]


async def test_a_plain_chat_loop_leaves_made_up_calls_out() -> None:
    """L-7: without tools the run completes with its text, and a warning."""
    backend = ScriptedBackend([[text("hello"), call("magic", {})]])
    got = await play(Loop(backends=[backend]))
    assert got.outcome.ok
    assert got.outcome.final == "hello"
    assert got.outcome.messages[-1].tool_calls is None
    assert [log.level for log in got.of(events.Log)] == ["warning"]
    assert got.of(events.ToolCall) == []
    assert backend.requests[0].tools == ()


async def test_a_backend_may_be_silent_about_its_cap() -> None:
    """L-30: nothing else is asked of it than `model` and `stream`."""

    class Least:
        model = "least"

        def stream(self, request: Any) -> Any:
            return ScriptedBackend([text("ok")]).stream(request)

    assert (await play(Loop(backends=[Least()]))).outcome.final == "ok"  # type: ignore[list-item]


async def test_a_loop_is_immutable() -> None:
    """L-1: configuration; nothing can be set on it."""
    loop = Loop(**GOOD)
    with pytest.raises(AttributeError):
        loop.backends = []  # type: ignore[attr-defined]


async def test_runs_share_nothing_but_the_loop() -> None:
    """L-1: 50 runs at once, each with its own script, and seq from 0."""
    backend = ScriptedBackend([[text(f"answer {n}")] for n in range(50)])
    loop = Loop(backends=[backend])
    async with loop:
        runs = [loop.run(f"question {n}") for n in range(50)]
        outcomes = [await run.result for run in runs]
    assert sorted(o.final for o in outcomes) == sorted(f"answer {n}" for n in range(50))
    assert [o.messages[0].content for o in outcomes] == [f"question {n}" for n in range(50)]
    assert len({run.id for run in runs}) == 50
    for run in runs:
        seen = run.events.so_far()
        assert [e.seq for e in seen] == list(range(len(seen)))
        assert {e.run_id for e in seen} == {run.id}


async def test_one_after_the_other_is_never_refused() -> None:
    """L-1: await the result, then run again, 1,000 times."""
    backend = ScriptedBackend()
    loop = Loop(backends=[backend])
    async with loop:
        for _ in range(1_000):
            backend.push(text("ok"))
            assert (await loop.run("hi").result).final == "ok"


async def test_run_started_is_there_when_run_returns() -> None:
    """L-8, R-90: seq 0, and no model has been asked yet; message_count is as handed in."""
    backend = ScriptedBackend([text("ok")])
    async with Loop(backends=[backend]) as loop:
        run = loop.run([user("a"), assistant("b"), user("c")], run_id="mine")
        (started,) = run.events.so_far()
        assert isinstance(started, events.RunStarted)
        assert (started.seq, started.run_id, started.message_count) == (0, "mine", 3)
        assert backend.requests == []
        await run.result


class Closable(ScriptedBackend):
    closed_down = 0

    async def aclose(self) -> None:
        self.closed_down += 1


async def test_a_loop_is_a_scope_that_closes_its_backends() -> None:
    """L-8: leaving waits for the runs, then calls `aclose()` on backends that have one."""
    backend = Closable([text("ok")])
    async with Loop(backends=[backend, ScriptedBackend(model="plain")]) as loop:
        run = loop.run("hi")
        assert backend.closed_down == 0
    assert run.drained.is_set
    assert backend.closed_down == 1


async def test_leaving_by_an_exception_cancels_the_runs() -> None:
    """L-8, R-94: and closes the backends as well."""
    backend = Closable([stall()])
    with pytest.raises(ZeroDivisionError):  # noqa: PT012  # the block is what raises
        async with Loop(backends=[backend]) as loop:
            run = loop.run("hi")
            await anyio.wait_all_tasks_blocked()
            raise ZeroDivisionError
    assert run.result.value.outcome == "cancelled"
    assert run.drained.is_set
    assert (backend.closed, backend.closed_down) == (1, 1)


async def test_a_loop_can_be_entered_again_and_by_several_tasks() -> None:
    """L-1, L-8: it keeps nothing of one use for the next."""
    backend = ScriptedBackend([text("ok") for _ in range(6)])
    loop = Loop(backends=[backend])

    async def once() -> None:
        async with loop:
            first = loop.run("hi")
            await anyio.wait_all_tasks_blocked()
            assert (await first.result).ok

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(once)
    await once()


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_under_trio_a_scope_is_needed() -> None:
    """L-8: and the error names it."""
    with pytest.raises(UsageError, match="async with loop"):
        Loop(backends=[ScriptedBackend([text("ok")])]).run("hi")


def test_without_an_event_loop() -> None:
    """L-8: a plain thread runs on the shared one; async tools too."""

    @tool
    async def where() -> str:
        await anyio.lowlevel.checkpoint()
        return threading.current_thread().name

    loop = Loop(backends=[ScriptedBackend([[call("where", {})], text("done")])], tools=[where])
    run = loop.run("hi")
    kinds = [event.kind for event in run.events]
    assert kinds[-1] == "run-completed"
    outcome = run.result.wait(5)
    assert outcome.messages[2].content != threading.current_thread().name
    run.drained.wait(5)


def test_one_loop_in_two_event_loops() -> None:
    """L-1, R-96: nothing of the first is kept."""
    loop = Loop(backends=[ScriptedBackend([text("one"), text("two")])])

    async def main() -> str:
        return (await loop.run("hi").result).final

    assert [asyncio.run(main()), asyncio.run(main())] == ["one", "two"]


async def test_clock_and_ids_are_replaced_everywhere() -> None:
    """L-9: times of events and ids of messages come from what was given."""
    clock = FakeClock()
    numbers = iter(range(100))
    backend = ScriptedBackend([[call("look", {})], text("ok")])
    loop = Loop(
        backends=[backend],
        tools=[Tool(lambda: "x", name="look")],
        clock=clock,
        new_id=lambda: f"id{next(numbers)}",
        budget=Budget(),
    )
    got = await play(loop)
    assert {event.ts for event in got.events} == {clock.now()}
    assert str(got.events[0].run_id).startswith("id")
    assert all(m.id.startswith("id") for m in got.outcome.messages)
    assert got.outcome.spent.wall_clock == 0
