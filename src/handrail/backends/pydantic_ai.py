"""Any model of pydantic-ai as a backend: its providers, settings and profiles, without its agent.

*Calls* are taken from the finished parts of an answer. A delta of a call may be an object to merge instead of text to
append, and a part may be started again; only the library's own parts manager knows what became of them. *Text* cannot
wait that long: it is passed on as it comes, so text that is started again has been shown already, and is a failure.

*What the library does not tell*: whether a stream that completes without a finish reason was cut, and, for some
providers, whether usage of zero was reported. The first counts as an answer, the second as not reported.

The library is made for asyncio. Under trio its models work as far as their own SDKs do.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, cast

import anyio

from handrail.errors import BackendError
from handrail.loop._backend import (
    BackendRequest,
    Delta,
    FinishDelta,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageDelta,
)

try:
    import pydantic_ai.exceptions as errors
    import pydantic_ai.messages as ai
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
    from pydantic_ai.settings import ModelSettings
except ImportError as missing:
    raise ImportError('PydanticAIBackend stands on pydantic-ai: pip install "handrail[pydantic-ai]"') from missing

from handrail.backends._per_loop import PerLoop
from handrail.backends._pydantic_ai_messages import messages_out, opaque_of, tools_out

__all__ = ["PydanticAIBackend"]

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_call": "tool-calls",
    "length": "length",
    "content_filter": "content-filter",
}

# Categories that may come without a status of their own, as the status that means the same.
_STATUS_OF = (
    (errors.ModelRateLimitError, 429),
    (errors.ModelQuotaExceededError, 402),
    (errors.ModelUnavailableError, 503),
    (errors.ModelServerError, 500),
    (errors.ModelAuthenticationError, 401),
    (errors.ModelNotFoundError, 404),
    (errors.ModelRequestRejectedError, 400),
)
_BEFORE_SENDING = ("pool", "connect")

_MAX_TEXT = 2_000
_CLOSE_GRACE = 2.0


class PydanticAIBackend:
    """A `Backend` over a pydantic-ai `Model`, or the name of one ("anthropic:claude-sonnet-4-5").

    `settings` are that library's model settings, sent with every request; `max_tokens` caps the completion and goes
    into them. Retrying is the loop's: where the model's SDK takes the setting, its own retries are off. The model is
    entered as a context manager once in each event loop, and left in `aclose()` or with the loop: it closes what it
    opened itself, and no client that somebody gave it.

    Raises the library's `UserError` for a name it does not know or a provider without a key.
    """

    def __init__(
        self, model: Model | str, *, max_tokens: int | None = None, settings: ModelSettings | None = None
    ) -> None:
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens is a number of tokens from 1, or None for no cap, not {max_tokens}")
        self._model = infer_model(model)
        self._entered = PerLoop(lambda: self._model)
        self._settings = _settings_for(self._model, settings, max_tokens)
        self.model: str = self._model.model_name
        self.max_tokens: int | None = self._settings.get("max_tokens")

    def stream(self, request: BackendRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Open one streamed request."""
        return _Stream(self, request)

    async def aclose(self) -> None:
        """Leave the model in this event loop, if it was used there; the next request enters it again."""
        await self._entered.aclose()

    async def opened(self, request: BackendRequest) -> AbstractAsyncContextManager[StreamedResponse]:
        """The library's own stream for `request`, not begun."""
        return model_request_stream(
            await self._entered.get(),
            messages_out(request.messages, self._model.system),
            model_settings=self._settings,
            model_request_parameters=ModelRequestParameters(function_tools=tools_out(request.tools)),
        )

    def __repr__(self) -> str:
        return f"<PydanticAIBackend {self.model}>"


class _Stream:
    """One streamed request, from opening to close."""

    def __init__(self, backend: PydanticAIBackend, request: BackendRequest) -> None:
        self._backend = backend
        self._request = request
        self._opened: AbstractAsyncContextManager[StreamedResponse] | None = None
        self._response: StreamedResponse | None = None
        self._ready: deque[Delta] = deque()
        self._streamed_text: set[int] = set()
        self._done = False
        self._failed: BaseException | None = None

    async def __aenter__(self) -> AsyncIterator[Delta]:
        try:
            opened = await self._backend.opened(self._request)
            self._response = await opened.__aenter__()
            self._opened = opened
        except errors.OutputTokenLimitExceeded:
            self._cut()
        except Exception as error:
            self._failed = _failure(error)
        return self

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        while not self._ready:
            if self._failed is not None:
                raise self._failed
            if self._done or self._response is None:
                raise StopAsyncIteration
            try:
                await self._read(self._response)
            except errors.OutputTokenLimitExceeded:
                self._cut()
            except Exception as error:  # what was read before it is still to be delivered
                self._failed = _failure(error)
        return self._ready.popleft()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._response is None or self._opened is None:
            return
        # Left by an exception, so that none of the library's nested generators stays suspended.
        with anyio.CancelScope() as leaving, contextlib.suppress(Exception):
            leaving.cancel()
            while not self._done:
                await anext(aiter(self._response))
        with anyio.move_on_after(_CLOSE_GRACE, shield=True):
            await self._opened.__aexit__(None, None, None)

    async def _read(self, response: StreamedResponse) -> None:
        event = await anext(aiter(response), None)
        if event is not None:
            self._take(event)
        else:
            self._done = True
            self._ready.extend(_end_of(response.get()))

    def _take(self, event: Any) -> None:
        """Pass on text and thinking; calls are taken at the end."""
        match event:
            case ai.PartStartEvent(part=ai.TextPart() as part):
                if event.index in self._streamed_text:
                    raise BackendError("a text part was started again behind text that was streamed", "response")
                self._say(event.index, part.content)
            case ai.PartDeltaEvent(delta=ai.TextPartDelta() as delta):
                self._say(event.index, delta.content_delta)
            case ai.PartStartEvent(part=ai.ThinkingPart() as part) if part.content:
                self._ready.append(ReasoningDelta(part.content))
            case ai.PartDeltaEvent(delta=ai.ThinkingPartDelta() as delta) if delta.content_delta:
                self._ready.append(ReasoningDelta(delta.content_delta))
            case _:
                pass

    def _say(self, index: int, text: str) -> None:
        if text:
            self._streamed_text.add(index)
            self._ready.append(TextDelta(text))

    def _cut(self) -> None:
        self._done = True
        self._ready.append(FinishDelta("length"))


def _settings_for(model: Model, settings: ModelSettings | None, max_tokens: int | None) -> ModelSettings:
    chosen = cast("ModelSettings", {**(model.settings or {}), **(settings or {})})
    if max_tokens is not None:
        chosen["max_tokens"] = max_tokens
    if "max_retries" not in model.unsupported_settings:
        chosen["max_retries"] = 0
    return chosen


def _end_of(response: ai.ModelResponse) -> Iterator[Delta]:
    """What is known of an answer only when it is complete: opaque thinking, calls, usage, and how it ended."""
    if response.state != "complete" or response.finish_reason == "error":
        raise BackendError(f"the answer is {response.state}, finish reason {response.finish_reason}", "response")
    if opaque := opaque_of(response.parts):
        yield ReasoningDelta("", opaque)
    calls = [part for part in response.parts if isinstance(part, ai.ToolCallPart)]
    for index, part in enumerate(calls):
        arguments = json.dumps(part.args) if isinstance(part.args, dict) else part.args
        yield ToolCallDelta(index, part.tool_call_id, part.tool_name, arguments)
    if used := _usage(response):
        yield UsageDelta(used)
    yield FinishDelta(_FINISH[response.finish_reason] if response.finish_reason else None, response.model_name)


def _usage(response: ai.ModelResponse) -> Usage | None:
    """None if the library marks it as unmeasured, or if it is all zero, which may mean the same."""
    used = response.usage
    if used.unmeasured_requests or not used.has_values():
        return None
    reported: Any = used.cost if used.cost is not None else (response.provider_details or {}).get("cost")
    return Usage(
        prompt_tokens=used.input_tokens,
        completion_tokens=used.output_tokens,
        cached_prompt_tokens=used.cache_read_tokens or None,
        cost=reported,
        provider=response.provider_name,
        generation_id=response.provider_response_id,
    )


def _failure(error: Exception) -> Exception:
    """The library's exceptions as ours; any other is left as it is, for the loop to judge."""
    status: int | None = getattr(error, "status_code", None)
    match error:
        case errors.ModelContextWindowExceededError():
            kind = "overflow"
        case errors.ModelTimeoutError():
            kind = "connection" if error.phase in _BEFORE_SENDING else "timeout"
        case errors.ModelRequestTimeout():
            kind = "timeout"
        case errors.ModelConnectionError():
            kind = "connection"
        case errors.ModelAPIError():
            status = status or next((code for category, code in _STATUS_OF if isinstance(error, category)), None)
            kind = "other" if status is None else "http"
        case errors.ContentFilterError():
            kind = "content-filter"
        case errors.UnexpectedModelBehavior():
            kind = "response"
        case errors.UserError() | NotImplementedError():
            kind = "unsupported"
        case errors.FallbackExceptionGroup():
            return _failure(error.exceptions[-1])
        case _:
            return error
    text = f"{type(error).__name__}: {error}"[:_MAX_TEXT]
    failure = BackendError(text, kind, status, getattr(error, "retry_after", None))
    failure.__cause__ = error
    return failure
