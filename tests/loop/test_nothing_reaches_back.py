"""Readers of a loop's run may write into the events that they are given: the run goes on from what it said itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from ag_ui.core import TextPart, UserMessage
from tests.client.spoiling import SPOILED, spoil

from handrail import Limits, Loop, Outcome, Tool
from handrail.events import RunEvent
from handrail.testing import ScriptedBackend, call, gate, reasoning, text


def parts(where: dict[str, Any]) -> list[TextPart]:
    """Gives content that can be changed."""
    return [TextPart(text=f"seen {where}")]


async def conversation(watch: Callable[[RunEvent], object]) -> tuple[Any, ...]:
    """What the model was asked, how the run ended, and what a reader reads who comes last."""
    held = gate()
    numbers = iter(range(1_000))
    where = {"where": {"a": [1]}}
    script = [
        [reasoning("hm"), call("parts", where, id="c1")],
        [held, call("parts", where, id="c2")],
        call("asked", where, id="c3"),
        call("parts", where, id="c4"),
        text("done"),
    ]
    backend = ScriptedBackend(script)
    asked = Tool(parts, name="asked", needs_approval=True)
    loop = Loop(
        [backend], [parts, asked], limits=Limits(max_tool_calls=3), new_id=lambda: f"id{next(numbers)}", ask=yes
    )
    async with loop, anyio.create_task_group() as group:
        run = loop.run("go", run_id="r1")

        async def steer() -> None:
            await held.reached
            assert run.steer(UserMessage(id="s1", content="left"))
            held.open()

        group.start_soon(steer)
        async for event in run.events:
            watch(event)
    outcome: Outcome = await run.result
    requests = [[message.model_dump() for message in request.messages] for request in backend.requests]
    events = [{**event.to_dict(), "ts": 0} for event in run.events.so_far()]
    for event in events:
        event.pop("duration", None)
        event.pop("latency", None)
    return requests, outcome.to_dict()["messages"], events


def yes(interrupt: Any) -> bool:
    spoil(interrupt)
    return True


async def test_what_readers_write_stays_with_them() -> None:
    """R-43, L-4: two equal runs, and in one of them every event is spoiled as soon as it is read."""
    clean = await conversation(lambda event: None)
    spoiled = await conversation(spoil)
    assert spoiled == clean
    assert SPOILED not in str(clean[0]) + str(clean[1])
    kinds = {event["kind"] for event in clean[2]}
    assert {"assistant-message", "tool-started", "tool-result", "ask-pending", "ask-answered", "steered"} <= kinds
