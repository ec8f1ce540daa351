"""Rounds of commands, and what they say: medians, and ratios taken round by round."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
from dataclasses import dataclass, field

from benchmarks._environments import ROOT, Unavailable, python_of

__all__ = ["Bound", "Command", "Measurement", "Result", "measure"]

TIMEOUT = 120.0
"""Seconds that one command may take."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program, the environment it runs in, and what it is told; `size` is how much of it, and quickly a tenth."""

    environment: str
    program: str
    arguments: tuple[str, ...] = ()
    size: int | None = None

    def line(self, quick: bool) -> list[str]:
        size = [] if self.size is None else [str(max(self.size // 10, 1) if quick else self.size)]
        if self.program.endswith(".mjs"):
            return ["node", f"benchmarks/programs/{self.program}", *self.arguments, *size]
        return [python_of(self.environment), "-m", f"benchmarks.programs.{self.program}", *self.arguments, *size]


@dataclass(frozen=True, slots=True)
class Bound:
    """What is demanded: ours at most so many times what `of` has; without `of`, at most so much."""

    at_most: float
    of: str | None = None

    def __str__(self) -> str:
        return f"<= {self.at_most:g}" + (f" x {self.of}" if self.of else "")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of the table. `floor` is a subject that does the least the work can cost, the others are peers."""

    group: str
    target: str
    what: str
    unit: str
    commands: tuple[Command, ...]
    bounds: tuple[Bound, ...] = ()
    floor: str | None = None
    ours: str = "handrail"


@dataclass(slots=True)
class Result:
    """What the rounds of a measurement gave, by subject, and why a command gave nothing."""

    measurement: Measurement
    rounds: list[dict[str, float]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def subjects(self) -> list[str]:
        return list(dict.fromkeys(subject for one in self.rounds for subject in one))

    def median(self, subject: str) -> float:
        return statistics.median(one[subject] for one in self.rounds if subject in one)

    def ratio(self, of: str | None) -> float:
        """Ours to another's, round by round; ours itself where there is no other; nan if either is missing."""
        ours = self.measurement.ours
        values = [
            one[ours] / one[of] if of else one[ours]
            for one in self.rounds
            if ours in one and (of is None or one.get(of))
        ]
        return statistics.median(values) if values else math.nan

    def is_met(self) -> bool | None:
        """Whether every bound holds; None where one could not be measured, or none is set."""
        ratios = [(bound, self.ratio(bound.of)) for bound in self.measurement.bounds]
        if any(ratio > bound.at_most for bound, ratio in ratios):
            return False
        return None if not ratios or any(math.isnan(ratio) for _, ratio in ratios) else True


def measure(measurement: Measurement, *, rounds: int, quick: bool) -> Result:
    """Run the commands of a measurement in turn; one that fails is left out of the rounds that follow."""
    result = Result(measurement)
    for _ in range(rounds):
        numbers: dict[str, float] = {}
        for command in measurement.commands:
            name = " ".join((command.environment, command.program, *command.arguments))
            if name in result.missing:
                continue
            try:
                numbers |= _run(command.line(quick))
            except (Unavailable, OSError, subprocess.SubprocessError, ValueError) as error:
                result.missing[name] = _why(error)
        result.rounds.append(numbers)
    return result


def _run(line: list[str]) -> dict[str, float]:
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _why(error: Exception) -> str:
    """The line that says what went wrong: the last that names an error, else the last."""
    lines = (getattr(error, "stderr", None) or str(error) or type(error).__name__).strip().splitlines()
    return next((line for line in reversed(lines) if "Error" in line), lines[-1])[:160]
