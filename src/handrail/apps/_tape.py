"""Recordings: the bytes of a session's runs, as they came, and a transport that says them again.

A recording is a text of JSON lines, so that people can read it and other programs, too:

    {"format": "handrail.recording", "version": 1}
    {"request": {...}}                                        what was asked: a RunAgentInput
    {"status": 200, "headers": {"content-type": ...}}         or {"error": ...} where there was none
    {"at": 0.031, "text": "data: {...}\\n\\n"}                what was read, when; {"base64": ...} where it is no text
    {"at": 1.204, "end": null}                                or why it ended before its end

and so on for the next run. Headers of the request and addresses are not in it, the conversation is. A read is written
down before anybody acts on it, so a recording that was cut off, in the middle of a line too, is good up to there: as if
the recording side had closed the connection.

Both ends are transports of httpx: what is recorded is what `HttpAgent` reads, and what is replayed goes the whole way
through it. A bare event stream, or AG-UI events as JSON lines, is a recording of one run that nobody knows the request
and the times of.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO, cast
from uuid import uuid4

import anyio
import httpx
from ag_ui.core import RunAgentInput, RunStartedEvent

from handrail.agui._inbound import Inbound
from handrail.errors import UsageError
from handrail.run._outcome import error_line

__all__ = [
    "RecordingTransport",
    "ReplayTransport",
    "Take",
    "answer_of",
    "begin_tape",
    "new_tape",
    "read_recording",
    "read_tape",
    "takes_of",
]

_FORMAT, _VERSION = "handrail.recording", 1
_KEPT_HEADERS = ("content-type", "content-encoding")
_CLOSED = "closed on this side"
_IS_RECORDED = re.compile(rb"\A\s*\{|(?:\A(?:\xef\xbb\xbf)?|[\r\n])data:")


@dataclass(slots=True)
class Take:
    """One run: what was asked, and what was answered when, in seconds from the request."""

    request: RunAgentInput
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    reads: list[tuple[float, bytes]] = field(default_factory=list[tuple[float, bytes]])
    ended_at: float = 0.0
    error: str | None = None

    @property
    def was_left(self) -> bool:
        """Whether the recording side closed the connection; so how the agent would have gone on is not known."""
        return self.error == _CLOSED


# -- recording ---------------------------------------------------------------------------------------------------------


def new_tape(name: str) -> TextIO:
    """A new file for a recording, for its owner only. Raises `UsageError` where it exists or cannot be made."""
    try:
        tape = open(name, "x", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600))  # noqa: SIM115
    except FileExistsError:
        raise UsageError(f"{name!r} exists, and is not written over.") from None
    except OSError as error:
        raise UsageError(f"{name!r} cannot be written: {error.strerror}.") from error
    begin_tape(tape)
    return tape


def begin_tape(tape: TextIO) -> None:
    """Write down what makes a text a recording; it comes first."""
    _write(tape, {"format": _FORMAT, "version": _VERSION})


def _write(tape: TextIO, line: Mapping[str, Any]) -> None:
    tape.write(json.dumps(line) + "\n")
    tape.flush()


class RecordingTransport(httpx.AsyncBaseTransport):
    """Passes requests on to `through` and writes down what they are answered with."""

    def __init__(self, tape: TextIO, through: httpx.AsyncBaseTransport) -> None:
        self._tape = tape
        self._through = through

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        tape, began = self._tape, time.monotonic()
        _write(tape, {"request": json.loads(await request.aread())})
        try:
            response = await self._through.handle_async_request(request)
        except BaseException as error:  # whatever it is, it is why there is no answer
            _write(tape, {"at": round(time.monotonic() - began, 3), "error": _why(error)})
            raise
        kept = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
        _write(tape, {"status": response.status_code, "headers": kept})
        stream = cast("httpx.AsyncByteStream", response.stream)
        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=_Tee(stream, lambda line: _write(tape, {"at": round(time.monotonic() - began, 3), **line})),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._through.aclose()


class _Tee(httpx.AsyncByteStream):
    """Every read of a stream, told to `note` before it is given."""

    def __init__(self, stream: httpx.AsyncByteStream, note: Callable[[Mapping[str, Any]], None]) -> None:
        self._stream = stream
        self._reads = aiter(stream)
        self._note = note
        self._is_over = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            read = await anext(self._reads)
        except StopAsyncIteration:
            self._end(None)
            raise
        except BaseException as error:  # whatever it is, it is why the recording ends here
            self._end(_why(error))
            raise
        self._note(_as_json(read))
        return read

    async def aclose(self) -> None:
        self._end(_CLOSED)
        await self._stream.aclose()

    def _end(self, why: str | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._note({"end": why})


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if isinstance(error, Exception) else _CLOSED


def _as_json(read: bytes) -> dict[str, str]:
    try:
        return {"text": read.decode()}
    except UnicodeDecodeError:  # also half a character at the end of a read
        return {"base64": base64.b64encode(read).decode()}


# -- reading -----------------------------------------------------------------------------------------------------------


def read_tape(name: str) -> Sequence[Take]:
    """The runs of a recording. Raises `UsageError` where it cannot be read, or holds none."""
    try:
        with open(name, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(f"{name!r} cannot be read: {error.strerror}.") from error
    if not _IS_RECORDED.search(data):
        raise UsageError(f"{name!r} is no recording: there are no JSON lines in it, and no event stream.")
    return read_recording(data, name)


def read_recording(data: bytes, name: str) -> Sequence[Take]:
    """The runs in the bytes of a recording; `name` is what a complaint calls it. Raises as `read_tape`."""
    try:
        takes = takes_of(data)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:  # a file may hold anything
        why = error_line(error).removeprefix("ValueError: ")  # mostly one of ours
        raise UsageError(f"{name!r} is no recording: {why}") from error
    if not takes:
        raise UsageError(f"{name!r} holds no run.")
    return takes


def takes_of(data: bytes) -> Sequence[Take]:
    """The runs in the bytes of a recording, which may be none; raises anything where it is no recording."""
    return list(_takes(data))


def _takes(data: bytes) -> Iterator[Take]:
    if not data.lstrip().startswith(b"{"):
        yield _bare(data)
        return
    lines = _lines(data)
    if lines[0].get("format") is None:
        events = [line for line in lines if "type" in line]
        if not events:
            raise ValueError("there is no AG-UI event in it")
        yield _bare(b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events))
        return
    if lines[0]["format"] != _FORMAT or lines[0].get("version", 0) > _VERSION:
        raise ValueError(f"its format is {lines[0]['format']!r}, version {lines[0].get('version')}")
    take: Take | None = None
    for line in lines[1:]:
        if "request" in line:
            if take is not None:
                yield take
            take = Take(RunAgentInput.model_validate(line["request"]), status=0, error=_CLOSED)
        elif take is not None:
            _note(take, line)
    if take is not None:
        yield take


def _lines(data: bytes) -> list[Any]:
    """The lines that are whole: the last one may have been cut off."""
    *lines, last = (line for line in data.splitlines() if line.strip())
    whole = [json.loads(line) for line in lines]
    try:
        return [*whole, json.loads(last)]
    except ValueError:
        if not whole or data.endswith(b"\n"):
            raise
        return whole


def _note(take: Take, line: Mapping[str, Any]) -> None:
    if "status" in line:
        take.status, take.headers = int(line["status"]), httpx.Headers(line["headers"], encoding="utf-8")
    elif "end" in line:
        take.ended_at, take.error = _seconds(line["at"]), _reason(line["end"])
    elif "error" in line:
        take.ended_at, take.error = _seconds(line.get("at", 0.0)), _reason(line["error"])
    else:
        read = line["text"].encode() if "text" in line else base64.b64decode(line["base64"])
        take.ended_at = _seconds(line["at"])
        take.reads.append((take.ended_at, read))


def _seconds(at: float) -> float:
    if not 0 <= at < math.inf:
        raise ValueError(f"{at} is no number of seconds")
    return at


def _reason(error: object) -> str | None:
    if not isinstance(error, str | None):
        raise TypeError(f"{error!r} is no reason for an end")
    return error


def _bare(data: bytes) -> Take:
    """A stream alone; who it was for is taken from its first run."""
    inbound = Inbound(warn=lambda record: None, new_id=lambda: str(uuid4()))
    events: Iterable[Any] = inbound.feed(data)
    first = next((event for event in events if isinstance(event, RunStartedEvent)), None)
    request = RunAgentInput(
        thread_id=first.thread_id if first else "recorded",
        run_id=first.run_id if first else "recorded",
        messages=[],
        tools=[],
        context=[],
        state={},
        forwarded_props={},
    )
    return Take(request, headers={"content-type": "text/event-stream"}, reads=[(0.0, data)])


# -- replaying ---------------------------------------------------------------------------------------------------------


class ReplayTransport(httpx.AsyncBaseTransport):
    """Answers each request with the next take, `speed` times as fast as it came; 0 is at once."""

    def __init__(self, takes: Iterable[Take], speed: float) -> None:
        self._takes = deque(takes)
        self._speed = speed

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not self._takes:
            raise httpx.ConnectError("the recording ends here; there is nobody to answer")
        take = self._takes.popleft()
        if not take.status:
            raise _again(take.error or "the recording has no answer", httpx.ConnectError)
        return answer_of(take, self._speed)


def answer_of(take: Take, speed: float = 0.0) -> httpx.Response:
    """The answer of a take, its body as fast as `ReplayTransport` has it."""
    return httpx.Response(take.status, headers=take.headers, stream=_Playback(take, speed))


def _again(error: str, otherwise: type[httpx.TransportError]) -> httpx.TransportError:
    """The error that was written down as `Class: words`."""
    name, _, words = error.partition(": ")
    kind = getattr(httpx, name, None)
    if isinstance(kind, type) and issubclass(kind, httpx.TransportError):
        return kind(words)
    return otherwise(error)


class _Playback(httpx.AsyncByteStream):
    def __init__(self, take: Take, speed: float) -> None:
        self._take = take
        self._reads = iter(take.reads)
        self._speed = speed
        self._began = anyio.current_time()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for at, read in self._reads:
            await self._wait_until(at)
            return read
        await self._wait_until(self._take.ended_at)
        if self._take.error is not None and not self._take.was_left:
            raise _again(self._take.error, httpx.ReadError)
        raise StopAsyncIteration

    async def _wait_until(self, at: float) -> None:
        if self._speed:
            await anyio.sleep_until(self._began + at / self._speed)
        else:
            await anyio.lowlevel.checkpoint()
