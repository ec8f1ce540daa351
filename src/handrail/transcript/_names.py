"""Ids that must be unique on a screen: the later one gets `#2`, `#3` behind it."""

from __future__ import annotations

__all__ = ["Names"]


class Names:
    """The ids taken so far."""

    __slots__ = ("_taken", "_tries")

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._tries: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """`wanted`, or the first free one of `wanted#2`, `wanted#3`, …"""
        name, number = wanted, self._tries.get(wanted, 1)
        while name in self._taken:
            number += 1
            name = f"{wanted}#{number}"
        if number > 1:
            self._tries[wanted] = number
        self._taken.add(name)
        return name
