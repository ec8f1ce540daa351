"""What an answer is drawn by: rows of text as one widget, and what needs a widget of its own set in between."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, zip_longest
from typing import Any, ClassVar

from markdown_it.token import Token
from rich.segment import Segment
from textual.content import Content
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widget import Widget
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownBlock

from handrail.apps.chat._rows import Margin, Row

__all__ = ["Frame", "Rows"]

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


class Line(Visual):
    """Words, and what stands in front of them on the first line of the screen and on those below.

    `number` is the one of this line in the text that can be selected.
    """

    def __init__(self, number: int, first: Content, rest: Content, words: Content) -> None:
        self._number, self._first, self._rest, self._words = number, first, rest, words
        self._seen: tuple[object, list[Strip]] = (None, [])  # as what it was rendered last

    def is_same(self, other: Line) -> bool:
        """Whether the other one looks the same."""
        return self._first is other._first and self._rest is other._rest and self._words.is_same(other._words)

    def seen(self, widget: Widget, width: int) -> list[Strip]:
        """What is on the screen of it."""
        asked = (width, widget.visual_style, widget.text_selection)
        if self._seen[0] != asked:
            self._seen = (asked, Visual.to_strips(widget, self, width, None, widget.visual_style))
        return self._seen[1]

    @property
    def text(self) -> Content:
        """What can be selected of it."""
        return self._first + self._words

    def _room(self, width: int) -> int:
        """For the words; half the width at least, however far in they are."""
        return max(width - self._first.cell_length, width // 2, 1)

    def get_height(self, rules: Any, width: int) -> int:
        return self._words.get_height(rules, self._room(width))

    def get_optimal_width(self, rules: Any, container_width: int) -> int:
        return self._first.cell_length + self._words.cell_length

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        margin, room = len(self._first), self._room(width)
        front, words = self._first, self._words
        if options.selection and options.selection_style and (span := options.selection.get_span(self._number)):
            start, end = span
            text = self.text.stylize(options.selection_style, start, None if end == -1 else end)
            front, words = text[:margin], text[margin:]
        options = replace(options, selection=None)
        strips: list[Strip] = []
        for right in words.render_strips(room, height, style, options):
            shown = front[max(margin - (width - room), 0) :]
            segments = [
                Segment(text, (style + of_text).rich_style)
                for text, of_text in shown.render(style, "", parse_style=options.get_style)
            ]
            strip = Strip([*segments, *right])
            strips.append(strip.apply_offsets(margin + _offset(right) - len(shown), self._number))
            front = self._rest
        return strips


def _offset(strip: Strip) -> int:
    """Which of the characters of the words is the first on it."""
    for segment in strip:
        return segment.style.meta["offset"][0] if segment.style else 0
    return 0


class Rows(MarkdownBlock):
    """All that follows each other without code or a table. Only what is seen of it is ever rendered."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"bullet", "bar", *_HEADINGS}

    def __init__(self, markdown: Markdown, token: Token) -> None:
        super().__init__(markdown, token)  # pyright: ignore[reportUnknownMemberType]  # it hands more on than it names
        self._words = Content("")
        self._wrapped: tuple[int, list[int]] = (0, [])  # at a width
        self._lines: list[Line] = []
        for row in token.meta.pop("rows"):  # not kept: what is removed waits for the collector of garbage
            self._lines.extend(self._laid_out(row))

    def set_content(self, content: Content) -> None:
        """Keep the words of an inline token, which `build_from_token` calls this with."""
        self._words = content

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._ends(width)[-1]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        ends = self._ends(width)
        number = bisect_right(ends, y)
        if number == len(ends):
            return Strip.blank(width, self.visual_style.rich_style)
        return self._lines[number].seen(self, width)[y - ends[number]]

    def on_unmount(self) -> None:
        """Let go of what was drawn: a widget that is gone waits for the collector of garbage with all it has."""
        self._lines = []
        self.refresh()

    async def _update_from_block(self, block: MarkdownBlock) -> None:
        """Become what stands in its place now; what looks the same is not rendered again.

        Textual calls this for the last block of a text that grows, and has no public name for it. A list would be
        mounted anew with every piece of it, in 5 to 10 ms, and what is selected in it be lost.
        """
        if not isinstance(block, Rows):
            await super()._update_from_block(block)
            return
        pairs = zip_longest(block._lines, self._lines[: len(block._lines)])
        self._lines = [old if old and old.is_same(new) else new for new, old in pairs]
        self._wrapped = (0, [])
        block._lines = []
        self.refresh(layout=True)

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        return selection.extract("\n".join(line.text.plain for line in self._lines)), "\n"

    def _ends(self, width: int) -> list[int]:
        """Where each line ends on the screen."""
        if self._wrapped[0] != width:
            self._wrapped = (width, list(accumulate(line.get_height(self.styles, width) for line in self._lines)))
        return self._wrapped[1]

    def _laid_out(self, row: Row) -> Iterator[Line]:
        if isinstance(row.words, str):
            self.set_content(Content(row.words))
        else:
            self.build_from_token(row.words)
        if row.style:
            self.set_content(self._words.stylize(f".{row.style}"))
        first, rest = _margin(row.first), _margin(row.rest)
        for number, words in enumerate(self._words.split(allow_blank=True), len(self._lines)):
            yield Line(number, first, rest, words)
            first = rest


@lru_cache(1_000)
def _margin(margin: Margin) -> Content:
    return Content.assemble(*((text, f".{name}" if name else "") for text, name in margin))


class Frame(MarkdownBlock):
    """A list or a quote with widgets in it, or one of those, as far in as it is."""

    def __init__(self, markdown: Markdown, token: Token) -> None:
        super().__init__(markdown, token)  # pyright: ignore[reportUnknownMemberType]  # it hands more on than it names
        if inset := token.meta.get("margin"):
            before, bar, behind = _margin(inset).plain.partition("▌")
            self.set_class(bool(bar), "quote")
            self.styles.margin = (0, 0, 0, len(before))
            self.styles.padding = (0, 0, 0, len(behind))
