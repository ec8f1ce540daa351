"""`handrail check`: what is wrong with a recorded AG-UI stream, and where.

The recording goes through the same stages as a live stream, so what is found here is what a client refuses or warns
about. A RUN_ERROR is well formed: then the stream is clean, and the run in it failed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import Any, BinaryIO, Literal
from uuid import uuid4

from ag_ui.core import Event, RunStartedEvent

from handrail.agui._inbound import DEFAULT_MAX_EVENT_BYTES, Framing, Inbound
from handrail.agui._sse import EventStreamFraming
from handrail.agui._verdict import Verdict
from handrail.agui._warnings import WarningRecord
from handrail.apps._visible import one_line
from handrail.errors import RemoteDecodeError, UsageError, WireError

__all__ = ["Checked", "Finding", "check", "check_stream"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NEEDS_HISTORY = frozenset({"result-without-call"})  # the call may be one of an earlier run, which is not recorded here


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: an error, which a client refuses, or a warning about something it tolerates.

    `event` is the number of the event on the stream, from 0, and None at its end. `rule` names what was broken, `path`
    is a JSON pointer into the event, or None where no one place is meant.
    """

    level: Literal["error", "warning"]
    event: int | None
    rule: str
    path: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found in a stream. `events` and `runs` count up to where a client would stop reading."""

    findings: Sequence[Finding]
    events: int
    runs: int
    verdict: Verdict

    def count(self, level: Literal["error", "warning"]) -> int:
        """How many findings of this level there are."""
        return sum(finding.level == level for finding in self.findings)


def check(files: Sequence[str], *, as_json: bool) -> int:
    """Check recordings ("-" is standard input) and print what was found; 0 when that is nothing, else 1.

    Of several, each line says which it is about. Raises `UsageError` at the first that cannot be read.
    """
    found = 0
    for file in files:
        name = file if len(files) > 1 else None
        try:
            checked = check_stream(_reads(sys.stdin.buffer) if file == "-" else _reads_of(file))
        except OSError as error:
            raise UsageError(f"{file!r} cannot be read: {error.strerror}.") from error
        for line in _as_json(checked, name) if as_json else _as_text(checked, name):
            print(line)
        found += len(checked.findings)
    return 1 if found else 0


def check_stream(reads: Iterable[bytes]) -> Checked:
    """Find what is wrong with a stream: an event stream's bytes, or one JSON object a line, in pieces of any size."""
    pieces = iter(reads)
    start = next(pieces, b"").removeprefix(_BYTE_ORDER_MARK)
    is_lines = start.lstrip().startswith(b"{")
    numbered = _Numbered(_Lines() if is_lines else EventStreamFraming(DEFAULT_MAX_EVENT_BYTES))
    findings: list[Finding] = []

    def warned(record: WarningRecord) -> None:
        if record.code not in _NEEDS_HISTORY:
            findings.append(Finding("warning", numbered.number, record.code, record.path, record.message))

    inbound = Inbound(warn=warned, new_id=lambda: str(uuid4()), framing=numbered)
    events = _events(inbound, chain([start], pieces, [b"\n"] if is_lines else []))
    runs = sum(isinstance(event, RunStartedEvent) for event in events)
    verdict = inbound.verdict
    if refused := verdict.rejected or verdict.cause:
        # What is refused after the end of a run is a warning to a client, whose verdict stands; here it is the error.
        findings = [finding for finding in findings if str(refused) not in finding.message]
        findings.append(_refusal(refused))
    if numbered.number < 0:
        findings.append(Finding("error", None, "decode", None, "this is not an event stream: no event is in it"))
    return Checked(findings, numbered.number + 1, runs, verdict)


def _events(inbound: Inbound, reads: Iterable[bytes]) -> Iterator[Event]:
    for read in reads:
        yield from inbound.feed(read)
    yield from inbound.end()


def _refusal(error: WireError) -> Finding:
    event, path = getattr(error, "index", None), getattr(error, "path", None)
    return Finding("error", event, getattr(error, "rule", error.kind), path, str(error))


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
    """One payload a line; empty lines are none."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, read: bytes) -> Iterator[bytes]:
        *lines, self._rest = (self._rest + read).split(b"\n")
        return (line for line in lines if line.strip())

    def end(self) -> bytes | None:
        return self._rest.strip() or None


def _reads_of(file: str) -> Iterator[bytes]:
    with open(file, "rb") as recording:
        yield from _reads(recording)


def _reads(recording: BinaryIO) -> Iterator[bytes]:
    return iter(partial(recording.read, 2**16), b"")


def _as_json(checked: Checked, file: str | None) -> Iterator[str]:
    """One object a finding, then one for the whole; what is not known is left out."""
    about = {} if file is None else {"file": file}
    for finding in checked.findings:
        yield json.dumps(about | {name: value for name, value in asdict(finding).items() if value is not None})
    verdict = checked.verdict
    run = {"outcome": verdict.outcome, "verdict": verdict.said, "message": verdict.message, "code": verdict.code}
    summary: dict[str, Any] = {
        "events": checked.events,
        "runs": checked.runs,
        "errors": checked.count("error"),
        "warnings": checked.count("warning"),
        "run": {name: value for name, value in run.items() if value is not None},
    }
    yield json.dumps(about | summary)


def _as_text(checked: Checked, file: str | None) -> Iterator[str]:
    about = "" if file is None else f"{one_line(file)}: "
    for finding in checked.findings:
        where = "end" if finding.event is None else f"event {finding.event}"
        place = f" at {one_line(finding.path)}" if finding.path else ""
        yield f"{about}{where}: {finding.level} {finding.rule}{place}: {one_line(finding.message)}"
    found = (_many(checked.count("error"), "error"), _many(checked.count("warning"), "warning"))
    counts = f"{_many(checked.events, 'event')}, {_many(checked.runs, 'run')}"
    yield f"{about}{counts}: {', '.join(found) if checked.findings else 'clean'}. {_ending(checked)}"


def _ending(checked: Checked) -> str:
    """What became of the last run on the stream."""
    verdict = checked.verdict
    late = f" An error came after that: {one_line(verdict.late_error[0])}" if verdict.late_error else ""
    match verdict.said:
        case "success":
            return f"The run finished.{late}"
        case "interrupt":
            return f"The run stopped with {_many(len(verdict.interrupts), 'open question')}.{late}"
        case "cancelled":
            return f"The run was cancelled by the agent.{late}"
        case "error":
            code = f" ({one_line(verdict.code)})" if verdict.code else ""
            return f"The run failed: {one_line(verdict.message or '')}{code}"
        case None:
            return "The agent never said how the run ended." if checked.runs else "There is no run in it."


def _many(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
