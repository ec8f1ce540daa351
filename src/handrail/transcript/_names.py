"""The ids on a screen, each of which is there once."""

from __future__ import annotations

from handrail.agui._numbered import Numbered

__all__ = ["Names"]


class Names:
    """The ids taken so far."""

    __slots__ = ("_numbered", "_taken")

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbered = Numbered()

    def take(self, wanted: str) -> str:
        """`wanted`, or the first free one of `wanted#2`, `wanted#3`, …"""
        name = self._numbered.free(wanted, self._taken) if wanted in self._taken else wanted
        self._taken.add(name)
        return name
