"""Calling what an application gave us, which may be a plain function or an async one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["called"]


async def called(fn: Callable[..., Any], *args: Any) -> Any:
    """What `fn` returns, awaited if it has to be. A plain function runs on the event loop and must not block it."""
    value = fn(*args)
    return await value if inspect.isawaitable(value) else value
