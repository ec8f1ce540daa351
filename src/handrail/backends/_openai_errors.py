"""What a provider says when it fails: an error object in a stream, or the body of an error status. Pure.

The API has one form for both, and servers that speak it have many: the object bare or under `error`, a text in its
place, a list around it, `detail` where a framework answered. The words are what a person needs, so they are looked for
in all of these, and what has none is shown whole.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz
from typing import Any, cast

from handrail.errors import BackendError

__all__ = ["failure_of", "is_overflow", "pause_asked_for", "words_of"]

_OVERFLOW = "context_length_exceeded"
_STATUS = re.compile("[45][0-9][0-9]")  # codes of a provider's own may be numbers too

# What an error object inside a stream means, by its code or else its type: as if it had come as this status.
_STATUS_OF = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "invalid_request_error": 400,
    "server_error": 500,
    "api_error": 500,
    "overloaded_error": 503,
}


def failure_of(error: Any) -> BackendError:
    """An error object of a stream as ours, by its code or else its type."""
    said = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
    code, kind = str(said.get("code")).lower(), str(said.get("type")).lower()
    if is_overflow(code):
        return BackendError(words_of(error), "overflow")
    status = int(code) if _STATUS.fullmatch(code) else _STATUS_OF.get(code, _STATUS_OF.get(kind))
    return BackendError(words_of(error), "other" if status is None else "http", status)


def is_overflow(code: object) -> bool:
    """Whether the code of an error says that the request does not fit the model's context."""
    return str(code).lower() == _OVERFLOW


def pause_asked_for(headers: Mapping[str, str], now: float) -> float | None:
    """How many seconds the provider wants to be left alone; None if it does not say.

    Azure says it in milliseconds, the others in seconds or, as HTTP allows, as a date; `now` is the time of day. The
    names of the headers are in lower case.
    """
    told = headers.get("retry-after", "")
    for text, unit in ((headers.get("retry-after-ms", ""), 0.001), (told, 1.0)):
        try:
            seconds = float(text) * unit
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        date = parsedate_tz(told)
        seconds = mktime_tz(date) - now if date is not None else 0.0
    except (ValueError, OverflowError):  # a date that no calendar has
        return None
    return seconds if seconds > 0 else None


def words_of(body: Any) -> str:
    """The provider's own words in what it sent; "" for nothing."""
    match body:
        case None:
            return ""
        case str():
            return body.strip()
        case (
            {"message": str(words)}
            | {"error": {"message": str(words)} | str(words)}
            | [{"error": {"message": str(words)}}]
            | {"detail": str(words)}
        ) if words:
            return words
        case _:
            return json.dumps(body, ensure_ascii=False)
