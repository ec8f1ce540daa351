"""The driver: a model, its tools and a budget behind a `Run`.

`Loop` is configuration; `loop.run(...)` drives the model and its tools in rounds and hands back a `LoopRun` at once.
"""

from handrail.loop._attempts import Attempt, RetryPolicy
from handrail.loop._backend import (
    Backend,
    BackendRequest,
    FinishDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageDelta,
)
from handrail.loop._budget import Budget, Window
from handrail.loop._clock import Clock
from handrail.loop._config import Loop
from handrail.loop._driver import LoopRun
from handrail.loop._limits import Limits

__all__ = [
    "Attempt",
    "Backend",
    "BackendRequest",
    "Budget",
    "Clock",
    "FinishDelta",
    "Limits",
    "Loop",
    "LoopRun",
    "ReasoningDelta",
    "RetryPolicy",
    "TextDelta",
    "ToolCallDelta",
    "Usage",
    "UsageDelta",
    "Window",
]
