"""The provided backends behind a loop: what a provider does to a run."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.models.test import TestModel
from tests.aimock import Aimock
from tests.backends.kit import KEY
from tests.backends.openai_streams import over

from handrail import Budget, Limits, Loop, RetryPolicy, RunScope
from handrail import events as ev
from handrail.backends.pydantic_ai import PydanticAIBackend
from handrail.testing import ScriptedBackend, check_messages, check_run, collect, text

AT_ONCE = RetryPolicy(backoff_cap=0.0, jitter=0.0)


async def get_weather(city: str) -> str:
    """Tell the weather."""
    return f"18C in {city}"


async def run(message: str, *backends: Any, tools: Any = (), **options: Any) -> Any:
    loop = Loop(backends=backends, tools=tools, retry=AT_ONCE, **options)
    async with RunScope():
        got = await collect(loop.run(message))
    assert check_run(got, got.outcome) == []
    assert check_messages(got.outcome.messages) == []
    return got


async def test_a_round_of_tools(aimock: Aimock) -> None:
    """L-150, L-153: a call, its result and the answer, over the wire and back; usage is counted."""
    got = await run("weather", over(aimock), tools=[get_weather], budget=Budget())
    assert got.outcome.ok
    assert got.text() == "It is 18C in Paris."
    assert [result.content for result in got.of(ev.ToolResult)] == ["18C in Paris"]
    assert got.outcome.spent.complete
    assert got.outcome.spent.total_tokens > 0


async def test_two_calls(aimock: Aimock) -> None:
    """L-34: fragments become calls, in their order."""
    got = await run("two-tools", over(aimock), tools=[get_weather])
    assert [result.content for result in got.of(ev.ToolResult)] == ["18C in Paris", "18C in Oslo"]


async def test_arguments_that_are_not_json(aimock: Aimock) -> None:
    """L-81: they are answered with an error, and the run goes on until its limit."""
    got = await run("bad-args", over(aimock), tools=[get_weather], limits=Limits(max_rounds=1))
    (result,) = got.of(ev.ToolResult)
    assert result.is_error
    assert "not JSON" in result.content
    assert got.of(ev.ToolStarted) == []
    assert got.outcome.reason == "budget-exhausted"


@pytest.mark.parametrize(
    ("message", "error_class", "attempts"),
    [
        ("malformed", "response", 1),
        ("always-429", "http", 1),
        ("always-500", "http", 3),
        ("too-long", "overflow", 1),
        ("disconnect", "connection", 3),
        ("drop-after-chunks", "connection", 3),
    ],
)
async def test_the_next_backend_answers(aimock: Aimock, message: str, error_class: str, attempts: int) -> None:
    """L-33, L-154, L-42: each failure has its class, is repeated or not, and another backend answers."""
    got = await run(message, over(aimock), ScriptedBackend([text("ok")]))
    failed = got.of(ev.AttemptFailed)
    assert [event.error_class for event in failed] == [error_class] * attempts
    assert got.text() == got.outcome.final == "ok"


async def test_a_refusal_ends_the_chain_and_tells_no_key(aimock: Aimock) -> None:
    """L-39, L-42: 401 is for the person who runs it."""
    got = await run("always-401", over(aimock), ScriptedBackend([text("never")]))
    assert got.outcome.outcome == "failed"
    assert "401" in got.outcome.error
    assert KEY not in repr(got.outcome.to_dict())


async def test_a_cut_answer(aimock: Aimock) -> None:
    """L-61, L-63: finish reason length is never a success."""
    got = await run("cut-length", over(aimock, max_tokens=5))
    assert (got.outcome.reason, got.outcome.final) == ("completion-truncated", "")
    assert got.outcome.attempts[-1].text == "This answer hit the tok"


async def test_pydantic_ai_s_test_model() -> None:
    """L-155, L-157: a finish without a reason completes, and none is reported."""
    got = await run("hi", PydanticAIBackend(TestModel()), tools=[get_weather])
    assert got.outcome.ok
    assert [called.name for called in got.of(ev.ToolCall)] == ["get_weather"]
    assert all("finish_reason" not in event.to_dict() for event in got.of(ev.AttemptSucceeded))
