"""Small questions of reading, each with the answer that the rules give."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from handrail import BackendError, Budget, FinishDelta, Loop, RetryPolicy, TextDelta, Tool, ToolContext, edit, events
from handrail.testing import FakeClock, ScriptedBackend, call, collect, fail, finish, gate, text, usage

from .kit import checked, play


async def test_a_steer_at_a_cap_has_no_round() -> None:
    """L-146: the round it would have been for was refused."""
    held = gate()
    backend = ScriptedBackend([[text("a"), held, usage(total=5), finish("stop")]])
    async with Loop(backends=[backend], budget=Budget(max_total_tokens=5)) as loop:
        run = loop.run("hi")
        await held.reached
        assert run.steer("more")
        held.open()
        got = checked(await collect(run, 20))
    assert (got.outcome.reason, got.outcome.messages[-1].content) == ("budget-exhausted", "more")
    assert [e.round for e in got.of(events.Steered)] == [None]


async def test_a_cap_is_looked_at_before_the_backoff() -> None:
    """L-47, L-112: nobody waits for a retry that will not be."""
    backend = ScriptedBackend([[usage(total=5), fail("http", status=503)], text("b")])
    loop = Loop(backends=[backend], clock=FakeClock(), idle_timeout=None, budget=Budget(max_total_tokens=5))
    got = await play(loop)
    assert got.outcome.reason == "budget-exhausted"


async def test_a_tool_is_told_the_arguments_it_runs_with() -> None:
    """L-97, L-122: also when a person edited them."""
    told: list[str] = []

    def pay(n: int, context: ToolContext) -> int:
        told.append(context.arguments)
        return n

    backend = ScriptedBackend([call("pay", {"n": 1}), text("fin")])
    await play(Loop(backends=[backend], tools=[Tool(pay, needs_approval=True)], ask=lambda i: edit(i, {"n": 2})))
    assert told == ['{"n": 2}']


class Refusing:
    """A backend that says why it failed, and then fails to close."""

    model = "refusing"
    max_tokens = None
    closed = 0

    @asynccontextmanager
    async def stream(self, request: Any) -> AsyncIterator[AsyncIterator[Any]]:
        try:
            yield self.deltas()
        finally:
            raise RuntimeError("while closing")

    async def deltas(self) -> AsyncIterator[Any]:
        yield TextDelta("a")
        raise BackendError("no such key", "http", 401)
        yield FinishDelta("stop")

    async def aclose(self) -> None:
        self.closed += 1


async def test_closing_hides_no_failure() -> None:
    """L-38, L-40: the attempt fails with what the backend said, not with what broke behind it."""
    got = await play(Loop(backends=[Refusing()], retry=RetryPolicy(max_attempts=1)))
    assert [(a.error_class, a.status) for a in got.outcome.attempts] == [("http", 401)]


async def test_a_backend_that_stands_twice_is_closed_once() -> None:
    """L-8: leaving the loop closes each backend."""
    backend = Refusing()
    async with Loop(backends=[backend, backend]):
        pass
    assert backend.closed == 1
