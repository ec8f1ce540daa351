"""Streams of the adapter on the official SDK."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import openai
import pytest
from tests.aimock import Aimock
from tests.backends.kit import KEY, play_into

from handrail import BackendError, BackendRequest, Tool, system, user
from handrail.backends.openai import OpenAIBackend

_http_client = next(base for base in openai.DefaultAsyncHttpxClient.__mro__ if base.__name__ == "AsyncClient")
http: Any = importlib.import_module(_http_client.__module__)
"""What this SDK stands on: httpx2, or httpx where it is an older one."""


def over(mock: Aimock, **options: Any) -> OpenAIBackend:
    return OpenAIBackend("fake-model", base_url=mock.url, api_key=KEY, **options)


def answering(answer: Callable[[Any], Any], *, key: Any = KEY, **options: Any) -> OpenAIBackend:
    """A backend whose server is a function."""
    transport = http.MockTransport(answer)
    client = openai.AsyncOpenAI(base_url="http://x/v1", api_key=key, http_client=http.AsyncClient(transport=transport))
    return OpenAIBackend("fake-model", client=client, **options)


def asking(text: str, *tools: Tool) -> BackendRequest:
    return BackendRequest(messages=[system("Be brief."), user(text)], tools=tools)


async def play(backend: OpenAIBackend, text: str, got: list[Any] | None = None) -> list[Any]:
    """The deltas of one stream; `got` has what came before a failure."""
    got = [] if got is None else got
    await play_into(got, backend, asking(text))
    return got


async def failing(backend: OpenAIBackend, text: str, got: list[Any] | None = None) -> BackendError:
    with pytest.raises(BackendError) as raised:
        await play(backend, text, got)
    await backend.aclose()
    return raised.value
