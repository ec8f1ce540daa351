"""The page a reducer writes on: messages and parts in one persistent vector, found by the ids of the wire.

Most of what happens to a part happens in a row: it begins, grows piece by piece, and ends. So the part that was written
to last is kept beside the vector, as its tip; it is written in when another one is.

A message on screen is a turn, not a message of the wire (S-114): a turn may hold parts of several messages, and a
message may have parts in several turns. So what the wire names is looked up by part: every text and reasoning message,
every call and every activity knows its parts, the latest last. Ids on screen are unique (`_names`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar

from ag_ui.core import Message, ToolMessage

from handrail.agui._numbered import Numbered
from handrail.transcript._model import (
    ActivityPart,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    TranscriptMessage,
    changed,
    kept,
    with_fields,
)
from handrail.transcript._names import Names
from handrail.transcript._source import Source
from handrail.transcript._text import GrowingText
from handrail.transcript._vector import Vector

__all__ = ["Page", "Tip"]

P = TypeVar("P", TextPart, ReasoningPart, ToolCallPart, ActivityPart, Part)

_Parts: TypeAlias = Vector[Part] | tuple[Part, ...]
_GROWING: dict[type, str] = {TextPart: "text", ReasoningPart: "text", ToolCallPart: "arguments"}
"""The field of a part that grows piece by piece."""


class _Place:
    """Where a part stands: the messages, and the parts of the one at `at`, neither with the part in them."""

    __slots__ = ("at", "index", "messages", "parts")

    def __init__(self, messages: Vector[TranscriptMessage], at: int, parts: _Parts, index: int) -> None:
        self.messages = messages
        self.at = at
        self.parts = parts
        self.index = index


class Tip(Source):
    """The messages, and what changed in one part of them; nobody has it written in before somebody reads.

    What was made for a reader is kept, so that whoever compares two screens finds the same objects in both.
    """

    __slots__ = ("_changes", "_now", "_part", "_written", "part_id", "place")

    def __init__(self, place: _Place, part: Part, changes: dict[str, Any]) -> None:
        self.place = place
        self.part_id = part.id
        self._part = part
        self._changes = changes
        self._now = None if changes else part
        self._written: Vector[TranscriptMessage] | None = None

    def get(self, name: str) -> Any:
        """What is kept in a field of the part, as it is now."""
        changes = self._changes
        return changes[name] if name in changes else kept(self._part, name)

    def changed(self, changes: dict[str, Any]) -> Tip:
        """The same with other values in some fields of the part."""
        return Tip(self.place, self._part, {**self._changes, **changes})

    def plus(self, piece: str) -> Tip:
        """The same with a piece more behind the text of the part, or behind the arguments of the call."""
        name = _GROWING[type(self._part)]
        text = self.get(name)
        text = text.plus(piece) if isinstance(text, GrowingText) else GrowingText(text, piece)
        return Tip(self.place, self._part, {**self._changes, name: text})

    def part(self) -> Any:
        """The part as it is now."""
        if self._now is None:
            self._now = with_fields(self._part, self._changes)
        return self._now

    def parts(self) -> Vector[Part]:
        """The parts of its message as they are now."""
        parts, index = self.place.parts, self.place.index
        if not isinstance(parts, Vector):
            parts = Vector(parts)
        return parts.appended(self.part()) if index == len(parts) else parts.replaced(index, self.part())

    def written(self) -> Vector[TranscriptMessage]:
        """The messages as they are now."""
        if self._written is None:
            messages, at = self.place.messages, self.place.at
            self._written = messages.replaced(at, with_fields(messages[at], {"parts": self.parts()}))
        return self._written

    def read(self) -> tuple[TranscriptMessage, ...]:
        return self.written().read()


class Page:
    """Messages at their places. An old `screen` can be read for ever; everything else is the present only."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.thoughts: dict[str, list[str]] = {}
        self.calls: dict[str, list[str]] = {}
        self.activities: dict[str, str] = {}
        self.assistants: dict[str, int] = {}
        self._owners: dict[str, str] = {}
        """The part that each message of the wire had here last."""
        self._places: dict[str, tuple[int, int]] = {}
        self.rewrite(())

    def rewrite(self, messages: Iterable[TranscriptMessage]) -> None:
        """Put other messages in place of all; those that are the same objects stay the same objects."""
        self.screen: Vector[TranscriptMessage] | Tip = Vector(messages)
        for index in (self.texts, self.thoughts, self.calls, self.activities, self.assistants, self._places):
            index.clear()
        self._owners.clear()
        self._message_names = Names()
        self._part_names = Names()
        for at, message in enumerate(self.screen):
            self._message_names.take(message.id)
            for index, part in enumerate(message.parts):
                self._part_names.take(part.id)
                self._register(at, index, message.role, part)

    @property
    def messages(self) -> Vector[TranscriptMessage]:
        """The messages as they are now."""
        screen = self.screen
        return screen.written() if isinstance(screen, Tip) else screen

    def begin(self, role: Role, wire_id: str, *, name: str | None, run_id: str | None, exchange: int) -> int:
        """A new message at the end, still without parts; returns its place."""
        free = self._message_names.take(wire_id)
        message = TranscriptMessage(free, role, name=name, run_id=run_id, exchange=exchange)
        messages = self.messages
        self.screen = messages.appended(message)
        return len(messages)

    def add(self, at: int, part: P) -> P:
        """Write a part behind those of the message at `at`; returns it under the id that it got."""
        free = self._part_names.take(part.id)
        if free != part.id:
            part = changed(part, id=free)
        messages, parts = self._message(at)
        index = len(parts)
        self._register(at, index, messages[at].role, part)
        self.screen = Tip(_Place(messages, at, parts, index), part, {})
        return part

    def change(self, part_id: str, **changes: Any) -> None:
        """Write other values into some fields of a part."""
        self.screen = self._tip(part_id).changed(changes)

    def grow(self, part_id: str, piece: str) -> None:
        """Add a piece to the text of a part, or to the arguments of a call."""
        self.screen = self._tip(part_id).plus(piece)

    def part(self, part_id: str) -> Any:
        """The part with this id, as it is now."""
        screen = self.screen
        if isinstance(screen, Tip) and screen.part_id == part_id:
            return screen.part()
        at, index = self._places[part_id]
        return self._message(at)[1][index]

    def get(self, part_id: str, name: str) -> Any:
        """What is kept in a field of a part, as it is now: its value, or the source that it is read from."""
        screen = self.screen
        if isinstance(screen, Tip) and screen.part_id == part_id:
            return screen.get(name)
        return kept(self.part(part_id), name)

    def _tip(self, part_id: str) -> Tip:
        """The messages as they are now, with this part as their tip."""
        screen = self.screen
        if isinstance(screen, Tip) and screen.part_id == part_id:
            return screen
        at, index = self._places[part_id]
        messages, parts = self._message(at)
        return Tip(_Place(messages, at, parts, index), parts[index], {})

    def _message(self, at: int) -> tuple[Vector[TranscriptMessage], _Parts]:
        """The messages, of which the one at `at` may be older, and its parts as they are now."""
        screen = self.screen
        if isinstance(screen, Tip) and screen.place.at == at:
            return screen.place.messages, screen.parts()
        messages = self.messages
        return messages, kept(messages[at], "parts")

    def __contains__(self, part_id: str) -> bool:
        return part_id in self._places

    def call(self, call_id: str) -> ToolCallPart | None:
        """The latest call with this id."""
        parts = self.calls.get(call_id)
        return self.part(parts[-1]) if parts else None

    def role_of(self, part_id: str) -> Role:
        """The role of the message that holds a part."""
        return self.messages[self._places[part_id][0]].role

    def role_of_message(self, message_id: str) -> Role | None:
        """The role in which a message of the wire had a part here last; None if it has none."""
        part_id = self._owners.get(message_id)
        return None if part_id is None else self.role_of(part_id)

    def is_last(self, part_id: str) -> bool:
        """Whether nothing stands behind this part."""
        at, index = self._places[part_id]
        messages = self.messages
        return at == len(messages) - 1 and index == len(kept(messages[at], "parts")) - 1

    def has_other(self, message_id: str) -> bool:
        """Whether a message of the wire that is not an assistant's has a part here."""
        return message_id in self._owners and message_id not in self.assistants

    def owner_of_call(self, call_id: str, parent: str | None) -> str:
        """The message of the wire that holds a call with this parent (S-119)."""
        return call_id if parent is None or self.has_other(parent) else parent

    def free_owner(self, call_id: str, parent: str | None) -> str:
        """The message of the wire that is made for a call whose id another call has (S-133)."""
        return parent if parent is not None and not self.owns(parent) else Numbered().free(call_id, self._owners)

    def give(self, part_id: str, message_id: str) -> None:
        """Make a part that of another message of the wire."""
        self.change(part_id, message_id=message_id)
        self._owners[message_id] = part_id
        self.assistants.setdefault(message_id, self._places[part_id][0])

    def owns(self, message_id: str) -> bool:
        """Whether a message of the wire has a part here."""
        return message_id in self._owners

    def knows(self, message: Message) -> bool:
        """Whether a message of the wire is shown here; a tool message is if its call has a result."""
        if isinstance(message, ToolMessage):
            call = self.call(message.tool_call_id)
            return call is not None and call.result is not None
        return message.id in self._owners

    def _register(self, at: int, index: int, role: Role, part: Part) -> None:
        self._places[part.id] = (at, index)
        self._owners[part.message_id] = part.id
        match part:
            case TextPart():
                self.texts.setdefault(part.message_id, []).append(part.id)
            case ReasoningPart():
                self.thoughts.setdefault(part.message_id, []).append(part.id)
            case ToolCallPart():
                self.calls.setdefault(part.tool_call_id, []).append(part.id)
            case ActivityPart():
                self.activities[part.message_id] = part.id
            case _:
                pass
        if role == "assistant" and not isinstance(part, ReasoningPart):
            self.assistants.setdefault(part.message_id, at)
