"""Calls to tools: arguments, results, order, deadlines, cancelling, and what a tool may say."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import TextPart
from pydantic import BaseModel

from handrail import AbortRun, Loop, Tool, ToolContext, events, tool
from handrail.testing import Collected, FakeClock, Gate, ScriptedBackend, call, collect, gate, text

from .kit import answers, checked, event, play, roles


async def one_turn(*calls: Any, tools: Any, **options: Any) -> Collected[Any]:
    """A run whose model makes these calls in one turn and then answers."""
    return await play(Loop(backends=[ScriptedBackend([list(calls), text("done")])], tools=tools, **options))


def ends(got: Collected[Any]) -> list[tuple[str, str]]:
    """How each call ended, in order: its id, and "ok", "error" or why it was given up."""
    return [
        (e.id, e.reason if isinstance(e, events.ToolAbandoned) else "error" if e.is_error else "ok")
        for e in got.of((events.ToolResult, events.ToolAbandoned))
    ]


# -- arguments -------------------------------------------------------------------------------------------------------


async def test_blank_arguments_mean_an_empty_object() -> None:
    """L-81, L-82 (case 125): "", blanks and none at all; a tool that needs x gets an error that names it."""
    ran = []

    def free() -> str:
        ran.append("free")
        return "ok"

    def needs(x: int) -> str:
        ran.append("needs")
        return "ok"

    calls = [
        call("free", "", id="a"),
        call("free", "  ", id="b"),
        call("free", None, id="c"),
        call("needs", "", id="d"),
    ]
    got = await one_turn(*calls, tools=[free, needs])
    assert got.outcome.ok
    assert ran == ["free"] * 3
    assert ends(got) == [("a", "ok"), ("b", "ok"), ("c", "ok"), ("d", "error")]
    assert "x" in answers(got)["d"]
    assert [s.id for s in got.of(events.ToolStarted)] == ["a", "b", "c"]
    committed = got.outcome.messages[1].tool_calls
    assert [c.function.arguments for c in committed] == ["", "  ", "", ""]


async def test_arguments_that_do_not_parse() -> None:
    """L-81 (case 126): an error result that names the problem; the tool runs once, when they do."""
    ran = []

    def f(a: int) -> str:
        ran.append(a)
        return "ok"

    script = [
        call("f", '{"a": 1', id="1"),
        call("f", '["list"]', id="2"),
        call("f", '{"a": 1, "b": 2}', id="3"),
        call("f", '{"a":1}', id="4"),
        text("done"),
    ]
    got = await play(Loop(backends=[ScriptedBackend(script)], tools=[f]))
    assert ran == [1]
    assert ends(got) == [("1", "error"), ("2", "error"), ("3", "error"), ("4", "ok")]
    assert "JSON" in answers(got)["1"]
    assert "object" in answers(got)["2"]
    assert "b" in answers(got)["3"]
    errors = [m for m in got.outcome.messages if m.role == "tool"]
    assert [m.error is not None for m in errors] == [True, True, True, False]
    assert got.outcome.messages[1].tool_calls[0].function.arguments == '{"a": 1'


async def test_an_unknown_name_gets_the_list_of_known_ones() -> None:
    """L-83, L-36 (case 136): the run goes on; a call without a name likewise."""

    def search() -> str:
        return "found"

    got = await one_turn(call("serch", id="a"), call("", id="b"), tools=[search])
    assert got.outcome.ok
    assert ends(got) == [("a", "error"), ("b", "error")]
    assert all("search" in content for content in answers(got).values())


async def test_ids_that_are_blank_or_taken_are_replaced() -> None:
    """L-36: by a new one, with a warning."""
    ran = []

    def f(n: int) -> str:
        ran.append(n)
        return str(n)

    script = [[call("f", {"n": 1}, id="x"), call("f", {"n": 2}, id="")], call("f", {"n": 3}, id="x"), text("done")]
    got = await play(Loop(backends=[ScriptedBackend(script)], tools=[f]))
    assert ran == [1, 2, 3]
    assert [log.level for log in got.of(events.Log)] == ["warning", "warning"]
    assert len({c.id for c in got.of(events.ToolCall)}) == 3


# -- results ---------------------------------------------------------------------------------------------------------


class Model(BaseModel):
    a: int


@dataclass
class Data:
    a: int


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, ""),
        ("", ""),
        (3, "3"),
        (True, "true"),
        ({"a": 1}, '{"a":1}'),
        ([], "[]"),
        ((1, 2), "[1,2]"),
        (Model(a=1), '{"a":1}'),
        (Data(1), '{"a":1}'),
        ({"d": date(2026, 1, 2)}, '{"d":"2026-01-02"}'),
        ("x" * 100_000, "x" * 100_000),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_values_become_content(value: Any, content: str, is_async: bool) -> None:
    """L-84 (case 157): whatever a tool gives is text, however long."""

    def sync() -> Any:
        return value

    async def asynchronous() -> Any:
        return value

    fn = asynchronous if is_async else sync
    got = await one_turn(call("f", id="c"), tools=[Tool(fn, name="f")])
    assert ends(got) == [("c", "ok")]
    assert got.of(events.ToolResult)[0].content == content


@pytest.mark.parametrize("value", [b"bytes", object(), {"a": object()}])
async def test_what_cannot_be_said_is_an_error_result(value: Any) -> None:
    """L-84: not a crash."""
    got = await one_turn(call("f", id="c"), tools=[Tool(lambda: value, name="f")])
    assert ends(got) == [("c", "error")]
    assert got.outcome.ok


async def test_parts_go_through_as_parts() -> None:
    """L-84: AG-UI content parts."""
    got = await one_turn(call("f", id="c"), tools=[Tool(lambda: TextPart(text="x"), name="f")])
    assert got.outcome.messages[2].content == [TextPart(text="x")]


async def test_awaitables_and_iterators_are_read_to_their_end() -> None:
    """L-85: of sync and async tools."""

    def gives_awaitable() -> Any:
        async def later() -> str:
            await anyio.lowlevel.checkpoint()
            return "late"

        return later()

    def gives_generator() -> Iterator[int]:
        yield from (1, 2)

    async def gives_async_generator() -> AsyncIterator[int]:
        yield 1
        yield 2

    tools = [gives_awaitable, gives_generator, gives_async_generator]
    got = await one_turn(*(call(fn.__name__, id=fn.__name__) for fn in tools), tools=tools)
    assert list(answers(got).values()) == ["late", "[1,2]", "[1,2]"]


async def test_an_exception_is_an_error_result(caplog: pytest.LogCaptureFixture) -> None:
    """L-86, L-87: "ClassName: message", no traceback but in the log, and the run goes on."""
    caplog.set_level("DEBUG", logger="handrail.loop")

    def broken() -> str:
        raise ValueError("bad id")

    async def broken_too() -> str:
        raise KeyError("k")

    got = await one_turn(call("broken", id="a"), call("broken_too", id="b"), tools=[broken, broken_too])
    assert answers(got) == {"a": "ValueError: bad id", "b": "KeyError: 'k'"}
    assert all(m.error for m in got.outcome.messages if m.role == "tool")
    assert [r.exc_info is not None for r in caplog.records if "raised" in r.message] == [True, True]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio lets nobody make one
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_cancellation_error_of_a_tool_is_an_error_result(is_async: bool) -> None:
    """L-86: it cancels nobody."""
    import asyncio

    def sync() -> str:
        raise asyncio.CancelledError("mine")

    async def asynchronous() -> str:
        raise asyncio.CancelledError("mine")

    got = await one_turn(call("f", id="c"), tools=[Tool(asynchronous if is_async else sync, name="f")])
    assert got.outcome.ok
    assert answers(got) == {"c": "CancelledError: mine"}


async def test_abort_run_ends_the_run() -> None:
    """L-86 (case 124): this call gets an error result, the rest is abandoned, async siblings are cancelled."""
    cancelled = []

    @tool(parallel=True)
    async def fatal() -> str:
        await anyio.wait_all_tasks_blocked()
        raise AbortRun("the disk is gone")

    @tool(parallel=True)
    async def sleeps() -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.append(True)
            raise
        return "never"

    calls = [call("fatal", id="a"), call("sleeps", id="b"), call("after", id="c")]
    got = await one_turn(*calls, tools=[fatal, sleeps, Tool(lambda: "x", name="after")])
    assert (got.outcome.outcome, got.outcome.error, got.outcome.reason) == ("failed", "the disk is gone", None)
    assert ends(got) == [("a", "error"), ("b", "aborted"), ("c", "aborted")]
    assert [e.dispatched for e in got.of(events.ToolAbandoned)] == [True, False]
    assert cancelled == [True]
    assert "unknown" in answers(got)["b"]
    assert "not run" in answers(got)["c"]


# -- order -----------------------------------------------------------------------------------------------------------


async def test_one_call_at_a_time_in_the_models_order() -> None:
    """L-89: the next starts when the previous settled."""
    log = []

    async def f(n: int) -> str:
        log.append(f"start {n}")
        await anyio.lowlevel.checkpoint()
        log.append(f"end {n}")
        return str(n)

    await one_turn(*(call("f", {"n": n}) for n in range(3)), tools=[f])
    assert log == ["start 0", "end 0", "start 1", "end 1", "start 2", "end 2"]


async def test_neighbours_that_are_parallel_run_together() -> None:
    """L-89, L-90 (case 122): started in call order, told as they come, messages in call order, failures apart."""
    first, third = Gate(), Gate()

    @tool(parallel=True)
    async def p(n: int) -> str:
        if n == 2:
            raise ValueError("bad id")
        await (first if n == 1 else third)
        return f"r{n}"

    calls = [call("p", {"n": n}, id=f"c{n}") for n in (1, 2, 3)]
    async with Loop(backends=[ScriptedBackend([calls, text("done")])], tools=[p]) as loop:
        run = loop.run("hi")
        await first.reached
        await third.reached
        assert (await event(run, events.ToolResult)).id == "c2"
        third.open()
        assert (await event(run, events.ToolResult, 2)).id == "c3"
        first.open()
        got = checked(await collect(run))
    assert [e.id for e in got.of(events.ToolStarted)] == ["c1", "c2", "c3"]
    assert list(answers(got)) == ["c1", "c2", "c3"]
    assert answers(got)["c2"] == "ValueError: bad id"
    assert got.outcome.ok


async def test_order_is_never_rearranged() -> None:
    """L-89: p, p, s, p is [p, p], [s], [p]."""
    log: list[str] = []

    async def work(n: int) -> None:
        log.append(f"+{n}")
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        log.append(f"-{n}")

    @tool(parallel=True)
    async def p(n: int) -> None:
        await work(n)

    @tool
    async def s(n: int) -> None:
        await work(n)

    await one_turn(call("p", {"n": 1}), call("p", {"n": 2}), call("s", {"n": 3}), call("p", {"n": 4}), tools=[p, s])
    assert set(log[:2]) == {"+1", "+2"}
    assert set(log[2:4]) == {"-1", "-2"}
    assert log[4:] == ["+3", "-3", "+4", "-4"]


context_variable: contextvars.ContextVar[str] = contextvars.ContextVar("context_variable", default="none")


async def test_where_tools_run() -> None:
    """L-88 (case 113): async ones on the home loop, sync ones each in a daemon thread, with the caller's context."""
    home = threading.get_ident()
    seen: dict[str, Any] = {}

    def sync() -> str:
        thread = threading.current_thread()
        seen["sync"] = (thread.ident == home, thread.daemon, context_variable.get())
        return ""

    async def asynchronous() -> str:
        seen["async"] = (threading.get_ident() == home, context_variable.get())
        return ""

    context_variable.set("mine")
    await one_turn(call("sync"), call("asynchronous"), tools=[sync, asynchronous])
    assert seen == {"sync": (False, True, "mine"), "async": (True, "mine")}


async def test_a_stuck_thread_takes_no_thread_from_another_and_the_loop_is_not_blocked() -> None:
    """L-88 (case 113): 60 threads that block at once, and the loop goes on ticking."""
    held = Gate()
    arrived = threading.Semaphore(0)

    @tool(parallel=True)
    def stuck(n: int) -> str:
        arrived.release()
        held.wait(10)
        return "free"

    calls = [call("stuck", {"n": n}) for n in range(60)]
    async with Loop(backends=[ScriptedBackend([calls, text("done")])], tools=[stuck]) as loop:
        run = loop.run("hi")
        for _ in range(60):
            while not arrived.acquire(blocking=False):  # noqa: ASYNC110  # threads arrive, not tasks
                await anyio.sleep(0.001)
        held.open()
        assert (await run.result).ok


# -- deadlines -------------------------------------------------------------------------------------------------------


async def test_a_deadline_gives_up_one_call_and_those_behind_its_group() -> None:
    """L-92, L-95: outcome unknown, no result; the others of the group end; the later groups are not run; then on."""
    clock, other = FakeClock(), Gate()
    cancelled = []

    @tool(parallel=True, timeout=10)
    async def slow() -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.append(True)
            raise
        return "never"

    @tool(parallel=True)
    async def steady() -> str:
        await other
        return "ok"

    calls = [call("slow", id="a"), call("steady", id="b"), call("later", id="c")]
    backend = ScriptedBackend([calls, text("done")])
    tools = [slow, steady, Tool(lambda: "x", name="later")]
    async with Loop(backends=[backend], tools=tools, clock=clock) as loop:
        run = loop.run("hi")
        await other.reached
        await anyio.wait_all_tasks_blocked()
        clock.advance(9.9)
        await anyio.wait_all_tasks_blocked()
        assert not cancelled
        clock.advance(0.1)
        assert (await event(run, events.ToolAbandoned)).id == "a"
        other.open()
        got = checked(await collect(run))
    assert cancelled == [True]
    assert ends(got) == [("a", "deadline"), ("b", "ok"), ("c", "deadline")]
    assert [e.dispatched for e in got.of(events.ToolAbandoned)] == [True, False]
    assert "unknown" in answers(got)["a"]
    assert "not run" in answers(got)["c"]
    for content in (answers(got)["a"], answers(got)["c"]):
        assert "failed" not in content
        assert "error" not in content
    assert got.outcome.ok
    assert [m.role for m in backend.requests[1].messages].count("tool") == 3


@pytest.mark.parametrize(("own", "common", "limit"), [(5.0, 50.0, 5.0), (None, 7.0, 7.0)])
async def test_whose_timeout(own: float | None, common: float, limit: float) -> None:
    """L-92: the tool's own, else that of the loop."""
    clock = FakeClock()

    async def slow() -> None:
        await anyio.sleep_forever()

    backend = ScriptedBackend([call("slow"), text("done")])
    async with Loop(backends=[backend], tools=[Tool(slow, timeout=own)], tool_timeout=common, clock=clock) as loop:
        run = loop.run("hi")
        await event(run, events.ToolStarted)
        await anyio.wait_all_tasks_blocked()
        clock.advance(limit - 0.5)
        await anyio.wait_all_tasks_blocked()
        assert not run.is_done
        clock.advance(0.5)
        assert (await run.result).ok


async def test_a_thread_past_its_deadline_keeps_its_section() -> None:
    """L-92, L-96: what it says later is published nowhere."""
    clock, held = FakeClock(), Gate()
    told: dict[str, Any] = {}

    @tool(timeout=1)
    def stuck(context: ToolContext) -> str:
        held.wait(10)
        told["cancelled"] = context.cancelled
        told["progress"] = context.progress(1)
        told["log"] = context.log("late")
        raise ValueError("late")

    backend = ScriptedBackend([call("stuck"), text("done")])
    async with Loop(backends=[backend], tools=[stuck], clock=clock) as loop:
        run = loop.run("hi")
        await held.reached
        await anyio.wait_all_tasks_blocked()
        clock.advance(1)
        got = checked(await collect(run))
        assert got.outcome.ok
        assert not run.drained.is_set
        assert "tool stuck" in run.open_work
        held.open()
        await run.drained
    assert told == {"cancelled": True, "progress": False, "log": False}
    assert len(run.events.so_far()) == len(got.events)


# -- cancel ----------------------------------------------------------------------------------------------------------


async def test_a_cancel_while_tools_run() -> None:
    """L-93, L-94, L-95 (case 109): results of earlier calls stay; what runs is unknown; what is behind was not run."""
    held = gate()
    cancelled = []

    async def waits() -> str:
        try:
            await held
        except anyio.get_cancelled_exc_class():
            cancelled.append(True)
            raise
        return "never"

    calls = [call("quick", id="a"), call("waits", id="b"), call("quick", id="c")]
    backend = ScriptedBackend([calls, text("continued")])
    tools = [waits, Tool(lambda: "ok", name="quick")]
    async with Loop(backends=[backend], tools=tools) as loop:
        run = loop.run("hi")
        await held.reached
        run.cancel()
        got = checked(await collect(run))
        await run.drained
        assert cancelled == [True]
        assert isinstance(got.terminal, events.RunCancelled)
        assert got.terminal.stage == "tools"
        assert ends(got) == [("a", "ok"), ("b", "cancelled"), ("c", "cancelled")]
        assert [e.dispatched for e in got.of(events.ToolAbandoned)] == [True, False]
        assert "unknown" in answers(got)["b"]
        assert "cancelled" in answers(got)["b"]
        again = checked(
            await collect(loop.run([*got.outcome.messages, {"id": "u2", "role": "user", "content": "go on"}]))
        )
    assert again.outcome.final == "continued"
    assert again.of(events.Log) == []


async def test_a_cancel_while_a_thread_runs() -> None:
    """L-93, R-76 (case 113): the result is prompt, drained is honest, and the late event is refused."""
    held = gate()
    late = []

    def blocks(context: ToolContext) -> str:
        held.wait(10)
        late.append(context.log("late"))
        return "late"

    async with Loop(backends=[ScriptedBackend([call("blocks", id="c")])], tools=[blocks]) as loop:
        run = loop.run("hi")
        await held.reached
        run.cancel()
        got = checked(await collect(run))
        assert got.outcome.outcome == "cancelled"
        assert not run.drained.is_set
        assert run.open_work[-1] == "tool blocks"
        held.open()
        await run.drained
    assert late == [False]
    assert "unknown" in answers(got)["c"]
    assert run.result.value.messages == got.outcome.messages


async def test_a_tool_that_swallows_the_cancel() -> None:
    """L-93, L-96: the result does not wait for it, drained does; what it returns changes nothing."""
    started, released = gate(), gate()

    async def stubborn() -> str:
        try:
            await started
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await released
        return "late"

    async with Loop(backends=[ScriptedBackend([call("stubborn", id="c")])], tools=[stubborn]) as loop:
        run = loop.run("hi")
        await started.reached
        run.cancel()
        got = checked(await collect(run))
        await released.reached
        assert not run.drained.is_set
        released.open()
        await run.drained
    assert "late" not in str(run.result.value.messages)
    assert got.outcome.outcome == "cancelled"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancel_is_delivered_once_under_asyncio() -> None:
    """L-92, L-93: as asyncio code expects, so that clean-up which awaits can run."""
    started, cleaned = gate(), []

    async def tidy() -> str:
        try:
            await started
        finally:
            await anyio.sleep(0.01)
            cleaned.append(True)
        return "never"

    async with Loop(backends=[ScriptedBackend([call("tidy")])], tools=[tidy]) as loop:
        run = loop.run("hi")
        await started.reached
        run.cancel()
        await run.drained
    assert cleaned == [True]


@pytest.mark.parametrize("what", ["cancel", "deadline"])
async def test_a_call_that_ended_in_the_same_instant_has_ended(what: str) -> None:
    """L-94: done is looked at before cancel and deadline; its result counts."""
    clock, runs = FakeClock(), []

    @tool(timeout=1)
    async def f() -> str:
        if what == "cancel":
            runs[0].cancel()
        else:
            clock.advance(1)
        return "in time"

    async with Loop(backends=[ScriptedBackend([call("f", id="c"), text("x")])], tools=[f], clock=clock) as loop:
        runs.append(loop.run("hi"))
        got = checked(await collect(runs[0]))
    assert ends(got) == [("c", "ok")]
    assert answers(got) == {"c": "in time"}
    assert got.outcome.outcome == ("cancelled" if what == "cancel" else "completed")


# -- context ---------------------------------------------------------------------------------------------------------


async def test_what_a_context_knows_and_says() -> None:
    """L-80, L-97: filled in and not declared; progress and logs are events of the run that started the call."""
    seen: dict[str, Any] = {}

    def f(x: int, context: ToolContext) -> str:
        seen.update({name: getattr(context, name) for name in ("call_id", "name", "arguments", "round", "thread_id")})
        seen["run_id"] = context.run_id
        seen["told"] = (context.progress(1, 2, "half"), context.log({"a": 1}, "warning"), context.cancelled)
        with pytest.raises(ValueError, match="level"):
            context.log("x", "loud")  # type: ignore[arg-type]
        return "ok"

    backend = ScriptedBackend([call("f", '{"x": 1}', id="c"), text("done")])
    got = await play(Loop(backends=[backend], tools=[f]))
    assert "context" not in str(backend.requests[0].tools[0].parameters)
    assert seen.pop("run_id") == got.events[0].run_id
    assert seen.pop("told") == (True, True, False)
    assert seen == {"call_id": "c", "name": "f", "arguments": '{"x": 1}', "round": 1, "thread_id": None}
    (progress,) = got.of(events.ToolProgress)
    assert (progress.id, progress.progress, progress.total, progress.message) == ("c", 1, 2, "half")
    (log,) = got.of(events.Log)
    assert (log.level, log.data) == ("warning", {"a": 1})


async def test_threads_that_poll_see_a_cancel() -> None:
    """L-97: three parallel threads polling every 10 ms; drained within 0.3 s, on a loaded machine within five times."""
    arrived = threading.Semaphore(0)

    @tool(parallel=True)
    def polls(context: ToolContext) -> str:
        arrived.release()
        pause = threading.Event()
        while not context.cancelled:
            pause.wait(0.01)
        return "seen"

    calls = [call("polls", id=f"c{n}") for n in range(3)]
    async with Loop(backends=[ScriptedBackend([calls])], tools=[polls]) as loop:
        run = loop.run("hi")
        for _ in range(3):
            while not arrived.acquire(blocking=False):  # noqa: ASYNC110  # threads arrive, not tasks
                await anyio.sleep(0.001)
        run.cancel()
        with anyio.fail_after(1.5):
            await run.drained
    assert run.result.value.outcome == "cancelled"
    assert roles(checked(await collect(run)))[-3:] == ["tool"] * 3
