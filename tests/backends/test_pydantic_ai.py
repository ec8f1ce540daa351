"""The adapter over pydantic-ai: its models for tests on both event loops, its OpenAI model against the mock server."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pydantic_ai.exceptions as errors
import pydantic_ai.messages as ai
import pytest
from ag_ui.core import ReasoningMessage
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage
from tests.aimock import Aimock

from handrail import (
    BackendError,
    BackendRequest,
    FinishDelta,
    ReasoningDelta,
    TextDelta,
    Tool,
    ToolCallDelta,
    Usage,
    UsageDelta,
    assistant,
    system,
    user,
)
from handrail.backends.pydantic_ai import PydanticAIBackend
from handrail.loop import Backend
from handrail.messages import tool_call, tool_result

KEY = "sk-secret-1234567890"


def weather(city: str) -> str:
    """Tell the weather."""
    return city


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


async def play_into(got: list[Any], backend: PydanticAIBackend, request: BackendRequest | None = None) -> None:
    async with backend.stream(request or BackendRequest(messages=[user("x")])) as deltas:
        async for delta in deltas:
            got.append(delta)  # noqa: PERF401  # what came before a failure stays


async def play(backend: PydanticAIBackend, request: BackendRequest | None = None) -> list[Any]:
    got: list[Any] = []
    await play_into(got, backend, request)
    return got


def said(deltas: list[Any]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


# The library's own models for tests


async def test_text() -> None:
    """L-156, L-157: text as it comes; a complete answer without a reason is complete, and the reason is left out."""
    got = await play(saying("It is ", "warm."))
    assert got[:2] == [TextDelta("It is "), TextDelta("warm.")]
    assert [type(d) for d in got[2:]] == [UsageDelta, FinishDelta]
    assert got[-1] == FinishDelta(None, "fake")


async def test_thinking() -> None:
    """L-156: thinking is reasoning; signature and provider come as an opaque value that can go back."""
    seen: list[Any] = []
    thinking = [{0: DeltaThinkingPart(content="First ")}, {0: DeltaThinkingPart(content="think.", signature="s1")}]
    got = await play(saying(*thinking, "Then speak."))
    reasoning = [d for d in got if isinstance(d, ReasoningDelta)]
    assert [d.text for d in reasoning] == ["First ", "think.", ""]
    opaque = reasoning[-1].opaque
    assert opaque is not None
    assert said(got) == "Then speak."

    log = [
        user("x"),
        ReasoningMessage(id="r", content="First think.", encrypted_value=opaque),
        assistant("Then speak."),
    ]
    await play(saying("ok", seen=seen), BackendRequest(messages=[*log, user("y")]))
    ((messages, _),) = seen
    assert messages[1].parts[0] == ai.ThinkingPart("First think.", signature="s1", provider_name="function")


async def test_calls_come_from_the_finished_parts() -> None:
    """L-156: joined by the library, in order, behind the text."""
    got = await play(
        saying(
            {0: DeltaToolCall(name="f", json_args='{"x"', tool_call_id="c1")},
            {1: DeltaToolCall(name="g", json_args="{}", tool_call_id="c2")},
            {0: DeltaToolCall(json_args=": 1}")},
        )
    )
    assert [d for d in got if isinstance(d, ToolCallDelta)] == [
        ToolCallDelta(0, "c1", "f", '{"x": 1}'),
        ToolCallDelta(1, "c2", "g", "{}"),
    ]
    assert got[-1] == FinishDelta(None, "fake")


async def test_the_library_s_own_test_model() -> None:
    """L-155: tools are seen, called, and answered."""
    backend = PydanticAIBackend(TestModel())
    got = await play(backend, BackendRequest(messages=[user("x")], tools=[Tool(weather)]))
    (call,) = [d for d in got if isinstance(d, ToolCallDelta)]
    assert (call.name, call.arguments) == ("weather", '{"city": "a"}')
    log = [
        user("x"),
        assistant(tool_calls=[tool_call("weather", '{"city": "a"}', id="c1")]),
        tool_result("c1", "warm"),
    ]
    got = await play(backend, BackendRequest(messages=log, tools=[Tool(weather)]))
    assert said(got) == '{"weather":"warm"}'


async def test_what_the_model_is_given() -> None:
    """L-155: messages, tools and settings; `max_tokens` in the settings, retries off."""
    seen: list[Any] = []

    async def stream(messages: list[ai.ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        seen.append((messages, info))
        yield "ok"

    backend = PydanticAIBackend(
        FunctionModel(stream_function=stream), max_tokens=50, settings=ModelSettings(temperature=0.5)
    )
    await play(backend, BackendRequest(messages=[system("Be brief."), user("x")], tools=[Tool(weather)]))
    ((messages, info),) = seen
    assert [p.part_kind for p in messages[0].parts] == ["system-prompt", "user-prompt"]
    assert [t.name for t in info.function_tools] == ["weather"]
    assert info.model_settings == {"temperature": 0.5, "max_tokens": 50, "max_retries": 0}
    assert (backend.max_tokens, backend.model) == (50, "function::stream")


async def test_max_tokens_may_stand_in_the_settings() -> None:
    """L-30: the loop has to know the cap, wherever it was given."""
    assert PydanticAIBackend(TestModel(), settings=ModelSettings(max_tokens=7)).max_tokens == 7
    assert PydanticAIBackend(TestModel(settings=ModelSettings(max_tokens=8))).max_tokens == 8
    assert PydanticAIBackend(TestModel()).max_tokens is None


# A model that answers with what it is told to


class Played(StreamedResponse):
    """A streamed response made of given events, and of a finished answer."""

    def __init__(self, events: list[Any], answer: ai.ModelResponse) -> None:
        super().__init__(ModelRequestParameters())
        self._played = self._play(events)
        self._answer = answer

    async def _play(self, events: list[Any]) -> AsyncIterator[Any]:
        for event in events:
            yield event

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._played

    async def _get_event_iterator(self) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield

    def get(self) -> ai.ModelResponse:
        return self._answer

    model_name = provider_name = provider_url = timestamp = property(lambda self: None)  # pyright: ignore


class Answering(PydanticAIBackend):
    """A backend with a stream of such events and such an answer."""

    def __init__(self, *events: Any, **answer: Any) -> None:
        super().__init__(TestModel())
        self._played = Played(list(events), ai.ModelResponse(**({"parts": []} | answer)))

    async def opened(self, request: BackendRequest) -> Any:
        return contextlib.nullcontext(self._played)


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("stop", "stop"),
        ("tool_call", "tool-calls"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        (None, None),
    ],
)
async def test_finish_reasons(reason: Any, ours: str | None) -> None:
    """L-157: the library's as ours."""
    got = await play(Answering(finish_reason=reason, model_name="m-1"))
    assert got == [FinishDelta(ours, "m-1")]  # pyright: ignore


@pytest.mark.parametrize("answer", [{"finish_reason": "error"}, {"state": "incomplete"}, {"state": "suspended"}])
async def test_an_answer_that_is_none(answer: dict[str, Any]) -> None:
    """L-157: an error, or a response that is not complete, is class response."""
    with pytest.raises(BackendError) as raised:
        await play(Answering(**answer))
    assert raised.value.kind == "response"


async def test_text_that_is_started_again() -> None:
    """L-156: it was streamed, so the attempt fails; a part that had said nothing may be started again."""
    quiet = ai.PartStartEvent(index=0, part=ai.TextPart(""))
    loud = ai.PartStartEvent(index=0, part=ai.TextPart("a"))
    assert said(await play(Answering(quiet, loud))) == "a"
    got: list[Any] = []
    with pytest.raises(BackendError, match="started again") as raised:
        await play_into(got, Answering(loud, loud))
    assert raised.value.kind == "response"
    assert got == [TextDelta("a")]


async def test_calls_whose_arguments_are_an_object() -> None:
    """L-156: as JSON text; a call without arguments has none."""
    parts = [ai.ToolCallPart("f", {"x": 1}, "c1"), ai.ToolCallPart("g", None, "c2"), ai.TextPart("t")]
    got = await play(Answering(parts=parts))
    assert got[:2] == [ToolCallDelta(0, "c1", "f", '{"x": 1}'), ToolCallDelta(1, "c2", "g", None)]


@pytest.mark.parametrize(
    ("usage", "more", "ours"),
    [
        (RequestUsage(input_tokens=10, output_tokens=5), {}, Usage(10, 5)),
        (
            RequestUsage(input_tokens=10, output_tokens=5, cache_read_tokens=4, cost=0.5),
            {"provider_name": "p", "provider_response_id": "g1"},
            Usage(10, 5, None, 4, 0.5, "p", "g1"),
        ),
        (RequestUsage(input_tokens=10), {"provider_details": {"cost": 0.25}}, Usage(10, 0, cost=0.25)),
        (RequestUsage(), {}, None),
        (RequestUsage(input_tokens=10, unmeasured_requests=1), {}, None),
    ],
)
async def test_usage(usage: RequestUsage, more: dict[str, Any], ours: Usage | None) -> None:
    """L-158: unmeasured or all zero is unreported; a cost only where the provider said one."""
    got = await play(Answering(usage=usage, **more))
    assert [d.usage for d in got if isinstance(d, UsageDelta)] == ([] if ours is None else [ours])


def http(status: int, category: Any = None, **more: Any) -> Exception:
    return errors.ModelHTTPError.for_category(category=category, status_code=status, model_name="m", **more)


@pytest.mark.parametrize(
    ("raised", "kind", "status", "retry_after"),
    [
        (http(500), "http", 500, None),
        (http(429, errors.ModelRateLimitError, headers={"Retry-After": "3"}), "http", 429, 3.0),
        (http(400, errors.ModelContextWindowExceededError), "overflow", 400, None),
        (errors.ModelContextWindowExceededError("m", "x"), "overflow", None, None),
        (errors.ModelTimeoutError("m", "x", phase="read"), "timeout", None, None),
        (errors.ModelTimeoutError("m", "x", phase="connect"), "connection", None, None),
        (errors.ModelRequestTimeout("m", 3.0), "timeout", None, None),
        (errors.ModelConnectionError("m", "x"), "connection", None, None),
        (errors.ModelOverloadedError("m", "x"), "http", 503, None),
        (errors.ModelAuthenticationError("m", "x"), "http", 401, None),
        (errors.ModelAPIError("m", "x"), "other", None, None),
        (errors.UnexpectedModelBehavior("x"), "response", None, None),
        (errors.ContentFilterError("x"), "content-filter", None, None),
        (errors.UserError("x"), "unsupported", None, None),
        (NotImplementedError("x"), "unsupported", None, None),
    ],
)
async def test_failures(raised: Exception, kind: str, status: int | None, retry_after: float | None) -> None:
    """L-159, L-39: before the stream and in it, behind what had come; the text names the class."""
    got: list[Any] = []
    with pytest.raises(BackendError) as before:
        await play(saying(raised))
    with pytest.raises(BackendError) as amid:
        await play_into(got, saying("a", "b", raised))
    for error in (before.value, amid.value):
        assert (error.kind, error.status, error.retry_after) == (kind, status, retry_after)
        assert str(error).startswith(type(raised).__name__)
        assert error.__cause__ is raised
    assert said(got) == "ab"


async def test_an_exception_of_nobody_we_know() -> None:
    """L-38: is left as it is, for the loop to judge."""
    with pytest.raises(LookupError, match="mine"):
        await play(saying("a", LookupError("mine")))


@pytest.mark.parametrize("items", [[errors.OutputTokenLimitExceeded("x")], ["a", errors.OutputTokenLimitExceeded("x")]])
async def test_an_output_limit_is_a_length_cut(items: list[Any]) -> None:
    """L-157: before the stream and in it."""
    assert (await play(saying(*items)))[-1] == FinishDelta("length")


async def test_a_fallback_model_tells_its_last_failure() -> None:
    """L-159: of the group it raises."""

    def failing(error: Exception) -> FunctionModel:
        async def stream(messages: Any, info: Any) -> AsyncIterator[str]:
            raise error
            yield ""

        return FunctionModel(stream_function=stream)

    with pytest.raises(BackendError) as raised:
        await play(PydanticAIBackend(FallbackModel(failing(http(500)), failing(http(429)))))
    assert (raised.value.kind, raised.value.status) == ("http", 429)


async def test_left_early() -> None:
    """L-37: the model's stream is closed once, also when it is cancelled in mid-text."""
    closed: list[str] = []

    async def stream(messages: Any, info: Any) -> AsyncIterator[str]:
        try:
            yield "a"
            await anyio.sleep_forever()
        finally:
            closed.append("closed")

    backend = PydanticAIBackend(FunctionModel(stream_function=stream))
    async with backend.stream(BackendRequest(messages=[user("x")])) as deltas:
        assert await anext(deltas) == TextDelta("a")
    assert closed == ["closed"]
    with anyio.move_on_after(0.05) as scope:
        await play(backend)
    assert scope.cancelled_caught
    assert closed == ["closed", "closed"]


# Its OpenAI model. The SDK below it leaves generators suspended that trio complains about, so here: asyncio.


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


# Making one


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: PydanticAIBackend("nobody:nothing"), errors.UserError, "Unknown model"),
        (lambda: PydanticAIBackend(TestModel(), max_tokens=0), ValueError, "from 1"),
    ],
)
def test_misuse_is_said_when_it_is_made(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    """L-2: at once, with what is wrong."""
    with pytest.raises(error, match=words):
        make()


def test_it_is_a_backend() -> None:
    """L-30, L-155: by model or by name."""
    backend = PydanticAIBackend("test")
    assert isinstance(backend, Backend)
    assert (backend.model, repr(backend)) == ("test", "<PydanticAIBackend test>")


def test_without_the_library() -> None:
    """L-155: importing handrail does not import it, and the import error says what to install."""
    program = """
import sys
import handrail, handrail.loop, handrail.tools
assert "pydantic_ai" not in sys.modules
sys.modules["pydantic_ai"] = None
try:
    import handrail.backends.pydantic_ai
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    assert done.stdout == 'PydanticAIBackend stands on pydantic-ai: pip install "handrail[pydantic-ai]"\n'
