"""The table: what was measured, on what, and what of it is as demanded."""

from __future__ import annotations

import datetime
import math
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks._environments import ROOT, versions
from benchmarks._measure import Result

__all__ = ["Report"]

_HEADER = ("id", "measurement", "ours", "floor", "peers", "ratio", "target", "met")
_MET = {True: "yes", False: "NO", None: "-"}


@dataclass(slots=True)
class Report:
    """All results of one sitting."""

    rounds: int
    quick: bool
    load: float
    results: list[Result] = field(default_factory=list)
    date: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))

    def text(self) -> str:
        """The table in Markdown, with the machine and the versions before it and what is missing behind it."""
        rows = [_HEADER, *map(_row, self.results)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
        lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        missing = sorted({f"{name}: {why}" for result in self.results for name, why in result.missing.items()})
        behind = ["", "Not measured:", "", *(f"- {one}" for one in missing)] if missing else []
        return "\n".join([*self._circumstances(), "", *lines, *behind])

    def write(self) -> Path:
        """Keep the table; gives the file's name."""
        path = ROOT / "benchmarks" / "results" / f"{self.date:%Y-%m-%d-%H%M}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# Benchmarks of {self.date:%Y-%m-%d}\n\n{self.text()}\n")
        return path.relative_to(ROOT)

    def _circumstances(self) -> list[str]:
        used = {command.environment for result in self.results for command in result.measurement.commands}
        cores, after = os.cpu_count() or 1, os.getloadavg()[0]
        quiet = "quiet" if max(self.load, after) <= cores / 2 + 1 else "NOT quiet: other work ran beside this"
        told = [f"- {self.date:%Y-%m-%d %H:%M} UTC, {platform.machine()}, {cores} cores, {platform.system()}"]
        told.append(f"- load {self.load:.1f} before and {after:.1f} after: the machine was {quiet}")
        told.append(f"- {self.rounds} rounds in turn, medians; ratios round by round{', a quick look' * self.quick}")
        for environment in sorted(used):
            try:
                names = ", ".join(f"{name} {version}" for name, version in versions(environment).items())
            except Exception as error:  # a peer that could not be installed has a row that says so
                names = f"not there ({type(error).__name__})"
            told.append(f"- {environment}: {names}")
        return told


def _row(result: Result) -> tuple[str, ...]:
    asked = result.measurement
    shown = [subject for subject in result.subjects() if subject not in (asked.ours, asked.floor)]
    ratios = [(bound.of, result.ratio(bound.of)) for bound in asked.bounds if bound.of is not None]
    if asked.floor is not None and asked.floor not in [of for of, _ in ratios]:
        ratios.insert(0, (asked.floor, result.ratio(asked.floor)))
    return (
        asked.target,
        f"{asked.what} ({asked.unit})",
        _number(result, asked.ours),
        _number(result, asked.floor),
        ", ".join(f"{subject} {_number(result, subject)}" for subject in shown),
        ", ".join(f"{_short(ratio)} x {of}" for of, ratio in ratios),
        ", ".join(map(str, asked.bounds)),
        _MET[result.is_met()],
    )


def _number(result: Result, subject: str | None) -> str:
    if subject is None or subject not in result.subjects():
        return ""
    return _short(result.median(subject))


def _short(number: float) -> str:
    return "?" if math.isnan(number) else f"{number:.3g}" if number < 1000 else f"{number:.0f}"
