"""Frozen values with fields that can be changed: each reading of such a field gives a copy.

What a value holds is shared: an event by all its readers and by the run that said it, a transcript by all that followed
it. Freezing the value keeps its fields in place, and not what stands in them. So whoever reads is given something of
his own, and whoever made the value goes on from the slot itself.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar

__all__ = ["hands_out_copies"]

C = TypeVar("C", bound=type[Any])


def hands_out_copies(*names: str, read: Callable[[Any], Any] = deepcopy) -> Callable[[C], C]:
    """Have each reading of these fields of a slotted class give a copy, made by `read`; to stand above all else."""

    def decorate(kind: C) -> C:
        for name in names:
            setattr(kind, name, _HandedOut(kind.__dict__[name], read))
        return kind

    return decorate


class _HandedOut:
    """A field before its `slot`. An empty slot raises `AttributeError`, as without it."""

    __slots__ = ("_read", "slot")

    def __init__(self, slot: Any, read: Callable[[Any], Any]) -> None:
        self.slot = slot
        self._read = read

    def __get__(self, owner: object, kind: type[Any] | None = None) -> Any:
        return self if owner is None else self._read(self.slot.__get__(owner))

    def __set__(self, owner: object, value: Any) -> None:
        self.slot.__set__(owner, value)
