"""A backend whose deltas come when it is time for them, so that something can happen in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from handrail.loop import BackendRequest
from handrail.testing import ScriptedBackend

Wait = Callable[[], Awaitable[object]]


class Paced:
    """Another backend's answers, each delta when it is time for it."""

    max_tokens = None

    def __init__(self, inner: ScriptedBackend, wait: Wait) -> None:
        self.model = inner.model
        self._inner = inner
        self._wait = wait

    def stream(self, request: BackendRequest) -> Any:
        return _PacedStream(self._inner.stream(request), self._wait)


class _PacedStream:
    def __init__(self, inner: Any, wait: Wait) -> None:
        self._inner = inner
        self._wait = wait

    async def __aenter__(self) -> Any:
        self._deltas = await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        await self._wait()
        return await self._deltas.__anext__()
