"""What an honest reader of HTTP makes of the bytes that came to a client, as far as they came.

It is h11 that reads, and nothing of ours; so what a session should have taken of them is not for the session to say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

import h11

_ASKED = h11.Request(method="POST", target="/", headers=[("Host", "x"), ("Content-Length", "0")])


@dataclass(frozen=True)
class Received:
    """An answer: its `end` is that of the body, "open" where nobody closed the connection."""

    status: int | None
    content_type: str | None
    body: bytes
    end: Literal["whole", "broken", "open"]

    @property
    def is_stream(self) -> bool:
        """Whether a client reads it as one; an answer that does not say what it is counts as one (P-69)."""
        kind = "text/event-stream" if self.content_type is None else self.content_type.partition(";")[0].strip().lower()
        return self.status == 200 and kind == "text/event-stream"

    @property
    def types(self) -> list[str]:
        """The types of the frames that came whole, read by nothing of ours."""
        frames = self.body.split(b"\n\n")[:-1]
        return [json.loads(line[5:])["type"] for frame in frames for line in frame.split(b"\n") if line[:5] == b"data:"]


def received(data: bytes, *, is_closed: bool) -> Received:
    """The answer in these bytes; the connection `is_closed` behind them, or is open and silent."""
    reader = h11.Connection(h11.CLIENT)
    reader.send(_ASKED)
    reader.send(h11.EndOfMessage())
    if data:
        reader.receive_data(data)
    if is_closed:
        reader.receive_data(b"")
    status: int | None = None
    content_type: str | None = None
    body = bytearray()
    while True:
        try:
            event = reader.next_event()
        except h11.RemoteProtocolError:
            return Received(status, content_type, bytes(body), "broken")
        if isinstance(event, h11.Response):
            status = event.status_code
            content_type = next((v.decode("latin-1") for name, v in event.headers if name == b"content-type"), None)
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return Received(status, content_type, bytes(body), "whole")
        elif event is h11.NEED_DATA:
            return Received(status, content_type, bytes(body), "open")
        elif isinstance(event, h11.ConnectionClosed):
            return Received(status, content_type, bytes(body), "broken")
