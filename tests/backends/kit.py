"""What the tests of both adapters share."""

from __future__ import annotations

from typing import Any

from handrail import BackendRequest, TextDelta, user
from handrail.loop import Backend

KEY = "sk-secret-1234567890"


def weather(city: str) -> str:
    """Tell the weather."""
    return city


def said(deltas: list[Any]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


async def play_into(got: list[Any], backend: Backend, request: BackendRequest | None = None) -> None:
    async with backend.stream(request or BackendRequest(messages=[user("x")])) as deltas:
        async for delta in deltas:
            got.append(delta)  # noqa: PERF401  # what came before a failure stays


async def play(backend: Backend, request: BackendRequest | None = None) -> list[Any]:
    got: list[Any] = []
    await play_into(got, backend, request)
    return got
