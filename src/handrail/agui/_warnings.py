"""What a stream says beside its events: one small record for everything that was tolerated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["WarningRecord", "WarningSink"]


@dataclass(frozen=True, slots=True)
class WarningRecord:
    """Something on the wire was tolerated, dropped or read in another way; it never changes an outcome.

    `code` is one of the fixed words of the protocol rules (`unknown-event`, `legacy`, `state-delta`, ...), `message`
    says what happened and to what, `path` is a JSON pointer into the event or None where no one place is meant.
    """

    code: str
    message: str
    path: str | None = None


WarningSink = Callable[[WarningRecord], object]
