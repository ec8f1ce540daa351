"""One backend after the other: retry, fallback, and exceptions, as a run shows them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from handrail import BackendError, Budget, FinishDelta, Loop, RetryPolicy, TextDelta, events
from handrail.testing import FakeClock, ScriptedBackend, call, collect, cut, fail, finish, text, usage

from .kit import NOW, Odd, backends, checked, event, play, results


async def test_the_next_backend_answers() -> None:
    """L-41, L-42, L-46 (case 131): retries spent on the first are an advance to the second; every attempt is listed."""
    first, second = backends([fail("connection")] * 3, [text("ok")])
    got = await play(Loop(backends=[first, second], retry=NOW))
    assert results(got) == [
        (0, 1, "failed", "retry-same"),
        (0, 2, "failed", "retry-same"),
        (0, 3, "failed", "advance"),
        (1, 4, "ok", None),
    ]
    assert [e.disposition for e in got.of(events.AttemptFailed)] == ["retry-same", "retry-same", "advance"]
    assert [e.backoff for e in got.of(events.AttemptFailed)] == [0, 0, None]
    assert got.outcome.final == "ok"


async def test_every_round_begins_at_the_first_backend() -> None:
    """L-41: also after a round that the second one answered."""

    def look() -> str:
        return "x"

    first, second = backends([fail("response"), text("first again")], [call("look")])
    got = await play(Loop(backends=[first, second], tools=[look]))
    assert [a.backend_index for a in got.outcome.attempts] == [0, 1, 0]
    assert got.outcome.final == "first again"


async def test_one_backend_429_then_ok() -> None:
    """L-43: on the last backend an advance is done as a retry."""
    backend = ScriptedBackend([fail("http", 429), text("ok")])
    got = await play(Loop(backends=[backend], retry=NOW))
    assert [e.disposition for e in got.of(events.AttemptFailed)] == ["retry-same"]
    assert got.outcome.ok


@pytest.mark.parametrize("kind", ["overflow", "content-filter", "unsupported"])
async def test_what_never_degrades(kind: str) -> None:
    """L-43: is not asked again of the last backend."""
    backend = ScriptedBackend([fail(kind), text("never")])
    got = await play(Loop(backends=[backend], retry=NOW))
    assert got.outcome.outcome == "failed"
    assert len(backend.requests) == 1


class Undecorated:
    """What is easily written for a backend of one's own."""

    model = "mine"
    max_tokens = None

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        yield TextDelta("Hello.")


async def test_a_stream_that_is_no_context_manager_is_told_what_it_lacks() -> None:
    """L-43: misuse, which is not tried again."""
    outcome = (await play(Loop(backends=[Undecorated()]))).outcome  # type: ignore[list-item]
    assert outcome.error == (
        "BackendError: stream() of mine gives async_generator, not a context manager; "
        "decorate it with @asynccontextmanager"
    )
    assert [attempt.error_class for attempt in outcome.attempts] == ["misuse"]


async def test_a_filtered_answer_is_no_answer() -> None:
    """L-33, L-43: finish reason content-filter goes to the next backend."""
    first, second = backends([[text("bad"), finish("content-filter")]], [text("good")])
    got = await play(Loop(backends=[first, second]))
    assert got.outcome.attempts[0].error_class == "content-filter"
    assert got.outcome.final == "good"


async def test_an_abort_asks_nobody_else() -> None:
    """L-42, L-45: the error is that attempt's own."""
    first, second = backends([fail("http", 401, "no entry")], [text("never")])
    got = await play(Loop(backends=[first, second]))
    assert got.outcome.error == "BackendError (401): no entry"
    assert got.outcome.reason is None
    assert second.requests == []
    assert got.kinds()[-3:] == ["attempt-failed", "turn-discarded", "run-failed"]


async def test_a_spent_chain_names_every_failure_of_the_round() -> None:
    """L-45: with index and model."""
    first, second = backends([fail("response", message="garbled")], [fail("response", message="cut")])
    got = await play(Loop(backends=[first, second], retry=RetryPolicy(max_attempts=1)))
    error = str(got.outcome.error)
    assert error.startswith("every backend failed: ")
    assert all(part in error for part in ("[0] m0", "garbled", "[1] m1", "cut"))
    assert isinstance(got.terminal, events.RunFailed)
    assert got.terminal.attempts == got.outcome.attempts
    assert [d.reason for d in got.of(events.TurnDiscarded)] == ["failed"]


async def test_a_spent_chain_says_the_same_failure_once() -> None:
    """L-45: how often is said in place of the same words again."""
    steps = [fail("http", 500, "down"), fail("http", 502, "other"), fail("http", 500, "down")]
    first, second = backends(steps, [fail("http", 500, "down")] * 3)
    got = await play(Loop(backends=[first, second], retry=NOW))
    assert got.outcome.error == (
        "every backend failed: [0] m0: BackendError (500): down (2 times); [0] m0: BackendError (502): other; "
        "[1] m1: BackendError (500): down (3 times)"
    )
    assert len(got.outcome.attempts) == 6


async def test_a_stream_without_a_finish_is_cut() -> None:
    """L-33: class response, whatever was streamed."""
    first, second = backends([[text("half an ans"), cut()]], [text("whole")])
    got = await play(Loop(backends=[first, second]))
    failed = got.outcome.attempts[0]
    assert (failed.error_class, failed.text) == ("response", "half an ans")


async def test_a_delta_that_is_none() -> None:
    """L-33, L-37: class response; the stream and its generator are closed."""
    ended = []

    async def deltas() -> Any:
        try:
            yield "text"
        finally:
            ended.append(True)

    backend = Odd(deltas)
    got = await play(Loop(backends=[backend], retry=RetryPolicy(max_attempts=1)))
    assert got.outcome.attempts[0].error_class == "response"
    assert ended == [True]
    assert backend.closed == 1


@pytest.mark.parametrize("where", ["call", "open", "read", "close"])
async def test_an_exception_anywhere_is_an_attempt_failure(where: str) -> None:
    """L-38: at call time, while opening, while streaming, or in closing before the finish."""

    class Breaks:
        model = "breaks"
        max_tokens = None

        def stream(self, request: Any) -> Any:
            if where == "call":
                raise KeyError("call")
            return self

        async def __aenter__(self) -> Any:
            if where == "open":
                raise KeyError("open")
            return self.deltas()

        async def deltas(self) -> Any:
            yield TextDelta("x")
            if where == "read":
                raise KeyError("read")

        async def __aexit__(self, *args: Any) -> None:
            if where == "close":
                raise KeyError("close")

    got = await play(Loop(backends=[Breaks(), ScriptedBackend([text("ok")])], retry=RetryPolicy(max_attempts=1)))
    assert got.outcome.ok
    assert got.outcome.attempts[0].result == "failed"
    if where != "close":  # an answer without a finish is cut, whatever its closing says
        assert got.outcome.attempts[0].error_class == "other"
        assert where in str(got.outcome.attempts[0].error)


async def test_an_exception_in_closing_behind_the_finish_changes_nothing() -> None:
    """L-38: the answer was complete."""

    class Breaks:
        model = "breaks"
        max_tokens = None

        @asynccontextmanager
        async def stream(self, request: Any) -> AsyncIterator[Any]:
            async def deltas() -> Any:
                yield TextDelta("whole")
                yield FinishDelta("stop")

            yield deltas()
            raise KeyError("closing")

    got = await play(Loop(backends=[Breaks()]))
    assert (got.outcome.outcome, got.outcome.final) == ("completed", "whole")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio lets nobody make one
async def test_a_cancellation_error_that_nobody_sent_is_a_failure() -> None:
    """L-38: decision 5."""
    import asyncio

    backend = ScriptedBackend([fail(asyncio.CancelledError()), text("ok")])
    got = await play(Loop(backends=[backend], retry=NOW))
    assert got.outcome.ok
    assert got.outcome.attempts[0].error_class == "other"


async def test_usage_of_failed_attempts_counts() -> None:
    """L-38, L-114: seen before the failure, or carried by it."""
    from handrail import Usage

    carried = BackendError("x", "response", usage=Usage(total_tokens=5))
    first, second = backends(
        [[usage(prompt=7, completion=1), fail("response")]], [fail(carried), [text("ok"), usage(1, 1)]]
    )
    got = await play(Loop(backends=[first, second], retry=NOW, budget=Budget()))
    assert got.outcome.spent.total_tokens == 8 + 5 + 2
    assert got.outcome.spent.complete
    assert got.of(events.AttemptFailed)[0].usage is not None


async def test_backoff_is_waited_on_the_clock_and_a_cancel_ends_it() -> None:
    """L-44 (case 110): the provider's pause is waited for; a cancel ends the wait at once, stage backoff."""
    clock = FakeClock()
    backend = ScriptedBackend([fail("http", 503, retry_after=7.0), fail("http", 503, retry_after=7.0), text("never")])
    async with Loop(backends=[backend], clock=clock) as loop:
        run = loop.run("hi")
        failed = await event(run, events.AttemptFailed)
        assert failed.backoff == 7.0
        await anyio.wait_all_tasks_blocked()
        clock.advance(6.9)
        await anyio.wait_all_tasks_blocked()
        assert len(backend.requests) == 1
        clock.advance(0.1)
        await event(run, events.AttemptFailed, 2)
        await anyio.wait_all_tasks_blocked()
        run.cancel()
        got = checked(await collect(run))
    assert isinstance(got.terminal, events.RunCancelled)
    assert got.terminal.stage == "backoff"
    assert got.kinds()[-2:] == ["turn-discarded", "run-cancelled"]
    assert len(backend.requests) == 2
    assert clock.sleeping == 0
