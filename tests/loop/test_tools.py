"""Calls to tools: arguments, and what a result becomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import TextPart
from pydantic import BaseModel

from handrail import AbortRun, Loop, Tool, events, tool
from handrail.testing import ScriptedBackend, call, text

from .kit import answers, ends, one_turn, play

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
