"""A leaf of an answer as a widget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import accumulate, chain, count, repeat, zip_longest

from markdown_it.token import Token
from pygments.token import Error, Generic
from textual.await_complete import AwaitComplete
from textual.content import Content
from textual.geometry import Size
from textual.highlight import HighlightTheme, highlight
from textual.selection import Selection
from textual.strip import Strip
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownBlock

from handrail.apps.chat._lines import CodeLine, Line, Words, table
from handrail.apps.chat._rows import Code, Grid, Margin, Piece, Row, pieces
from handrail.apps.chat._sheet import Block

__all__ = ["STYLES", "Prose"]

_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
STYLES = {*MarkdownBlock.COMPONENT_CLASSES, "bullet", "bar", "grid", "head", "code", *_HEADINGS}
"""The component classes that what a `Prose` is in has to have."""

_BLANK = Content("")
_UNWRAPPED: tuple[int, list[int]] = (-1, [])


class _Colours(HighlightTheme):
    """Textual's, but that what a language does not know has no ground: on it, a theme of 16 colours hides it."""

    STYLES = HighlightTheme.STYLES | {Error: "", Generic.Error: "$text-error"}


class Prose(Markdown):
    """A leaf of an answer: Markdown that has no widgets in it. Only what is seen of it is ever rendered.

    Its links open nothing: a model wrote them.
    """

    def __init__(self, block: Block) -> None:
        super().__init__("", classes=block.look, open_links=False)
        self.block = block
        self._wrapped = _UNWRAPPED  # at a width, where each line begins
        self._lines: list[Line] = []

    @property
    def is_container(self) -> bool:
        return False

    @property
    def is_scrollable(self) -> bool:
        return False

    def update(self, markdown: str) -> AwaitComplete:
        """Draw the block, as Textual has it done once, when the widget is mounted."""
        self.draw(self.block)
        return AwaitComplete()

    def draw(self, block: Block) -> None:
        """Show this block; what looks the same as before is not rendered again."""
        self.block = block
        before, self._lines = self._lines, []
        for piece in pieces(block.text):
            self._lines.extend(self._laid_out(piece))
        if block.text.endswith("\n\n"):
            self._lines.extend(self._laid_out(Row("")))
        pairs = zip_longest(self._lines, before[: len(self._lines)])
        self._lines = [old if old and old.is_same(new) else new for new, old in pairs]
        self._wrapped = _UNWRAPPED
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._starts(width)[-1]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        starts = self._starts(width)
        number = bisect_right(starts, y) - 1
        if number == len(self._lines):
            return Strip.blank(width, self.visual_style.rich_style)
        return self._lines[number].seen(self, width)[y - starts[number]]

    def on_unmount(self) -> None:
        """Let go of what was drawn: a widget that is gone waits for the collector of garbage with all it has."""
        self._lines, self._wrapped = [], _UNWRAPPED
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        return selection.extract("\n".join(line.text for line in self._lines)), "\n"

    def action_link(self, href: str) -> None:
        followed = self.LinkClicked(self, href)
        followed.href = href  # as it was written: Textual's is unquoted, which leads elsewhere
        self.post_message(followed)

    def _starts(self, width: int) -> list[int]:
        """Where each line begins on the screen, and where the last one ends."""
        if self._wrapped[0] != width:
            heights = (line.get_height(self.styles, width) for line in self._lines)
            self._wrapped = (width, list(accumulate(heights, initial=0)))
        return self._wrapped[1]

    def _laid_out(self, piece: Piece) -> Iterator[Line]:
        first, rest = _margin(piece.first), _margin(piece.rest)
        places = zip(count(len(self._lines)), chain([(first, rest)], repeat((rest, rest))), strict=False)
        match piece:
            case Row():
                for words in _styled(piece.words, piece.style).split(allow_blank=True):
                    yield Words(next(places), words)
            case Grid():
                head, *body = piece.rows
                cells = [_styled(cell, "head") for cell in head]
                yield from table(places, [cells, *([_styled(cell) for cell in record] for record in body)])
            case Code():
                language = piece.language or "text"
                code = highlight(piece.text.expandtabs(4), language=language, theme=_Colours).stylize_before(".code")
                before, behind = ([] if piece.goes_on else [_BLANK]), ([] if piece.is_open else [_BLANK])
                for text in [*before, *(code.split(allow_blank=True) if piece.text else ()), *behind]:
                    yield CodeLine(next(places), text)


def _styled(words: Token | str, style: str = "") -> Content:
    read = Content(words) if isinstance(words, str) else _words().read(words)
    content = Content(read.plain.replace("\t", " "), [*read.spans])  # a tab is as wide as where it stands wants it
    return content.stylize(f".{style}") if style else content


class _Words(MarkdownBlock):
    """Reads the words of inline tokens as Textual's own Markdown does. It is never mounted."""

    def __init__(self) -> None:
        super().__init__(Markdown(), Token("inline", "", 0))  # pyright: ignore[reportUnknownMemberType]  # it hands more on than it names
        self._read = Content("")

    def read(self, token: Token) -> Content:
        self.build_from_token(token)
        return self._read

    def set_content(self, content: Content) -> None:
        self._read = content


_words = cache(_Words)


@lru_cache(1_000)
def _margin(margin: Margin) -> Content:
    return Content.assemble(*((text, f".{name}" if name else "") for text, name in margin))
