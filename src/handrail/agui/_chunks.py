"""Chunks: the short form of a streamed item, expanded to the START, CONTENT and END it stands for.

Each agent (the parent, and each subagent by its `subagentRunId`) has a lane, and a lane holds at most one item that
chunks have opened. A chunk goes on with an item or opens one; what stands in its lane then is ended before it. Other
events end such items too: nearly all of them the one in their own lane, which without a tag is that of the agent who
opened what they go on with; the ends of a run and a snapshot of the messages all of them, in the order they were
opened. The end of the body ends none: an item cut off stays open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    Event,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningEncryptedValueEvent,
    ReasoningMessageChunkEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    SubagentStartedEvent,
    TextMessageChunkEvent,
    ToolCallChunkEvent,
)

from handrail.agui._shape_table import EVENT_SHAPES
from handrail.agui._shapes import Record
from handrail.errors import RemoteProtocolError

__all__ = ["CHUNKS", "ChunkExpansion"]


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """One kind of item: its long form, and what its opener needs and settles."""

    start: Record
    content: Record
    end: Record
    id: str
    needed: dict[str, str]
    """What a first chunk must have: attribute to key."""
    settled: dict[str, str]
    """What the first chunk settles, and a later one may repeat and not change: attribute to key."""
    default: dict[str, str]
    """What the opener has where its chunk is silent."""


_TEXT = _Kind(
    EVENT_SHAPES["TEXT_MESSAGE_START"],
    EVENT_SHAPES["TEXT_MESSAGE_CONTENT"],
    EVENT_SHAPES["TEXT_MESSAGE_END"],
    id="message_id",
    needed={"message_id": "messageId"},
    settled={"role": "role", "name": "name"},
    default={"role": "assistant"},
)
_CALL = _Kind(
    EVENT_SHAPES["TOOL_CALL_START"],
    EVENT_SHAPES["TOOL_CALL_ARGS"],
    EVENT_SHAPES["TOOL_CALL_END"],
    id="tool_call_id",
    needed={"tool_call_id": "toolCallId", "tool_call_name": "toolCallName"},
    settled={"tool_call_name": "toolCallName", "parent_message_id": "parentMessageId"},
    default={},
)
_REASONING = _Kind(
    EVENT_SHAPES["REASONING_MESSAGE_START"],
    EVENT_SHAPES["REASONING_MESSAGE_CONTENT"],
    EVENT_SHAPES["REASONING_MESSAGE_END"],
    id="message_id",
    needed={"message_id": "messageId"},
    settled={},
    default={"role": "reasoning"},
)
CHUNKS: dict[type, _Kind] = {
    TextMessageChunkEvent: _TEXT,
    ToolCallChunkEvent: _CALL,
    ReasoningMessageChunkEvent: _REASONING,
}
_ENDS_ALL = frozenset[type]({RunStartedEvent, RunFinishedEvent, RunErrorEvent, MessagesSnapshotEvent})
_ENDS_NONE = frozenset[type](
    {RawEvent, ActivitySnapshotEvent, ActivityDeltaEvent, ReasoningEncryptedValueEvent, SubagentStartedEvent}
)

_Lane = str | None
"""A `subagentRunId`; None is the parent agent."""


@dataclass(slots=True)
class _Item:
    kind: _Kind
    id: str
    lane: _Lane
    settled: dict[str, str | None]


class ChunkExpansion:
    """Expands the chunks of one stream; while it is idle, every event but a chunk stands for itself.

    `owner_of` says whose an event without a tag is, by what was opened before.
    """

    def __init__(self, owner_of: Callable[[Event], str | None] = lambda event: None) -> None:
        self.open: dict[_Lane, _Item] = {}
        """What chunks have open, by lane, in the order of opening; empty: the expansion is idle."""
        self._open_of: dict[_Kind, dict[str, _Item]] = {kind: {} for kind in CHUNKS.values()}
        """The same of each kind by id, which no two lanes hold at once."""
        self._owner_of = owner_of

    def expand(self, event: Event) -> list[Event]:
        """What the event stands for, in order; raises `RemoteProtocolError` and changes nothing if nobody can say."""
        kind = CHUNKS.get(type(event))
        if kind is not None:
            return self._expand_chunk(event, kind)
        if type(event) in _ENDS_ALL:
            ended = list(self.open.values())
        elif type(event) in _ENDS_NONE:
            ended = []
        else:
            tag: _Lane = getattr(event, "subagent_run_id", None)
            item = self.open.get(self._owner_of(event) if tag is None else tag)
            ended = [item] if item else []
        return [*map(self._end, ended), event]

    def _expand_chunk(self, chunk: Any, kind: _Kind) -> list[Event]:
        key: str | None = getattr(chunk, kind.id)
        lane = self._lane_of(chunk, kind, key)
        standing = self.open.get(lane)
        if standing is not None and standing.kind is kind and key in (None, standing.id):
            _check_settled(chunk, standing)
            return _content(chunk, standing, is_opener=False)
        for name, wire_key in kind.needed.items():
            if getattr(chunk, name) is None:
                _refuse(chunk, "P-32", f"First {chunk.type.value} must have a {wire_key}", f"/{wire_key}")
        item = _Item(kind, getattr(chunk, kind.id), lane, _settled(chunk, kind))
        ended = [self._end(standing)] if standing else []
        self.open[lane] = self._open_of[kind][item.id] = item
        return [*ended, _start(chunk, item), *_content(chunk, item, is_opener=True)]

    def _lane_of(self, chunk: Any, kind: _Kind, key: str | None) -> _Lane:
        """The lane of an id is that of the item which holds it; without id and tag there must be one clear reading."""
        tag: _Lane = chunk.subagent_run_id
        if key is not None:
            holder = self._open_of[kind].get(key)
            if holder is None or holder.lane == tag:
                return tag
            if tag is not None:
                whose = "the parent agent" if holder.lane is None else repr(holder.lane)
                words = f"subagentRunId {tag!r} of {key!r} does not match the lane it is open in, of {whose}"
                _refuse(chunk, "P-30", words, "/subagentRunId")
            return holder.lane
        if tag is not None:
            return tag
        items = self._open_of[kind]
        if not items or ((standing := self.open.get(None)) is not None and standing.kind is kind):
            return None
        if len(items) > 1:
            named = ", ".join(repr(item.lane) for item in items.values())
            _refuse(chunk, "P-30", f"without id and subagentRunId it is ambiguous: {named} each have one open", None)
        return next(iter(items.values())).lane

    def _end(self, item: _Item) -> Event:
        del self.open[item.lane], self._open_of[item.kind][item.id]
        return item.kind.end.build({item.kind.id: item.id} | _tag(item))


def _settled(chunk: Any, kind: _Kind) -> dict[str, str | None]:
    return {name: _given(chunk, name, kind.default.get(name)) for name in kind.settled}


def _check_settled(chunk: Any, item: _Item) -> None:
    for name, wire_key in item.kind.settled.items():
        value = getattr(chunk, name)
        if value is not None and value != item.settled[name]:
            words = f"{wire_key} {value!r} of {item.id!r} does not match the open stream's {wire_key}"
            _refuse(chunk, "P-31", f"{words}, which is {item.settled[name]!r}", f"/{wire_key}")


def _start(chunk: Any, item: _Item) -> Event:
    settled = {name: value for name, value in item.settled.items() if value is not None}
    return item.kind.start.build({item.kind.id: item.id} | item.kind.default | settled | _tag(item) | _extras(chunk))


def _content(chunk: Any, item: _Item, *, is_opener: bool) -> list[Event]:
    """The event that carries what the chunk has to say, if it has: metadata alone is said by a START already."""
    raw = {} if chunk.raw_event is None else {"raw_event": chunk.raw_event}
    if chunk.delta is None and not raw and (is_opener or chunk.metadata is None):
        return []
    said = {item.kind.id: item.id, "delta": chunk.delta or ""}
    return [item.kind.content.build(said | raw | _tag(item) | _extras(chunk))]


def _tag(item: _Item) -> dict[str, Any]:
    return {} if item.lane is None else {"subagent_run_id": item.lane}


def _extras(chunk: Any) -> dict[str, Any]:
    """What goes on every event made from the chunk."""
    return {name: getattr(chunk, name) for name in ("timestamp", "metadata") if getattr(chunk, name) is not None}


def _given(chunk: Any, name: str, default: str | None) -> str | None:
    value = getattr(chunk, name)
    return default if value is None else value


def _refuse(chunk: Any, rule: str, what: str, path: str | None) -> NoReturn:
    name = chunk.type.value
    text = f"the agent broke the protocol: {name!r}: {what} ({rule})"
    raise RemoteProtocolError(text, rule=rule, event_type=name, path=path)
