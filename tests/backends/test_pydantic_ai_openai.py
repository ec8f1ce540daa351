"""The adapter over pydantic-ai: its OpenAI model, against a mock server of others' making.

On asyncio only: the SDK below it leaves generators suspended that trio complains about.
"""

from __future__ import annotations

import anyio
import pytest
from tests.aimock import Aimock
from tests.backends.kit import KEY, play, said, weather

from handrail import (
    BackendError,
    BackendRequest,
    FinishDelta,
    ReasoningDelta,
    Tool,
    ToolCallDelta,
    UsageDelta,
    assistant,
    user,
)
from handrail.backends.pydantic_ai import PydanticAIBackend
from handrail.messages import tool_call, tool_result


def over(mock: Aimock) -> PydanticAIBackend:
    newer = "pydantic-ai's OpenAI model wants a newer openai than handrail and than what is installed here"
    models = pytest.importorskip("pydantic_ai.models.openai", reason=newer, exc_type=ImportError)
    providers = pytest.importorskip("pydantic_ai.providers.openai", reason=newer, exc_type=ImportError)
    return PydanticAIBackend(
        models.OpenAIChatModel("fake-model", provider=providers.OpenAIProvider(base_url=mock.url, api_key=KEY))
    )


def asking(text: str, *tools: Tool) -> BackendRequest:
    return BackendRequest(messages=[user(text)], tools=tools)


class TestOpenAI:
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    async def test_text_and_usage(self, aimock: Aimock) -> None:
        """L-155 to L-158: a real adapter of the library, end to end."""
        got = await play(over(aimock), asking("usage"))
        assert said(got) == "Counted."
        (usage,) = [d.usage for d in got if isinstance(d, UsageDelta)]
        assert (usage.prompt_tokens, usage.completion_tokens, usage.cost) == (50, 11, None)
        assert got[-1] == FinishDelta("stop", "fake-model-1")

    async def test_calls(self, aimock: Aimock) -> None:
        """L-156: two calls in their order."""
        got = await play(over(aimock), asking("two-tools", Tool(weather, name="get_weather")))
        assert [(d.id, d.name, d.arguments) for d in got if isinstance(d, ToolCallDelta)] == [
            ("call_a", "get_weather", '{"city":"Paris"}'),
            ("call_b", "get_weather", '{"city":"Oslo"}'),
        ]
        assert got[-1] == FinishDelta("tool-calls", "fake-model")

    async def test_length(self, aimock: Aimock) -> None:
        """L-157: the cut is told."""
        assert (await play(over(aimock), asking("cut-length")))[-1] == FinishDelta("length", "fake-model")

    async def test_reasoning(self, aimock: Aimock) -> None:
        """L-156: thinking is reasoning."""
        got = await play(over(aimock), asking("reasoning"))
        assert "".join(d.text for d in got if isinstance(d, ReasoningDelta)) == "First think."
        assert said(got) == "Then speak."

    @pytest.mark.parametrize(
        ("text", "kind", "status"),
        [
            ("always-429", "http", 429),
            ("always-500", "http", 500),
            ("always-401", "http", 401),
            ("too-long", "overflow", 400),
            ("disconnect", "connection", None),
            ("drop-after-chunks", "connection", None),
        ],
    )
    async def test_failures(self, aimock: Aimock, text: str, kind: str, status: int | None) -> None:
        """L-159: kind and status; one request each, since retrying is the loop's."""
        before = len(aimock.journal())
        with pytest.raises(BackendError) as raised:
            await play(over(aimock), asking(text))
        assert (raised.value.kind, raised.value.status) == (kind, status)
        assert KEY not in str(raised.value)
        assert len(aimock.journal()) == before + 1

    async def test_arguments_that_are_no_object_go_back(self, aimock: Aimock) -> None:
        """L-159: in the library's own form for invalid JSON, and the result under its call."""
        log = [
            user("weather"),
            assistant(tool_calls=[tool_call("get_weather", '{"city": ', id="c1")]),
            tool_result("c1", "not JSON"),
        ]
        await play(over(aimock), BackendRequest(messages=log, tools=[Tool(weather, name="get_weather")]))
        _, answer, result = aimock.journal()[-1]["body"]["messages"]
        assert "INVALID_JSON" in answer["tool_calls"][0]["function"]["arguments"]
        assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", "c1", "not JSON")

    def test_two_event_loops_one_after_the_other(self, aimock: Aimock) -> None:
        """R-96: one backend works in both."""
        backend = over(aimock)
        for _ in range(2):
            assert said(anyio.run(play, backend, asking("plain"))).startswith("Hello")
