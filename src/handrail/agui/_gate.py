"""The way out of our own events: the shapes and the order that a peer's are held to (P-25, P-85)."""

from __future__ import annotations

from typing import Any

from ag_ui.core import Event

from handrail.agui._encode import TEXT_FIELDS
from handrail.agui._shape_table import EVENT_SHAPES
from handrail.agui._shapes import UNKNOWN, Malformed, Reading
from handrail.agui._verify import RunPhase, Verifier
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.errors import LocalProtocolError

__all__ = ["Gate"]


class Gate:
    """Judges one stream of ours. What the protocol does not know is removed, and told to `warn`."""

    __slots__ = ("_verifier", "_warn")

    def __init__(self, thread_id: str, warn: WarningSink) -> None:
        self._verifier = Verifier(thread_id=thread_id, local=True)
        self._warn = warn

    @property
    def phase(self) -> RunPhase:
        """Where the stream stands: fresh, running, finished or errored."""
        return self._verifier.phase

    def passed(self, event: Event) -> Event:
        """The event as it may be sent. Raises `LocalProtocolError`; then nothing has changed."""
        if not _holds_texts_only(event):
            event = self._in_shape(event)
        self._verifier.accept(event)
        return event

    def _in_shape(self, event: Event) -> Event:
        name, reading = event.type.value, Reading()
        try:
            shaped: Any = EVENT_SHAPES[name].read(event.model_dump(by_alias=True, warnings=False), "", reading)
        except Malformed as wrong:
            text = f"this end breaks the protocol: {name} is malformed at {wrong.path}: {wrong} (P-85)"
            raise LocalProtocolError(text, rule="P-85", path=wrong.path) from None
        for record in reading.warnings:
            self._warn(WarningRecord("outgoing", f"not sent: {record.message}", record.path))
        if shaped is UNKNOWN:
            text = f"this end breaks the protocol: {name} holds a value that it does not know (P-85)"
            raise LocalProtocolError(text, rule="P-85")
        return shaped


def _holds_texts_only(event: Event) -> bool:
    """Nearly every event: its own model has checked all there is to be checked of it."""
    return event.__pydantic_fields_set__ <= TEXT_FIELDS[type(event)] and type(event.__dict__.get("content")) is not list
