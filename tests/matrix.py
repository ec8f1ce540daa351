"""Every supported Python, with the oldest and the newest dependencies that are allowed, on every event loop.

    python -m tests.matrix [--sample N | --whole] [--only TEXT]

The Pythons are those of the classifiers in `pyproject.toml`, found on the path and among pyenv's. Each gets two
environments under `.cache/matrix`, made anew where need be, and in each the tests run on every event loop of that
Python. What was run and how it ended is a table; a Python that is not here is named in it. Exit code 1 if anything
failed, or nothing could be run.

The oldest dependencies are those that handrail names itself, each at its floor; what they need in turn is the newest
they take. So an old library meets newer ones that deprecate what it does, and its warnings are no failures there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

HOME = ROOT / ".cache" / "matrix"
VERSIONS = {"lowest": ("--resolution", "lowest-direct"), "newest": ("--upgrade",)}
WARNINGS = {"lowest": ("-W", "default::DeprecationWarning"), "newest": ()}
NOT_HERE = ("live", "faults", "endurance", "mutation", "agui/test_fuzz.py", "agui/test_schema.py", "test_docs.py")
"""Left out: servers of others' making, and what looks for the rare, for the slow, or at the tests themselves."""

PROBE = "import sys, tests.event_loops as e; print('%d.%d.%d' % sys.version_info[:3], *e.HERE)"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    python: str
    versions: str
    event_loop: str
    remark: str
    is_failure: bool = False

    def __str__(self) -> str:
        return f"{self.python:<8} {self.versions:<8} {self.event_loop:<10} {self.remark}"


def supported() -> list[str]:
    """The Pythons that the package says it runs on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = [line.rpartition(":: ")[2] for line in project["classifiers"] if line.startswith("Programming Language :: ")]
    return [version for version in said if "." in version]


def interpreter(version: str) -> Path | None:
    """A Python of this version on the path or among pyenv's, if one can be run."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep) if folder]
    folders += sorted(pyenv.glob(f"{version}.*/bin"), reverse=True)
    for python in (folder / f"python{version}" for folder in folders):
        asked = [str(python), "-c", "import sys, venv, ssl; print('%d.%d' % sys.version_info[:2])"]
        if python.exists() and subprocess.run(asked, capture_output=True, text=True).stdout.strip() == version:
            return python
    return None


def environment(python: Path, version: str, versions: str) -> Path:
    """The interpreter of an environment with these versions, brought up to date. Raises `CalledProcessError`."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") or "uv"
    home = HOME / f"{version}-{versions}"
    inside = home / "bin" / "python"
    if not inside.exists():
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", python, home], check=True)
    wanted = [*VERSIONS[versions], "--editable", f"{ROOT}[all]", "--group", "test"]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", inside, *wanted], cwd=ROOT, check=True)
    return inside


def run(python: Path, version: str, versions: str, selection: list[str]) -> Iterator[Row]:
    """The tests in one environment, on all of its event loops; a row for each of them."""
    probed = subprocess.run([python, "-c", PROBE], cwd=ROOT, capture_output=True, text=True, check=True)
    exact, *event_loops = probed.stdout.split()
    report, log = HOME / f"{version}-{versions}.xml", HOME / f"{version}-{versions}.log"
    report.unlink(missing_ok=True)
    command = [str(python), "-m", "pytest", "-q", "--continue-on-collection-errors"]
    command += ["-p", "no:cacheprovider", f"--junitxml={report}", *WARNINGS[versions]]
    command += [*(f"--ignore=tests/{path}" for path in NOT_HERE), *selection]
    environ = {**os.environ, "HANDRAIL_EVENT_LOOPS": ",".join(event_loops)}
    with log.open("w") as out:
        subprocess.run(command, cwd=ROOT, env=environ, stdout=out, stderr=out)
    if not report.exists():
        yield Row(exact, versions, "-", f"did not come to its end; see {log.relative_to(ROOT)}", True)
        return
    ended = outcomes(report)
    for event_loop in sorted(ended):
        passed, skipped, failed = (ended[event_loop][how] for how in ("passed", "skipped", "failed"))
        remark = f"{passed:>6} passed {failed:>4} failed {skipped:>4} skipped"
        yield Row(
            exact, versions, event_loop, remark + (f"; see {log.relative_to(ROOT)}" if failed else ""), failed > 0
        )


def outcomes(report: Path) -> dict[str, Counter[str]]:
    """How many tests ended how, by event loop; "none" are those that are no coroutines."""
    ended: dict[str, Counter[str]] = defaultdict(Counter)
    for case in ElementTree.parse(report).iter("testcase"):
        event_loop = case.find("properties/property[@name='event_loop']")
        tags = {child.tag for child in case}
        how = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        ended["none" if event_loop is None else event_loop.attrib["value"]][how] += 1
    return ended


def rows(selection: list[str], only: str) -> Iterator[Row]:
    """The table, line by line, as it comes to be known."""
    for version in supported():
        python = interpreter(version)
        if python is None:
            yield Row(version, "-", "-", f"SKIPPED: no python{version} on the path, nor among pyenv's")
            continue
        for versions in VERSIONS:
            if only not in f"{version}-{versions}":
                continue
            try:
                yield from run(environment(python, version, versions), version, versions, selection)
            except (OSError, subprocess.CalledProcessError) as error:
                yield Row(version, versions, "-", f"the environment could not be made: {error}", True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix")
    parser.add_argument("--sample", type=int, default=4, metavar="N", help="the first N tests of each module (4)")
    parser.add_argument("--whole", action="store_true", help="all tests: half an hour for each environment")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only environments with this in them: 3.12, 3.13-lowest"
    )
    given = parser.parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    table: list[Row] = []
    for row in rows([] if given.whole else [f"--sample={given.sample}"], given.only):
        print(row, flush=True)
        table.append(row)
    return 1 if any(row.is_failure for row in table) or all(row.event_loop == "-" for row in table) else 0


if __name__ == "__main__":
    sys.exit(main())
