"""The event loops that async tests run on: asyncio and trio, or those that HANDRAIL_EVENT_LOOPS names.

Tests get them by the fixture `anyio_backend`; `make matrix` goes through all of them. One that cannot be had here is
not in `HERE`, and naming it is an error: a test that was asked for is never left out in silence.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias, TypeVar

import anyio

T = TypeVar("T")

EventLoop: TypeAlias = str | tuple[str, dict[str, Any]]
"""As anyio and its pytest plugin take it: the name of the library, or that with its options."""


def eager_loop() -> asyncio.AbstractEventLoop:
    """An asyncio loop whose tasks take their first step inside `create_task` (Python 3.12 and newer)."""
    loop = asyncio.new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    return loop


HERE: dict[str, EventLoop] = {"asyncio": "asyncio", "trio": "trio"}
if importlib.util.find_spec("uvloop") is not None:
    HERE["uvloop"] = ("asyncio", {"use_uvloop": True})
if hasattr(asyncio, "eager_task_factory"):
    HERE["eager"] = ("asyncio", {"loop_factory": eager_loop})


def chosen(unless_named: Iterable[str] = ("asyncio", "trio")) -> list[str]:
    """The names of those to run on; raises `ValueError` for one that is not here."""
    names = os.environ.get("HANDRAIL_EVENT_LOOPS", ",".join(unless_named)).split(",")
    if missing := [name for name in names if name not in HERE]:
        raise ValueError(f"HANDRAIL_EVENT_LOOPS names {', '.join(missing)}; what is here is {', '.join(HERE)}")
    return names


def run_on(event_loop: EventLoop, main: Callable[[], Awaitable[T]]) -> T:
    """Run an async function on a loop of its own, from a test that is no coroutine."""
    name, options = (event_loop, {}) if isinstance(event_loop, str) else event_loop
    return anyio.run(main, backend=name, backend_options=options)
