"""One mutant and the tests that should notice: a process of its own, in which one module is the mutant.

The process is forked from one that has imported what is slow to import and nothing of the package, so a trial costs a
second and not five. A mutant that never ends is killed by the clock, and counts as noticed.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType
from typing import Any, Literal

import ag_ui.core  # noqa: F401
import anyio  # noqa: F401
import httpx  # noqa: F401
import hypothesis  # noqa: F401
import pytest
import starlette.applications  # noqa: F401
import trio  # noqa: F401
from tests.mutation.mutants import mutated
from tests.mutation.paths import QUIETLY

Verdict = Literal["killed", "survived", "timeout", "ill-typed"]
"""Noticed by a test, by nobody, by the clock, by the type checker alone."""
_WORK, _PATIENCE = 150, 300
"""Seconds for one trial, of work and on the clock: a loaded machine must not look like a test that failed."""
_OUT_OF_TIME = (signal.SIGPROF, signal.SIGALRM)


class _Mutated(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, number: int | None) -> None:
        super().__init__(name, path)
        self.number = number

    def get_code(self, fullname: str) -> CodeType:
        tree = mutated(Path(self.path).read_text(), self.number)
        return compile(tree, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, path: Path, number: int | None) -> None:
        self.name, self.path, self.number = name, path, number

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        loader = _Mutated(fullname, str(self.path), self.number)
        return importlib.machinery.ModuleSpec(fullname, loader, origin=str(self.path))


class _Only:
    """Runs these tests, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.place = {test: at for at, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((one for one in items if one.nodeid in self.place), key=lambda one: self.place[one.nodeid])


def module_of(file: Path) -> str:
    """The dotted name of a file of the package."""
    parts = file.with_suffix("").parts
    return ".".join(parts[parts.index("handrail") :])


def begin(file: Path, number: int | None, tests: Sequence[str]) -> int:
    """Starts a process that runs `tests` on mutant `number` of `file`; its number. None: on the code as it is."""
    child = os.fork()
    if child == 0:
        os._exit(_play(file, number, tests))
    return child


def verdict_of(status: int) -> Verdict:
    """What the end of that process says."""
    if os.WIFSIGNALED(status):
        return "timeout" if os.WTERMSIG(status) in _OUT_OF_TIME else "killed"
    return "survived" if os.WEXITSTATUS(status) == 0 else "killed"


def _play(file: Path, number: int | None, tests: Sequence[str]) -> int:
    """What the child does."""
    assert not any(name.split(".")[0] == "handrail" for name in sys.modules), "the package is loaded already"
    signal.setitimer(signal.ITIMER_PROF, _WORK)
    signal.alarm(_PATIENCE)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    sys.meta_path.insert(0, _Finder(module_of(file), file, number))
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    return int(pytest.main([*QUIETLY, "--timeout=60", *files], plugins=[_Only(tests)]))
