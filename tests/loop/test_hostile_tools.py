"""Tools whose own code raises, blocks or never ends, in a whole run: one error result, and the run goes on."""

from __future__ import annotations

import inspect
import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from handrail import Loop, Tool, ToolContext, edit, events
from handrail.messages import assistant, tool_call, user
from handrail.testing import Collected, Gate, ScriptedBackend, call, text

from .kit import answers, play


def _refuse(value: int) -> int:
    return 1 // value


@dataclass
class Unset:
    later: int = field(init=False)


def checked(x: Annotated[int, AfterValidator(_refuse)]) -> int:
    return x


async def one_call(made: Any, arguments: Any = None) -> Collected[Any]:
    """A run whose model calls `t` once and then answers."""
    return await play(Loop(backends=[ScriptedBackend([call("t", arguments, id="c1"), text("done")])], tools=[made]))


@pytest.mark.parametrize("needs_approval", [False, True])
async def test_a_validator_that_raises_anything_gives_an_error_result(needs_approval: bool) -> None:
    """L-81: nothing is asked or called, the model is told, the run goes on."""
    got = await one_call(Tool(checked, name="t", needs_approval=needs_approval), {"x": 0})
    assert got.outcome.ok
    assert "ZeroDivisionError" in answers(got)["c1"]
    assert got.of(events.ToolStarted) == []


async def test_an_edit_that_a_validator_raises_at_gives_an_error_result() -> None:
    """L-81, L-130: edited arguments are held against the same validators."""
    waiting = [user("hi"), assistant("", tool_calls=[tool_call("t", '{"x": 1}', id="c1")])]
    loop = Loop(backends=[ScriptedBackend([text("done")])], tools=[Tool(checked, name="t", needs_approval=True)])
    got = await play(loop, waiting, answers=[edit("c1", {"x": 0})])
    assert got.outcome.ok
    assert "not run" in answers(got)["c1"]
    assert "ZeroDivisionError" in answers(got)["c1"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_value_that_raises_when_it_is_read_gives_an_error_result(is_async: bool) -> None:
    """L-84, L-86: the call is answered with the error, the run goes on."""

    def later() -> Unset:
        return Unset()

    async def soon() -> Unset:
        return Unset()

    got = await one_call(Tool(soon if is_async else later, name="t"))
    assert got.outcome.ok
    assert [r.is_error for r in got.of(events.ToolResult)] == [True]
    assert "Unset" in answers(got)["c1"]


async def test_a_run_whose_tool_logs_anything_can_be_dumped() -> None:
    """L-11, L-97: every event says itself as JSON."""

    def t(context: ToolContext) -> None:
        context.log({"a": {1}, "b": object(), "c": float("inf")})

    got = await one_call(t)
    json.dumps([event.to_dict() for event in got.events], allow_nan=False)
    assert [log.data["a"] for log in got.of(events.Log)] == [[1]]


class Slow(dict[str, int]):
    """A mapping that says where it was read."""

    def __init__(self, seen: list[str]) -> None:
        super().__init__(a=1)
        self.seen = seen

    def items(self) -> Any:
        self.seen.append(threading.current_thread().name)
        return super().items()


@pytest.mark.parametrize("kind", ["async", "sync", "sync awaitable", "async iterator", "sync awaitable iterator"])
async def test_values_that_run_code_are_read_off_the_home_loop(kind: str) -> None:
    """L-85, L-88: iterators and conversions are the call's, in a thread, whatever gave them."""
    seen: list[str] = []

    def numbers() -> Iterator[int]:
        seen.append(threading.current_thread().name)
        yield 1

    async def soon() -> Any:
        return numbers() if "iterator" in kind else Slow(seen)

    def later() -> Any:
        return soon() if "awaitable" in kind else Slow(seen)

    got = await one_call(Tool(soon if kind.startswith("async") else later, name="t"))
    assert answers(got)["c1"] == ("[1]" if "iterator" in kind else '{"a":1}')
    assert seen
    assert all(name.startswith("handrail ") for name in seen)


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_iterator_that_never_ends_meets_its_deadline(is_async: bool) -> None:
    """L-85, L-92: the call is given up, the iterator left at its next item, and the run drains."""
    left = threading.Event()

    def for_ever() -> Iterator[int]:
        try:
            yield from itertools.repeat(1)
        finally:
            left.set()

    async def soon() -> Any:
        return for_ever()

    got = await one_call(Tool(soon if is_async else for_ever, name="t", timeout=0.05))
    assert got.outcome.ok
    assert [e.reason for e in got.of(events.ToolAbandoned)] == ["deadline"]
    assert left.is_set()


@pytest.mark.parametrize("is_async", [False, True])
async def test_stop_iteration_is_told_as_what_it_is(is_async: bool) -> None:
    """L-86: although no coroutine can raise it."""

    def later() -> None:
        raise StopIteration("s")

    async def soon() -> None:
        raise StopIteration("s")

    got = await one_call(Tool(soon if is_async else later, name="t"))
    assert answers(got)["c1"] == "StopIteration: s"


async def test_a_coroutine_that_comes_too_late_is_closed() -> None:
    """L-96: nobody awaits it, and nobody is warned of that either."""
    held = Gate()
    never: list[Any] = []

    async def soon() -> None: ...

    def later() -> Any:
        held.wait(10)
        never.append(soon())
        return never[0]

    loop = Loop(backends=[ScriptedBackend([call("t", {})])], tools=[Tool(later, name="t")])
    async with loop:
        run = loop.run("hi")
        await held.reached
        run.cancel()
        assert (await run.result).outcome == "cancelled"
        held.open()
        await run.drained
    assert inspect.getcoroutinestate(never[0]) == inspect.CORO_CLOSED


@pytest.mark.parametrize("asked", [False, True])
async def test_where_no_thread_is_left_the_call_fails_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """L-86, L-123: a tool that needs one was not called, and a person who was to be asked in one did not say yes."""
    called: list[str] = []
    tool = Tool(lambda: called.append("tool"), name="t", needs_approval=asked)
    loop = Loop(
        backends=[ScriptedBackend([[call("t", id="c")], text("fin")])],
        tools=[tool],
        ask=(lambda interrupt: called.append("ask")) if asked else None,
    )

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", refuse)
        got = await play(loop)
    assert got.outcome.final == "fin"
    assert "can't start new thread" in answers(got)["c"]
    assert called == []
