"""The page a reducer writes on: messages and parts in one persistent vector, found by the ids of the wire.

A message on screen is a turn, not a message of the wire (S-114): a turn may hold parts of several messages, and a
message may have parts in several turns. So what the wire names is looked up by part: every text and reasoning message,
every call and every activity knows its parts, the latest last. Ids on screen are unique (`_names`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from ag_ui.core import Message, ToolMessage

from handrail.transcript._model import (
    ActivityPart,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    TranscriptMessage,
    changed,
    growing,
    grown,
    part_at,
    part_count,
    with_part,
)
from handrail.transcript._names import Names
from handrail.transcript._text import GrowingText
from handrail.transcript._vector import Vector

__all__ = ["Page", "Tip"]

P = TypeVar("P", TextPart, ReasoningPart, ToolCallPart, ActivityPart, Part)


class Tip:
    """A vector of messages in which one part is growing. Nobody has it written in before somebody reads."""

    __slots__ = ("_place", "_read", "_text", "_vector", "part_id")

    def __init__(
        self, vector: Vector[TranscriptMessage], part_id: str, place: tuple[int, int], text: GrowingText
    ) -> None:
        self._vector = vector
        self._place = place
        self._text = text
        self._read: Vector[TranscriptMessage] | None = None
        self.part_id = part_id

    def plus(self, piece: str) -> Tip:
        return Tip(self._vector, self.part_id, self._place, self._text.plus(piece))

    def written(self) -> Vector[TranscriptMessage]:
        """The messages with the part as it is now."""
        if self._read is None:
            at, index = self._place
            message = self._vector[at]
            part: Any = part_at(message, index)
            self._read = self._vector.replaced(at, with_part(message, index, grown(part, self._text)))
        return self._read

    def __iter__(self) -> Iterator[TranscriptMessage]:
        return iter(self.written())


class Page:
    """Messages at their places. An old `screen` can be read for ever; everything else is the present only.

    Most of what happens is that a part grows by a piece, then by another: that is kept as a tip upon the messages, and
    written into them when something else happens.
    """

    def __init__(self, messages: Iterable[TranscriptMessage] = ()) -> None:
        self.rewrite(messages)

    def rewrite(self, messages: Iterable[TranscriptMessage]) -> None:
        """Put other messages in place of all; those that are the same objects stay the same objects."""
        self.messages = Vector(messages)
        self.texts: dict[str, list[str]] = {}
        self.thoughts: dict[str, list[str]] = {}
        self.calls: dict[str, list[str]] = {}
        self.activities: dict[str, str] = {}
        self.assistants: dict[str, int] = {}
        self._owners: set[str] = set()
        self._places: dict[str, tuple[int, int]] = {}
        self._message_names = Names()
        self._part_names = Names()
        for at, message in enumerate(self.messages):
            self._message_names.take(message.id)
            for index, part in enumerate(message.parts):
                self._part_names.take(part.id)
                self._register(at, index, message.role, part)

    @property
    def messages(self) -> Vector[TranscriptMessage]:
        """The messages as they are now."""
        if isinstance(self.screen, Tip):
            self.screen = self.screen.written()
        return self.screen

    @messages.setter
    def messages(self, messages: Vector[TranscriptMessage]) -> None:
        self.screen: Vector[TranscriptMessage] | Tip = messages

    def begin(self, role: Role, wire_id: str, *, name: str | None, run_id: str | None, exchange: int) -> int:
        """A new message at the end, still without parts; returns its place."""
        free = self._message_names.take(wire_id)
        message = TranscriptMessage(free, role, name=name, run_id=run_id, exchange=exchange)
        self.messages = self.messages.appended(message)
        return len(self.messages) - 1

    def add(self, at: int, part: P) -> P:
        """Write a part behind those of the message at `at`; returns it under the id that it got."""
        free = self._part_names.take(part.id)
        if free != part.id:
            part = changed(part, id=free)
        message = self.messages[at]
        index = part_count(message)
        self.messages = self.messages.replaced(at, with_part(message, index, part))
        self._register(at, index, message.role, part)
        return part

    def put(self, part: Part) -> None:
        """Write a part in the place of the one with its id."""
        at, index = self._places[part.id]
        self.messages = self.messages.replaced(at, with_part(self.messages[at], index, part))

    def grow(self, part_id: str, piece: str) -> None:
        """Add a piece to the text of a part, or to the arguments of a call."""
        screen = self.screen
        if isinstance(screen, Tip) and screen.part_id == part_id:
            self.screen = screen.plus(piece)
        else:
            text = growing(self.part(part_id)).plus(piece)
            self.screen = Tip(self.messages, part_id, self._places[part_id], text)

    def part(self, part_id: str) -> Any:
        """The part with this id, as it is now."""
        at, index = self._places[part_id]
        return part_at(self.messages[at], index)

    def __contains__(self, part_id: str) -> bool:
        return part_id in self._places

    def call(self, call_id: str) -> ToolCallPart | None:
        """The latest call with this id."""
        parts = self.calls.get(call_id)
        return self.part(parts[-1]) if parts else None

    def role_of(self, part_id: str) -> Role:
        """The role of the message that holds a part."""
        return self.messages[self._places[part_id][0]].role

    def is_last(self, part_id: str) -> bool:
        """Whether nothing stands behind this part."""
        at, index = self._places[part_id]
        return at == len(self.messages) - 1 and index == len(self.messages[at].parts) - 1

    def has_other(self, message_id: str) -> bool:
        """Whether a message of the wire that is not an assistant's has a part here."""
        return message_id in self._owners and message_id not in self.assistants

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
        self._owners.add(part.message_id)
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
