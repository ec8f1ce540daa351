"""What the type checker says of a mutant: `make types` stands beside the tests, and what it refuses is noticed, too.

It is asked about the mutants that no test noticed: a function that gives None where it says `bool`, a word that is none
of its `Literal`. The changed file is judged alone, in a copy of the package. Comments are lost on the way, those that
silence the checker among them, so what it says of the file as it is, written out in the same way, is subtracted.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.mutation.mutants import mutated
from tests.mutation.paths import ROOT

_PATIENCE = 300
"""Seconds."""


class TypeChecker:
    """Judges one mutant at a time, in a copy of the package that it makes in the empty folder `root`."""

    def __init__(self, root: Path) -> None:
        shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", root)
        self._root = root
        self._known: dict[Path, Counter[str]] = {}

    def notices(self, file: Path, number: int | None) -> bool:
        """Whether it refuses more of mutant `number` of `file` than of the file itself, which is None."""
        if file not in self._known:
            self._known[file] = self._refusals(file, None)
        return bool(self._refusals(file, number) - self._known[file])

    def _refusals(self, file: Path, number: int | None) -> Counter[str]:
        copy = self._root / file.relative_to(ROOT)
        copy.write_text(ast.unparse(mutated(file.read_text(), number)))
        command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(copy)]
        done = subprocess.run(command, cwd=self._root, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        shutil.copy(file, copy)
        told = json.loads(done.stdout)["generalDiagnostics"]
        return Counter(one["message"] for one in told if one["severity"] == "error")
