"""What the tests of the loop share: one way to play a run to its end, checked against what every run promises."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from handrail import Loop, RetryPolicy, events
from handrail.events import RunEvent
from handrail.loop import LoopRun
from handrail.testing import Collected, ScriptedBackend, check_messages, check_run, collect, text

NOW = RetryPolicy(backoff_cap=0)


def look(q: str = "") -> str:
    """Look something up."""
    return f"found {q}"


def backends(*scripts: Any) -> list[ScriptedBackend]:
    return [ScriptedBackend(script, model=f"m{n}") for n, script in enumerate(scripts)]


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


def checked(got: Collected[RunEvent]) -> Collected[RunEvent]:
    """The run as it is, after every checker has looked at it."""
    outcome = got.outcome
    open = {i.tool_call_id for i in outcome.interrupts} | set(getattr(got.terminal, "pending_calls", ()))
    assert check_run(got, outcome) == []
    assert check_messages(outcome.messages, open) == []
    return got


async def play(loop: Loop, messages: Any = "hi", **options: Any) -> Collected[RunEvent]:
    """A run from its start until it has drained."""
    async with loop:
        run = loop.run(messages, **options)
        got = checked(await collect(run, 20))
        await run.drained
    return got


async def one_turn(*calls: Any, tools: Any, **options: Any) -> Collected[Any]:
    """A run whose model makes these calls in one turn and then answers."""
    return await play(Loop(backends=[ScriptedBackend([list(calls), text("done")])], tools=tools, **options))


async def event(run: LoopRun, cls: type[RunEvent], nth: int = 1) -> Any:
    """The nth event of a class, as soon as it is there."""
    async for seen in run.events:
        nth -= isinstance(seen, cls)
        if not nth and isinstance(seen, cls):
            return seen
    raise AssertionError(f"the run ended without another {cls.__name__}")


async def reached(run: LoopRun, true: Callable[[], bool]) -> None:
    """Wait, an event at a time, until something is true."""
    async for _ in run.events:
        if true():
            return
    assert true()


def roles(got: Collected[RunEvent]) -> list[str]:
    return [message.role for message in got.outcome.messages]


def answers(got: Collected[RunEvent]) -> Mapping[str, str]:
    """The content of each tool message, by call."""
    return {m.tool_call_id: str(m.content) for m in got.outcome.messages if m.role == "tool"}


def results(got: Collected[Any]) -> list[tuple[Any, ...]]:
    return [(a.backend_index, a.attempt, a.result, a.disposition) for a in got.outcome.attempts]


def ends(got: Collected[Any]) -> list[tuple[str, str]]:
    """How each call ended, in order: its id, and "ok", "error" or why it was given up."""
    return [
        (e.id, e.reason if isinstance(e, events.ToolAbandoned) else "error" if e.is_error else "ok")
        for e in got.of((events.ToolResult, events.ToolAbandoned))
    ]
