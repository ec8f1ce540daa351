"""How far a model may go on calling tools before the run is brought to an answer. Pure.

Looked at when a turn with calls has arrived and before it is committed, in this order: turns with calls so far, calls
dispatched so far and these, and how often one call (same name, same arguments after parsing) has been made.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ag_ui.core import ToolCall

from handrail.events import LimitName
from handrail.tools._settings import require_whole

__all__ = ["Limits", "Tally", "Trip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`max_rounds` counts committed turns with calls; 0 runs no tool ever. When a limit trips, tools are off.

    Raises `ValueError` for a limit below 0 (`max_identical_calls`: below 1), `TypeError` for what is no whole number.
    """

    max_rounds: int = 100
    max_tool_calls: int = 1_000
    max_identical_calls: int = 30

    def __post_init__(self) -> None:
        for name in ("max_rounds", "max_tool_calls"):
            require_whole(getattr(self, name), name, 0, "it is not below 0, and 0 runs no tool")
        fix = "it is at least 1; to run no tool, set max_rounds=0"
        require_whole(self.max_identical_calls, "max_identical_calls", 1, fix)


@dataclass(frozen=True, slots=True)
class Trip:
    """Which limit would be exceeded; `name` is the tool's for `max-identical-calls`."""

    limit: LimitName
    count: int
    max: int
    name: str | None = None

    def notice(self) -> str:
        """What the model is told. It stays in the conversation, so it speaks of one answer only."""
        return (
            f"The limit on tool use ({self.limit}: {self.max}) was reached. Tools are not available for the next "
            "answer, and the calls just asked for were not made: answer with what is known, and say what is missing."
        )

    def __str__(self) -> str:
        return f"the limit {self.limit} was reached ({self.count} of {self.max})"


class Tally:
    """What one run has counted against its limits."""

    __slots__ = ("_made", "dispatched", "turns")

    def __init__(self) -> None:
        self.turns = 0
        self.dispatched = 0
        self._made: Counter[tuple[str, str]] = Counter()

    def look(self, limits: Limits, calls: Iterable[ToolCall]) -> Trip | None:
        """The first limit that these calls would exceed."""
        batch = list(calls)
        if self.turns >= limits.max_rounds:
            return Trip("max-rounds", self.turns, limits.max_rounds)
        if self.dispatched + len(batch) > limits.max_tool_calls:
            return Trip("max-tool-calls", self.dispatched + len(batch), limits.max_tool_calls)
        for (name, arguments), count in Counter(map(_identity, batch)).items():
            made = self._made[name, arguments] + count
            if made > limits.max_identical_calls:
                return Trip("max-identical-calls", made, limits.max_identical_calls, name)
        return None

    def dispatch(self, call: ToolCall) -> None:
        """A call was started."""
        self.dispatched += 1
        self._made[_identity(call)] += 1

    def refuse(self, call: ToolCall) -> None:
        """A call was answered without being started, because its name or its arguments are wrong."""
        self._made[_identity(call)] += 1


def _identity(call: ToolCall) -> tuple[str, str]:
    name, text = call.function.name, call.function.arguments
    try:
        arguments: Any = json.loads(text) if text.strip() else {}
        return name, json.dumps(arguments, sort_keys=True)
    except (ValueError, RecursionError):
        return name, text
