"""What a chunk of a streamed chat completion says. Pure: plain data in, deltas out.

Servers that speak this API differ in what they leave out, set to null or send as another type, so each field is taken
if it is what it should be and passed over if it is not. Only an error object is an error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, cast

from handrail.backends._openai_errors import failure_of
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

__all__ = ["deltas_of"]

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}


def deltas_of(chunk: dict[str, Any]) -> Iterator[Delta]:
    """The deltas of a chunk: of each choice reasoning, text, calls and finish, then the usage.

    A server that cannot stream sends the whole answer, which has a message where a chunk has a delta. Raises
    `BackendError` if the chunk is an error object.
    """
    if error := chunk.get("error") or (chunk.get("object") == "error" and chunk):
        raise failure_of(error)
    for choice in _dicts(chunk, "choices"):
        yield from _deltas_of_choice(_dict(choice, "delta" if "delta" in choice else "message"))
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
        else:
            yield from _deltas_of_parts(_dicts(delta, name))
    for call in _calls(delta):
        function = _dict(call, "function")
        arguments = function.get("arguments")
        yield ToolCallDelta(
            index=_int(call, "index"),
            id=_str(call, "id") or None,
            name=_str(function, "name") or None,
            arguments=arguments if arguments is None or isinstance(arguments, str) else json.dumps(arguments),
        )


def _deltas_of_parts(parts: Iterable[dict[str, Any]]) -> Iterator[Delta]:
    """Content that some servers send as a list, with thinking among its parts."""
    for part in parts:
        if thought := "".join(_str(piece, "text") or "" for piece in _dicts(part, "thinking")):
            yield ReasoningDelta(thought)
        if said := _str(part, "text"):
            yield TextDelta(said)


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
