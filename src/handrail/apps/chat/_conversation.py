"""The blocks of a conversation as widgets, of which only a window is ever mounted.

What a layout costs grows with the widgets there are, seen or not, so there are never many more than a screen can
need: while the end is followed, those of the last blocks; scrolling to either end of the window moves it by half.
Redrawing touches the blocks that are other objects than last time, so it costs what changed; and of what is new it
mounts a portion, the last blocks first, so that a key need not wait for all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import ClassVar, TypeAlias

import anyio
from textual._styles_cache import StylesCache
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from handrail.apps.chat._prose import STYLES, Prose
from handrail.apps.chat._sheet import Block

__all__ = ["Conversation", "Fold"]

_SCREENS = 5  # full of rows are mounted
_PORTION = 24  # of weight: what is mounted at once
_BREATH = 0.02  # seconds between two portions; a screen is written 60 times a second


class Line(Static):
    """Plain text: who speaks, or what a person said."""

    def __init__(self, block: Block) -> None:
        super().__init__(block.text, markup=False, classes=block.look)
        self.block = block

    def draw(self, block: Block) -> None:
        self.block = block
        self.update(block.text)


class Fold(Static, can_focus=True):
    """A line or a card that can be unfolded, with Enter or a click, where there is more to it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "unfold", "Unfold", show=False)]

    def __init__(self, block: Block) -> None:
        super().__init__(markup=False, classes=block.look)
        self.block = block
        self.is_unfolded = False

    def on_mount(self) -> None:
        self._redraw()

    def draw(self, block: Block) -> None:
        self.set_classes(block.look)
        self.block = block
        self._redraw()

    def on_click(self) -> None:
        self.action_unfold()

    def action_unfold(self) -> None:
        self.is_unfolded = not self.is_unfolded
        self._redraw()

    def _redraw(self) -> None:
        block = self.block
        self.can_focus = bool(block.more)
        if not block.more:
            self.update(block.text)
        elif not self.is_unfolded:
            self.update(f"▸ {block.text}")
        else:
            self.update(f"▾ {block.text.partition(chr(10))[0]}\n{block.more}")


Drawn: TypeAlias = Line | Fold | Prose


def _widget(block: Block) -> Drawn:
    match block.look:
        case "speaker" | "said":
            return Line(block)
        case "prose":
            return Prose(block)
        case _:
            return Fold(block)


def _forget_lines() -> None:
    """Let go of the lines of widgets that are gone.

    Textual keeps two colours for each of the last 1,024 widgets under the widget's whole cache of lines: 100 MB, and a
    second of collecting garbage, after a few minutes of streaming.
    """
    StylesCache.get_inner_outer.cache_clear()


class Conversation(VerticalScroll):
    """Everything said so far, as far as it fits the window."""

    COMPONENT_CLASSES: ClassVar[set[str]] = STYLES

    def __init__(self) -> None:
        super().__init__(id="conversation", can_focus=True)
        self.is_following = True
        self._blocks: Sequence[Block] = ()
        self._first = 0
        self._drawn: dict[str, Drawn] = {}
        self._drawing = anyio.Lock()

    def on_mount(self) -> None:
        self.anchor()

    def on_resize(self) -> None:
        """A higher screen has room for more blocks."""
        self.call_later(self._move, self._before(len(self._blocks), self.most) if self.is_following else self._first)

    def release_anchor(self) -> None:
        """The person scrolled: the end is not followed until they are back there."""
        self.is_following = False
        super().release_anchor()

    def follow(self) -> None:
        """Go to the end and stay there."""
        self.is_following = True
        self.anchor()
        self.call_later(self._move, self._before(len(self._blocks), self.most))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self.is_following or old_value == new_value:
            return
        if new_value <= 0 and self._first > 0:
            self.call_later(self._move, self._before(self._first, self.most // 2))
        elif new_value >= self.max_scroll_y:
            if self._last < len(self._blocks):
                self.call_later(self._move, self._behind(self._first, self.most // 2))
            else:
                self.is_following = True

    @property
    def most(self) -> int:
        """The weight of the blocks in the window."""
        return _SCREENS * self.screen.size.height

    @property
    def _last(self) -> int:
        return self._behind(self._first, self.most)

    def _behind(self, index: int, weight: int) -> int:
        """The index behind so much weight from that of a block on; one block at least, as far as there is one."""
        for number in range(index, len(self._blocks)):
            weight -= self._blocks[number].weight
            if weight < 0 and number > index:
                return number
        return len(self._blocks)

    def _before(self, index: int, weight: int) -> int:
        """The index where so much weight in front of that of a block begins."""
        for number in range(index - 1, -1, -1):
            weight -= self._blocks[number].weight
            if weight < 0 and number < index - 1:
                return number + 1
        return 0

    async def show(self, blocks: Sequence[Block]) -> bool:
        """Draw these blocks in the place of the last ones; False where some of the window are still to be drawn."""
        _forget_lines()
        async with self._drawing:
            self._blocks = blocks
            if self.is_following or self._first >= len(blocks):
                self._first = self._before(len(blocks), self.most)
            return await self._draw()

    async def _move(self, first: int) -> None:
        """Let the window begin there; what is seen keeps its place, unless the end is followed."""
        async with self._drawing:
            self._first = min(first, self._before(len(self._blocks), self.most))
            is_drawn = False
            while not is_drawn:
                seen = None if self.is_following else self._topmost()
                height = 0 if seen is None else seen.virtual_region.y - self.scroll_offset.y
                is_drawn = await self._draw()
                if seen is not None:
                    self.call_after_refresh(self._put, seen, height)
                await anyio.sleep(_BREATH)

    def _topmost(self) -> Widget | None:
        """The first widget that is seen and stays when the window moves by a step."""
        top = self.scroll_offset.y
        kept = [widget for widget in self.children if widget.virtual_region.bottom > top]
        return kept[0] if kept else None

    def _put(self, widget: Widget, height: int) -> None:
        if widget.is_attached and not self.is_following:  # the person may have gone to the end meanwhile
            self.scroll_to(y=widget.virtual_region.y - height, animate=False, immediate=True)

    async def _draw(self) -> bool:
        """Draw a portion of the window; whether that was the last one."""
        window = self._blocks[self._first : self._last]
        with self.app.batch_update():  # pyright: ignore[reportUnknownMemberType]  # the app that it is in may be any
            drawn = await self._draw_again(window)
            missing = [block for block in window if block.key not in self._drawn]
            portion = _last_of(missing, _PORTION - drawn)
            await self._put_in(window, {block.key for block in portion})
        return len(portion) == len(missing)

    async def _draw_again(self, window: Sequence[Block]) -> int:
        """Draw what changed where it is, and take away what is not in the window; the weight of that."""
        keys = {block.key for block in window}
        await self._take_away(key for key in tuple(self._drawn) if key not in keys)
        weight = 0
        for block in window:
            widget = self._drawn.get(block.key)
            if widget is None or widget.block is block:
                continue
            weight += block.weight
            widget.draw(block)
        return weight

    async def _take_away(self, keys: Iterable[str]) -> None:
        widgets = [self._drawn.pop(key) for key in keys]
        if widgets:
            await self.remove_children(widgets)

    async def _put_in(self, window: Sequence[Block], keys: Set[str]) -> None:
        """Mount the blocks with these keys, each row of them in front of the next one that is there."""
        row: list[Drawn] = []
        for block in window:
            widget = self._drawn.get(block.key)
            if block.key in keys:
                row.append(_widget(block))
            elif widget is not None and row:
                await self._mount_row(row, before=widget)
                row = []
        await self._mount_row(row, before=None)

    async def _mount_row(self, row: Sequence[Drawn], before: Drawn | None) -> None:
        if not row:
            return
        mounted = self.mount_all(row, before=before)
        self._drawn |= {widget.block.key: widget for widget in row}  # already: nobody need be there any more behind it
        await mounted


def _last_of(blocks: Sequence[Block], weight: int) -> Sequence[Block]:
    """As many of the last blocks as weigh so much together; one at least, as far as there is one."""
    for number in range(len(blocks) - 1, -1, -1):
        weight -= blocks[number].weight
        if weight <= 0:
            return blocks[number:]
    return blocks
