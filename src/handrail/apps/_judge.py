"""A stream, judged: what is wrong with it, where, and the facts beside it.

The bytes go through the same stages as those of a live stream, so what is found here is what a client refuses or warns
about.

A RUN_ERROR is well formed: then nothing is wrong with the stream, and the run in it failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast
from uuid import uuid4

from ag_ui.core import Event, RunErrorEvent, RunStartedEvent

from handrail.agui._inbound import DEFAULT_MAX_EVENT_BYTES, Framing, Inbound
from handrail.agui._sse import EventStreamFraming
from handrail.agui._warnings import WarningRecord
from handrail.apps._advice import advice_for, advice_on
from handrail.apps._findings import Finding, Heard
from handrail.client._spent import spent
from handrail.errors import RemoteDecodeError, WireError

__all__ = ["Reading", "judge_stream"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NO_EVENTS = frozenset({"turn", "verdict"})
"""The kinds of lines that `chat --once --json` writes beside the events."""
_NEEDS_HISTORY = frozenset({"result-without-call"})
"""What is not held against a stream whose request is not known: the call may be one of an earlier run."""


def judge_stream(reads: Iterable[bytes]) -> Heard:
    """Judge a stream alone: an event stream's bytes, or one JSON object a line, in pieces of any size."""
    pieces = iter(reads)
    start = next(pieces, b"").removeprefix(_BYTE_ORDER_MARK)
    is_lines = start.lstrip().startswith(b"{")
    reading = Reading(_Lines() if is_lines else EventStreamFraming(DEFAULT_MAX_EVENT_BYTES), without=_NEEDS_HISTORY)
    reading.feed(start)
    for piece in pieces:
        reading.feed(piece)
    if is_lines:
        reading.feed(b"\n")
    reading.end()
    return reading.heard()


class Reading:
    """One stream being judged. `without` are codes that are not told."""

    def __init__(
        self, framing: Framing, *, run: int | None = None, without: frozenset[str] = frozenset(), **asked: Any
    ) -> None:
        self._run = run
        self._without = without
        self._numbered = _Numbered(framing)
        self._inbound = Inbound(warn=self._warned, new_id=lambda: str(uuid4()), framing=self._numbered, **asked)
        self._findings: list[Finding] = []
        self._runs = 0
        self._version: str | None = None
        self._first_at: float | None = None

    def feed(self, read: bytes, at: float | None = None) -> None:
        """A read of the body, `at` seconds from the request."""
        self._take(self._inbound.feed(read))
        if self._first_at is None and self._numbered.number >= 0:
            self._first_at = at

    def end(self) -> None:
        """The body has ended."""
        self._take(self._inbound.end())
        if self._numbered.number < 0:
            self._find("error", "decode", "this is not an event stream: no event is in it", None)

    def fail(self, failure: WireError) -> None:
        """The connection failed, or this is no stream."""
        self._inbound.fail(failure)

    def leave(self) -> None:
        """The client closed the connection."""
        self._inbound.cancel()

    def heard(self, status: int | None = None, run_id: str | None = None, ended_at: float | None = None) -> Heard:
        """What came of it."""
        verdict, findings = self._inbound.verdict, self._findings
        if refused := verdict.rejected or verdict.cause:
            # To a client what is refused after the end of a run is a warning, since its verdict stands.
            findings = [finding for finding in findings if str(refused) not in finding.message]
            findings.append(self._refusal(refused))
        return Heard(
            events=self._numbered.number + 1,
            runs=self._runs,
            verdict=verdict,
            findings=tuple(findings),
            status=status,
            run_id=run_id,
            first_event_ms=_in_ms(self._first_at),
            duration_ms=_in_ms(ended_at or None),
            protocol_version=self._version,
            spent=spent(verdict.usage, ended_at or 0.0),
        )

    def _take(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, RunStartedEvent):
                self._runs += 1
                self._version = event.protocol_version
            elif isinstance(event, RunErrorEvent) and self._inbound.verdict.late_error is not None:
                words = f"the agent reported an error after its run had finished: {event.message}"
                self._find("warning", "late-run-error", words, self._numbered.number)

    def _warned(self, record: WarningRecord) -> None:
        if record.code not in self._without:
            self._find("warning", record.code, record.message, self._numbered.number, record.path)

    def _find(self, level: Any, code: str, message: str, event: int | None, path: str | None = None) -> None:
        self._findings.append(Finding(level, code, message, advice_for(code), self._run, event, path))

    def _refusal(self, error: WireError) -> Finding:
        event, path = getattr(error, "index", None), getattr(error, "path", None)
        code = getattr(error, "rule", error.kind)
        return Finding("error", code, str(error), advice_on(error), self._run, event, path)


def _in_ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


class _Numbered:
    """A framing that knows the number of the payload it gave or refused last, from 0."""

    def __init__(self, framing: Framing) -> None:
        self.number = -1
        self._framing = framing

    def feed(self, read: bytes) -> Iterator[bytes]:
        try:
            for payload in self._framing.feed(read):
                self.number += 1
                yield payload
        except RemoteDecodeError:
            self.number += 1
            raise

    def end(self) -> bytes | None:
        rest = self._framing.end()
        self.number += rest is not None
        return rest


class _Lines:
    """One payload a line; empty lines are none, nor is what `chat --once --json` says of itself."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, read: bytes) -> Iterator[bytes]:
        *lines, self._rest = (self._rest + read).split(b"\n")
        return (line for line in lines if line.strip() and not _is_said_by_chat(line))

    def end(self) -> bytes | None:
        return self._rest.strip() or None


def _is_said_by_chat(line: bytes) -> bool:
    if b'"kind"' not in line:
        return False
    try:
        said: Any = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and "type" not in said and cast("dict[str, Any]", said).get("kind") in _NO_EVENTS
