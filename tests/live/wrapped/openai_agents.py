"""A play as an agent of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, RunContextWrapper, function_tool
from openai.types import responses as r
from tests.live.wrapped.scenarios import Play

MARK = "from agents import"


class Scripted(Model):
    def __init__(self, play: Play) -> None:
        self._play = play

    async def get_response(self, *given: Any, **more: Any) -> Any:
        raise NotImplementedError

    async def stream_response(self, *given: Any, **more: Any) -> AsyncIterator[Any]:
        if self._play.has_call():
            call = r.ResponseFunctionToolCall(
                id="c", call_id="c", name="tool", arguments="{}", type="function_call", status="completed"
            )
            yield self._completed(call)
            return
        said: list[str] = []
        async for word in self._play.words():
            said.append(word)
            yield r.ResponseTextDeltaEvent(
                content_index=0, delta=word, item_id="m", logprobs=[], output_index=0, sequence_number=0,
                type="response.output_text.delta",
            )  # fmt: skip
        text = r.ResponseOutputText(annotations=[], text="".join(said), type="output_text")
        yield self._completed(
            r.ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        )

    def _completed(self, item: Any) -> r.ResponseCompletedEvent:
        details = {
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, **details}
        response = r.Response(
            id="r", created_at=0, model="scripted", object="response", output=[item], parallel_tool_calls=False,
            tool_choice="auto", tools=[],
            usage=r.ResponseUsage.model_validate(usage) if self._play.is_counted else None,
        )  # fmt: skip
        return r.ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")


def agent(play: Play) -> tuple[Any, ...]:
    loop = asyncio.get_running_loop()

    async def work(context: RunContextWrapper[Any]) -> str:
        """Work."""
        return await play.work(context.context)

    def block(context: RunContextWrapper[Any]) -> str:
        """Block."""
        return play.block(context.context, loop)

    chosen = block if play.tool == "plain" else work
    made = function_tool(chosen, name_override="tool", needs_approval=play.tool == "asks")
    return (Agent[Any](name="scripted", model=Scripted(play), tools=[made]),)
