"""The same work for everybody: a scripted model, its tool, and a consumer that reads the run to its end.

A framework makes an agent of a script, outside the clock, and plays it: `heard` is called for every token that reaches
the consumer, and `held` gets what cancels the run. The script is the model: so many tool rounds, then so many tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["FRAMEWORKS", "Framework", "Script"]

TOKEN = "tokn "


async def lookup(query: str) -> str:
    """Look one thing up."""
    return f"found {query}"


@dataclass
class Script:
    """What the model does; `paced` gives the event loop a turn for each token, `hold` stops half way through them."""

    tokens: int = 1
    rounds: int = 0
    paced: bool = False
    hold: asyncio.Event | None = None
    at_hold: Callable[[], object] = lambda: None
    tool: Callable[..., Any] = lookup
    asked: int = 0

    def has_call(self) -> bool:
        """Whether the next request is answered with a call; counts the requests of one run."""
        self.asked = self.asked % (self.rounds + 1) + 1
        return self.asked <= self.rounds

    async def text(self) -> AsyncIterator[str]:
        half = self.tokens // 2
        for number in range(self.tokens):
            if self.hold is not None and number == half:
                self.at_hold()
                await self.hold.wait()
            if self.paced:
                await asyncio.sleep(0)
            yield TOKEN


class Framework(Protocol):
    """One way to run a scripted agent."""

    def agent(self, script: Script) -> Any: ...
    async def play(self, agent: Any, heard: Callable[[], object], held: Callable[[Any], object]) -> None: ...


@dataclass(slots=True)
class _Said:
    run_id: str
    seq: int
    text: str


class Queue:
    """The floor: a task, an `asyncio.Queue` to the consumer, a future for the result; nothing checked, nothing kept."""

    def agent(self, script: Script) -> Script:
        return script

    async def play(self, agent: Script, heard: Callable[[], object], held: Callable[[Any], object]) -> None:
        line: asyncio.Queue[_Said | None] = asyncio.Queue()
        result = asyncio.get_running_loop().create_future()

        async def drive() -> None:
            number = 0
            history: list[dict[str, Any]] = []
            while agent.has_call():
                history.append({"role": "assistant", "call": agent.asked})
                line.put_nowait(_Said("r", number, "call"))
                history.append({"role": "tool", "content": await agent.tool("x")})
                line.put_nowait(_Said("r", number + 1, "result"))
                number += 2
            async for token in agent.text():
                line.put_nowait(_Said("r", number, token))
                number += 1
            result.set_result("completed")
            line.put_nowait(None)

        task = asyncio.create_task(drive())
        while (said := await line.get()) is not None:
            if said.text == TOKEN:
                heard()
        await task
        await result


class Handrail:
    """A `Loop` over the least that a backend can be."""

    def __init__(self) -> None:
        from handrail import FinishDelta, Limits, Loop, TextDelta, ToolCallDelta
        from handrail.events import Token

        class Backend:
            model = "scripted"
            max_tokens = None

            def __init__(self, script: Script) -> None:
                self.script = script

            def stream(self, request: Any) -> Any:
                return self

            async def __aenter__(self) -> AsyncIterator[Any]:
                return self.deltas()

            async def __aexit__(self, *about: object) -> None:
                return None

            async def deltas(self) -> AsyncIterator[Any]:
                script = self.script
                if script.has_call():
                    yield ToolCallDelta(0, f"call-{script.asked}", "lookup", '{"query": "x"}')
                    yield FinishDelta("tool-calls")
                    return
                async for token in script.text():
                    yield TextDelta(token)
                yield FinishDelta("stop")

        self._backend, self._loop, self._token = Backend, Loop, Token
        self._limits = Limits(max_rounds=10_000, max_tool_calls=10_000, max_identical_calls=10_000)

    def agent(self, script: Script) -> Any:
        tools = [named(script.tool)] if script.rounds else []
        return self._loop(backends=[self._backend(script)], tools=tools, limits=self._limits)

    async def play(self, agent: Any, heard: Callable[[], object], held: Callable[[Any], object]) -> None:
        run = agent.run("go")
        held(run)
        token = self._token
        async for event in run.events:
            if type(event) is token:
                heard()
        await run.result


class PydanticAI:
    """An agent over a `FunctionModel`, its events read as they come."""

    def __init__(self) -> None:
        import pydantic_ai
        from pydantic_ai import messages, usage
        from pydantic_ai.models.function import DeltaToolCall, FunctionModel

        self._ai, self._messages = pydantic_ai, messages
        self._model, self._call = FunctionModel, DeltaToolCall
        self._limits = usage.UsageLimits(request_limit=None)

    def agent(self, script: Script) -> Any:
        async def stream(_messages: Any, _info: Any) -> AsyncIterator[Any]:
            if script.has_call():
                name = f"call-{script.asked}"
                yield {0: self._call(name="lookup", json_args='{"query": "x"}', tool_call_id=name)}
                return
            async for token in script.text():
                yield token

        tools = [self._ai.Tool(named(script.tool), takes_ctx=False)] if script.rounds else []
        return self._ai.Agent(self._model(stream_function=stream), tools=tools)

    async def play(self, agent: Any, heard: Callable[[], object], held: Callable[[Any], object]) -> None:
        m = self._messages
        token = self._ai.CancellationToken()
        held(token)
        async with agent.run_stream_events("go", usage_limits=self._limits, cancellation_token=token) as events:
            async for event in events:
                is_start = isinstance(event, m.PartStartEvent) and isinstance(event.part, m.TextPart)
                if is_start or (isinstance(event, m.PartDeltaEvent) and isinstance(event.delta, m.TextPartDelta)):
                    heard()


class OpenAIAgents:
    """An agent over a `Model` that streams what the script says, its events read as they come."""

    def __init__(self) -> None:
        import agents
        from openai.types import responses

        agents.set_tracing_disabled(True)
        self._agents = agents
        r = responses

        def ended(output: list[Any], number: int) -> Any:
            response = r.Response(
                id="resp", created_at=0, model="scripted", object="response", output=output,
                parallel_tool_calls=False, tool_choice="auto", tools=[],
            )  # fmt: skip
            return r.ResponseCompletedEvent(response=response, sequence_number=number, type="response.completed")

        class Model(agents.Model):
            def __init__(self, script: Script) -> None:
                self.script = script

            async def get_response(self, *about: Any, **more: Any) -> Any:
                raise NotImplementedError

            async def stream_response(self, *about: Any, **more: Any) -> AsyncIterator[Any]:
                script = self.script
                if script.has_call():
                    name = f"call-{script.asked}"
                    yield ended([r.ResponseFunctionToolCall(
                        id=name, call_id=name, name="lookup", arguments='{"query": "x"}', type="function_call",
                    )], 0)  # fmt: skip
                    return
                said: list[str] = []
                async for token in script.text():
                    said.append(token)
                    yield r.ResponseTextDeltaEvent(
                        content_index=0, delta=token, item_id="m", logprobs=[], output_index=0,
                        sequence_number=len(said), type="response.output_text.delta",
                    )  # fmt: skip
                text = r.ResponseOutputText(annotations=[], text="".join(said), type="output_text")
                yield ended([r.ResponseOutputMessage(
                    id="m", content=[text], role="assistant", status="completed", type="message",
                )], len(said))  # fmt: skip

        self._model = Model

    def agent(self, script: Script) -> Any:
        tools = [self._agents.function_tool(named(script.tool))] if script.rounds else []
        return self._agents.Agent(name="scripted", model=self._model(script), tools=tools), script.rounds + 5

    async def play(self, agent: Any, heard: Callable[[], object], held: Callable[[Any], object]) -> None:
        who, turns = agent
        result = self._agents.Runner.run_streamed(who, "go", max_turns=turns)
        held(result)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                heard()


class Agno:
    """An agent over a `Model` that streams what the script says, its events read as they come."""

    def __init__(self) -> None:
        from agno.agent import Agent
        from agno.models.base import Model
        from agno.models.response import ModelResponse

        class Scripted(Model):
            def __init__(self, script: Script) -> None:
                super().__init__(id="scripted", name="scripted", provider="scripted")
                self.script = script

            def invoke(self, *about: Any, **more: Any) -> Any:
                raise NotImplementedError

            ainvoke = invoke_stream = invoke

            async def ainvoke_stream(self, *about: Any, **more: Any) -> AsyncIterator[Any]:
                script = self.script
                if script.has_call():
                    function = {"name": "lookup", "arguments": '{"query": "x"}'}
                    call = {"id": f"call-{script.asked}", "type": "function", "function": function}
                    yield ModelResponse(role="assistant", tool_calls=[call])
                    return
                async for token in script.text():
                    yield ModelResponse(role="assistant", content=token)

            def _parse_provider_response(self, response: Any, **more: Any) -> Any:
                return response

            def _parse_provider_response_delta(self, response: Any) -> Any:
                return response

        self._model, self._agent = Scripted, Agent

    def agent(self, script: Script) -> Any:
        tools = [named(script.tool)] if script.rounds else []
        return self._agent(model=self._model(script), tools=tools, telemetry=False)

    async def play(self, agent: Any, heard: Callable[[], object], held: Callable[[Any], object]) -> None:
        async for event in agent.arun("go", stream=True, stream_events=True):
            if event.event == "RunContent":
                heard()


def named(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool under the one name that every script calls."""
    tool.__name__ = tool.__qualname__ = "lookup"
    return tool


FRAMEWORKS: dict[str, type[Framework]] = {
    "queue + task": Queue,
    "handrail": Handrail,
    "pydantic-ai": PydanticAI,
    "openai-agents": OpenAIAgents,
    "agno": Agno,
}
