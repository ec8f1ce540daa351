"""Ids that must be unique: the later one gets `#2`, `#3` behind it."""

from __future__ import annotations

from collections.abc import Container

__all__ = ["Numbered"]


class Numbered:
    """Finds ids that are free. The search for one goes on at the number at which the last search for it ended."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def free(self, wanted: str, taken: Container[str]) -> str:
        """`wanted`, or the first of `wanted#2`, `wanted#3`, … that is not taken."""
        name, number = wanted, self._last.get(wanted, 1)
        while name in taken:
            number += 1
            name = f"{wanted}#{number}"
        if number > 1:
            self._last[wanted] = number
        return name
