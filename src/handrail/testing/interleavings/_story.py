"""Where somebody stands, and what happened, in words."""

from __future__ import annotations

import inspect
import linecache
import sys
from pathlib import PurePath
from types import FrameType

__all__ = ["Story", "called", "frame_of", "place_of", "suspended_at", "way_to"]

_OURS = __name__.rpartition(".")[0]
_MACHINERY = ("threading", "asyncio.base_events")
_SHOWN = 40


class Story:
    """What each did, stretch by stretch: from where it went on to where it stopped, which is all that is told."""

    def __init__(self) -> None:
        self._stretches: list[tuple[str, str]] = []

    def add(self, who: str, until: str) -> None:
        """`who` went on, and so far; two stretches of the same in a row are one."""
        if self._stretches and self._stretches[-1][0] == who:
            self._stretches.pop()
        self._stretches.append((who, until))

    def __str__(self) -> str:
        width = max((len(who) for who, _ in self._stretches), default=0)
        lines = [f"  {who:{width}}  {until}" for who, until in self._stretches]
        left_out = len(lines) - _SHOWN
        return "\n".join([f"  ... {left_out} before", *lines[-_SHOWN:]] if left_out > 0 else lines)


def frame_of(thread: int) -> FrameType | None:
    """What a thread is in the middle of."""
    return sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]  # documented, underscore or not


def place_of(frame: FrameType | None) -> str:
    """Where a thread stands: the innermost place that is neither of this package nor of Python's own machinery."""
    while frame is not None and _is_passed_over(frame):
        frame = frame.f_back
    return "its next step" if frame is None else _told(frame)


def way_to(frame: FrameType | None) -> str:
    """The same, and the outermost place that leads there."""
    innermost = place_of(frame)
    outermost = innermost
    while frame is not None:
        if not _is_passed_over(frame):
            outermost = _told(frame)
        frame = frame.f_back
    return innermost if innermost == outermost else f"{innermost}\n      from {outermost}"


def suspended_at(coro: object) -> str:
    """Where a coroutine awaits, at the bottom of what it awaits."""
    frame: FrameType | None = None
    while inspect.iscoroutine(coro) and coro.cr_frame is not None:
        frame, coro = coro.cr_frame, coro.cr_await
    return "its first step" if frame is None else _told(frame)


def called(qualname: str) -> str:
    """The name of a function without that of the one it was made in."""
    return qualname.rpartition("<locals>.")[2]


def _is_passed_over(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(_OURS) or name in _MACHINERY


def _told(frame: FrameType) -> str:
    path, line = frame.f_code.co_filename, frame.f_lineno
    short = "/".join(PurePath(path).parts[-2:])
    source = linecache.getline(path, line).strip()
    return f"{short}:{line} {called(frame.f_code.co_qualname)}" + (f" | {source}" if source else "")
