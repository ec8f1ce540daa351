"""Deltas and failures whose parts are not of the types they say: a malformed answer, never the end of the run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from handrail import (
    BackendError,
    Budget,
    FinishDelta,
    Loop,
    ReasoningDelta,
    RetryPolicy,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageDelta,
)
from handrail.testing import ScriptedBackend, text

from .kit import play

STOP = FinishDelta("stop")
wrong: Any = {"x": 1}
"""Of no type that any part of a delta has."""


class Giving:
    """A backend that gives these, as they are."""

    model = "giving"
    max_tokens = None

    def __init__(self, *deltas: Any) -> None:
        self.deltas = deltas

    @asynccontextmanager
    async def stream(self, request: Any) -> AsyncIterator[AsyncIterator[Any]]:
        yield self.all()

    async def all(self) -> AsyncIterator[Any]:
        for delta in self.deltas:
            if isinstance(delta, Exception):
                raise delta
            yield delta


def look() -> str:
    return "seen"


MALFORMED: dict[str, Callable[[], Any]] = {
    "no delta": lambda: wrong,
    "text None": lambda: TextDelta(None),  # type: ignore[arg-type]
    "text bytes": lambda: TextDelta(b"x"),  # type: ignore[arg-type]
    "reasoning None": lambda: ReasoningDelta(None),  # type: ignore[arg-type]
    "opaque dict": lambda: ReasoningDelta("r", wrong),
    "arguments dict": lambda: ToolCallDelta(0, "c", "look", wrong),
    "id int": lambda: ToolCallDelta(0, 7, "look", "{}"),  # type: ignore[arg-type]
    "name int": lambda: ToolCallDelta(0, "c", 5, "{}"),  # type: ignore[arg-type]
    "index list": lambda: ToolCallDelta([0], "c", "look", "{}"),  # type: ignore[arg-type]
    "usage dict": lambda: UsageDelta({"prompt_tokens": 1}),  # type: ignore[arg-type]
    "usage None": lambda: UsageDelta(None),  # type: ignore[arg-type]
    "tokens text": lambda: UsageDelta(Usage(prompt_tokens="5")),  # type: ignore[arg-type]
    "cost nan": lambda: UsageDelta(Usage(cost=float("nan"))),
    "provider dict": lambda: UsageDelta(Usage(provider=wrong)),
    "reason int": lambda: FinishDelta(5),  # type: ignore[arg-type]
    "model dict": lambda: FinishDelta("stop", wrong),
    "failure with usage dict": lambda: BackendError("x", "connection", usage=wrong),
    "failure with status text": lambda: BackendError("x", "http", status="503"),  # type: ignore[arg-type]
    "failure with pause text": lambda: BackendError("x", "http", 503, retry_after="5"),  # type: ignore[arg-type]
    "failure of kind list": lambda: BackendError("x", ["http"]),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_what_is_malformed_advances(name: str) -> None:
    """L-13, L-38, L-46: class response, the attempt is closed, and the next backend answers."""
    first = Giving(TextDelta("half"), MALFORMED[name](), STOP)
    loop = Loop(
        backends=[first, ScriptedBackend([text("whole")])],
        tools=[look],
        retry=RetryPolicy(max_attempts=1),
        budget=Budget(max_cost=5),
    )
    got = await play(loop)
    assert (got.outcome.outcome, got.outcome.final) == ("completed", "whole")
    failed = got.outcome.attempts[0]
    assert (failed.error_class, failed.disposition, failed.text) == ("response", "advance", "half")


async def test_a_cut_wins_over_a_later_reason() -> None:
    """L-61: a stream that says length and then stop was cut."""
    got = await play(Loop(backends=[Giving(TextDelta("half"), FinishDelta("length"), STOP)]))
    assert (got.outcome.outcome, got.outcome.reason) == ("failed", "completion-truncated")


async def test_a_reason_that_nobody_knows() -> None:
    """L-32, L-33: is "other", and a success."""
    odd: Any = FinishDelta("banana")  # type: ignore[arg-type]
    got = await play(Loop(backends=[Giving(TextDelta("a"), odd)]))
    assert got.outcome.final == "a"
    assert next(e.finish_reason for e in got.events if e.kind == "attempt-succeeded") == "other"
