"""For tests of what is built on handrail: a scripted model, a clock, checkers for whole runs, and an explorer.

    backend = ScriptedBackend([[call("weather", {"city": "Rome"})], text("It is ", "warm.")])
    got = await collect(Loop(backends=[backend], tools=[weather]).run("How is Rome?"))
    assert got.text() == "It is warm."
    assert check_run(got, got.outcome) == []

Nothing here knows a test framework; everything works on asyncio and trio.
"""

from __future__ import annotations

from handrail.testing._agent import Line, ScriptedAgent
from handrail.testing._backend import ScriptedBackend
from handrail.testing._cancel_everywhere import cancel_everywhere
from handrail.testing._check_messages import check_messages
from handrail.testing._check_run import check_run
from handrail.testing._clock import FakeClock
from handrail.testing._collect import Collected, collect
from handrail.testing._pair import pair
from handrail.testing._steps import (
    Gate,
    Step,
    call,
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
from handrail.testing.interleavings import Explored, InterleavingError, explore, replay

__all__ = [
    "Collected",
    "Explored",
    "FakeClock",
    "Gate",
    "InterleavingError",
    "Line",
    "ScriptedAgent",
    "ScriptedBackend",
    "Step",
    "call",
    "cancel_everywhere",
    "check_messages",
    "check_run",
    "collect",
    "cut",
    "delay",
    "explore",
    "fail",
    "finish",
    "gate",
    "pair",
    "reasoning",
    "replay",
    "stall",
    "text",
    "usage",
]
