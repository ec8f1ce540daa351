"""Breaks the rules floor one thing at a time, and says what neither a test nor the type checker notices.

    make mutants                                    # a sample of every module
    python -m tests.mutation --all _verify _fold    # every mutant of these modules

A mutant that nobody notices is either listed in `survivors.md`, with the reason why it makes no difference, or asks
for a test. The exit code is 1 when fewer than nine of ten are noticed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import tempfile
from collections import Counter, deque
from pathlib import Path
from typing import NamedTuple

from tests.mutation.mutants import mutations
from tests.mutation.paths import ROOT, Paths, bounded, read, record, subjects
from tests.mutation.trial import Verdict, begin, verdict_of
from tests.mutation.type_checker import TypeChecker

KEPT = ROOT / ".cache" / "mutation" / "paths.json"
LISTED = Path(__file__).parent / "survivors.md"
FEW, MANY, ALL = 3.0, 40.0, 120.0
"""Seconds of tests a mutant is shown first, those it is shown when none of them noticed, and those of the control."""
TARGET = 0.9


class Mutant(NamedTuple):
    """One change to one file."""

    file: Path
    number: int
    where: str
    lines: tuple[int, int]
    what: str

    @property
    def name(self) -> str:
        """What it is listed under: no line number, so that it outlives an edit above it."""
        return f"{self.file.parent.name}/{self.file.name} {self.where or '(module)'}: {self.what}"


def mutants_of(file: Path) -> list[Mutant]:
    """All of a file's, in order."""
    tree = ast.parse(file.read_text())
    return [Mutant(file, number, one.where, one.lines, one.what) for number, one in enumerate(mutations(tree))]


def control(file: Path, paths: Paths) -> None:
    """A trial of every test with nothing changed: where that fails, every mutant would seem to be noticed."""
    tests = sorted(paths.seconds, key=paths.seconds.__getitem__)
    _, status = os.waitpid(begin(file, None, bounded(tests, paths.seconds, ALL)), 0)
    if verdict_of(status) != "survived":
        raise SystemExit("the tests fail on the code as it is: nothing can be judged (--record looks anew)")


def judge(mutants: list[Mutant], paths: Paths, jobs: int) -> dict[Mutant, Verdict]:
    """Each mutant's verdict: first by a few tests that go through its lines, then by all that do or might."""
    waiting = deque((mutant, FEW) for mutant in mutants)
    working: dict[int, tuple[Mutant, float]] = {}
    verdicts: dict[Mutant, Verdict] = {}
    while waiting or working:
        while waiting and len(working) < jobs:
            mutant, seconds = waiting.popleft()
            tests = paths.of(str(mutant.file), mutant.lines) or paths.of(str(mutant.file))
            working[begin(mutant.file, mutant.number, bounded(tests, paths.seconds, seconds))] = mutant, seconds
        process, status = os.wait()
        mutant, seconds = working.pop(process)
        verdict = verdict_of(status)
        if verdict == "survived" and seconds == FEW:
            waiting.append((mutant, MANY))
            continue
        verdicts[mutant] = verdict
        print(end="." if verdict != "survived" else "?", flush=True)
    print()
    return verdicts


def ask_type_checker(verdicts: dict[Mutant, Verdict]) -> None:
    """Shows it what the tests let through, and says what it lets through as well."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        types = TypeChecker(Path(place))
        for mutant in survivors(verdicts):
            if types.notices(mutant.file, mutant.number):
                verdicts[mutant] = "ill-typed"
            else:
                print(f"  not noticed: {mutant.file.name}:{mutant.lines[0]} {mutant.where} {mutant.what}", flush=True)


def survivors(verdicts: dict[Mutant, Verdict]) -> list[Mutant]:
    """Those that nobody has noticed so far."""
    return sorted(mutant for mutant, verdict in verdicts.items() if verdict == "survived")


def listed() -> set[str]:
    """The names in `survivors.md`: what stands in its code spans at the beginning of an item."""
    found = set[str]()
    for line in LISTED.read_text().splitlines():
        if line.startswith("- ``") and "``" in line[4:]:
            found.add(line[4:].partition("``")[0].strip())
    return found


def report(verdicts: dict[Mutant, Verdict]) -> bool:
    """Prints a line a module and the sum; True when enough were noticed."""
    known = listed()
    sums = Counter[tuple[str, str]]()
    for mutant, verdict in verdicts.items():
        excused = verdict == "survived" and mutant.name in known
        for module in (f"{mutant.file.parent.name}/{mutant.file.name}", "all"):
            sums[module, "tried"] += 1
            sums[module, "noticed"] += verdict != "survived"
            sums[module, "ill-typed"] += verdict == "ill-typed"
            sums[module, "listed"] += excused
    for module in sorted({module for module, _ in sums}, key=lambda module: (module == "all", module)):
        tried, noticed = sums[module, "tried"], sums[module, "noticed"]
        apart = f"{sums[module, 'ill-typed']} by types alone, {sums[module, 'listed']} listed"
        print(f"{module:32} {noticed:5} of {tried:5} noticed {noticed / tried:7.1%}, {apart}")
    for mutant in survivors(verdicts):
        if mutant.name not in known:
            print(f"- ``{mutant.name}``")
    return sums["all", "noticed"] >= TARGET * sums["all", "tried"]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="names of files without .py; every module of the floor if none")
    parser.add_argument("--sample", type=int, default=12, metavar="N", help="mutants of each module (12)")
    parser.add_argument("--all", action="store_true", help="every mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", action="store_true", help="run the tests again to see which lines they go through")
    asked = parser.parse_args()
    os.chdir(ROOT)
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp(prefix="mutants-")
    if asked.record or not KEPT.exists():
        # In a process of its own: this one must never load the package.
        process = os.fork()
        if process == 0:
            record(KEPT)
            os._exit(0)
        if os.waitpid(process, 0)[1] != 0:
            return 2
    paths, chosen = read(KEPT), list[Mutant]()
    for file in subjects():
        if asked.modules and file.stem not in asked.modules:
            continue
        mutants = mutants_of(file)
        draw = random.Random(f"{asked.seed} {file.name}")
        chosen += mutants if asked.all else draw.sample(mutants, min(asked.sample, len(mutants)))
    control(subjects()[0], paths)
    verdicts = judge(chosen, paths, asked.jobs)
    ask_type_checker(verdicts)
    return 0 if report(verdicts) else 1


if __name__ == "__main__":
    raise SystemExit(main())
