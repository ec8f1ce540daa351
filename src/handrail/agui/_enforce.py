"""Payload to event: shapes enforced, in one pass where nothing can be wrong and in a walk where something may be.

The quick pass is pydantic's, in compiled code: strict, nothing unknown, aliases only. What it lets through and the
rules would not is null in an optional field, a constant left out, and in opaque data numbers and nesting that no other
peer reads. So its event stands if every field that was given holds a string, a whole number or a flag, which is each
delta of a stream; or if the text of the payload has none of all that in it. Everything else is walked by the table of
shapes, which alone decides.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, cast

from ag_ui.core import Event, MessagesSnapshotEvent, RunStartedEvent
from pydantic import TypeAdapter, ValidationError

from handrail.agui._json import excerpt, is_doubtful
from handrail.agui._shape_table import EVENT_SHAPES
from handrail.agui._shapes import UNKNOWN, Choice, Constant, Malformed, Reading, Text
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.errors import RemoteProtocolError

__all__ = ["quick_event", "read_event"]

_validate_json = TypeAdapter[Event](Event).validator.validate_json
_PLAIN = frozenset({str, int, bool})
_ALWAYS_PLAIN: dict[type, Set[str]] = {
    record.model: frozenset(
        slot.name
        for slot in record.fields.values()
        if slot.required and isinstance(slot.shape, Text | Constant | Choice)
    )
    for record in EVENT_SHAPES.values()
}
_HOLD_CALLS = frozenset[type]({MessagesSnapshotEvent, RunStartedEvent})
"""Inside them is a constant that the quick pass would let be absent: `type` of a tool call."""


def quick_event(payload: bytes) -> Event | None:
    """The event of a payload that is right and can be read in one way only; None says nothing about the payload."""
    try:
        event: Event = _validate_json(payload, strict=True, extra="forbid", by_alias=True, by_name=False)
    except ValidationError:
        return None
    kind = type(event)
    given, always = event.__pydantic_fields_set__, _ALWAYS_PLAIN[kind]
    if given == always:
        return event
    if not given > always:
        return None
    values = event.__dict__
    if all(type(values[name]) in _PLAIN for name in given - always):
        return event
    return None if kind in _HOLD_CALLS or b"null" in payload or is_doubtful(payload) else event


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
