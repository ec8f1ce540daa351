"""What is kept here and handed to others: as copies, so that nobody can write into what is kept.

Models of `ag_ui.core` can be changed, and so can the JSON in them. Pydantic copies them by `copy.deepcopy`, which looks
for cycles and takes nearly three times as long; what was checked has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from ag_ui.core import EventType
from pydantic import BaseModel

from handrail.agui._models import instance
from handrail.agui._values import copy_json

__all__ = ["copied", "hands_out_copies"]

C = TypeVar("C", bound=type[Any])
V = TypeVar("V")

_NEVER_CHANGE = frozenset[type]({str, int, float, bool, type(None), EventType})


def copied(value: V) -> V:
    """A copy all the way down of a model, of JSON, or of a list or tuple of these; anything else is itself."""
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


def hands_out_copies(*names: str, read: Callable[[Any], Any] = copied) -> Callable[[C], C]:
    """Have each reading of these fields of a slotted class give a copy, made by `read`; `kept` has what is there."""

    def decorate(kind: C) -> C:
        for name in names:
            setattr(kind, name, _HandedOut(kind.__dict__[name], read))
        return kind

    return decorate


class _HandedOut:
    """A field before its slot. An empty slot raises `AttributeError`, as without it."""

    __slots__ = ("_read", "slot")

    def __init__(self, slot: Any, read: Callable[[Any], Any]) -> None:
        self.slot = slot
        self._read = read

    def __get__(self, owner: object, kind: type[Any] | None = None) -> Any:
        return self if owner is None else self._read(self.slot.__get__(owner))

    def __set__(self, owner: object, value: Any) -> None:
        self.slot.__set__(owner, value)
