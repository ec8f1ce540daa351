"""An AG-UI event as bytes: one frame of an event stream (P-83).

Nearly all events of a stream are deltas that hold an id and a text, and they are written straight from a table;
whatever else an event carries goes the general way. Both give UTF-8, keys by alias, absent fields left out, and nothing
that a reader could take for the end of a line: JSON escapes CR and LF, and U+0085, U+2028 and U+2029 are escaped here.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring as quoted

from ag_ui.core import Event, ReasoningMessageContentEvent, TextMessageContentEvent, ToolCallArgsEvent
from pydantic_core import to_json

from handrail.agui._json import encode_text

__all__ = ["encode"]

_SEPARATORS = {code: f"\\u{code:04x}" for code in (0x0085, 0x2028, 0x2029)}

_DELTAS: dict[type, tuple[frozenset[str], str, str]] = {
    # What may be set on a delta that is nothing but one; the attribute of its id; its JSON up to the value of that.
    event: (
        frozenset({"type", name, "delta"}),
        name,
        f'{{"type":"{event.model_fields["type"].default.value}","{event.model_fields[name].alias}":',
    )
    for event, name in {
        TextMessageContentEvent: "message_id",
        ReasoningMessageContentEvent: "message_id",
        ToolCallArgsEvent: "tool_call_id",
    }.items()
}


def encode(number: int, event: Event) -> bytes:
    """The frame of an event: its number in the run as the id, one line of JSON, an empty line.

    A lone half of a surrogate pair becomes U+FFFD. Raises `ValueError` or `TypeError` for opaque data that is no JSON.
    """
    values = event.__dict__
    row = _DELTAS.get(type(event))
    if row is not None and event.__pydantic_fields_set__ <= row[0]:
        frame = f'id: {number}\ndata: {row[2]}{quoted(values[row[1]])},"delta":{quoted(values["delta"])}}}\n\n'
    else:
        frame = f"id: {number}\ndata: {_general(event)}\n\n"
    if frame.isascii():
        return frame.encode()
    if "\u0085" in frame or "\u2028" in frame or "\u2029" in frame:
        frame = frame.translate(_SEPARATORS)
    return encode_text(frame)


def _general(event: Event) -> str:
    payload = event.model_dump(by_alias=True)
    try:
        return to_json(payload).decode()
    except ValueError:  # halves of surrogate pairs
        return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
