"""Points in time as ISO 8601 writes them.

`datetime.fromisoformat` reads most of it. Not an ordinal date, nor 24:00 for the end of a day, nor second 60, which is
the first of the next minute; and other languages also write the letters small.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

__all__ = ["aware", "read_instant"]

_ORDINAL = re.compile(r"(\d{4})-?(\d{3})(?=[T ]|$)", re.ASCII)
_END_OF_DAY = re.compile(r"(?<=[T ])24(?=(?::?00){0,2}(?:[.,]0+)?(?:Z|[+-]|$))")
_LEAP_SECOND = re.compile(r"(?<=[T ]\d\d:\d\d:)60|(?<=[T ]\d{4})60(?!\d)", re.ASCII)


def read_instant(text: str) -> datetime | None:
    """The time that `text` names, in UTC if it names no zone; None where it names none that Python can hold."""
    text = text.strip().upper()
    try:
        if ordinal := _ORDINAL.match(text):
            date = datetime.strptime(ordinal[1] + ordinal[2], "%Y%j").date()
            text = date.isoformat() + text[ordinal.end() :]
        text, days = _END_OF_DAY.subn("00", text)
        text, seconds = _LEAP_SECOND.subn("59", text)
        return aware(datetime.fromisoformat(text)) + timedelta(days=days, seconds=seconds)
    except (ValueError, OverflowError):
        return None


def aware(time: datetime) -> datetime:
    """The time itself, or what it is in UTC if it names no zone."""
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
