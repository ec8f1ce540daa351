"""Every line of some modules as a point where a thread may be left.

The interpreter tells a trace function of each line that is about to run. A line is coarser than a step of the
interpreter, and finer than anything that is written down to happen at once; what a module does at its import is left
out, because the import lock is not ours.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

__all__ = ["Lines", "is_within"]


def is_within(module: str, names: Sequence[str]) -> bool:
    """Whether a module is one of these, or inside one."""
    return any(module == name or module.startswith(f"{name}.") for name in names)


class Lines:
    """The lines of these modules and of all that is inside them; `point` is called before each."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = tuple(modules)
        self._wanted: dict[
            int, bool
        ] = {}  # by the names of a module: looking up a code object costs more than all else
        self.point: Callable[[], None] = _nothing

    def watch(self) -> None:
        """From here on, in the calling thread: also in what it is in the middle of."""
        sys.settrace(self._on_call)
        frame = inspect.currentframe()
        while frame is not None:
            if self._is_wanted(frame):
                frame.f_trace = self._on_line
            frame = frame.f_back

    def _is_wanted(self, frame: FrameType) -> bool:
        names = frame.f_globals
        wanted = self._wanted.get(id(names))
        if wanted is None:
            wanted = self._wanted[id(names)] = is_within(names.get("__name__", ""), self._modules)
        return wanted and frame.f_code.co_name != "<module>"

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        return self._on_line if self._is_wanted(frame) else None

    def _on_line(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        if event == "line":
            self.point()
        return self._on_line


def _nothing() -> None: ...
