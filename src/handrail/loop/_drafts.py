"""Events while they are still in the hands of their maker.

A frozen event costs several times what an open object does, and to place one in a run it is copied. The loop gives away
each event that it makes, and keeps none. So it fills an open twin of the event's class, and placing it freezes it: it
is not copied but becomes the event. Not for anybody who keeps what they emit.
"""

from __future__ import annotations

from dataclasses import field, fields, make_dataclass
from typing import Any, TypeVar

from handrail import events
from handrail.events import RunEvent

__all__ = [
    "AskAnswered",
    "AskPending",
    "AssistantMessage",
    "AttemptFailed",
    "AttemptStarted",
    "AttemptSucceeded",
    "LimitReached",
    "Log",
    "ReasoningToken",
    "RoundStarted",
    "RunCancelled",
    "RunCompleted",
    "RunFailed",
    "RunStarted",
    "Steered",
    "Token",
    "ToolAbandoned",
    "ToolCall",
    "ToolProgress",
    "ToolResult",
    "ToolStarted",
    "TurnDiscarded",
]

E = TypeVar("E", bound=RunEvent)


def _draft(kind: type[E]) -> type[E]:
    """The open twin of an event class: made with the same words, but for its place, and checked the same."""
    checks = {"__post_init__": check} if (check := getattr(kind, "__post_init__", None)) else {}
    parts = [
        (part.name, Any, field(default=part.default, default_factory=part.default_factory))
        for part in fields(kind)
        if part.name not in ("run_id", "seq")
    ]
    filled: Any = make_dataclass(kind.__name__, parts, kw_only=True, repr=False, eq=False, namespace=checks)

    def stamped(self: Any, run_id: str, seq: int) -> RunEvent:
        self.run_id = run_id
        self.seq = seq
        self.__class__ = kind  # the same slots
        return self

    members = {
        "__slots__": vars(kind)["__slots__"],
        "__init__": filled.__init__,
        "__setattr__": object.__setattr__,
        "__delattr__": object.__delattr__,
        "ends": kind.ends,
        "stamped": stamped,
    }
    twin: Any = type(f"{kind.__name__}Draft", (RunEvent,), members | checks)
    return twin


AskAnswered = _draft(events.AskAnswered)
AskPending = _draft(events.AskPending)
AssistantMessage = _draft(events.AssistantMessage)
AttemptFailed = _draft(events.AttemptFailed)
AttemptStarted = _draft(events.AttemptStarted)
AttemptSucceeded = _draft(events.AttemptSucceeded)
LimitReached = _draft(events.LimitReached)
Log = _draft(events.Log)
ReasoningToken = _draft(events.ReasoningToken)
RoundStarted = _draft(events.RoundStarted)
RunCancelled = _draft(events.RunCancelled)
RunCompleted = _draft(events.RunCompleted)
RunFailed = _draft(events.RunFailed)
RunStarted = _draft(events.RunStarted)
Steered = _draft(events.Steered)
Token = _draft(events.Token)
ToolAbandoned = _draft(events.ToolAbandoned)
ToolCall = _draft(events.ToolCall)
ToolProgress = _draft(events.ToolProgress)
ToolResult = _draft(events.ToolResult)
ToolStarted = _draft(events.ToolStarted)
TurnDiscarded = _draft(events.TurnDiscarded)
