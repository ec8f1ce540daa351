"""Text that grows at its end, piece by piece, at a cost that does not depend on how long it is.

A value of it is the beginning of a list of pieces that all its later values share: to grow it is to add one piece
behind those it counts. It becomes a string when somebody reads it; the string is kept beside the pieces, so that
reading on joins only what came since.

A producer that counts in UTF-16 may cut a character between two pieces; its halves are one character again when read.
"""

from __future__ import annotations

from handrail.agui._text import mend
from handrail.transcript._source import Source

__all__ = ["GrowingText"]


class _Pieces:
    """What all values of one text share; `read` is how many pieces were joined at the last reading, and to what."""

    __slots__ = ("pieces", "read")

    def __init__(self, pieces: list[str]) -> None:
        self.pieces = pieces
        self.read: tuple[int, str] = (0, "")


class GrowingText(Source):
    """An immutable text; `plus` gives the one that is longer by a piece."""

    __slots__ = ("_count", "_read", "_shared")

    def __init__(self, *pieces: str) -> None:
        self._shared = _Pieces(list(pieces))
        self._count = len(self._shared.pieces)
        self._read: str | None = None

    def plus(self, piece: str) -> GrowingText:
        shared = self._shared
        if len(shared.pieces) != self._count:  # another text has gone on from here
            shared = _Pieces(shared.pieces[: self._count])
        shared.pieces.append(piece)
        new = object.__new__(GrowingText)
        new._shared = shared
        new._count = self._count + 1
        new._read = None
        return new

    def read(self) -> str:
        if self._read is None:
            count, text = self._shared.read
            if count > self._count:
                count, text = 0, ""
            text = mend(text + "".join(self._shared.pieces[count : self._count]))
            if self._count >= self._shared.read[0]:
                self._shared.read = (self._count, text)
            self._read = text
        return self._read
