"""A play as an agent of pydantic-ai."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, RunContext, Tool
from pydantic_ai.models.function import DeltaToolCall, FunctionModel, FunctionStreamedResponse
from pydantic_ai.usage import RequestUsage
from tests.live.wrapped.scenarios import Play

MARK = "from pydantic_ai import"


class Uncounted(FunctionStreamedResponse):
    @property
    def usage(self) -> RequestUsage:
        return RequestUsage(unmeasured_requests=1)


class SaysNoUsage(FunctionModel):
    @asynccontextmanager
    async def request_stream(self, *given: Any, **more: Any) -> AsyncGenerator[Any]:
        async with super().request_stream(*given, **more) as response:
            response.__class__ = Uncounted
            yield response


def agent(play: Play) -> tuple[Any, ...]:
    loop = asyncio.get_running_loop()

    async def stream(_messages: Any, _info: Any) -> AsyncIterator[Any]:
        if play.has_call():
            yield {0: DeltaToolCall(name="tool", json_args="{}", tool_call_id="c")}
            return
        async for word in play.words():
            yield word

    async def work(context: RunContext[Any]) -> str:
        return await play.work(context.deps)

    def block(context: RunContext[Any]) -> str:
        return play.block(context.deps, loop)

    chosen = block if play.tool == "plain" else work
    made = Tool(chosen, name="tool", requires_approval=play.tool == "asks")
    model = (FunctionModel if play.is_counted else SaysNoUsage)(stream_function=stream)
    return (Agent(model, tools=[made], output_type=[str, DeferredToolRequests]),)
