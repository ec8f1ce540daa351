"""The event stream format of WHATWG: bytes, cut anywhere, to the data of each block.

What is taken, and how:

- CR, LF and CRLF end a line, mixed and cut as may be; no other separator does. Everything below sees LF only.
- Each byte is looked at a constant number of times: a read without the end of a line is put aside, and a read with one
  is split at its empty lines. A block of one `data:` line, with an id before it or without, is what everybody sends,
  and costs one step; a read that is one such block without an id is not even split.
- Of a block only the values of its `data` lines are kept; comments and other fields go as soon as they are complete.
- The limit counts the bytes of the block at hand, its unfinished line included and the ends of lines not. A finished
  comment is not counted, so that comments may keep a connection alive for ever. Where a body is cut makes no
  difference to what is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from handrail.agui._json import excerpt
from handrail.errors import RemoteDecodeError

__all__ = ["EventStreamFraming"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventStreamFraming:
    """Takes a body as it comes in and gives the data of its blocks, one at a time.

    `limit` is the most bytes one block may have; more raises `RemoteDecodeError`, after which nothing more can be fed.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._start: bytes | None = b""
        """What may be the first bytes of a byte order mark; None once that is decided."""
        self._ends_in_cr = False
        self._line = bytearray()
        """The line at hand, without its end."""
        self._data = bytearray()
        """The values of the data lines of the block at hand, each with an LF behind it."""
        self._held = 0
        """The bytes of the finished lines of the block at hand."""

    def feed(self, read: bytes) -> Iterable[bytes]:
        """The data of each block that ends in this read; to be taken to the end before the next read is fed."""
        end = len(read) - 2
        is_one_block = read.startswith(b"data: ") and read.find(b"\n") == end and read.endswith(b"\n")
        if is_one_block and b"\r" not in read and end <= self._limit and self._is_between_blocks():
            return (read[6:end],) if end > 6 else ()
        return self._split(read)

    def _split(self, read: bytes) -> Iterator[bytes]:
        if self._start is not None:
            read = self._without_mark(read)
        if self._ends_in_cr or b"\r" in read:
            read = self._with_plain_ends(read)
        end = read.rfind(b"\n") + 1
        if not end:
            self._line += read
            self._count(self._line)
            return
        text = read[:end]
        if self._line:
            text = bytes(self._line + text)
            self._line.clear()
        if end < len(read):
            self._line += read[end:]
        if text.startswith(b"\n"):
            if data := self._finish():
                yield data
            text = text[1:]
        *blocks, rest = text.split(b"\n\n")
        for block in blocks:
            start = block.find(b"data: ")
            is_plain = start == 0 or (start > 0 and _is_id(block[:start]))
            if is_plain and block.find(b"\n", start) < 0 and not self._held and len(block) <= self._limit:
                data = block[start + 6 :]
            else:
                self._hold(block)
                data = self._finish()
            if data:
                yield data
        if rest:
            self._hold(rest[:-1])
        if self._line:
            self._count(self._line)

    def _is_between_blocks(self) -> bool:
        """Whether nothing that was read before has a say in what comes next."""
        return not (self._held or self._line or self._ends_in_cr) and self._start is None

    def end(self) -> bytes | None:
        """The data of the block that the end of the body cut off, or None."""
        self._hold(bytes(self._line))
        return self._finish()

    def _without_mark(self, read: bytes) -> bytes:
        start = (self._start or b"") + read
        if len(start) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_BYTE_ORDER_MARK)

    def _with_plain_ends(self, read: bytes) -> bytes:
        """The read with LF as the only end of a line; the LF of a CRLF that was cut in two goes."""
        if not read:
            return read
        if self._ends_in_cr:
            read = read.removeprefix(b"\n")
        self._ends_in_cr = read.endswith(b"\r")
        return read.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, lines: bytes) -> None:
        """Takes finished lines of the block at hand."""
        for line in lines.split(b"\n"):
            self._count(line)
            if line and not line.startswith(b":"):
                self._held += len(line)
                name, _, value = line.partition(b":")
                if name == b"data":
                    self._data += value.removeprefix(b" ") + b"\n"

    def _finish(self) -> bytes | None:
        """The data of the block at hand, which ends here; None when it is empty."""
        data = bytes(self._data[:-1])
        self._data.clear()
        self._held = 0
        return data or None

    def _count(self, line: bytes | bytearray) -> None:
        """Refuses the block at hand if this line is too much for it."""
        if self._held + len(line) > self._limit:
            first = bytes(line[: self._limit + 1 - self._held])  # as far as every cut of the body would have come
            name, _, value = first.partition(b":")
            shown = excerpt(bytes(self._data) + (value.removeprefix(b" ") if name == b"data" else b"") or first)
            words = f"an event of more than {self._limit} bytes, which is the limit (max_event_bytes)"
            raise RemoteDecodeError(f"the peer sent {words}; it begins: {shown}", excerpt=shown)


def _is_id(lines: bytes) -> bool:
    """Whether this is the line of an id and nothing else."""
    return lines.startswith(b"id: ") and lines.find(b"\n") == len(lines) - 1
