"""Text and reasoning as they arrive: which part a message of the wire is writing to.

| a start for a message that | writes to |
|---|---|
| is new here, or known from an earlier run only | a new part |
| this run streamed, and whose part is the last thing on screen | that part, which streams on |
| this run streamed, with something else behind it | a new part behind that, of the same message |
| a snapshot of this run brought | the part that the snapshot made |
"""

from __future__ import annotations

from collections.abc import Mapping

from ag_ui.core import ReasoningMessageContentEvent, TextMessageContentEvent

from handrail.transcript._page import Page

__all__ = ["Streams"]


class Streams:
    """The messages of one kind. `parts_of(wire id)` are those that the page has, the latest last."""

    def __init__(self, page: Page, index: Mapping[str, list[str]]) -> None:
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
        index, before = self._index, self._open
        self._open = {
            wire_id: part if part in index[wire_id] else index[wire_id][-1]
            for wire_id, part in before.items()
            if wire_id in index
        }
        for part_id in {*before.values(), *self._open.values()}:
            self._mark(part_id, streaming=part_id in self._open.values())
        self._restored = (self._restored | restored) & index.keys()

    def goes_on(self, wire_id: str) -> bool:
        """A message begins to stream. True if it does so in a part that is there; else `begin` is told of its own."""
        known = self._index.get(wire_id)
        is_restored = wire_id in self._restored
        if not known or not (is_restored or (wire_id in self._streamed and self._page.is_last(known[-1]))):
            return False
        part_id = known[-1]
        if is_restored:
            self._restated[wire_id] = self._page.part(part_id).text
        self._page.change(part_id, streaming=True)
        self.begin(wire_id, part_id)
        return True

    def begin(self, wire_id: str, part_id: str) -> None:
        """A message streams into a part."""
        self._open[wire_id] = part_id
        self._streamed.add(wire_id)

    def grow(self, event: TextMessageContentEvent | ReasoningMessageContentEvent) -> None:
        """A piece of a message; nothing for one that is not streaming here."""
        part_id = self._open.get(event.message_id)
        if part_id is not None and event.delta:
            self._page.grow(part_id, event.delta)

    def end(self, wire_id: str) -> bool:
        """A message is complete. True if it said again what a snapshot had said already."""
        part_id = self._open.pop(wire_id, None)
        if part_id is None:
            return False
        self._page.change(part_id, streaming=False)
        restored = self._restated.pop(wire_id, "")
        return bool(restored) and self._page.part(part_id).text == restored * 2

    def settle(self) -> None:
        """Nothing more will come for what is open."""
        for part_id in self._open.values():
            self._page.change(part_id, streaming=False)
        self._open.clear()
        self._restated.clear()

    def _mark(self, part_id: str, *, streaming: bool) -> None:
        if part_id in self._page and self._page.part(part_id).streaming is not streaming:
            self._page.change(part_id, streaming=streaming)
