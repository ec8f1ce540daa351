"""An AG-UI event as bytes: one frame of an event stream (P-83).

Nearly all events of a stream hold ids and texts and nothing else, and they are written straight from a table; one that
carries anything else goes the general way. Both give UTF-8, keys by alias, absent fields left out, and nothing that a
reader could take for the end of a line: JSON escapes CR and LF, and U+0085, U+2028 and U+2029 are escaped here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from json.encoder import encode_basestring as quoted
from typing import Any, TypeAlias

from ag_ui.core import Event, ReasoningMessageContentEvent, TextMessageContentEvent
from pydantic_core import to_json

from handrail.agui._json import encode_text
from handrail.agui._models import changed
from handrail.agui._shape_table import EVENT_SHAPES
from handrail.agui._shapes import Choice, Constant, Field, Record, Text, TextOrMany

__all__ = ["TEXT_FIELDS", "Delta", "encode", "encode_next"]

Delta: TypeAlias = TextMessageContentEvent | ReasoningMessageContentEvent

_SEPARATORS = {code: f"\\u{code:04x}" for code in (0x0085, 0x2028, 0x2029)}
_SELDOM = {"timestamp", "raw_event", "metadata", "subagent_run_id"}
"""Where an event is from and what was added to it: a loop's own has none of this, and a look at it costs nothing."""

_Write: TypeAlias = Callable[[int, Mapping[str, Any]], str | None]
"""Makes the frame of an event from its number and its values; None is for what has to go the general way."""


def _is_text(slot: Field) -> bool:
    return isinstance(slot.shape, Text | Choice | Constant | TextOrMany)


def _writer_of(name: str, record: Record) -> _Write:
    """The texts of a class as one f-string, compiled once as dataclasses compile their `__init__`.

    A walk of the table at each event takes half as long again; `!s` spares a number the search for its format.
    """
    frame = 'id: {number!s}\\ndata: {{"type":"' + name + '"'
    conditions: list[str] = []
    for key, slot in record.fields.items():
        value = f"values['{slot.name}']"
        if key == "type":
            continue
        if slot.required and _is_text(slot):
            frame += f',"{key}":{{quoted({value})}}'
        elif slot.required:
            return lambda number, values: None
        elif slot.name in _SELDOM or not _is_text(slot):
            conditions.append(f"{value} is None")
        else:
            frame += f"""{{'' if (text := {value}) is None else ',"{key}":' + quoted(text)}}"""
        if isinstance(slot.shape, TextOrMany):
            conditions.append(f"type({value}) is str")
    frame += "}}\\n\\n"
    return eval(f"lambda number, values: f'''{frame}''' if {' and '.join(conditions)} else None", {"quoted": quoted})


_WRITERS = {record.model: _writer_of(name, record) for name, record in EVENT_SHAPES.items()}
_NAMES = {record.model: name for name, record in EVENT_SHAPES.items()}
TEXT_FIELDS = {
    record.model: frozenset(slot.name for slot in record.fields.values() if _is_text(slot))
    for record in EVENT_SHAPES.values()
}
"""What an event may have set and still hold texts only, if its `content` is no list of parts."""


def encode(number: int, event: Event) -> bytes:
    """The frame of an event that may be sent: its number in the run as the id, one line of JSON, an empty line.

    A lone half of a surrogate pair becomes U+FFFD. Raises `ValueError` or `TypeError` for opaque data that is no JSON.
    """
    frame = _WRITERS[type(event)](number, event.__dict__)
    if frame is None:
        frame = f"id: {number}\ndata: {_general(event)}\n\n"
    if frame.isascii():
        return frame.encode()
    if "\u0085" in frame or "\u2028" in frame or "\u2029" in frame:
        frame = frame.translate(_SEPARATORS)
    return encode_text(frame)


def encode_next(number: int, before: Delta, text: str) -> bytes:
    """What `encode` makes of a plain delta that says `text` in place of its own. Raises `TypeError` for no string."""
    name, message_id = _NAMES[type(before)], quoted(before.message_id)
    frame = f'id: {number}\ndata: {{"type":"{name}","messageId":{message_id},"delta":{quoted(text)}}}\n\n'
    return frame.encode() if frame.isascii() else encode(number, changed(before, {"delta": text}))


def _general(event: Event) -> str:
    payload = event.model_dump(by_alias=True)
    with suppress(ValueError):  # halves of surrogate pairs
        text = to_json(payload).decode()
        if "NaN" not in text and "Infinity" not in text:  # it writes these for numbers that JSON does not have
            return text
    return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
