"""The examples of a page, run as a reader would paste them.

Stands on nothing but Python, since some examples run in an environment that has no pytest:

    python tests/pages.py PAGE LINE     runs the example that begins on that line
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
import types
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+)\.py\n")


def cell(page: Path, code: str, line: int) -> types.FunctionType:
    """The example as a function; a coroutine function where it awaits at its top level, as a notebook's cell may."""
    compiled = compile("\n" * line + code, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return types.FunctionType(compiled, {"__name__": "__main__"})


def run(function: types.FunctionType) -> None:
    """Run an example to its end."""
    if inspect.iscoroutinefunction(function):
        asyncio.run(function())
    else:
        function()


def modules(page: Path) -> dict[str, types.ModuleType]:
    """The examples that a reader saves for others to import: those whose first line is a file's name."""
    saved: dict[str, types.ModuleType] = {}
    for block in BLOCK.findall(page.read_text()):
        if named := _FILE.match(block):
            module = saved[named[1]] = types.ModuleType(named[1])
            exec(compile(block, str(page), "exec"), module.__dict__)
    return saved


def line_of(page: Path, block: re.Match[str]) -> int:
    """The line on which an example begins, behind which its code stands."""
    return page.read_text()[: block.start()].count("\n") + 1


if __name__ == "__main__":
    _page, _line = Path(sys.argv[1]), int(sys.argv[2])
    _code = next(block[1] for block in BLOCK.finditer(_page.read_text()) if line_of(_page, block) == _line)
    sys.modules.update(modules(_page))
    run(cell(_page, _code, _line))
