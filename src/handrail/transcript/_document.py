"""A JSON value that changes in place, and what it was at every version that somebody still holds.

A version is the beginning of a list of patches that all later versions share, upon a value that none of them changes.
So a new version costs one entry, and nothing is copied until somebody reads. How far the last reading came is kept
beside the list: the next one goes on from there, and the patch behind a list that was read to its end begins a new one.

Readers need no lock: the list only grows, and what was read is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from handrail.agui._copies import copied
from handrail.agui._patch import Document as LiveDocument
from handrail.agui._values import copy_json, json_equal
from handrail.transcript._source import Source

__all__ = ["Document", "Version"]


class _Log:
    """Patches upon `base`; `read` is how many of them were applied at the last reading, and the value then."""

    __slots__ = ("base", "patches", "read")

    def __init__(self, base: Any) -> None:
        self.base = base
        self.patches: list[Sequence[Any]] = []
        self.read: tuple[int, Any] = (0, base)


class Version(Source):
    """The value as it was behind one change. Reading costs its size once; what was given belongs to the reader."""

    __slots__ = ("_count", "_log")

    def __init__(self, log: _Log) -> None:
        self._log = log
        self._count = len(log.patches)

    def read(self) -> Any:
        count, value = self._log.read
        if count > self._count:
            count, value = 0, self._log.base
        if count < self._count:
            document = LiveDocument(value)
            for patch in self._log.patches[count : self._count]:
                document.patch(patch)
            value = document.read()
            self._log.read = (self._count, value)
        return copy_json(value)


class Document:
    """A JSON value and its current `version`."""

    __slots__ = ("_live", "_log", "version")

    def __init__(self, value: Any) -> None:
        self._begin(copy_json(value))

    def _begin(self, value: Any) -> None:
        self._live = LiveDocument(value)
        self._log = _Log(value)
        self.version = Version(self._log)

    def replace(self, value: Any) -> None:
        """Another value; nothing happens if it is equal."""
        if not json_equal(value, self._live.read()):
            self._begin(copy_json(value))

    def patch(self, operations: Sequence[Any], *, result: type = object) -> None:
        """Apply a patch as a whole. Raises `PatchError`, and changes nothing, if it does not apply."""
        if not self._live.patch(operations, result=result):
            return
        count, value = self._log.read
        if count and count == len(self._log.patches):
            self._log = _Log(value)
        self._log.patches.append(copied(list(operations)))
        self.version = Version(self._log)
