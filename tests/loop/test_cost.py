"""What a run costs, in counts that no load can move: Python calls, callbacks, tasks; and how fast a cancel is."""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from handrail import FinishDelta, Limits, Loop, TextDelta, ToolCallDelta, events
from handrail.testing import Gate, ScriptedBackend, call, collect, gate, text

from .kit import checked

LOADED = 5.0
"""How much longer than on a quiet machine a bound may take."""


class Model:
    """The least a backend can do: so many tool rounds, then so many tokens; `paced` gives the loop a turn for each."""

    model = "model"
    max_tokens = None

    def __init__(self, tokens: int, rounds: int = 0, paced: bool = False) -> None:
        self.tokens = tokens
        self.rounds = rounds
        self.paced = paced
        self.asked = 0

    def stream(self, request: Any) -> Any:
        self.asked = request.round
        return self

    async def __aenter__(self) -> AsyncIterator[Any]:
        return self._all()

    async def __aexit__(self, *args: Any) -> None:
        return None

    async def _all(self) -> AsyncIterator[Any]:
        if self.asked <= self.rounds:
            yield ToolCallDelta(0, f"c{self.asked}", "look", f'{{"n": {self.asked}}}')
            yield FinishDelta("tool-calls")
            return
        for _ in range(self.tokens):
            if self.paced:
                await asyncio.sleep(0)
            yield TextDelta("tokn ")
        yield FinishDelta("stop")


async def look(n: int) -> str:
    return "found"


async def read(loop: Loop) -> None:
    """One run, read to its end and its result."""
    run = loop.run("hi")
    async for _ in run.events:
        pass
    await run.result


async def unread(loop: Loop) -> None:
    """One run, with nobody who reads it."""
    await loop.run("hi").result


def counted(work: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Python calls and event-loop callbacks of a piece of work, the second time it is done."""

    async def main() -> tuple[int, int]:
        await work()
        calls = callbacks = 0
        run = asyncio.events.Handle._run

        def profile(frame: Any, what: str, arg: Any) -> None:
            nonlocal calls
            calls += what == "call"

        def counting(self: Any) -> None:
            nonlocal callbacks
            callbacks += 1
            run(self)

        monkeypatch.setattr(asyncio.events.Handle, "_run", counting)
        gc.disable()  # a collection calls back into whoever asked for it
        sys.setprofile(profile)
        try:
            await work()
        finally:
            sys.setprofile(None)
            gc.enable()
            monkeypatch.undo()
        return calls - callbacks, callbacks

    return asyncio.run(main())


def test_a_one_token_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-8: at most 450 Python calls and 10 callbacks, read to its end; it has come down to fewer."""
    loop = Loop(backends=[Model(1)])
    calls, callbacks = counted(lambda: read(loop), monkeypatch)
    assert calls <= 432
    assert callbacks <= 8


def per_token(monkeypatch: pytest.MonkeyPatch, work: Callable[[Loop], Any], paced: bool) -> tuple[float, float]:
    """Calls and callbacks that one more token costs."""
    few, many = (counted(lambda n=n: work(Loop(backends=[Model(n, paced=paced)])), monkeypatch) for n in (100, 1_100))
    return (many[0] - few[0]) / 1_000, (many[1] - few[1]) / 1_000


def test_a_token_through_to_one_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-9: at most 30 Python calls and one callback."""
    calls, callbacks = per_token(monkeypatch, read, paced=False)
    assert calls <= 30
    assert callbacks <= 1
    # Where the model gives the event loop a turn for each token, that turn is one callback of its own.
    assert per_token(monkeypatch, read, paced=True)[1] - 1 <= 1.05


def test_no_reader_no_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-9: a token that nobody waits for wakes nobody."""
    assert per_token(monkeypatch, unread, paced=False)[1] == 0
    assert per_token(monkeypatch, unread, paced=True)[1] == 1


def test_growth_of_tool_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-11: the calls of a round are the same at 25 rounds and at 200."""

    def cost(rounds: int) -> float:
        loop = Loop(backends=[Model(1, rounds)], tools=[look], limits=Limits(max_rounds=1_000))
        return counted(lambda: read(loop), monkeypatch)[0] / rounds

    assert cost(200) <= cost(25) * 1.1


def test_an_open_run_is_two_tasks() -> None:
    """F-12: the driver and the stream; a tool is one more while it runs."""

    async def main() -> None:
        held, tooled = gate(), gate()

        async def wait() -> str:
            await tooled
            return "x"

        backend = ScriptedBackend([[text("x"), held, call("wait")], text("done")])
        before = len(asyncio.all_tasks())
        run = Loop(backends=[backend], tools=[wait]).run("hi")
        await held.reached
        assert len(asyncio.all_tasks()) - before == 2
        held.open()
        await tooled.reached
        assert len(asyncio.all_tasks()) - before == 2
        tooled.open()
        await run.drained

    asyncio.run(main())


def scenario(kind: str, held: Gate, released: Gate) -> tuple[Any, list[Any]]:
    """A script and its tools, for a run that stands still in one of four ways once `held` is reached."""

    async def sleeps() -> str:
        await held
        return "never"

    def blocks() -> str:
        held.wait(20)
        return "late"

    async def swallows() -> str:
        try:
            await held
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await released
        return "late"

    if kind == "a stalled stream":
        return [[text("x"), held]], []
    tool = {"an async tool asleep": sleeps, "a blocking tool": blocks, "a tool that swallows it": swallows}[kind]
    return [[call(tool.__name__)]], [tool]


@pytest.mark.parametrize(
    "kind", ["an async tool asleep", "a stalled stream", "a blocking tool", "a tool that swallows it"]
)
async def test_cancel_to_result(kind: str) -> None:
    """F-13, R-76: quick in all four; `drained` stays open until the tool or thread ends; no late event."""
    waits: list[float] = []
    for _ in range(20):
        held, released = Gate(), Gate()
        script, tools = scenario(kind, held, released)
        async with Loop(backends=[ScriptedBackend(script)], tools=tools) as loop:
            run = loop.run("hi")
            await held.reached
            await anyio.wait_all_tasks_blocked()
            asked = time.perf_counter()
            run.cancel()
            outcome = await run.result
            waits.append(time.perf_counter() - asked)
            assert outcome.outcome == "cancelled"
            got = checked(await collect(run))
            lingers = kind in ("a blocking tool", "a tool that swallows it")
            await anyio.wait_all_tasks_blocked()
            assert run.drained.is_set != lingers
            held.open()
            released.open()
            await run.drained
            assert len(run.events.so_far()) == len(got.events)
            assert isinstance(got.terminal, events.RunCancelled)
    assert statistics.median(waits) <= 0.005 * LOADED
