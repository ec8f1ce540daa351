"""A play as a graph of LangGraph: a node that answers, and before it one that works where the play has a tool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from tests.live.wrapped.scenarios import Play

from handrail import RunDriver

MARK = "from langgraph.graph import"


class Scripted(BaseChatModel):
    play: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, *given: Any, **more: Any) -> Any:
        raise NotImplementedError

    async def _astream(self, *given: Any, **more: Any) -> AsyncIterator[ChatGenerationChunk]:
        async for word in self.play.words():
            yield ChatGenerationChunk(message=AIMessageChunk(word))
        if self.play.is_counted:
            usage: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
            yield ChatGenerationChunk(message=AIMessageChunk("", usage_metadata=usage))


def agent(play: Play) -> tuple[Any, ...]:
    loop = asyncio.get_running_loop()
    model = Scripted(play=play)

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def work(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
        if play.tool == "asks":
            interrupt("May I?")
        await play.work(runtime.context)
        return {}

    def block(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
        play.block(runtime.context, loop)
        return {}

    graph = StateGraph(MessagesState, context_schema=RunDriver).add_node("answer", answer)
    if play.tool is None:
        graph.add_edge(START, "answer")
    else:
        graph.add_node("tool", block if play.tool == "plain" else work)
        graph.add_edge(START, "tool").add_edge("tool", "answer")
    return graph.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "t"}}
