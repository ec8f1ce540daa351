"""One backend after the other: retry, fallback, silence, cuts and sizes, as a run shows them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from handrail import BackendError, Budget, FinishDelta, Loop, RetryPolicy, TextDelta, Window, events, user
from handrail.testing import (
    Collected,
    FakeClock,
    ScriptedBackend,
    call,
    collect,
    cut,
    delay,
    fail,
    finish,
    gate,
    reasoning,
    stall,
    text,
    usage,
)

from .kit import checked, event, play, roles

NOW = RetryPolicy(backoff_cap=0)


def results(got: Collected[Any]) -> list[tuple[Any, ...]]:
    return [(a.backend_index, a.attempt, a.result, a.disposition) for a in got.outcome.attempts]


def backends(*scripts: Any) -> list[ScriptedBackend]:
    return [ScriptedBackend(script, model=f"m{n}") for n, script in enumerate(scripts)]


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


async def test_a_stream_without_a_finish_is_cut() -> None:
    """L-33: class response, whatever was streamed."""
    first, second = backends([[text("half an ans"), cut()]], [text("whole")])
    got = await play(Loop(backends=[first, second]))
    failed = got.outcome.attempts[0]
    assert (failed.error_class, failed.text) == ("response", "half an ans")


class Odd:
    """A backend that is a plain function."""

    model = "odd"
    max_tokens = None

    def __init__(self, deltas: Any) -> None:
        self.deltas = deltas
        self.closed = 0

    @asynccontextmanager
    async def stream(self, request: Any) -> AsyncIterator[Any]:
        try:
            yield self.deltas()
        finally:
            self.closed += 1


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


# -- silence ---------------------------------------------------------------------------------------------------------


async def test_silence_fails_the_attempt_and_every_delta_renews_the_patience() -> None:
    """L-50, L-51: reasoning for ten minutes is not cut; nothing for idle_timeout is; the stream is closed beside."""
    clock = FakeClock()
    thinks = [move for _ in range(10) for move in (delay(60), reasoning("hm"))]
    first, second = backends([[*thinks, text("x"), stall()]], [text("ok")])
    async with Loop(backends=[first, second], clock=clock, idle_timeout=90) as loop:
        run = loop.run("hi")
        for _ in range(10):
            await anyio.wait_all_tasks_blocked()
            clock.advance(60)
        await event(run, events.Token)
        await anyio.wait_all_tasks_blocked()
        assert not run.is_done
        clock.advance(90)
        got = checked(await collect(run))
    failed = got.outcome.attempts[0]
    assert (failed.error_class, failed.disposition, failed.text) == ("timeout", "advance", "x")
    assert "90" in str(failed.error)
    assert got.outcome.final == "ok"
    assert (first.opened, first.closed) == (1, 1)


async def test_no_idle_timeout() -> None:
    """L-50: None switches it off."""
    clock, held = FakeClock(), gate()
    async with Loop(backends=[ScriptedBackend([[held, text("ok")]])], clock=clock, idle_timeout=None) as loop:
        run = loop.run("hi")
        await held.reached
        clock.advance(1e9)
        await anyio.wait_all_tasks_blocked()
        assert not run.is_done
        held.open()
        assert (await run.result).ok


async def test_on_real_time_too() -> None:
    """L-51: `stall()` and a short idle_timeout; the second backend answers."""
    first, second = backends([stall()], [text("ok")])
    got = await play(Loop(backends=[first, second], idle_timeout=0.02))
    assert got.outcome.final == "ok"
    assert first.closed == 1


async def test_late_deltas_and_errors_of_an_abandoned_stream_are_dropped() -> None:
    """L-51, L-37: nothing of it is published, and its section stays open until it is closed."""
    released, clock = gate(), FakeClock()

    async def deltas() -> Any:
        yield TextDelta("early")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await released
            raise ValueError("late")

    backend = Odd(deltas)
    async with Loop(backends=[backend, ScriptedBackend([text("ok")])], clock=clock, idle_timeout=5) as loop:
        run = loop.run("hi")
        await event(run, events.Token)
        await anyio.wait_all_tasks_blocked()
        clock.advance(5)
        got = checked(await collect(run))
        assert got.outcome.final == "ok"
        assert not run.drained.is_set
        assert run.open_work == ("run", "stream odd")
        released.open()
        await run.drained
    assert backend.closed == 1


async def test_nobody_waits_for_the_closing() -> None:
    """L-37: cancelled in mid-text, the result is there at once; drained is not, until the stream is closed."""
    closing = gate()

    class SlowToClose:
        model = "slow"
        max_tokens = None

        @asynccontextmanager
        async def stream(self, request: Any) -> AsyncIterator[Any]:
            async def deltas() -> Any:
                yield TextDelta("half")
                await anyio.sleep_forever()

            try:
                yield deltas()
            finally:
                await closing  # not shielded here: the loop does that

    async with Loop(backends=[SlowToClose()]) as loop:
        run = loop.run("hi")
        await event(run, events.Token)
        run.cancel()
        outcome = await run.result
        assert outcome.outcome == "cancelled"
        await closing.reached
        assert not run.drained.is_set
        closing.open()
        await run.drained


async def test_a_stream_is_closed_once_on_every_path() -> None:
    """L-37, R-93 (case 110): complete, failed, cut, cancelled."""
    held = gate()
    backend = ScriptedBackend([call("look"), fail("connection"), cut(), [text("x"), held]])

    def look() -> str:
        return "x"

    async with Loop(backends=[backend], tools=[look], retry=NOW) as loop:
        run = loop.run("hi")
        await held.reached
        for _ in range(3):
            run.cancel()
        await run.drained
    assert (backend.opened, backend.closed) == (4, 4)


# -- cuts ------------------------------------------------------------------------------------------------------------


async def test_nothing_of_a_cut_answer_is_executed() -> None:
    """L-61, L-63 (case 127): also when the arguments are complete JSON; the text so far is in the attempt."""
    ran = []
    step = [text("I write"), call("write", {"path": "x"}), finish("length")]
    first, second = backends([step], [text("never")])
    got = await play(Loop(backends=[first, second], tools=[lambda_tool(ran)]))
    assert ran == []
    assert (got.outcome.outcome, got.outcome.reason) == ("failed", "completion-truncated")
    assert got.outcome.attempts[-1].text == "I write"
    assert got.of(events.AttemptSucceeded) == []
    assert got.kinds()[-3:] == ["attempt-failed", "turn-discarded", "run-failed"]
    assert got.of(events.AttemptFailed)[0].disposition == "abort"
    assert second.requests == []
    assert "max_tokens" in str(got.outcome.error)
    assert "Window" in str(got.outcome.error)
    assert roles(got) == ["user"]


def lambda_tool(ran: list[str]) -> Any:
    def write(path: str) -> str:
        ran.append(path)
        return "ok"

    return write


@pytest.mark.parametrize(("billed", "cuts"), [(50, True), (49, False)])
async def test_a_clip_is_a_cut(billed: int, cuts: bool) -> None:
    """L-60: cap 50 and 50 tokens: cut, with a warning that names reason, tokens and cap; 49: committed."""
    backend = ScriptedBackend([[text("x"), usage(10, billed)]], max_tokens=50)
    got = await play(Loop(backends=[backend]))
    assert got.outcome.reason == ("completion-truncated" if cuts else None)
    warnings = [str(log.data) for log in got.of(events.Log)]
    assert len(warnings) == cuts
    assert all(part in warnings[0] for part in ("stop", "50")) if cuts else True


async def test_a_cut_near_the_window_is_a_size_refusal() -> None:
    """L-62: advance, never degraded; alone it exhausts the context."""
    step = [text("x"), usage(900, 100), finish("length")]
    budget = Budget(windows={"m0": Window(context=1_000, reserve=10, margin=0)})
    first, second = backends([step], [text("ok")])
    got = await play(Loop(backends=[first, second], budget=budget))
    assert got.outcome.final == "ok"
    assert (got.outcome.attempts[0].error_class, got.outcome.attempts[0].disposition) == ("length", "advance")
    got = await play(Loop(backends=backends([step]), budget=budget))
    assert got.outcome.reason == "context-exhausted"


# -- sizes -----------------------------------------------------------------------------------------------------------


async def test_a_backend_that_is_too_small_is_skipped() -> None:
    """L-18, L-71, L-46: no attempt is opened; an info line and a record that name every term."""
    budget = Budget(windows={"m0": Window(context=600, reserve=50)})
    first, second = backends([text("never")], [text("ok")])
    got = await play(Loop(backends=[first, second], budget=budget), "x" * 400)
    assert results(got) == [(0, None, "skipped", None), (1, 1, "ok", None)]
    assert [log.level for log in got.of(events.Log)] == ["info"]
    assert all(part in str(got.outcome.attempts[0].error) for part in ("108", "512", "50", "600"))
    assert first.requests == []
    assert got.outcome.spent.complete is False  # the one attempt reported nothing; a skip is none


async def test_a_model_without_a_window_is_never_skipped() -> None:
    """L-70: unknown is not small."""
    got = await play(Loop(backends=backends([text("ok")]), budget=Budget()), "x" * 100_000)
    assert got.outcome.ok


@pytest.mark.parametrize("second_fails", ["overflow", "skip"])
async def test_all_refusing_on_size_exhausts_the_context(second_fails: str) -> None:
    """L-73: skip, overflow, near-window cut; no TurnDiscarded then."""
    windows = {"m0": Window(context=100)} | ({"m1": Window(context=100)} if second_fails == "skip" else {})
    first, second = backends([text("never")], [fail("http", 413)])
    got = await play(Loop(backends=[first, second], budget=Budget(windows=windows), retry=NOW))
    assert got.outcome.reason == "context-exhausted"
    assert got.of(events.TurnDiscarded) == []
    assert "m0" in str(got.outcome.error)


async def test_a_mixed_chain_is_an_ordinary_failure() -> None:
    """L-73: one backend refused on size, the other broke."""
    first, second = backends([fail("http", 413)], [fail("response")])
    got = await play(Loop(backends=[first, second], retry=RetryPolicy(max_attempts=1)))
    assert got.outcome.reason is None
    assert str(got.outcome.error).startswith("every backend failed: ")
    assert [d.reason for d in got.of(events.TurnDiscarded)] == ["failed"]


async def test_activities_are_not_sent() -> None:
    """L-142: they stay in the messages."""
    from ag_ui.core import ActivityMessage

    backend = ScriptedBackend([text("ok")])
    got = await play(Loop(backends=[backend]), [ActivityMessage(id="p", activity_type="plot", content={}), user("u")])
    assert [m.role for m in backend.requests[0].messages] == ["user"]
    assert roles(got) == ["activity", "user", "assistant"]
