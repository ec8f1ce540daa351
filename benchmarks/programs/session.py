"""A whole session over a scripted agent: what an event costs, early and late.

session deciles DELTAS        the last tenths of so many deltas into one text, as a multiple of the first
session threads DELTAS        so many deltas behind 2,000 messages, as a multiple of the same behind 10
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import time
from typing import Any

from ag_ui.core import UserMessage

from benchmarks.programs.clock import say
from handrail import AgentSession, RunParams
from handrail.testing import ScriptedAgent

THREAD, RUN = "t1", "r1"


def stream(deltas: int) -> list[dict[str, Any]]:
    """One answer of so many deltas."""
    content = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a1", "delta": "tokn "}
    return [
        {"type": "RUN_STARTED", "threadId": THREAD, "runId": RUN},
        {"type": "TEXT_MESSAGE_START", "messageId": "a1", "role": "assistant"},
        *[content] * deltas,
        {"type": "TEXT_MESSAGE_END", "messageId": "a1"},
        {"type": "RUN_FINISHED", "threadId": THREAD, "runId": RUN},
    ]


async def marks(deltas: int, before: int) -> list[float]:
    """Processor time at each tenth of the deltas, in a thread with so many messages before it."""
    messages = [UserMessage(id=f"u{number}", content="hi") for number in range(before)]
    session = AgentSession(ScriptedAgent(stream(deltas)), thread_id=THREAD, messages=messages)
    at: list[float] = []
    seen = 0

    def count(_: object) -> None:
        nonlocal seen
        if seen % (deltas // 10) == 0:
            at.append(time.process_time())
        seen += 1

    session.subscribe_events(count)
    state = await session.send("go", RunParams(run_id=RUN))
    assert state.ok, state
    return at


async def deciles(deltas: int) -> float:
    at = await marks(deltas, 0)
    tenths = [late - early for early, late in itertools.pairwise(at)]
    return statistics.median(tenths[-3:]) / statistics.median(tenths[:3])


async def threads(deltas: int) -> float:
    took: list[float] = []
    for before in (10, 2_000):
        at = await marks(deltas, before)
        took.append(at[10] - at[1])  # behind the first tenth: the request itself may cost the size of the thread
    return took[1] / took[0]


if __name__ == "__main__":
    way = {"deciles": deciles, "threads": threads}[sys.argv[1]]
    say({"handrail": asyncio.run(way(int(sys.argv[2])))})
