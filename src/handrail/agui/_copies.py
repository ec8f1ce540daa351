"""What is kept here and handed to others: as copies, so that nobody can write into what is kept.

Models of `ag_ui.core` can be changed, and so can the JSON in them. Pydantic copies them by `copy.deepcopy`, which looks
for cycles and takes nearly three times as long; what was checked has none.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from ag_ui.core import EventType
from pydantic import BaseModel

from handrail.agui._models import instance
from handrail.agui._values import copy_json

__all__ = ["copied"]

V = TypeVar("V")

_NEVER_CHANGE = frozenset[type]({str, int, float, bool, type(None), EventType})


def copied(value: V) -> V:
    """A copy all the way down of a model, of JSON, or of a list or tuple of these; anything else is itself."""
    if type(value) in _NEVER_CHANGE:
        return value
    return cast("V", _copied(value))


def _copied(value: Any) -> Any:
    if isinstance(value, BaseModel):
        fields = value.__dict__.copy()
        for name, held in fields.items():
            if type(held) not in _NEVER_CHANGE:
                fields[name] = _copied(held)
        further = value.__pydantic_extra__
        return instance(
            type(value), fields, value.__pydantic_fields_set__.copy(), copy_json(further) if further else {}
        )
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_copied(item) for item in items] if any(isinstance(i, BaseModel) for i in items) else copy_json(items)
    if isinstance(value, tuple):
        return tuple(_copied(item) for item in cast("tuple[Any, ...]", value))
    return copy_json(value)
