"""An AG-UI event as bytes: one frame of an event stream (P-83).

Nearly all events of a stream hold ids and texts and nothing else, and they are written straight from a table; whatever
else an event carries goes the general way. Both give UTF-8, keys by alias, absent fields left out, and nothing that a
reader could take for the end of a line: JSON escapes CR and LF, and U+0085, U+2028 and U+2029 are escaped here.
"""

from __future__ import annotations

import json
from contextlib import suppress
from json.encoder import encode_basestring as quoted
from typing import TypeAlias

from ag_ui.core import Event, ReasoningMessageContentEvent, TextMessageContentEvent
from pydantic_core import to_json

from handrail.agui._json import encode_text
from handrail.agui._models import changed
from handrail.agui._shape_table import EVENT_SHAPES
from handrail.agui._shapes import Choice, Constant, Record, Text, TextOrMany

__all__ = ["TEXT_FIELDS", "Delta", "encode", "encode_next"]

Delta: TypeAlias = TextMessageContentEvent | ReasoningMessageContentEvent

_SEPARATORS = {code: f"\\u{code:04x}" for code in (0x0085, 0x2028, 0x2029)}


def _texts_of(name: str, record: Record) -> tuple[frozenset[str], tuple[tuple[str, str], ...], str]:
    """What may be set on an event that holds texts only; its fields, each with its JSON up to that; its beginning."""
    fields = {
        slot.name: f',"{key}":'
        for key, slot in record.fields.items()
        if isinstance(slot.shape, Text | Choice | Constant | TextOrMany) and key != "type"
    }
    return frozenset({"type", *fields}), tuple(fields.items()), f'{{"type":"{name}"'


_TEXTS: dict[type, tuple[frozenset[str], tuple[tuple[str, str], ...], str]] = {
    record.model: _texts_of(name, record) for name, record in EVENT_SHAPES.items()
}
TEXT_FIELDS = {model: fields for model, (fields, _, _) in _TEXTS.items()}
"""What an event may have set and still hold texts only, if its `content` is no list of parts."""


def encode(number: int, event: Event) -> bytes:
    """The frame of an event: its number in the run as the id, one line of JSON, an empty line.

    A lone half of a surrogate pair becomes U+FFFD. Raises `ValueError` or `TypeError` for opaque data that is no JSON.
    """
    allowed, fields, text = _TEXTS[type(event)]
    values = event.__dict__
    if event.__pydantic_fields_set__ <= allowed and type(values.get("content")) is not list:
        for name, key in fields:
            value = values[name]
            if value is not None:
                text += key + quoted(value)
        text += "}"
    else:
        text = _general(event)
    frame = f"id: {number}\ndata: {text}\n\n"
    if frame.isascii():
        return frame.encode()
    if "\u0085" in frame or "\u2028" in frame or "\u2029" in frame:
        frame = frame.translate(_SEPARATORS)
    return encode_text(frame)


def encode_next(number: int, before: Delta, text: str) -> bytes:
    """What `encode` makes of a plain delta that says `text` in place of its own. Raises `TypeError` for no string."""
    beginning = _TEXTS[type(before)][2]
    frame = f'id: {number}\ndata: {beginning},"messageId":{quoted(before.message_id)},"delta":{quoted(text)}}}\n\n'
    return frame.encode() if frame.isascii() else encode(number, changed(before, {"delta": text}))


def _general(event: Event) -> str:
    payload = event.model_dump(by_alias=True)
    with suppress(ValueError):  # halves of surrogate pairs
        text = to_json(payload).decode()
        if "NaN" not in text and "Infinity" not in text:  # it writes these for numbers that JSON does not have
            return text
    return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
