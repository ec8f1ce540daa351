"""Streams that fall silent, and the closing of every stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from handrail import Loop, TextDelta, events
from handrail.testing import FakeClock, ScriptedBackend, call, collect, cut, delay, fail, gate, reasoning, stall, text

from .kit import NOW, Odd, backends, checked, event, play


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
