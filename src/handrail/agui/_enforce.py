"""Payload to event: shapes enforced, in one pass where nothing can be wrong and in a walk where something may be.

The quick pass is pydantic's, in compiled code: strict, nothing unknown, aliases only. What it lets through and the
rules would not is null in an optional field, a constant left out, and in opaque data numbers and nesting that no other
peer reads. So its event stands if every field that was given holds a string or a flag, or a number where only whole
ones of a known size may stand, which is each delta of a stream; or if it is a patch of such values; or if the text of
the payload has none of all that in it. Everything else is walked by the table of shapes, which alone decides.
"""

from __future__ import annotations

from collections.abc import Set
from types import NoneType
from typing import Any, cast

from ag_ui.core import ActivityDeltaEvent, Event, EventType, MessagesSnapshotEvent, RunStartedEvent, StateDeltaEvent
from pydantic import TypeAdapter, ValidationError

from handrail.agui._json import excerpt, is_doubtful
from handrail.agui._shape_table import EVENT_SHAPES
from handrail.agui._shapes import UNKNOWN, Choice, Constant, Flag, Malformed, Reading, Text, Whole
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.errors import RemoteProtocolError

__all__ = ["quick_event", "read_event"]

_validate_json = TypeAdapter[Event](Event).validator.validate_json
_PLAIN: dict[type, Set[str]] = {
    record.model: frozenset(
        slot.name for slot in record.fields.values() if isinstance(slot.shape, Text | Constant | Choice | Whole | Flag)
    )
    for record in EVENT_SHAPES.values()
}
_TEXTS = frozenset[type]({EventType, str, bool})
"""What reads in one way only, wherever it stands."""
_NEEDED: dict[type, Set[str]] = {record.model: frozenset(record.required) for record in EVENT_SHAPES.values()}
_PLAIN_NEEDED = {kind: needed if needed <= _PLAIN[kind] else None for kind, needed in _NEEDED.items()}
_PATCHES: dict[type, str] = {StateDeltaEvent: "delta", ActivityDeltaEvent: "patch"}
_PLAIN_VALUES = frozenset[type]({str, bool, NoneType})
_HOLD_CALLS = frozenset[type]({MessagesSnapshotEvent, RunStartedEvent})
"""Inside them is a constant that the quick pass would let be absent: `type` of a tool call."""

_EXACT = 2**53
"""Whole numbers beyond it are not the same to every reader."""


def quick_event(payload: bytes) -> Event | None:
    """The event of a payload that is right and can be read in one way only; None says nothing about the payload."""
    try:
        event: Event = _validate_json(payload, strict=True, extra="forbid", by_alias=True, by_name=False)
    except ValidationError:
        return None
    kind: type[Any] = type(event)
    given = event.__pydantic_fields_set__
    if given == _PLAIN_NEEDED[kind]:
        return event
    needed = _NEEDED[kind]
    if kind in _PATCHES and given == needed and all(map(_is_plain, event.__dict__[_PATCHES[kind]])):
        return event
    if not given >= needed:
        return None
    held = set(map(type, map(event.__dict__.get, given)))
    if held <= _TEXTS or (given <= _PLAIN[kind] and NoneType not in held):
        return event
    return None if kind in _HOLD_CALLS or b"null" in payload or is_doubtful(payload) else event


def _is_plain(operation: Any) -> bool:
    """Whether the value of a patch operation, if it has one, is the same to whoever reads it."""
    value = operation.__dict__.get("value")
    return type(value) in _PLAIN_VALUES or (isinstance(value, int) and -_EXACT <= value <= _EXACT)


def read_event(payload: dict[str, Any], warn: WarningSink, *, null_is_absent: bool = False) -> Event | None:
    """The event that a payload is, stripped of what is unknown; None when the whole of it is.

    `warn` is told of everything dropped. Raises `RemoteProtocolError` for a malformed value, naming the event's type,
    the field and its path.
    """
    name = cast("str", payload["type"])
    record = EVENT_SHAPES.get(name)
    if record is None:
        warn(WarningRecord("unknown-event", f"unknown event {excerpt(name)} dropped: {excerpt(payload)}"))
        return None
    reading = Reading(null_is_absent)
    try:
        event = record.read(payload, "", reading)
    except Malformed as wrong:
        field = wrong.path.rpartition("/")[2]
        raise RemoteProtocolError(
            f"the agent broke the protocol: {name} is malformed: {field!r} at {wrong.path}: {wrong} (P-24)",
            rule="P-24",
            event_type=name,
            path=wrong.path,
        ) from None
    if event is UNKNOWN:
        warn(WarningRecord("unknown-value", f"{name} with an unknown value dropped: {excerpt(payload)}", ""))
        return None
    for record_ in reading.warnings:
        warn(record_)
    return event
