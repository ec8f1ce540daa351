r"""A long Markdown text cut into leaves, each short enough to be laid out while somebody waits for a key.

A Markdown widget parses its last block again with every piece that arrives, and a block need not end: a fence that is
never closed, a table of a thousand columns, a line of a million characters. So a text is drawn as a row of widgets, a
leaf each, and only the last one still grows. What was once put on a leaf stays there.

| a leaf ends                                   | once it has                                             |
|-----------------------------------------------|---------------------------------------------------------|
| behind a blank line, outside a fence          | 1,500 characters or 40 lines                            |
| behind any line                               | 4,000 characters, 120 lines or 400 cells of a table     |
| anywhere                                      | 8,000 characters or 1,000 cells                         |

A fence that is open where a leaf ends is opened again on the next one, so that code stays code.
"""

from __future__ import annotations

import re

from handrail.apps._visible import visible

__all__ = ["UNFINISHED", "Leaves"]

_AT_A_GAP = (1_500, 40, 400)  # characters, lines, cells
_AT_A_LINE = (4_000, 120, 400)
_ANYWHERE = (8_000, 120, 1_000)

_FENCE = re.compile(r" *(`{3,}|~{3,})([^\n]*)")
_BITS = re.compile(r"[^\n|]{1,2000}\|?|\||\n")
UNFINISHED = re.compile(r"[\r\ud800-\udbff]\Z")
"""At the end of a text that goes on: half of a line end, or of a character."""


class Leaves:
    """A growing text as leaves of Markdown, safe to draw; all but the last are final.

    A text that does not begin with the one before is another text, and gets leaves of its own.
    """

    def __init__(self) -> None:
        self._begin("")

    def _begin(self, text: str) -> None:
        self.all = [""]
        self._text = text
        self._lines = self._cells = 0
        self._line = ""  # the one that is not ended yet, as far as a fence could be in it
        self._fence: tuple[str, str] | None = None  # its marker, and the line that opened it

    def grow(self, text: str, *, is_whole: bool) -> None:
        """Take in what `text` has more than last time; if it is not whole, its end may wait for what comes."""
        if not is_whole and (unfinished := UNFINISHED.search(text)):
            text = text[: unfinished.start()]
        if not text.startswith(self._text):
            self._begin("")
        more, self._text = text[len(self._text) :], text
        for bit in _BITS.findall(visible(more)):
            self._add(bit)

    def _add(self, bit: str) -> None:
        self.all[-1] += bit
        self._cells += bit.endswith("|")
        if bit == "\n":
            self._lines += 1
            self._end_line()
            self._line = ""
            return
        if len(self._line) < 200:
            self._line += bit
        if self._is_full(_ANYWHERE):
            self._cut()

    def _end_line(self) -> None:
        is_gap = not self._line.strip() and self._fence is None
        found = _FENCE.match(self._line)
        if found is not None:
            self._at_fence(found[1], found[2])
        if self._is_full(_AT_A_GAP if is_gap else _AT_A_LINE):
            self._cut()

    def _at_fence(self, marker: str, behind: str) -> None:
        if self._fence is None:
            if not (marker[0] == "`" and "`" in behind):
                self._fence = (marker, self._line.lstrip())  # where it goes on there is no list around it
        elif marker.startswith(self._fence[0]) and not behind.strip():
            self._fence = None

    def _is_full(self, limits: tuple[int, int, int]) -> bool:
        characters, lines, cells = limits
        return len(self.all[-1]) >= characters or self._lines >= lines or self._cells >= cells

    def _cut(self) -> None:
        self.all.append("" if self._fence is None else f"{self._fence[1]}\n")
        self._lines = self._cells = 0
