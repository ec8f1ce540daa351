"""OpenAI's chat completions, and every server that speaks them, through the official SDK.

*The SDK's part* is the client: where to send, who signs, which proxies, what an error status means. The body is read
here: its own reader leaves generators suspended at "[DONE]", which trio complains about, and builds models of chunks
without validating them.

*What is no stream.* Servers that cannot stream, and gateways that fail behind a status of 200, answer with one JSON
document: the whole answer, or an error object. It is read as if it were the only chunk.

*The end of a stream* is "[DONE]" or the end of the body. Usage comes behind the finish reason; a server that then sends
neither, but keeps the connection open, and alive with comments, is waited for a few seconds and no longer.

*Leaving a stream.* What is left of the body is read inside a scope that ends at once, or, behind "[DONE]", after a
moment in which the body normally ends and its connection becomes free for the next request. Every generator between
here and the socket is thus left by its end or by an exception, and none is left suspended.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, cast

import anyio

from handrail.agui._sse import EventStreamFraming
from handrail.backends._openai_chunks import deltas_of
from handrail.backends._openai_errors import is_overflow, pause_asked_for, words_of
from handrail.backends._openai_messages import messages_out, tools_out
from handrail.backends._per_loop import PerLoop
from handrail.errors import BackendError, RemoteDecodeError
from handrail.loop._backend import BackendRequest, Delta, FinishDelta

try:
    import openai
    from openai.resources.chat.completions import AsyncCompletions
except ImportError as missing:
    raise ImportError('OpenAIBackend stands on the openai SDK: pip install "handrail[openai]"') from missing

__all__ = ["OpenAIBackend"]

_OWNED = frozenset({"stream", "messages", "tools", "model", "n"})
_KNOWN = frozenset(inspect.signature(AsyncCompletions.create).parameters) - {"self"}
_ONLY_WITH_TOOLS = frozenset({"tool_choice", "parallel_tool_calls"})

# Transport errors by the name of their class: the SDK may stand on httpx or on httpx2.
_TRANSPORT = {
    "ConnectTimeout": "connection",
    "PoolTimeout": "connection",
    "TimeoutException": "timeout",
    "TimeoutError": "timeout",
    "DecodingError": "response",
    "RequestError": "connection",
    "OSError": "connection",
    "EndOfStream": "connection",
}

_DONE = b"[DONE]"
_MAX_CHUNK = 16 * 2**20
_MAX_TEXT = 2_000
_BEHIND_FINISH = 5.0
_REST_OF_BODY = 0.2
_CLOSE_GRACE = 2.0


class OpenAIBackend:
    """A `Backend` over chat completions.

    `base_url` is that of a compatible server; `api_key` defaults to OPENAI_API_KEY. A `client` (an `AsyncOpenAI`) is
    used as it is, but for its retries, which are the loop's, and stays the caller's to close; without one a client is
    made in each event loop, and closed by `aclose()` or with the loop. `max_tokens` caps the completion; it is sent as
    `max_completion_tokens` to OpenAI and as `max_tokens` to a `base_url`. `options` go with every request (temperature,
    reasoning_effort, extra_body ...); `stream_options=None` is for servers that refuse usage reports.

    Raises `TypeError` or `ValueError` for options that are the adapter's own or that the SDK does not know.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: openai.AsyncOpenAI | None = None,
        max_tokens: int | None = None,
        **options: Any,
    ) -> None:
        _check_options(options)
        if client is not None and not isinstance(client, openai.AsyncOpenAI):  # pyright: ignore[reportUnnecessaryIsInstance]  # the sync client is easily taken for it
            raise TypeError(f"client is an openai.AsyncOpenAI, not {type(client).__name__}")
        if client is not None and (base_url is not None or api_key is not None):
            raise ValueError("base_url and api_key are for a client made here: give them to your own client instead")
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens is a number of tokens from 1, or None for no cap, not {max_tokens}")
        self.model = model
        self.max_tokens = max_tokens
        self._base_url = base_url
        self._given = None if client is None else client.with_options(max_retries=0)
        self._made = PerLoop(lambda: openai.AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0))
        self._options = _with_usage(options)

    def stream(self, request: BackendRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Open one streamed completion."""
        return _Stream(self, request)

    async def aclose(self) -> None:
        """Close the client that was made in this event loop, if any; the next request makes another."""
        await self._made.aclose()

    async def client(self) -> openai.AsyncOpenAI:
        """The client for this event loop. Raises `BackendError` of kind "misuse" without a key to make one with."""
        if self._given is not None:
            return self._given
        try:
            return await self._made.get()
        except openai.OpenAIError as error:
            raise BackendError(str(error), "misuse") from error

    def request_of(self, request: BackendRequest) -> dict[str, Any]:
        """What is sent for `request`."""
        sent: dict[str, Any] = {"model": self.model, "messages": messages_out(request.messages), "stream": True}
        if self.max_tokens is not None:
            sent["max_completion_tokens" if self._base_url is None else "max_tokens"] = self.max_tokens
        if request.tools:
            return sent | self._options | {"tools": tools_out(request.tools)}
        return sent | {name: value for name, value in self._options.items() if name not in _ONLY_WITH_TOOLS}

    def __repr__(self) -> str:
        return f"<OpenAIBackend {self.model}>"


class _Stream:
    """One streamed completion, from request to close."""

    def __init__(self, backend: OpenAIBackend, request: BackendRequest) -> None:
        self._backend = backend
        self._request = request
        self._client: openai.AsyncOpenAI
        self._response: Any = None
        self._reads: AsyncIterator[bytes]
        self._framing = EventStreamFraming(_MAX_CHUNK)
        self._document: bytearray | None = None
        """The body so far, if it is no stream but one JSON document."""
        self._begun = False
        self._deadline = math.inf
        """Until when to wait for more, behind the finish reason."""
        self._ready: deque[Delta] = deque()
        self._chunks = 0
        self._done = False
        self._failed: BackendError | None = None

    async def __aenter__(self) -> AsyncIterator[Delta]:
        sent = self._backend.request_of(self._request)
        self._client = await self._backend.client()
        completions: Any = self._client.chat.completions  # which the SDK types by its arguments
        try:
            requested = completions.with_streaming_response.create(**sent)
            self._response = await requested.__aenter__()  # which does nothing but send; closing is ours
        except openai.OpenAIError as error:
            raise _failure(error, self._client.api_key) from error
        self._reads = self._response.iter_bytes()
        return self

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        while not self._ready:
            if self._failed is not None:
                raise self._failed
            if self._done:
                raise StopAsyncIteration
            try:
                await self._read()
            except Exception as error:  # what came before it in the same read is still to be delivered
                self._failed = _failure(error, self._client.api_key)
                self._failed.__cause__ = error
        return self._ready.popleft()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with anyio.move_on_after(_REST_OF_BODY if self._done else 0), contextlib.suppress(Exception):
            while True:
                await anext(self._reads)
        with anyio.move_on_after(_CLOSE_GRACE, shield=True):
            await self._response.close()

    async def _read(self) -> None:
        """Take one read of the body in; nothing comes behind "[DONE]"."""
        read: bytes | None = None
        with anyio.CancelScope(deadline=self._deadline):
            read = await anext(self._reads, None)
        if read is None:
            self._end()
            return
        if not self._begun:
            self._begun = True
            self._document = bytearray() if read.lstrip().startswith(b"{") else None
        if self._document is None:
            for data in self._framing.feed(read):
                self._take(data)
            return
        self._document += read
        if len(self._document) > _MAX_CHUNK:
            raise BackendError(f"the answer is no event stream, and longer than {_MAX_CHUNK} bytes", "response")

    def _end(self) -> None:
        """The body has ended: take in a document, or what no empty line ended."""
        if self._document is not None:
            with contextlib.suppress(ValueError):
                self._ready.extend(deltas_of(json.loads(self._document)))
        elif rest := self._framing.end():
            self._take(rest)
        self._done = True
        if not self._chunks and not self._ready:
            raise BackendError(_no_stream(self._response.headers.get("content-type", "")), "response")

    def _take(self, data: bytes) -> None:
        self._chunks += 1
        if data.startswith(_DONE):
            self._done = True
        elif not self._done:
            chunk = json.loads(data)
            if not isinstance(chunk, dict):
                raise ValueError(f"a chunk of the stream is no object: {data[:80]!r}")
            self._ready.extend(deltas_of(cast("dict[str, Any]", chunk)))
            if self._deadline < math.inf or any(isinstance(delta, FinishDelta) for delta in self._ready):
                self._deadline = anyio.current_time() + _BEHIND_FINISH


def _no_stream(content_type: str) -> str:
    if content_type.startswith("text/event-stream"):
        return "the answer is an event stream with no event in it"
    return f"the answer is no event stream: its content type is {content_type or 'not given'}"


def _check_options(options: dict[str, Any]) -> None:
    owned = sorted(_OWNED & options.keys())
    if owned:
        raise TypeError(f"{', '.join(owned)} cannot be an option: the loop decides that for every request")
    unknown = sorted(options.keys() - _KNOWN)
    if unknown:
        raise TypeError(f"the SDK knows no option {', '.join(unknown)}: extra_body= takes what only a server knows")


def _with_usage(options: dict[str, Any]) -> dict[str, Any]:
    """The options with usage requested; `stream_options=None` leaves the request for it out."""
    wanted = options.get("stream_options", {})
    if wanted is None:
        return {name: value for name, value in options.items() if name != "stream_options"}
    return options | {"stream_options": {"include_usage": True, **wanted}}


def _failure(error: Exception, key: str) -> BackendError:
    """Any exception as ours. The text has its class, its status and what the provider said, and never the key."""
    if isinstance(error, BackendError):
        return BackendError(_cut(str(error), key), error.kind, error.status)
    status: int | None = None
    retry_after: float | None = None
    cause = error.__cause__ if isinstance(error, openai.APIConnectionError) else None
    kind = _transport_kind(cause or error)
    if isinstance(error, openai.APIStatusError):
        kind, status = "overflow" if is_overflow(error.code) else "http", error.status_code
        retry_after = pause_asked_for(error.response.headers, time.time())
    elif isinstance(error, (openai.APIResponseValidationError, RemoteDecodeError, ValueError)):
        kind = "response"
    said = words_of(getattr(error, "body", None)) or str(error)
    why = f" ({type(cause).__name__}: {cause})" if cause is not None else ""
    number = f" {status}" if status is not None else ""
    return BackendError(_cut(f"{type(error).__name__}{number}: {said}{why}", key), kind, status, retry_after)


def _transport_kind(error: BaseException) -> str:
    return next((_TRANSPORT[cls.__name__] for cls in type(error).__mro__ if cls.__name__ in _TRANSPORT), "other")


def _cut(text: str, key: str) -> str:
    """At most so much, and without the key, which providers like to repeat."""
    return (text.replace(key, "***") if len(key) > 4 else text)[:_MAX_TEXT]
