"""The body of an answer: read, decoded, and left in good order.

httpx reads through async generators, and one that is left at a `yield` is finished by the garbage collector, at a time
of its own and under trio not without a warning. So the reading never stops between two reads. Whoever has read enough
cancels the scope round the loop and reads on: the cancellation unwinds every generator from the inside and closes the
connection on the way, and what comes until then is dropped.

That is also why the content encoding is undone here. The decoders of httpx sit in the outermost of its generators, and
an error in there would leave the inner ones where they are.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable
from typing import Literal

import anyio
import anyio.lowlevel
import httpx

from handrail.errors import TransportError
from handrail.run._outcome import error_line

__all__ = ["RequestBody", "read_body", "readable_encodings", "transport_error"]

_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_MOST_DROPPED = 100_000
"""Reads that are dropped while a cancellation is on its way; more can only come from what never waits."""

_Phase = Literal["connect", "send", "read", "idle"]
_PHASES: tuple[tuple[tuple[type[Exception], ...], _Phase], ...] = (
    ((httpx.ReadTimeout,), "idle"),
    ((httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError), "connect"),
    ((httpx.UnsupportedProtocol, httpx.InvalidURL), "connect"),
    ((httpx.WriteError, httpx.WriteTimeout, httpx.LocalProtocolError), "send"),
)


class RequestBody(httpx.AsyncByteStream):
    """What is sent, in one piece."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Pieces([self._content])


class _Pieces(AsyncIterator[bytes]):
    def __init__(self, left: list[bytes]) -> None:
        self._left = left

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


async def read_body(
    response: httpx.Response, take: Callable[[bytes], bool], *, idle_timeout: float | None = None
) -> None:
    """Give every read to `take`, decoded, until that returns False or the body ends.

    Raises `TransportError` when the connection fails, the content encoding is not what it says, or nothing came for
    `idle_timeout` seconds; and whatever `take` raises.
    """
    if response.is_stream_consumed:  # a hook of the client's owner has read it
        take(response.content)
        return
    decode = _decoder(response.headers.get("content-encoding", ""))
    failure: Exception | None = None
    is_wanted, dropped = True, 0
    with anyio.CancelScope(deadline=_deadline(idle_timeout)) as reading:
        try:
            async for read in response.aiter_raw():
                if is_wanted:
                    reading.deadline = _deadline(idle_timeout)
                    try:
                        is_wanted = take(decode(read))
                    except Exception as error:  # raised below, when the reading has been unwound
                        failure, is_wanted = error, False
                    if not is_wanted:
                        reading.cancel()
                elif (dropped := dropped + 1) > _MOST_DROPPED:
                    await anyio.lowlevel.checkpoint()
        except Exception as error:
            failure = failure or (transport_error(error) if is_wanted else None)
    if failure is not None:
        raise failure
    if is_wanted and reading.cancelled_caught:
        raise TransportError(f"the agent was silent for {idle_timeout} s (idle_timeout)", phase="idle")


def transport_error(error: Exception, place: str = "") -> TransportError:
    """What the connection ran into, with the phase it was in; `place` is where it was to go."""
    phase = _phase_of(error)
    is_unreached = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    advice = f"; does an agent listen at {place}?" if is_unreached and place else ""
    failure = TransportError(f"the connection to the agent failed ({phase}): {error_line(error)}{advice}", phase=phase)
    failure.__cause__ = error
    return failure


def _phase_of(error: Exception) -> _Phase:
    for kinds, phase in _PHASES:
        if isinstance(error, kinds):
            return phase
    return "read"


def readable_encodings(accepted: str) -> str:
    """Of an Accept-Encoding header, what is understood here."""
    kept = [coding for coding in accepted.split(",") if coding.partition(";")[0].strip().lower() in _WINDOWS]
    return ",".join(kept) or "identity"


def _deadline(timeout: float | None) -> float:
    return float("inf") if timeout is None else anyio.current_time() + timeout


def _decoder(encodings: str) -> Callable[[bytes], bytes]:
    names = [name for coding in encodings.split(",") if (name := coding.strip().lower()) not in ("", "identity")]
    if unknown := [name for name in names if name not in _WINDOWS]:
        raise TransportError(f"the answer is encoded as {', '.join(unknown)}, which is not read here", phase="read")
    decoders = [_Inflated(_WINDOWS[name]) for name in reversed(names)]

    def decode(read: bytes) -> bytes:
        for decoder in decoders:
            read = decoder.feed(read)
        return read

    return decode


class _Inflated:
    """One layer of gzip, in any number of members, or of deflate, with its header or, as some send it, without."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._stream = zlib.decompressobj(window)
        self._is_new = True

    def feed(self, data: bytes) -> bytes:
        inflated = bytearray()
        try:
            while data:
                inflated += self._step(data)
                data = self._stream.unused_data
                if data:
                    self._stream = zlib.decompressobj(self._window)
        except zlib.error as error:
            raise TransportError(f"the answer's content encoding is broken: {error}", phase="read") from error
        return bytes(inflated)

    def _step(self, data: bytes) -> bytes:
        is_new, self._is_new = self._is_new, False
        try:
            return self._stream.decompress(data)
        except zlib.error:
            if not is_new or self._window != zlib.MAX_WBITS:
                raise
            self._window = -zlib.MAX_WBITS
            self._stream = zlib.decompressobj(self._window)
            return self._stream.decompress(data)
