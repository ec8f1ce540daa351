"""Tools whose own code raises, blocks or never ends, in a whole run: one error result, and the run goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from handrail import Loop, Tool, ToolContext, edit, events
from handrail.messages import assistant, tool_call, user
from handrail.testing import Collected, ScriptedBackend, call, text

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
