"""Whether what a backend gave is what it says it is. Pure.

A backend may be untyped, or hand on what a provider sent. What is of the wrong type is refused where it comes in, as a
malformed answer, so that nothing behind it has to ask again.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import NoneType
from typing import TypeAlias

from handrail.errors import BackendError
from handrail.loop._backend import FinishDelta, ReasoningDelta, TextDelta, ToolCallDelta, Usage, UsageDelta

__all__ = ["check_sound"]

_Kinds: TypeAlias = tuple[type, ...]

_TEXT: _Kinds = (str, NoneType)
_COUNT: _Kinds = (int, NoneType)
_FIELDS: Mapping[type, Mapping[str, _Kinds]] = {
    TextDelta: {"text": (str,)},
    ReasoningDelta: {"text": (str,), "opaque": _TEXT},
    ToolCallDelta: {"index": _COUNT, "id": _TEXT, "name": _TEXT, "arguments": _TEXT},
    UsageDelta: {"usage": (Usage,)},
    FinishDelta: {"reason": _TEXT, "model": _TEXT},
    Usage: {
        "prompt_tokens": _COUNT,
        "completion_tokens": _COUNT,
        "total_tokens": _COUNT,
        "cached_prompt_tokens": _COUNT,
        "cost": (Decimal, NoneType),
        "provider": _TEXT,
        "generation_id": _TEXT,
    },
    BackendError: {"kind": (str,), "status": _COUNT, "retry_after": (int, float, NoneType), "usage": (Usage, NoneType)},
}


def check_sound(given: object) -> None:
    """Look at a delta or a failure of a backend. Raises `BackendError` of kind response for one that is not sound."""
    fields = _FIELDS.get(type(given)) or next((_FIELDS[kind] for kind in _FIELDS if isinstance(given, kind)), None)
    name = type(given).__name__
    if fields is None:
        raise BackendError(f"the stream gave a {name}, which is no delta", "response")
    for field, kinds in fields.items():
        value = getattr(given, field)
        if not isinstance(value, kinds):
            raise BackendError(f"the backend gave a {name} whose {field} is a {type(value).__name__}", "response")
        if isinstance(value, Usage):
            check_sound(value)
        elif isinstance(value, Decimal) and not value.is_finite():
            raise BackendError(f"the backend gave a {name} whose {field} is {value}", "response")
