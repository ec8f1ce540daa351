"""What a process holds: blocks of memory, threads, descriptors, tasks, and objects of our own.

The allocator's count of blocks is free of noise and tells of the smallest leak; resident memory tells also of what lies
outside of it, and is noisy. Both are taken behind full collections, with free memory given back to the system.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pydantic_core
import trio

ROOM = 0.05
"""How much more of anything there may be in the end."""

_TASKS = (asyncio.Task, trio.lowlevel.Task)
_ENDING_WITHIN = 20.0


def fill_caches() -> None:
    """Have pydantic's cache of 16,384 strings full from the start: it fills slowly, and looks like a leak till then."""
    pydantic_core.from_json(json.dumps([f"filling {number}" for number in range(100_000)]), cache_strings="all")


@dataclass(frozen=True, slots=True)
class Figures:
    """What there was at one time."""

    blocks: int
    resident: int
    """KiB"""
    threads: int
    descriptors: int
    tasks: int
    objects: Mapping[str, int]
    """How many there are of each class of handrail."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def taken() -> Figures:
    """What this process holds now, when all that was left to end has ended."""
    for thread in threading.enumerate():
        if thread.name.startswith("handrail ") and thread.name != "handrail runs":
            thread.join(_ENDING_WITHIN)
    for _ in range(3):
        gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    found = gc.get_objects()
    blocks = sys.getallocatedblocks()
    kinds = Counter(map(type, found))
    objects = {name: count for kind, count in kinds.items() if (name := _name(kind)).startswith("handrail.")}
    tasks = sum(isinstance(one, _TASKS) for one in found)
    return Figures(
        blocks, resident=_resident(), threads=_listed("task"), descriptors=_listed("fd"), tasks=tasks, objects=objects
    )


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4


def _listed(what: str) -> int:
    return len(list(Path("/proc/self", what).iterdir()))


def compared(before: Figures, after: Figures, times: int) -> tuple[str, list[str]]:
    """A table of both, and what there is too much of behind so many runs."""
    lines = [f"{'':<24}{'before':>12}{'after':>12}{'change':>9}{'a run':>9}"]
    grown: list[str] = []
    rows = [(name, getattr(before, name), getattr(after, name)) for name in Figures.__slots__ if name != "objects"]
    rows += [("objects of handrail", sum(before.objects.values()), sum(after.objects.values()))]
    for name, was, now in rows:
        change = (now - was) / max(was, 1)
        lines.append(f"{name:<24}{was:>12,}{now:>12,}{change:>+9.1%}{(now - was) / times:>+9.3f}")
        if change > ROOM:
            grown.append(f"{name}: {was:,} before, {now:,} after")
    for name, now in after.objects.items():
        was = before.objects.get(name, 0)
        if now > was * (1 + ROOM):
            grown.append(f"{name}: {was:,} before, {now:,} after")
    return "\n".join(lines), grown
