"""Lines of an answer: what each looks like at a width, and which characters of the text are where.

A line has a number and a text, by which it is selected and copied; on the screen it may take several rows. In front of
them stands a margin: markers of items and bars of quotes on the first row, and what keeps their place on the others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, zip_longest
from typing import Any, TypeAlias

from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widget import Widget

__all__ = ["CodeLine", "Line", "Words", "table"]

Place: TypeAlias = tuple[int, tuple[Content, Content]]
"""The number of a line, and what stands in front of its first row and of the others."""

Part: TypeAlias = tuple[int, Strip]
"""A part of a row, and which character of the line is the first in it."""


class Line(Visual):
    """A line that is `text` behind its margin. What is the same as before keeps what was rendered of it."""

    def __init__(self, place: Place, text: Content) -> None:
        self._number, self._margin = place
        self._text = text
        self._seen: tuple[object, list[Strip]] = (None, [])  # as what it was rendered last
        self._tall = (-1, 0)  # a width, and its height there

    @property
    def text(self) -> str:
        """What can be selected of it."""
        return self._margin[0].plain + self._text.plain

    def is_same(self, other: Line) -> bool:
        """Whether the other one looks the same."""
        return type(self) is type(other) and self._margin == other._margin and self._text.is_same(other._text)

    def seen(self, widget: Widget, width: int) -> list[Strip]:
        """What is on the screen of it."""
        asked = (width, widget.visual_style, widget.text_selection)
        if self._seen[0] != asked:
            self._seen = (asked, Visual.to_strips(widget, self, width, None, widget.visual_style))
        return self._seen[1]

    def get_optimal_width(self, rules: Any, container_width: int) -> int:
        return self._margin[0].cell_length + self._text.cell_length

    def get_height(self, rules: Any, width: int) -> int:
        if self._tall[0] != width:
            self._tall = (width, self._height(rules, self._room(width)))
        return self._tall[1]

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        room = self._room(width)
        first, rest = self._margin
        size, front = len(first), self._selected(first, 0, options)
        strips: list[Strip] = []
        for parts in self._rows(room, style, options):
            shown = front[max(size - (width - room), 0) :]
            left = (parts[0][0] - len(shown), _strip(shown, style, options))
            strips.append(Strip.join([part.apply_offsets(at, self._number) for at, part in (left, *parts)]))
            front = rest
        return strips

    def _room(self, width: int) -> int:
        """For the text; half the width at least, however far in it is."""
        return max(width - self._margin[0].cell_length, width // 2, 1)

    def _selected(self, content: Content, at: int, options: RenderOptions) -> Content:
        """`content`, which begins with this character of the line, with what is selected of it."""
        span = options.selection.get_span(self._number) if options.selection else None
        if span is None or options.selection_style is None:
            return content
        start, end = span[0] - at, len(content) if span[1] == -1 else span[1] - at
        return content.stylize(options.selection_style, max(start, 0), end) if end > 0 else content

    def _wrapped(self, content: Content, at: int, width: int, style: Style, options: RenderOptions) -> list[Part]:
        """`content`, which begins with this character of the line, row by row."""
        content = self._selected(content, at, options)
        rows = content.render_strips(width, None, style, replace(options, selection=None))
        return [(at + _offset(row), row) for row in rows]

    @abstractmethod
    def _height(self, rules: Any, width: int) -> int: ...

    @abstractmethod
    def _rows(self, width: int, style: Style, options: RenderOptions) -> Iterator[Sequence[Part]]: ...


class Words(Line):
    """Text that is wrapped."""

    def _height(self, rules: Any, width: int) -> int:
        return self._text.get_height(rules, width)

    def _rows(self, width: int, style: Style, options: RenderOptions) -> Iterator[Sequence[Part]]:
        return ((row,) for row in self._wrapped(self._text, len(self._margin[0]), width, style, options))


class CodeLine(Line):
    """A line of code, on a ground of its own. It is copied without what stands in front of it."""

    @property
    def text(self) -> str:
        return self._text.plain

    def _height(self, rules: Any, width: int) -> int:
        return self._text.get_height(rules, width - 2 * _inset(width))

    def _rows(self, width: int, style: Style, options: RenderOptions) -> Iterator[Sequence[Part]]:
        inset = _inset(width)
        pad = _strip(Content.styled(" " * inset, ".code"), style, options)
        ground = (style + options.get_style(".code")).rich_style
        for at, row in self._wrapped(self._text, 0, width - 2 * inset, style, options):
            yield [(at, pad), (at, row.adjust_cell_length(width - inset, ground))]


class Columns:
    """How wide the columns of a table are: as wide as what is in them, or narrower where there is no room."""

    def __init__(self, rows: Sequence[Sequence[Content]]) -> None:
        lengths = ([cell.cell_length for cell in row] for row in rows)
        self.widest = [max(column, default=0) for column in zip_longest(*lengths, fillvalue=0)]
        self._fitted: tuple[int, Sequence[int]] = (0, ())

    def fitted(self, width: int) -> Sequence[int]:
        """Their widths in so much room; () where not even one cell is left for each."""
        if self._fitted[0] != width:
            self._fitted = (width, self._shared_out(width - 3 * len(self.widest) - 1))
        return self._fitted[1]

    def _shared_out(self, room: int) -> Sequence[int]:
        """Narrow columns get what they need, the others equal parts of what is left."""
        widths = [0] * len(self.widest)
        order = sorted(range(len(widths)), key=self.widest.__getitem__)
        for done, column in enumerate(order):
            widths[column] = min(max(self.widest[column], 1), room // (len(order) - done))
            room -= widths[column]
        return widths if min(widths) > 0 else ()


class Record(Line):
    """A row of a table."""

    def __init__(self, place: Place, cells: Sequence[Content], columns: Columns) -> None:
        bars = [part for cell in cells for part in (Content.styled("| "), cell, Content(" "))]
        super().__init__(place, Content("").join([*bars, Content("|")]))
        self._cells, self._columns = cells, columns

    def is_same(self, other: Line) -> bool:
        return isinstance(other, Record) and self._columns.widest == other._columns.widest and super().is_same(other)

    def _height(self, rules: Any, width: int) -> int:
        widths = self._columns.fitted(width)
        if not widths:
            return self._text.get_height(rules, width)
        return max(cell.get_height(rules, room) for cell, room in zip(self._cells, widths, strict=False))

    def _rows(self, width: int, style: Style, options: RenderOptions) -> Iterator[Sequence[Part]]:
        at = len(self._margin[0])
        widths = self._columns.fitted(width)
        if not widths:
            yield from ((row,) for row in self._wrapped(self._text, at, width, style, options))
            return
        starts = [at + start for start in accumulate((len(cell) + 3 for cell in self._cells), initial=2)]
        cells = [
            self._wrapped(cell, start, room, style, options)
            for cell, start, room in zip(self._cells, starts, widths, strict=False)
        ]
        bar, end = _strip(_GRID["│ "], style, options), _strip(_GRID["│"], style, options)
        for row in zip_longest(*cells):
            parts: list[Part] = []
            for part, start, room in zip(row, starts, widths, strict=False):
                where, strip = part or (start, Strip([]))
                parts += [(where - 2, bar), (where, strip.adjust_cell_length(room + 1, style.rich_style))]
            yield [*parts, (starts[-1] - 2, end)]


class Rule(Line):
    """A line of a table between its rows, or around them: the corners and crossings of `kind`."""

    def __init__(self, place: Place, kind: str, columns: Columns) -> None:
        super().__init__(place, Content("|---" * len(columns.widest) + "|" if kind == "├┼┤" else ""))
        self._kind, self._columns = kind, columns

    def is_same(self, other: Line) -> bool:
        return isinstance(other, Rule) and self._columns.widest == other._columns.widest and super().is_same(other)

    def _height(self, rules: Any, width: int) -> int:
        return 1

    def _rows(self, width: int, style: Style, options: RenderOptions) -> Iterator[Sequence[Part]]:
        left, cross, right = self._kind
        columns = self._columns.fitted(width)
        drawn = f"{left}{cross.join('─' * (room + 2) for room in columns)}{right}" if columns else "─" * width
        yield [(len(self._margin[0]), _strip(Content.styled(drawn, ".grid"), style, options))]


def table(places: Iterator[Place], rows: Sequence[Sequence[Content]]) -> Iterator[Line]:
    """The lines of a table, the first row of which is its head."""
    columns = Columns(rows)
    yield Rule(next(places), "┌┬┐", columns)
    for number, cells in enumerate(rows):
        if number == 1:
            yield Rule(next(places), "├┼┤", columns)
        yield Record(next(places), cells, columns)
    yield Rule(next(places), "└┴┘", columns)


_GRID = {text: Content.styled(text, ".grid") for text in ("│ ", "│")}


def _inset(width: int) -> int:
    """How far code is from the edges of its ground, where there is room for that."""
    return min(2, (width - 1) // 2)


def _offset(strip: Strip) -> int:
    """Which of the characters of the text is the first on it."""
    for segment in strip:
        return segment.style.meta["offset"][0] if segment.style else 0
    return 0


def _strip(content: Content, style: Style, options: RenderOptions) -> Strip:
    """`content`, which fits, as one row."""
    parts = content.render(style, "", parse_style=options.get_style)
    return Strip([Segment(text, (style + of_text).rich_style) for text, of_text in parts])
