r"""What is open in a Markdown text, line by line: a fence, a table, a list; and how many widgets a line is drawn by.

Pure, and by the beginnings of lines alone. It is a guess, which tests hold against the parser: it may take text for
more than it is, and for less only where fences are so entangled that it loses count of them; the lines of a leaf are
bounded then, too.

| a line                                        | widgets beyond its own                    |
|-----------------------------------------------|-------------------------------------------|
| in a fence, or of plain text                  | none                                      |
| an item of a list, also one inside of another | 4 for each marker                         |
| quoted deeper than the line before            | 2 for each level more                     |
| a row of a table                              | one for each column                       |
| with more bars than a table is drawn with     | one for each bar, so that it stays alone  |
"""

from __future__ import annotations

import re

__all__ = ["Outline"]

_OF_AN_ITEM = 4
_OF_A_QUOTE = 2
_WIDEST = 30  # columns
_DEEPEST = 12  # what is nested deeper is drawn as text

_MARKS = re.compile(r"(?:[ \t]*(?:>|(?:[-+*]|\d{1,9}[.)])(?=[ \t]|$)))+")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)", re.DOTALL)
_TABLE = re.compile(r"[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?[ \t]*)?")
_NUMBER = re.compile(r"(\d{1,9})(?=[.)](?:[ \t]|$))")
_ITEM = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?=[ \t]|$)")
_BLOCK = re.compile(r"[#>]|`{3}|~{3}|" + _ITEM.pattern)


class Outline:
    """Reads a text line by line. `opening` opens the fence or the table again that is open, "" for none; `margin` is
    how far it is indented.
    """

    def __init__(self) -> None:
        self.opening = ""
        self.margin = 0
        self._fence = ""  # the marker of the one that is open
        self._depth = 0  # how far lines have to be indented to be in it
        self._inside = 0  # how far, to be in the item above
        self._columns = 0  # of the table that is open
        self._quotes = 0  # how deep the line before is quoted
        self._number = 0  # of the last item at the margin, 0 for none
        self._is_list = False  # whether the last block at the margin is one
        self._before = ""

    def read(self, line: str, bars: int) -> int:
        """Take in the beginning of the next line, which has so many bars; its widgets beyond one."""
        before, self._before = self._before, line
        marks = _MARKS.match(line)
        quotes = min(marks[0].count(">"), _DEEPEST) if marks else 0
        deeper, self._quotes = max(quotes - self._quotes, 0), quotes
        if self._reads_fence(line, marks.end() if marks and not quotes else 0):
            return 0
        if marks and not quotes:
            self._inside = marks.end() + 1
        elif line.strip() and _indent(line) < self._inside:
            self._inside = 0
        self._count(line, before)
        if self._reads_table(line, before, bars):
            return self._columns
        items = min(len(re.findall(r"[^ \t>]+", marks[0])), _DEEPEST) if marks else 0
        return _OF_AN_ITEM * items + _OF_A_QUOTE * deeper + (bars if bars > _WIDEST else 0)

    def begins_block(self, line: str, *, is_apart: bool) -> bool:
        """Whether the next line, which begins so, begins a block that nothing is around; `is_apart` by a blank line."""
        if self._is_in_fence(line) or not line or line[0].isspace():
            return False
        return is_apart or not self._before.strip() or _BLOCK.match(line) is not None

    def is_next_item(self, line: str) -> bool:
        """Whether the next line, which begins a block, begins the next item of a list."""
        return self._is_list and _ITEM.match(line) is not None

    def ends_fence(self, line: str) -> bool:
        """Whether the next line, which begins so, closes the fence that is open."""
        found = _FENCE.match(line)
        return bool(self._is_in_fence(line) and found and found[1].startswith(self._fence) and not found[2].strip())

    def numbered_on(self, line: str) -> str:
        """The next line, which begins a leaf, with the number that it has in its list."""
        found = _NUMBER.match(line)
        return f"{self._number + 1}{line[found.end() :]}" if found and self._number else line

    def _is_in_fence(self, line: str) -> bool:
        """A fence in an item ends with it, closed or not."""
        return bool(self._fence) and (not line.strip() or _indent(line) >= self._depth)

    def _reads_fence(self, line: str, start: int) -> bool:
        if self._is_in_fence(line):
            if self.ends_fence(line):
                self._fence = self.opening = ""
            return True
        if self._fence:
            self._fence = self.opening = ""
        found = _FENCE.match(line, start)
        if found is None or (found[1][0] == "`" and "`" in found[2]):
            return False
        self._fence, self._columns = found[1], 0
        self.opening, self.margin = f"{found[1]}{found[2]}\n", _indent(line)
        self._depth = start + 1 if start else min(self._inside, self.margin)
        return True

    def _reads_table(self, line: str, before: str, bars: int) -> bool:
        if not line.strip():
            self._columns, self.opening = 0, ""
        elif not self._columns and "|" in before and bars <= _WIDEST and _TABLE.fullmatch(line):
            self._columns = bars + 1
            self.opening, self.margin = f"{before.lstrip()}\n{line.lstrip()}\n", _indent(line)
        return self._columns > 0

    def _count(self, line: str, before: str) -> None:
        """Keep the number of an item; what begins a block at the margin ends the list before it."""
        if found := _NUMBER.match(line):
            self._number = self._number + 1 if self._number else int(found[1])
            self._is_list = True
        elif line and not line[0].isspace() and (_BLOCK.match(line) or not before.strip()):
            self._number = 0
            self._is_list = _ITEM.match(line) is not None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
