r"""A long Markdown text cut into leaves, each short enough to be laid out while somebody waits for a key.

A Markdown widget lays out its last block again with every piece that arrives, and a block need not end: a fence that is
never closed, a list of a thousand items, a line of a million characters. So a text is drawn as a row of widgets, a leaf
each, and only the last one still grows. What was once put on a leaf stays there.

| a leaf ends                    | once it has                                                      |
|--------------------------------|------------------------------------------------------------------|
| behind a blank line, no fence  | 1,500 characters, 40 lines, or 40 widgets                        |
| behind any line                | 3,000 characters, 60 lines, or 60 widgets                        |
| anywhere                       | 8,000 characters or 1,000 widgets                                |

The widgets are those of cells and items: one for a cell of a table, four for an item of a list. A fence or a table that
is open where a leaf ends is opened again on the next one, so that code stays code, and columns stay columns.
"""

from __future__ import annotations

import re

from handrail.apps._visible import visible

__all__ = ["UNFINISHED", "Leaves"]

UNFINISHED = re.compile(r"[\r\ud800-\udbff]\Z")
"""At the end of a text that goes on: half of a line end, or of a character."""

_AT_A_GAP = (1_500, 40, 40)  # characters, lines, widgets
_AT_A_LINE = (3_000, 60, 60)
_ANYWHERE = (8_000, 60, 1_000)
_WIDGETS_OF_AN_ITEM = 4

_ROW = 80  # characters
_LINE_START = 400  # how much of a line is looked at
_BITS = re.compile(r"[^\n|]{1,2000}\|?|\||\n")
_FENCE = re.compile(r" *(`{3,}|~{3,})([^\n]*)")
_TABLE = re.compile(r" {0,3}\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?")
_ITEM = re.compile(r"[ >]*(?:[-+*]|\d{1,9}[.)])(?: |$)")


class Leaves:
    """A growing text as leaves of Markdown, safe to draw; all but the last are final. `weights` says how many
    rows and widgets each takes, about.

    A text that does not begin with the one before is another text, and gets leaves of its own.
    """

    def __init__(self) -> None:
        self._begin("")

    def _begin(self, text: str) -> None:
        self.all = [""]
        self.weights = [1]
        self._text = text
        self._lines = self._widgets = 0
        self._line = self._line_before = ""  # their beginnings
        self._fence = ""  # the marker of the one that is open
        self._opening = ""  # what opens the fence or the table that is open once more

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
        if bit == "\n":
            self._end_line()
            return
        self._widgets += bit.endswith("|")
        if len(self._line) < _LINE_START:
            self._line += bit
        if self._is_full(_ANYWHERE):
            self._cut()

    def _end_line(self) -> None:
        line, before = self._line, self._line_before
        self._line, self._line_before = "", line
        self._lines += 1
        self.weights[-1] = self._lines + len(self.all[-1]) // _ROW + self._widgets
        is_blank = not line.strip()
        if found := _FENCE.match(line):
            self._at_fence(line, found[1], found[2])
        elif not self._fence:
            self._at_line(line, before, is_blank)
        if self._is_full(_AT_A_GAP if is_blank and not self._fence else _AT_A_LINE):
            self._cut()

    def _at_fence(self, line: str, marker: str, behind: str) -> None:
        if not self._fence:
            if not (marker[0] == "`" and "`" in behind):
                self._fence = marker
                self._opening = f"{line.lstrip()}\n"  # where it goes on there is no list around it
        elif marker.startswith(self._fence) and not behind.strip():
            self._fence = self._opening = ""

    def _at_line(self, line: str, before: str, is_blank: bool) -> None:
        if is_blank:
            self._opening = ""
        elif "|" in before and _TABLE.fullmatch(line) and len(before) < _LINE_START:
            self._opening = f"{before}\n{line}\n"
        elif _ITEM.match(line):
            self._widgets += _WIDGETS_OF_AN_ITEM

    def _is_full(self, limits: tuple[int, int, int]) -> bool:
        characters, lines, widgets = limits
        return len(self.all[-1]) >= characters or self._lines >= lines or self._widgets >= widgets

    def _cut(self) -> None:
        self.all.append(self._opening)
        self.weights.append(1)
        self._lines = self._widgets = 0
