"""What the tests of the loop share: one way to play a run to its end, checked against what every run promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from handrail import Loop
from handrail.events import RunEvent
from handrail.loop import LoopRun
from handrail.testing import Collected, check_messages, check_run, collect


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
