"""How a run ended, as a value. What it carries is opaque here, but for the few names that are read from messages.

Pure: no clock, no lock. The parts are whatever the driver passed (R-81); `plain` is how any of them becomes JSON.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, cast

from handrail.errors import words_of

__all__ = ["REASONS", "VERDICTS", "Outcome", "Spend", "Verdict", "error_line", "plain"]

Verdict = Literal["completed", "failed", "cancelled"]
VERDICTS: tuple[Verdict, ...] = ("completed", "failed", "cancelled")
REASONS = ("context-exhausted", "budget-exhausted", "completion-truncated")


@dataclass(frozen=True, slots=True)
class Spend:
    """What a run used up, as far as anybody said.

    `total_tokens`, `wall_clock` (seconds) and `complete` are always there; the rest is None unless it was reported.
    `complete` is True when every attempt that started reported its tokens: 0 with `complete` False means that nothing
    was reported, not that the run was free. `cost` is in the currency of whoever reported it (R-28).
    """

    total_tokens: int
    wall_clock: float
    complete: bool
    cost: Decimal | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_prompt_tokens: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data; what nobody reported is left out, and `cost` is a decimal string."""
        return {
            field.name: plain(value)
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) is not None
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: a value to read, for all three outcomes, with nothing to catch (R-20, R-25).

    `outcome` comes from the terminal event. `final` is the last assistant text that was committed, "" if none.
    `messages` is the conversation as the run left it. `error` is None unless the run failed, `reason` one of
    "context-exhausted", "budget-exhausted", "completion-truncated" or None. `interrupts` are the questions the run
    stopped to ask. `spent` is None when nobody was counting.
    """

    outcome: Verdict
    final: str = ""
    messages: tuple[Any, ...] = ()
    error: str | None = None
    attempts: tuple[Any, ...] = ()
    reason: str | None = None
    interrupts: tuple[Any, ...] = ()
    spent: Any = None

    @property
    def ok(self) -> bool:
        """Completed, and nothing left to ask."""
        return self.outcome == "completed" and not self.interrupts

    @property
    def pending_calls(self) -> tuple[str, ...]:
        """Ids, in order, of the tool calls in `messages` that have no tool message."""
        answered = {_read(m, "tool_call_id") for m in self.messages if _read(m, "role") == "tool"}
        calls: Iterable[Any] = (call for m in self.messages for call in _read(m, "tool_calls") or ())
        return tuple(id for call in calls if (id := _read(call, "id")) not in answered)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: every field, `spent` only if somebody was counting."""
        data = {field.name: plain(getattr(self, field.name)) for field in dataclasses.fields(self)}
        if self.spent is None:
            del data["spent"]
        return data


def _read(part: Any, name: str) -> Any:
    """A field of a message, which may be a model, any object, or a mapping in either spelling."""
    if isinstance(part, Mapping):
        mapping = cast("Mapping[str, Any]", part)
        first, *rest = name.split("_")
        return mapping.get(name, mapping.get(first + "".join(word.capitalize() for word in rest)))
    return getattr(part, name, None)


def plain(value: Any) -> Any:
    """`value` as plain JSON data. Nothing is rounded, and what JSON has no form for becomes its text."""
    if value is None or isinstance(value, bool | int | str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    to_dict: Callable[[], Any] | None = getattr(value, "to_dict", None)
    if to_dict is not None:
        return plain(to_dict())
    dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
    if dump is not None:
        return plain(dump(mode="json", by_alias=True, exclude_none=True))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in cast("Iterable[Any]", value)]
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)


def error_line(error: BaseException) -> str:
    """An exception as the error of an outcome: its class, and the first line of its text."""
    name = type(error).__name__
    lines = words_of(error).strip().splitlines()
    return f"{name}: {lines[0].rstrip()}" if lines else name
