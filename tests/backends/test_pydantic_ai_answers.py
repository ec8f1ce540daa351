"""The adapter over pydantic-ai: a model that answers with what it is told to."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pydantic_ai.exceptions as errors
import pydantic_ai.messages as ai
import pytest
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage
from tests.backends.kit import play, play_into, said
from tests.backends.pydantic_models import saying

from handrail import BackendError, BackendRequest, FinishDelta, TextDelta, ToolCallDelta, Usage, UsageDelta, user
from handrail.backends.pydantic_ai import PydanticAIBackend


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
