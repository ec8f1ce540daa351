r"""What is open in a Markdown text, line by line: a fence, a table, items; and how many cells a line is drawn by.

Pure, and by the beginnings of lines alone. It is a guess, which tests hold against the parser: it may take text for
more than it is, and for less only where fences are so entangled that it loses count of them; the lines of a leaf are
bounded then, too. A row of a table has as many cells as the table has columns, also where it leaves them out; and a
line with more bars than a table is drawn with is given so many that it stays alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from handrail.apps.chat._rows import DEEPEST, REOPENED

__all__ = ["Outline"]

_WIDEST = 30  # columns
_ALONE = 1_000  # cells
_CODE = 4  # spaces further in than what is around them make code of a line, or let the text before it go on

_MARKER = re.compile(r" {0,3}([-+*]|(\d{1,9})[.)])( +|$)")
_QUOTES = re.compile(r"(?: *>)+ ?")
_FENCE = re.compile(r"(`{3,}|~{3,})(.*)", re.DOTALL)
_TABLE = re.compile(r" *\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?[ \t]*)?")
_NO_TEXT = re.compile(r" *(?:#|`{3}|~{3}|---)")
_BLOCK = re.compile(r"[#>]|`{3}|~{3}|(?:[-+*]|\d{1,9}[.)])(?=[ \t]|$)")


class Item(NamedTuple):
    """An item of a list: how far in its marker is and what belongs to it; its number, if it has one."""

    column: int
    marker: str
    inside: int
    number: int | None


class Outline:
    """Reads a text line by line, and knows how to open again what is open."""

    def __init__(self) -> None:
        self._items: tuple[Item, ...] = ()  # those that are open, each in the one before it
        self._fence = ""  # the marker of the one that is open
        self._depth = 0  # how far lines have to be indented to be in it
        self._quotes = 0  # how many it is in
        self._columns = 0  # of the table that is open
        self._reopens = ""  # the fence or the table that is open
        self._before = ""

    def read(self, line: str, bars: int) -> int:
        """Take in the beginning of the next line, which has so many bars; its cells."""
        line = line.expandtabs(_CODE)
        if self.is_in_fence(line):
            if self.ends_fence(line):
                self._fence, self._reopens, self._quotes = "", "", 0
            self._before = line
            return 0
        ends_table = not line.strip() or self._begins(line)
        self._items = self._after(line)
        self._fence = ""
        if ends_table:
            self._columns, self._reopens = 0, ""
        if not self._opens_fence(line):
            self._opens_table(line, bars)
        self._before = line
        return self._columns if bars <= _WIDEST else _ALONE

    def is_in_fence(self, line: str) -> bool:
        """Whether the next line is in the fence that is open; one in an item or a quote ends with it, closed or not."""
        line = line.expandtabs(_CODE)
        is_inside = _indent(line) >= self._depth
        if self._quotes:
            return is_inside and _quotes(line, self._depth).count(">") >= self._quotes
        return bool(self._fence) and (is_inside or not line.strip())

    def begins_block(self, line: str, *, is_apart: bool) -> bool:
        """Whether the next line, which begins so, begins an item, or a block that nothing is around.

        `is_apart` says that there is a blank line in front of it.
        """
        if not line or self.is_in_fence(line):
            return False
        if line[0].isspace():
            return self._is_item(line.expandtabs(_CODE))
        return is_apart or self._begins(line)

    def goes_on(self, line: str) -> bool:
        """Whether the next line is the next item of a list, or begins a list in an item, or is more of a quote."""
        return self._is_item(line.expandtabs(_CODE)) or (line[:1], self._before[:1]) == (">", ">")

    def ends_fence(self, line: str) -> bool:
        """Whether the next line, which begins so, closes the fence that is open."""
        line = line.expandtabs(_CODE)
        found = _FENCE.match(_unquoted(line, self._quotes))
        return bool(self.is_in_fence(line) and found and found[1].startswith(self._fence) and not found[2].strip())

    def reopened(self, line: str) -> tuple[str, str]:
        """What opens again what the next line is in, and the line as it stands behind that."""
        text = line.lstrip(" \t")
        line = line[: len(line) - len(text)].expandtabs(_CODE) + text
        around = self._around(line)
        if self.is_in_fence(line) or (self._columns and not self._begins(line)):
            return _opening(around) + self._reopens, line
        if _indent(line) - _inside(around) >= _CODE:
            line = " " * _inside(around) + text
        if self._is_item(line) and (follows := self._items[len(around) :]) and follows[0].number is not None:
            around = (*around, follows[0])
        return _opening(around), line

    def reopened_within(self, line: str) -> str:
        """What opens again what the next line is in, and is in it, when it has begun so and its text goes on."""
        line = line.expandtabs(_CODE)
        if self.is_in_fence(line) or self._columns:
            front = " " * self._depth + _quotes(line, self._depth) if self._quotes else ""
            return _opening(self._around(line)) + self._reopens + front
        items = self._after(line)
        return _opening(items) + " " * _inside(items) + _quotes(line, _inside(items)).lstrip(" ")

    def _begins(self, line: str) -> bool:
        """Whether the next line begins a block, in an item or not, and is not more of the text before it."""
        if not self._before.strip() or not line.strip():
            return bool(line.strip())
        at, around = _indent(line), self._around(line)
        if at - _inside(around) >= _CODE or not _BLOCK.match(line, at):
            return False
        begins_list = _MARKER.match(line, at)
        if begins_list is None or len(around) < len(self._items) or _NO_TEXT.match(self._before):
            return True
        return begins_list[2] in (None, "1") and begins_list.end() < len(line)

    def _is_item(self, line: str) -> bool:
        """Whether the next line begins the next item of a list that is open, or a list in an item."""
        around = self._around(line)
        found = _MARKER.match(line, _inside(around))
        if found is None or self.is_in_fence(line) or not self._begins(line):
            return False
        follows = self._items[len(around) :]
        return follows[0].marker[-1] == found[1][-1] if follows else bool(around)

    def _around(self, line: str) -> tuple[Item, ...]:
        """The items that a line is far enough in to belong to."""
        column = _indent(line)
        return tuple(takewhile(lambda item: item.inside <= column, self._items))

    def _after(self, line: str) -> tuple[Item, ...]:
        """The items that are open behind the next line."""
        if not self._begins(line):
            return self._items
        items = list(self._around(line))
        follows = next(iter(self._items[len(items) :]), None)
        at = _inside(items)
        while (found := _MARKER.match(line, at)) and len(items) < DEEPEST // 2:
            marker, digits, spaces = found.groups()
            at = found.end() if 0 < len(spaces) <= _CODE else found.end(1) + 1
            number = int(digits) if digits else None
            if number is not None and follows and follows.number is not None and follows.marker[-1] == marker[-1]:
                number = follows.number + 1
            items.append(Item(found.start(1), marker, at, number))
            follows = None
        return tuple(items)

    def _opens_fence(self, line: str) -> bool:
        inside = _inside(self._items)
        quotes = _quotes(line, inside)
        at = _indent(line, inside + len(quotes)) if quotes else max(_indent(line), inside)
        found = _FENCE.match(line, at)
        self._quotes = 0
        if found is None or (found[1][0] == "`" and "`" in found[2]):
            return False
        self._fence, self._depth, self._columns, self._quotes = found[1], inside, 0, quotes.count(">")
        front = f"{' ' * inside}{quotes}{' ' * min(at - inside - len(quotes), _CODE - 1)}"
        self._reopens = f"{front}{found[0]} {REOPENED}\n"
        return True

    def _opens_table(self, line: str, bars: int) -> None:
        if not self._columns and "|" in self._before and bars <= _WIDEST and _TABLE.fullmatch(line):
            self._columns = bars + 1
            at = max(_indent(self._before), _inside(self._items))
            self._reopens = f"{' ' * at}{self._before[at:]}\n{line}\n"


def _indent(line: str, start: int = 0) -> int:
    return len(line) - len(line[start:].lstrip(" "))


def _quotes(line: str, at: int) -> str:
    """The bars of the quotes that a line is in, from there on."""
    found = _QUOTES.match(line, at)
    return found[0] if found else ""


def _unquoted(line: str, quotes: int) -> str:
    """A line without the bars of so many quotes, and without the spaces in front of it."""
    return line.lstrip(" ").split(">", quotes)[-1].lstrip(" ")


def _inside(items: Sequence[Item]) -> int:
    """How far in a line is that belongs to all of these."""
    return items[-1].inside if items else 0


def _opening(items: Sequence[Item]) -> str:
    """The items, each in the one before it, without anything else in them yet."""
    numbers = "".join(f" {item.number or 0}" for item in items)
    lines = "".join(f"{' ' * item.column}{item.marker}\n" for item in items)
    return f"{REOPENED}{numbers}\n\n{lines}" if items else ""
