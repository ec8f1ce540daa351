"""Taking the time of things in turn, and saying it."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

__all__ = ["say", "times", "times_async"]

REPEATS = 3


async def times_async(cases: Mapping[str, Callable[[], Awaitable[Any]]], units: int) -> dict[str, float]:
    """Microseconds of CPU for each unit of some works: done in turn, the best of each, behind one to warm up."""
    best = dict.fromkeys(cases, float("inf"))
    for repeat in range(REPEATS + 1):
        for name, work in cases.items():
            gc.collect()
            before = time.process_time()
            await work()
            took = time.process_time() - before
            if repeat:
                best[name] = min(best[name], took)
    return {name: seconds / units * 1e6 for name, seconds in best.items()}


def times(cases: Mapping[str, Callable[[], object]], units: int) -> dict[str, float]:
    """The same of plain functions."""

    def waited(work: Callable[[], object]) -> Callable[[], Awaitable[object]]:
        async def one() -> object:
            return work()

        return one

    return asyncio.run(times_async({name: waited(work) for name, work in cases.items()}, units))


def say(numbers: Mapping[str, float]) -> None:
    """The line that the program was run for."""
    print(json.dumps(numbers))
