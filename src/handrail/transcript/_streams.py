"""Text and reasoning as they arrive: which part a message of the wire is writing to.

| a start for a message that | writes to |
|---|---|
| is new here, or known from an earlier run only | a new part |
| this run streamed, and whose part is the last thing on screen | that part, which streams on |
| this run streamed, with something else behind it | a new part behind that, of the same message |
| a snapshot of this run brought | the part that the snapshot made |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from handrail.transcript._model import ReasoningPart, TextPart, changed
from handrail.transcript._page import Page

__all__ = ["Streams"]


class Streams:
    """The messages of one kind. `parts_of(wire id)` are those that the page has, the latest last."""

    def __init__(self, page: Page, index: Callable[[], Mapping[str, list[str]]]) -> None:
        self._page = page
        self._index = index
        self._open: dict[str, str] = {}
        self._streamed: set[str] = set()
        self._restored: set[str] = set()
        self._restated: dict[str, str] = {}

    def begin_run(self) -> None:
        """What was streamed or restored before belongs to an earlier run from here on."""
        self._streamed.clear()
        self._restored.clear()

    def recount(self, restored: set[str]) -> None:
        """The page was rewritten by a snapshot: what is gone streams no more, what it wrote may stream again."""
        index, before = self._index(), self._open
        self._open = {
            wire_id: part if part in index[wire_id] else index[wire_id][-1]
            for wire_id, part in before.items()
            if wire_id in index
        }
        for part_id in {*before.values(), *self._open.values()}:
            self._mark(part_id, streaming=part_id in self._open.values())
        self._restored = (self._restored | restored) & index.keys()

    def start(self, wire_id: str, write: Callable[[], TextPart | ReasoningPart]) -> None:
        """A message begins to stream; `write` puts a new part on the page where one is needed."""
        known = self._index().get(wire_id, [])
        goes_on = wire_id in self._streamed and bool(known) and self._page.is_last(known[-1])
        if wire_id in self._restored or goes_on:
            part: TextPart | ReasoningPart = self._page.part(known[-1])
            if wire_id in self._restored:
                self._restated[wire_id] = part.text
            self._page.put(changed(part, streaming=True))
            self._open[wire_id] = part.id
        else:
            self._open[wire_id] = write().id
        self._streamed.add(wire_id)

    def grow(self, wire_id: str, delta: str) -> None:
        """A piece of a message; nothing for one that is not streaming here."""
        part_id = self._open.get(wire_id)
        if part_id is not None and delta:
            self._page.grow(part_id, delta)

    def end(self, wire_id: str) -> bool:
        """A message is complete. True if it said again what a snapshot had said already."""
        part_id = self._open.pop(wire_id, None)
        if part_id is None:
            return False
        part: TextPart | ReasoningPart = self._page.part(part_id)
        self._page.put(changed(part, streaming=False))
        restored = self._restated.pop(wire_id, "")
        return bool(restored) and part.text == restored * 2

    def settle(self) -> None:
        """Nothing more will come for what is open."""
        for part_id in self._open.values():
            self._page.put(changed(self._page.part(part_id), streaming=False))
        self._open.clear()
        self._restated.clear()

    def _mark(self, part_id: str, *, streaming: bool) -> None:
        if part_id in self._page and self._page.part(part_id).streaming is not streaming:
            self._page.put(changed(self._page.part(part_id), streaming=streaming))
