"""Models of pydantic-ai that stream what they are told to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio.lowlevel
import pydantic_ai.messages as ai
from pydantic_ai.models.function import AgentInfo, FunctionModel

from handrail.backends.pydantic_ai import PydanticAIBackend


def saying(*items: Any, seen: list[Any] | None = None) -> PydanticAIBackend:
    """A backend whose model streams these."""

    async def stream(messages: list[ai.ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if seen is not None:
            seen.append((messages, info))
        for item in items:
            await anyio.lowlevel.checkpoint()
            if isinstance(item, Exception):
                raise item
            yield item

    return PydanticAIBackend(FunctionModel(stream_function=stream, model_name="fake"))
