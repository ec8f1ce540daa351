"""Thinking models that want their reasoning back with the calls it led to, as DeepSeek's and Kimi's do."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from tests.backends.kit import KEY, weather
from tests.backends.openai_streams import http

from handrail import Loop, Outcome
from handrail.backends.openai import OpenAIBackend
from handrail.backends.pydantic_ai import PydanticAIBackend

CALL = {"index": 0, "id": "A", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
ASKING = [{"delta": {"reasoning_content": "hm", "tool_calls": [CALL]}, "finish_reason": "tool_calls"}]
SAYING = [{"delta": {"content": "Warm."}, "finish_reason": "stop"}]


class Server:
    """Answers with a call, then with a text, and keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        transport = http.MockTransport(self._answer)
        self.client = openai.AsyncOpenAI(
            base_url="http://x/v1", api_key=KEY, http_client=http.AsyncClient(transport=transport), max_retries=0
        )

    def _answer(self, request: Any) -> Any:
        self.sent.append(json.loads(request.read()))
        data = json.dumps({"model": "m", "choices": ASKING if len(self.sent) == 1 else SAYING})
        return http.Response(200, headers={"content-type": "text/event-stream"}, content=f"data: {data}\n\n".encode())

    @property
    def answer_sent_back(self) -> dict[str, Any]:
        return self.sent[1]["messages"][1]


async def outcome_of(backend: Any) -> Outcome:
    async with Loop(backends=[backend], tools=[weather]) as loop:
        return await loop.run("Is it warm?").result


class TestPydanticAI:
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    async def test_it_goes_back_where_it_came_from(self) -> None:
        """L-142, L-156: as the library's model of that provider sends it."""
        wants = "pydantic-ai's OpenAI model wants a newer openai than handrail and than what is installed here"
        models = pytest.importorskip("pydantic_ai.models.openai", reason=wants, exc_type=ImportError)
        providers = pytest.importorskip("pydantic_ai.providers.deepseek", reason=wants, exc_type=ImportError)
        server = Server()
        provider = providers.DeepSeekProvider(openai_client=server.client)
        model = models.OpenAIChatModel("deepseek-reasoner", provider=provider)
        assert (await outcome_of(PydanticAIBackend(model))).final == "Warm."
        assert server.answer_sent_back["reasoning_content"] == "hm"


async def test_the_adapter_on_the_sdk_leaves_it_out() -> None:
    """L-152: chat completions as OpenAI has them have no place for it."""
    server = Server()
    assert (await outcome_of(OpenAIBackend("m", client=server.client))).final == "Warm."
    assert set(server.answer_sent_back) == {"role", "content", "tool_calls"}
