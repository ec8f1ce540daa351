"""Which tests go through which lines of the rules floor, and how long each takes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = ("agui", "transcript", "run/_lifecycle.py", "loop/_attempts.py", "loop/_budget.py")
TESTS = (
    "tests/agui",
    "tests/transcript",
    "tests/run/test_lifecycle.py",
    "tests/loop/test_attempts.py",
    "tests/loop/test_budget.py",
    "tests/loop/test_bounds.py",
    "tests/client/test_nothing_reaches_back.py",
    "tests/client/test_session_construction.py",
    "tests/client/test_states.py",
    "tests/client/test_corner_matrix.py",
    "tests/client/test_foreign_agents.py",
    "tests/client/test_questions.py",
    "tests/client/test_owed_answers.py",
    "tests/client/test_legacy_questions.py",
    "tests/client/test_client_tools.py",
    "tests/client/test_client_tool_calls.py",
    "tests/client/test_client_tool_approvals.py",
    "tests/client/test_client_tool_rounds.py",
    "tests/server/test_streams.py",
    "tests/server/test_failures.py",
    "tests/server/test_continued_threads.py",
    "tests/server/test_requests.py",
    "tests/server/test_damaged_requests.py",
    "tests/server/test_authority.py",
    "tests/server/test_origins.py",
    "tests/server/test_app_options.py",
)
"""What a mutant is shown to. The random tests of many minutes' length are left out: each mutant would wait for them."""
LEFT_OUT = ("test_fuzz*", "test_cost")
QUIETLY = ("-q", "-x", "--no-header", "--assert=plain", "-p", "no:cacheprovider")
"""Asserts as they are: what they compare is of no interest here, only that they fail."""


TABLES = {
    "_shape_table.py": ("tests/agui/test_shapes.py", "tests/agui/test_inputs.py", "tests/agui/test_shape_table.py"),
    "_lifecycle.py": ("tests/run/test_lifecycle.py",),
}
"""Modules in which nothing is called: no test goes through their lines, and these are the tests of what they say."""


class Paths(NamedTuple):
    """What one run of the tests has shown."""

    seconds: dict[str, float]
    through: dict[str, dict[int, list[str]]]
    """Tests by file and line."""

    def of(self, file: str, lines: tuple[int, int] | None = None) -> list[str]:
        """The tests that go through these lines, or anywhere in the file; the quickest first."""
        if (tests := TABLES.get(Path(file).name)) is not None:
            return sorted((test for test in self.seconds if test.startswith(tests)), key=self.seconds.__getitem__)
        by_line = self.through.get(file, {})
        chosen = by_line.values() if lines is None else (by_line.get(at, []) for at in range(lines[0], lines[1] + 1))
        return sorted({test for tests in chosen for test in tests}, key=lambda test: (self.seconds[test], test))


class _Recorder:
    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured = measured
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self.measured.switch_context(item.nodeid)
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.perf_counter() - began


def subjects() -> list[Path]:
    """The files that are mutated."""
    source = ROOT / "src" / "handrail"
    found = [source / name for name in SUBJECTS]
    return sorted(
        file for one in found for file in ([one] if one.suffix else one.glob("*.py")) if file.name != "__init__.py"
    )


def record(into: Path) -> Paths:
    """Runs the tests once, watching. They must pass: a test that fails anyway would kill every mutant."""
    measured = coverage.Coverage(data_file=None, source=["handrail"], config_file=False)
    recorder = _Recorder(measured)
    measured.start()
    try:
        code = pytest.main([*QUIETLY, *(f"--ignore-glob=*/{name}.py" for name in LEFT_OUT), *TESTS], plugins=[recorder])
    finally:
        measured.stop()
    if code != 0:
        raise SystemExit(f"the tests do not pass on the code as it is (pytest says {code}): nothing can be judged")
    data = measured.get_data()
    through: dict[str, dict[int, list[str]]] = {}
    for file in subjects():
        lines = data.contexts_by_lineno(str(file))
        through[str(file)] = {line: [name for name in names if name] for line, names in lines.items()}
    paths = Paths(recorder.seconds, through)
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_text(json.dumps({"seconds": paths.seconds, "through": paths.through}))
    return paths


def read(file: Path) -> Paths:
    """What `record` wrote."""
    kept = json.loads(file.read_text())
    through = {name: {int(line): tests for line, tests in lines.items()} for name, lines in kept["through"].items()}
    return Paths(kept["seconds"], through)


def bounded(tests: Sequence[str], seconds: dict[str, float], most: float) -> list[str]:
    """As many as fit into `most` seconds, one at least."""
    chosen: list[str] = []
    for test in tests:
        most -= seconds[test]
        if chosen and most < 0:
            break
        chosen.append(test)
    return chosen
