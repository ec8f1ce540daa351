"""Where a fault can stand in what goes over a connection, chosen by what is there.

A message of HTTP/1.1 is a first line, headers, and a body; that of a stream comes in chunks, each a size in a line of
its own, data, and a line end. Here a chunk is a frame of the event stream, but it need not be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Place(NamedTuple):
    what: str
    at: int


def places(message: bytes) -> list[Place]:
    """The places in a message, in order, each once."""
    found: dict[int, str] = {}
    for what, at in (*_in_head(message), *_in_body(message)):
        if 0 <= at <= len(message):
            found.setdefault(at, what)
    return [Place(what, at) for at, what in sorted(found.items())]


def _in_head(message: bytes) -> Iterator[tuple[str, int]]:
    first = message.index(b"\r\n")
    for at in (0, 1, 5, 8, 10, first - 1, first, first + 1):
        yield "the first line", at
    end = message.index(b"\r\n\r\n")
    for header in re.finditer(rb"\r\n([^:\r]+): ([^\r]+)", message[: end + 2]):
        yield "a header's name", header.start(1)
        yield "a header", header.end(1)
        yield "a header's value", header.end(2) - 1
    for at in range(end, end + 4):
        yield "the end of the head", at
    yield "behind the head", end + 4


_SIGNS = (
    ("a frame's field", b"data:", 2),
    ("a frame's data", b"data:", 6),
    ("a frame's type", b'"type":"', 10),
    ("a frame's id", b'Id":"', 8),
)
"""What marks a place in a frame, and how far behind the mark it is."""


def _in_body(message: bytes) -> Iterator[tuple[str, int]]:
    at = message.index(b"\r\n\r\n") + 4
    if b"chunked" not in message[:at].lower():
        yield from _in_json(at, len(message))
        return
    while size := int(message[at : message.index(b"\r\n", at)], 16):
        data = message.index(b"\r\n", at) + 2
        end = data + size
        yield "before a chunk", at
        yield "a chunk's size", at + 1
        yield "behind a chunk's size", data - 1
        yield "before a frame", data
        for what, sign, behind in _SIGNS:
            if (found := message.find(sign, data, end)) >= 0:
                yield what, found + behind
        yield "the middle of a frame", (data + end) // 2
        yield "the last of a frame", end - 3
        yield "the end of a frame", end - 2
        yield "the end of a frame", end - 1
        yield "behind a frame", end
        yield "the end of a chunk", end + 1
        at = end + 2
    for last in range(at, len(message) + 1):
        yield "the last chunk", last


def _in_json(start: int, end: int) -> Iterator[tuple[str, int]]:
    for part in range(25):
        yield "the body", start + (end - start) * part // 24
