"""What a chunk of a streamed chat completion says. Pure: plain data in, deltas out.

Servers that speak this API differ in what they leave out, set to null or send as another type, so each field is taken
if it is what it should be and passed over if it is not. Only an error object is an error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, cast

from handrail.errors import BackendError
from handrail.loop._backend import (
    Delta,
    FinishDelta,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageDelta,
)

__all__ = ["OVERFLOW", "deltas_of"]

OVERFLOW = "context_length_exceeded"

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}

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


def deltas_of(chunk: dict[str, Any]) -> Iterator[Delta]:
    """The deltas of a chunk: of each choice reasoning, text, calls and finish, then the usage.

    Raises `BackendError` if the chunk is an error object.
    """
    if error := chunk.get("error"):
        raise _failure(error)
    for choice in _dicts(chunk, "choices"):
        yield from _deltas_of_choice(_dict(choice, "delta"))
        if reason := _str(choice, "finish_reason"):
            yield FinishDelta(_FINISH.get(reason, "other"), _str(chunk, "model"))
    if used := _dict(chunk, "usage"):
        yield UsageDelta(_usage(chunk, used))


def _deltas_of_choice(delta: dict[str, Any]) -> Iterator[Delta]:
    # Servers that send both names say the same under each.
    if thought := _str(delta, "reasoning_content") or _str(delta, "reasoning"):
        yield ReasoningDelta(thought)
    for name in ("content", "refusal"):
        if said := _str(delta, name):
            yield TextDelta(said)
    for call in _calls(delta):
        function = _dict(call, "function")
        arguments = function.get("arguments")
        yield ToolCallDelta(
            index=_int(call, "index"),
            id=_str(call, "id") or None,
            name=_str(function, "name") or None,
            arguments=arguments if arguments is None or isinstance(arguments, str) else json.dumps(arguments),
        )


def _calls(delta: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """The pieces of calls; a server that knows only functions makes one call and gives it no id."""
    function = _dict(delta, "function_call")
    return _dicts(delta, "tool_calls") or ([{"index": 0, "function": function}] if function else ())


def _usage(chunk: dict[str, Any], used: dict[str, Any]) -> Usage:
    return Usage(
        prompt_tokens=_int(used, "prompt_tokens"),
        completion_tokens=_int(used, "completion_tokens"),
        total_tokens=_int(used, "total_tokens"),
        cached_prompt_tokens=_int(_dict(used, "prompt_tokens_details"), "cached_tokens"),
        cost=_number(used, "cost"),
        provider=_str(chunk, "provider"),
        generation_id=_str(chunk, "id"),
    )


def _failure(error: Any) -> BackendError:
    said = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": str(error)}
    message = _str(said, "message") or json.dumps(said)
    code = str(said.get("code") or "")
    if code == OVERFLOW:
        return BackendError(message, "overflow")
    status = int(code) if code.isdecimal() else _STATUS_OF.get(code, _STATUS_OF.get(_str(said, "type") or ""))
    return BackendError(message, "other" if status is None else "http", status)


def _dict(holder: dict[str, Any], key: str) -> dict[str, Any]:
    value = holder.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _dicts(holder: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = holder.get(key)
    return [item for item in cast("list[Any]", value) if isinstance(item, dict)] if isinstance(value, list) else []


def _str(holder: dict[str, Any], key: str) -> str | None:
    value = holder.get(key)
    return value if isinstance(value, str) else None


def _int(holder: dict[str, Any], key: str) -> int | None:
    value = _number(holder, key)
    return int(value) if value is not None and value == int(value) else None


def _number(holder: dict[str, Any], key: str) -> float | None:
    value = holder.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if is_number else None
