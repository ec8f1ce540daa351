"""What comes behind the finish reason, and servers that never come to an end there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from tests.backends.openai_streams import answering, http, play

from handrail import FinishDelta, Loop, RetryPolicy, TextDelta, Usage, UsageDelta
from handrail.backends import openai as adapter
from handrail.backends.openai import OpenAIBackend

TEXT: dict[str, Any] = {"choices": [{"delta": {"content": "a"}}]}
STOP: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
USED: dict[str, Any] = {"choices": [], "usage": {"prompt_tokens": 3}}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of the usual patience."""
    monkeypatch.setattr(adapter, "_BEHIND_FINISH", 1.0)


def streaming(*chunks: dict[str, Any] | float) -> OpenAIBackend:
    """A backend whose server sends these chunks, or is busy for so many seconds, and then only comments."""

    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            if isinstance(chunk, float):
                await anyio.sleep(chunk)
            else:
                yield f"data: {json.dumps(chunk)}\n\n".encode()
        while True:
            await anyio.sleep(0.02)
            yield b": still here\n\n"

    def answer(_: Any) -> Any:
        return http.Response(200, headers={"content-type": "text/event-stream"}, content=body())

    return answering(answer)


async def test_a_server_that_goes_on_with_comments() -> None:
    """L-33: the answer is whole; what keeps the connection open holds up nobody."""
    with anyio.fail_after(10):
        got = await play(streaming(TEXT, STOP, USED), "x")
    assert got == [TextDelta("a"), FinishDelta("stop"), UsageDelta(Usage(prompt_tokens=3))]


async def test_each_chunk_behind_the_finish_is_waited_for() -> None:
    """L-33, L-35: of a server that says "stop" in each of its chunks nothing is lost."""
    said: dict[str, Any] = {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}
    with anyio.fail_after(10):
        got = await play(streaming(*[said, 0.1] * 12, USED), "x")
    assert len([delta for delta in got if isinstance(delta, TextDelta)]) == 12
    assert isinstance(got[-1], UsageDelta)


async def test_without_a_finish_comments_are_no_end() -> None:
    """L-33, L-50: that is for the loop, which hears no sign of life."""
    async with Loop(backends=[streaming(TEXT)], idle_timeout=0.3, retry=RetryPolicy(max_attempts=1)) as loop:
        outcome = await loop.run("hi").result
    assert [attempt.error_class for attempt in outcome.attempts] == ["timeout"]
