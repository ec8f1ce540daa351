"""What `handrail check` is to look at, and what it found: one thing, one request, one probe or file as a whole.

Values only. What is not known is None, and never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from handrail.agui._verdict import Verdict
from handrail.run import Spend

__all__ = ["Apart", "Finding", "Heard", "Level", "Result", "Status", "Wanted"]

Apart = Literal["not-offered", "skipped"]
Level = Literal["error", "warning"]
Status = Literal["passed", "warned", "failed"] | Apart


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for with a URL; None or () is what was not. `timeout` is in seconds."""

    message: str | None = None
    headers: Sequence[str] = ()
    timeout: float | None = None
    only: Sequence[str] = ()
    tools: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: an error, which a client refuses, or a warning about something it tolerates.

    `code` names what was broken. `run` is the number of the request, from 0, None where no request is known; `event`
    that of the event on its stream, from 0, None where no one event is meant. `path` is a JSON pointer into the event.
    `advice` says what to do.
    """

    level: Level
    code: str
    message: str
    advice: str = ""
    run: int | None = None
    event: int | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """What one request was answered with: the facts, and what is wrong. Times are in ms from the request.

    `events` and `runs` count up to where a client would stop reading. `status` is that of HTTP.
    """

    events: int
    runs: int
    verdict: Verdict
    findings: Sequence[Finding] = ()
    status: int | None = None
    run_id: str | None = None
    first_event_ms: int | None = None
    duration_ms: int | None = None
    protocol_version: str | None = None
    spent: Spend | None = None

    @property
    def terminal(self) -> str | None:
        """The event by which the last run on the stream ended, None where there was none."""
        match self.verdict.said:
            case None:
                return None
            case "error":
                return "RUN_ERROR"
            case _:
                return "RUN_FINISHED"

    def count(self, level: Level) -> int:
        """How many findings of this level there are."""
        return sum(finding.level == level for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Result:
    """One probe or one file: every request of it, what was found, and what there is to say about it.

    `findings` has those of the requests, too. `apart` is why the probe came to no verdict, where nothing was found.
    """

    name: str
    heard: Sequence[Heard] = ()
    findings: Sequence[Finding] = ()
    note: str = ""
    apart: Apart | None = None

    @property
    def status(self) -> Status:
        """The verdict: failed by an error, warned by a warning, else what it came to."""
        if self.count("error"):
            return "failed"
        if self.count("warning"):
            return "warned"
        return self.apart or "passed"

    def count(self, level: Level) -> int:
        """How many findings of this level there are."""
        return sum(finding.level == level for finding in self.findings)
