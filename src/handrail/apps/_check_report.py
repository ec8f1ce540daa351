"""What `handrail check` says: lines for people, one document for programs.

A text of an agent is shown, never obeyed. It comes here without the values of the headers that the agent was sent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from handrail.apps._findings import Finding, Heard, Level, Result, Status
from handrail.apps._visible import clipped, one_line

__all__ = ["Line", "document", "of_file", "of_probe", "of_probes", "show"]

_SHOWN = 400
_MARKS: dict[Status, str] = {"passed": "✓", "warned": "!", "failed": "✗", "not-offered": "–", "skipped": "–"}
_LOOKS: dict[Status | Level, str] = {
    "passed": "green",
    "warned": "yellow",
    "failed": "red",
    "warning": "yellow",
    "error": "red",
}
_ENDS = {
    "success": "finished",
    "interrupt": "stopped to ask",
    "cancelled": "cancelled",
    "error": "failed",
    None: "no end",
}
_NAME, _NOTE, _IN = 11, 27, 4  # columns
_OF_A_KIND = 5


class Line(NamedTuple):
    """A line for people; what does not fit into the width of a terminal goes on under its own beginning.

    `head` stands in the indent before it.
    """

    text: str
    look: str = ""
    indent: int = 0
    head: str = ""


def show(lines: Iterable[Line], console: Console) -> None:
    """Print the lines, wrapped between words on a terminal, and as they are elsewhere."""
    for text, look, indent, head in lines:
        if not console.is_terminal:
            print(f"{head:{indent}}{text}".rstrip())
        elif not indent:
            console.print(Text(text, look))
        else:
            row = Table.grid()
            row.add_column(width=indent, no_wrap=True)
            row.add_column(overflow="fold")
            row.add_row(Text(head, look), Text(text, look))
            console.print(row)


# -- for people --------------------------------------------------------------------------------------------------------


def of_probe(result: Result) -> Iterator[Line]:
    """A probe: its verdict, the facts of each request, what was found and what to do about it."""
    status = result.status
    head = f"{_MARKS[status]} {result.name:{_NAME}} {status.replace('-', ' ')}"
    yield Line(_shown(result.note), _LOOKS.get(status, "dim"), _NOTE, head)
    several = len(result.heard) > 1
    for run, heard in enumerate(result.heard):
        yield Line(f"{f'run {run}: ' if several else ''}{_facts(heard)}", "dim", _IN)
    yield from _of_findings(result.findings, "", several, _IN)


def of_probes(results: Sequence[Result]) -> Iterator[Line]:
    """All probes of an agent, in a few words."""
    statuses = [result.status for result in results]
    told = [f"{statuses.count(status)} {status.replace('-', ' ')}" for status in _MARKS if status in statuses]
    yield Line("")
    yield Line(f"{_many(len(results), 'probe')}: {', '.join(told)}.")
    heard = [one for result in results for one in result.heard if one.terminal is not None]
    if heard:
        versions = sorted({one.protocol_version for one in heard if one.protocol_version is not None})
        spoken = f"Protocol version {', '.join(map(_shown, versions))}" if versions else "No protocol version is stated"
        telling = sum(one.spent is not None for one in heard)
        runs = {0: "no run reports", len(heard): "every run reports"}.get(
            telling, f"{telling} of {len(heard)} runs report"
        )
        yield Line(f"{spoken}; {runs} what it used.")


def of_file(result: Result, name: str | None) -> Iterator[Line]:
    """A recording: what was found, then the whole; each line begins with the name, where there are several files."""
    about = "" if name is None else f"{one_line(name)}: "
    several = len(result.heard) > 1
    yield from _of_findings(result.findings, about, several, 0)
    events, runs = (sum(getattr(one, what) for one in result.heard) for what in ("events", "runs"))
    found = ", ".join(_many(result.count(level), level) for level in ("error", "warning"))
    verdict = found if result.findings else "clean"
    ends = _ending(result.heard[-1]) if result.heard else ""
    yield Line(f"{about}{_many(events, 'event')}, {_many(runs, 'run')}: {verdict}. {ends}")


def _of_findings(findings: Sequence[Finding], about: str, several: bool, indent: int) -> Iterator[Line]:
    """Each of them, but of one kind only the first few: a server that errs in every event errs once."""
    left = Counter((finding.level, finding.code) for finding in findings)
    told = Counter[tuple[Level, str]]()
    for finding in findings:
        kind = finding.level, finding.code
        told[kind] += 1
        left[kind] -= 1
        if told[kind] <= _OF_A_KIND:
            yield from _of_finding(finding, about, several, indent)
        if told[kind] == _OF_A_KIND and left[kind]:
            words = f"{left[kind]:,} more {finding.level}{'' if left[kind] == 1 else 's'} {finding.code}"
            yield Line(f"{about}{words}; --json lists them all", _LOOKS[finding.level], indent)


def _of_finding(finding: Finding, about: str, several: bool, indent: int) -> Iterator[Line]:
    event = None if finding.event is None else f"event {finding.event}"
    run = f"run {finding.run}" if several and finding.run is not None else None
    where = ", ".join(filter(None, (run, event)))
    place = f" at {_shown(finding.path)}" if finding.path else ""
    what = f"{finding.level} {finding.code}{place}: {_shown(finding.message)}"
    text = f"{about}{where}: {what}" if where else f"{about}{what}"
    yield Line(text, _LOOKS[finding.level], indent)
    if finding.advice:
        yield Line(f"{about}{_shown(finding.advice)}", "", 0 if about else indent + 2)


def _facts(heard: Heard) -> str:
    took = "" if heard.duration_ms is None else f" in {_time(heard.duration_ms)}"
    if heard.status is None:
        return f"no answer{took}"
    facts = f"HTTP {heard.status}, {_many(heard.events, 'event')}{took}"
    if heard.first_event_ms is not None:
        facts += f", the first after {_time(heard.first_event_ms)}"
    if heard.verdict.failure == "cancelled":
        return f"{facts}; left here"
    return f"{facts}; {_ENDS[heard.verdict.said]}"


def _ending(heard: Heard) -> str:
    """What became of the last run on the stream."""
    verdict = heard.verdict
    late = f" An error came after that: {_shown(verdict.late_error[0])}" if verdict.late_error else ""
    match verdict.said:
        case "success":
            return f"The run finished.{late}"
        case "interrupt":
            return f"The run stopped with {_many(len(verdict.interrupts), 'open question')}.{late}"
        case "cancelled":
            return f"The run was cancelled by the agent.{late}"
        case "error":
            code = f" ({_shown(verdict.code)})" if verdict.code else ""
            return f"The run failed: {_shown(verdict.message or '')}{code}"
        case None if verdict.failure == "cancelled":
            return "The client left before the run had ended."
        case None:
            return "The agent never said how the run ended." if heard.runs else "There is no run in it."


def _shown(text: str) -> str:
    return one_line(clipped(text, _SHOWN))


def _time(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _many(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


# -- for programs ------------------------------------------------------------------------------------------------------


def document(results: Sequence[Result], kind: Literal["probe", "file"], **target: str) -> str:
    """All of it as one JSON document in ASCII, so nothing in it is obeyed; what is not known is left out."""
    errors, warnings = (sum(result.count(level) for result in results) for level in ("error", "warning"))
    whole = {
        **target,
        "ok": not errors,
        "errors": errors,
        "warnings": warnings,
        "results": [_as_dict(result, kind) for result in results],
    }
    return json.dumps(whole, indent=2)


def _as_dict(result: Result, kind: str) -> dict[str, Any]:
    return _known(
        {
            kind: result.name,
            "status": result.status,
            "note": result.note or None,
            "runs": [_run_as_dict(heard) for heard in result.heard],
            "findings": [_known(asdict(finding) | {"advice": finding.advice or None}) for finding in result.findings],
        }
    )


def _run_as_dict(heard: Heard) -> dict[str, Any]:
    verdict, spent = heard.verdict, heard.spent
    usage = spent and _known(
        {
            "total_tokens": spent.total_tokens,
            "prompt_tokens": spent.prompt_tokens,
            "completion_tokens": spent.completion_tokens,
            "complete": spent.complete,
        }
    )
    return _known(
        {
            "run_id": heard.run_id,
            "http_status": heard.status,
            "events": heard.events,
            "runs": heard.runs,
            "first_event_ms": heard.first_event_ms,
            "duration_ms": heard.duration_ms,
            "outcome": verdict.outcome,
            "verdict": verdict.said,
            "terminal": heard.terminal,
            "message": verdict.message,
            "code": verdict.code,
            "protocol_version": heard.protocol_version,
            "usage": usage,
        }
    )


def _known(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}
