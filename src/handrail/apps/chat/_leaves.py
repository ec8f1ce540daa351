r"""A long Markdown text cut into leaves, each short enough to be laid out while somebody waits for a key.

A text is parsed and laid out again with every piece that arrives, and it need not come to an end: a fence that is never
closed, a list of a thousand items, a line of a million characters. So it is drawn as a row of widgets, a leaf each, and
only the last one still grows. What was once put on a leaf stays there.

| a leaf ends                                         | once it has                            |
|-----------------------------------------------------|----------------------------------------|
| before a line of code, an item, or any other block  | 1,000 characters, 25 lines, 300 cells  |
| before any line                                     | 3,000 characters, 60 lines, 600 cells  |
| behind a word                                       | 4,000 characters                       |

The cells are those of tables, as `Outline` guesses them. What is open where a leaf ends is opened again on the next
one, so that code stays code, columns stay columns, and an item is as far in and has the number that it would have.
"""

from __future__ import annotations

import re

from handrail.apps._visible import visible
from handrail.apps.chat._outline import Outline

__all__ = ["UNFINISHED", "Leaves"]

UNFINISHED = re.compile(r"[\r\ud800-\udbff]\Z")
"""At the end of a text that goes on: half of a line end, or of a character."""

_AT_A_BLOCK = (1_000, 25, 300)  # characters, lines, cells
_AT_A_LINE = (3_000, 60, 600)
_AT_A_WORD = 4_000
_LONGEST_WORD = 200

_ROW = 80  # characters
_LINE_START = 400  # how much of a line is looked at
_BLOCK_START = 12  # how much of it, behind its spaces, says whether a block begins there
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_AT_ONCE = 10_000  # characters; the shortest lines take 50 ms then


class Leaves:
    """A growing text as leaves of Markdown, safe to draw; all but the last are final. `weights` says how many
    rows each takes, about.

    A text that does not begin with the one before is another text, and gets leaves of its own. Of a text that has
    grown by a lot only a part is taken in at once; then `is_behind`, and the same text is to be given again.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.all = [""]
        self.weights = [1]
        self._outline = Outline()
        self.is_behind = False
        self._text = ""
        self._held = ""  # blank lines, and the beginning of a line, that may have to go on the next leaf
        self._line = ""  # the beginning of the line that is open
        self._bars = 0  # in it
        self._lines = self._cells = 0  # of the last leaf

    def grow(self, text: str, *, is_whole: bool) -> int:
        """Take in what `text` has more than last time; if it is not whole, its end may wait for what comes.

        Returns how many leaves at the beginning are as they were.
        """
        if not text.startswith(self._text):
            self._begin()
        stands = len(self.all) - 1
        start = len(self._text)
        self.is_behind = len(text) > start + _AT_ONCE
        is_whole = is_whole and not self.is_behind
        more = text[start : start + _AT_ONCE]
        if not is_whole and (unfinished := UNFINISHED.search(more)):
            more = more[: unfinished.start()]
        self._text = text[: start + len(more)]
        for piece in _LINES.findall(visible(more)):
            if self._held or (not self._line and self._is_full(_AT_A_BLOCK)):
                self._held += piece
                if _says_what_begins(self._held.lstrip("\n")):
                    self._place()
            else:
                self._add(piece)
        if is_whole and self._held:
            self._place()
        return stands

    def _place(self) -> None:
        """Put what is held on this leaf, or on the next one where a leaf can end in front of it."""
        held, self._held = self._held, ""
        line = held.lstrip("\n")
        blanks = len(held) - len(line)
        outline = self._outline
        begins = outline.begins_block(line, is_apart=blanks > 0)
        if outline.is_in_fence(line):
            if not outline.ends_fence(line):
                opening, line = outline.reopened(line)
                self._turn(opening)
        elif begins or self._is_full(_AT_A_LINE):
            if (begins or blanks) and not outline.goes_on(line) and not self.all[-1].endswith("\n\n"):
                self.all[-1] += "\n"
            if begins or blanks:
                outline.read("", 0)
            opening, line = outline.reopened(line)
            self._turn(opening)
            blanks = 0
        for _ in range(blanks):
            self._add("\n")
        if line:
            self._add(line)

    def _add(self, piece: str) -> None:
        """Put a line, or what there is of it, on the leaf."""
        self._bars += piece.count("|")
        self._line += piece[: _LINE_START - len(self._line)].removesuffix("\n")
        self._flow(piece)
        if piece.endswith("\n"):
            self._end_line()

    def _flow(self, text: str) -> None:
        """Put text on the leaf, and turn it in the middle of a line that does not end."""
        while True:
            room = _AT_A_WORD - len(self.all[-1])
            end = text.find(" ", max(room, 0), room + _LONGEST_WORD) + 1
            if not end and len(text) >= room + _LONGEST_WORD:
                end = room + _LONGEST_WORD
            if not end:
                break
            self.all[-1] += text[:end]
            self._turn(self._outline.reopened_within(self._line))
            text = text[end:]
        self.all[-1] += text
        self._weigh()

    def _end_line(self) -> None:
        self._cells += self._outline.read(self._line, self._bars)
        self._lines += 1
        self._weigh()
        self._line, self._bars = "", 0

    def _weigh(self) -> None:
        self.weights[-1] = 1 + self._lines + len(self.all[-1]) // _ROW

    def _is_full(self, limits: tuple[int, int, int]) -> bool:
        characters, lines, cells = limits
        return len(self.all[-1]) >= characters or self._lines >= lines or self._cells >= cells

    def _turn(self, opening: str) -> None:
        self._weigh()
        self.all.append(opening)
        self.weights.append(1)
        self._lines = self._cells = 0


def _says_what_begins(line: str) -> bool:
    """Whether so much of a line says whether a block begins with it."""
    return line.endswith("\n") or len(line.lstrip(" ")) >= _BLOCK_START
