"""A leaf of an answer as a widget: Markdown that grows at its end, all of it drawn by one block."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, chain, count, repeat, zip_longest
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from textual.content import Content
from textual.geometry import Size
from textual.highlight import highlight
from textual.selection import Selection
from textual.strip import Strip
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownBlock

from handrail.apps.chat._lines import CodeLine, Line, Words, table
from handrail.apps.chat._rows import DEEPEST, Code, Grid, Margin, Piece, Row, fold
from handrail.apps.chat._sheet import Block

__all__ = ["Prose", "Rows", "parser"]

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_BLANK = Content("")


class Prose(Markdown):
    """A leaf of an answer: Markdown that grows at its end. Its links open nothing: a model wrote them.

    One that grows is made empty and then only ever appended to; one that was made whole is not appended to.
    """

    def __init__(self, block: Block) -> None:
        self._is_made_whole = not block.growing
        super().__init__(block.text if self._is_made_whole else None, parser_factory=parser, open_links=False)
        self.set_classes(block.look)
        self.block = block
        self._drawn = block.text if self._is_made_whole else ""
        self._look()

    async def draw(self, block: Block) -> bool:
        """False where the text does not go on from what is there."""
        more = block.text[len(self._drawn) :]
        if not block.text.startswith(self._drawn) or (more and self._is_made_whole):
            return False
        self.block, self._drawn = block, block.text
        if more:
            await self.append(more)
        self._look()
        return True

    def _look(self) -> None:
        self.set_class(self._drawn.endswith("\n\n"), "apart")

    def unhandled_token(self, token: Token) -> MarkdownBlock | None:
        return Rows(self, token) if token.type == "rows" else None


def parser() -> MarkdownIt:
    """Of Markdown. HTML is shown as it was written, not dropped; what is nested too deeply to lay out stays text."""
    markdown = MarkdownIt("gfm-like", {"html": False, "maxNesting": DEEPEST})
    markdown.core.ruler.push("rows", fold)
    return markdown


class Rows(MarkdownBlock):
    """All of a Markdown text. Only what is seen of it is ever rendered."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"bullet", "bar", "grid", "head", "code", *_HEADINGS}

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

        Textual calls this for the last block of a text that grows, and has no public name for it. The text would be
        mounted anew with every piece of it, in 5 to 10 ms, and what is selected in it lost.
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
        return selection.extract("\n".join(line.text for line in self._lines)), "\n"

    def _ends(self, width: int) -> list[int]:
        """Where each line ends on the screen."""
        if self._wrapped[0] != width:
            self._wrapped = (width, list(accumulate(line.get_height(self.styles, width) for line in self._lines)))
        return self._wrapped[1]

    def _laid_out(self, row: Piece) -> Iterator[Line]:
        first, rest = _margin(row.first), _margin(row.rest)
        places = zip(count(len(self._lines)), chain([(first, rest)], repeat((rest, rest))), strict=False)
        match row:
            case Row():
                for words in self._styled(row.words, row.style).split(allow_blank=True):
                    yield Words(next(places), words)
            case Grid():
                head, *body = row.rows
                cells = [self._styled(cell, "head") for cell in head]
                yield from table(places, [cells, *([self._styled(cell) for cell in record] for record in body)])
            case Code():
                code = highlight(row.text.expandtabs(4), language=row.language or "text").stylize_before(".code")
                before, behind = ([] if row.goes_on else [_BLANK]), ([] if row.is_open else [_BLANK])
                for text in [*before, *(code.split(allow_blank=True) if code else ()), *behind]:
                    yield CodeLine(next(places), text)

    def _styled(self, words: Token | str, style: str = "") -> Content:
        if isinstance(words, str):
            self.set_content(Content(words))
        else:
            self.build_from_token(words)
        return self._words.stylize(f".{style}") if style else self._words


@lru_cache(1_000)
def _margin(margin: Margin) -> Content:
    return Content.assemble(*((text, f".{name}" if name else "") for text, name in margin))
