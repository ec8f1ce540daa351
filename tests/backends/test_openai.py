"""The adapter on the official SDK: against a mock server of others' making, and against odd answers in memory."""

from __future__ import annotations

import gc
import importlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import anyio
import openai
import pytest
from tests.aimock import Aimock

from handrail import (
    BackendError,
    BackendRequest,
    FinishDelta,
    Loop,
    ReasoningDelta,
    TextDelta,
    Tool,
    ToolCallDelta,
    Usage,
    UsageDelta,
    system,
    user,
)
from handrail.backends.openai import OpenAIBackend
from handrail.loop import Backend

KEY = "sk-secret-1234567890"
_http_client = next(base for base in openai.DefaultAsyncHttpxClient.__mro__ if base.__name__ == "AsyncClient")
http: Any = importlib.import_module(_http_client.__module__)
"""What this SDK stands on: httpx2, or httpx where it is an older one."""


def weather(city: str) -> str:
    """Tell the weather."""
    return city


def over(mock: Aimock, **options: Any) -> OpenAIBackend:
    return OpenAIBackend("fake-model", base_url=mock.url, api_key=KEY, **options)


def asking(text: str, *tools: Tool) -> BackendRequest:
    return BackendRequest(messages=[system("Be brief."), user(text)], tools=tools)


async def play(backend: OpenAIBackend, text: str, got: list[Any] | None = None) -> list[Any]:
    """The deltas of one stream; `got` has what came before a failure."""
    got = [] if got is None else got
    async with backend.stream(asking(text)) as deltas:
        async for delta in deltas:
            got.append(delta)
    return got


async def failing(backend: OpenAIBackend, text: str, got: list[Any] | None = None) -> BackendError:
    with pytest.raises(BackendError) as raised:
        await play(backend, text, got)
    await backend.aclose()
    return raised.value


def said(deltas: list[Any]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def usage_of(deltas: list[Any]) -> list[Usage]:
    return [delta.usage for delta in deltas if isinstance(delta, UsageDelta)]


# Against the mock server


async def test_plain(aimock: Aimock) -> None:
    """L-150, L-153: text in fragments, the finish, and the usage behind it."""
    got = await play(over(aimock), "plain")
    assert said(got) == "Hello from the fake model: café ✓ 🚀."
    assert len([d for d in got if isinstance(d, TextDelta)]) > 1
    assert [type(d) for d in got[-2:]] == [FinishDelta, UsageDelta]
    assert got[-2] == FinishDelta("stop", "fake-model")


async def test_usage_is_requested_and_comes_last(aimock: Aimock) -> None:
    """L-150, L-153: `stream_options` asks for it."""
    got = await play(over(aimock), "usage")
    assert usage_of(got) == [Usage(50, 11, 61, generation_id="chatcmpl-fixed-1")]
    assert FinishDelta("stop", "fake-model-1") in got


async def test_usage_is_not_requested(aimock: Aimock) -> None:
    """L-150: `stream_options=None` leaves it out for servers that refuse it."""
    assert usage_of(await play(over(aimock, stream_options=None), "usage")) == []


async def test_cut_by_length(aimock: Aimock) -> None:
    """L-153: the loop is told."""
    got = await play(over(aimock), "cut-length")
    assert said(got) == "This answer hit the tok"
    assert FinishDelta("length", "fake-model") in got


async def test_reasoning(aimock: Aimock) -> None:
    """L-153: `reasoning_content` is reasoning, before the text."""
    got = await play(over(aimock), "reasoning")
    assert got[0] == ReasoningDelta("First think.")
    assert said(got) == "Then speak."


async def test_calls(aimock: Aimock) -> None:
    """L-153: fragments by index, in order of appearance, with the finish that says so."""
    got = await play(over(aimock), "two-tools")
    fragments = [d for d in got if isinstance(d, ToolCallDelta)]
    assert [(d.index, d.id, d.name) for d in fragments if d.id] == [
        (0, "call_a", "get_weather"),
        (1, "call_b", "get_weather"),
    ]
    written = ["".join(d.arguments or "" for d in fragments if d.index == n) for n in (0, 1)]
    assert written == ['{"city":"Paris"}', '{"city":"Oslo"}']
    assert FinishDelta("tool-calls", "fake-model") in got


async def test_call_before_text(aimock: Aimock) -> None:
    """L-153: in the order of the stream."""
    got = await play(over(aimock), "tool-first")
    assert isinstance(got[0], ToolCallDelta)
    assert said(got) == "Text after the call."


async def test_what_is_sent(aimock: Aimock) -> None:
    """L-150, L-152: model, stream, messages, tools, options; `max_tokens` with a base url."""
    async with over(aimock, max_tokens=50, temperature=0.5).stream(asking("plain", Tool(weather))) as deltas:
        assert [delta async for delta in deltas]
    sent = aimock.journal()[-1]["body"]
    assert (sent["model"], sent["stream"], sent["max_tokens"], sent["temperature"]) == ("fake-model", True, 50, 0.5)
    assert [m["role"] for m in sent["messages"]] == ["system", "user"]
    assert sent["tools"][0]["function"]["name"] == "weather"
    assert sent["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("text", "kind", "status", "words"),
    [
        ("always-429", "http", 429, "RateLimitError 429: Rate limited"),
        ("always-500", "http", 500, "InternalServerError 500: The server had an error"),
        ("always-503", "http", 503, "Overloaded"),
        ("always-401", "http", 401, "Incorrect API key"),
        ("too-long", "overflow", 400, "maximum context length"),
        ("malformed", "response", None, "no event stream: its content type is application/json"),
        ("disconnect", "connection", None, "disconnected"),
    ],
)
async def test_failures(aimock: Aimock, text: str, kind: str, status: int | None, words: str) -> None:
    """L-154, L-39: kind, status and the provider's words; nothing is retried here, and no key is told."""
    before = len(aimock.journal())
    error = await failing(over(aimock), text)
    assert (error.kind, error.status) == (kind, status)
    assert words in str(error)
    assert KEY not in str(error)
    assert len(aimock.journal()) == before + 1


async def test_retry_after(aimock: Aimock) -> None:
    """L-154: in seconds; the next request is answered."""
    backend = over(aimock, extra_headers={"X-Test-Id": f"retry-after-{uuid4().hex}"})
    with pytest.raises(BackendError) as raised:
        await play(backend, "flaky-429")
    assert (raised.value.status, raised.value.retry_after) == (429, 1.0)
    assert said(await play(backend, "flaky-429")) == "Second time lucky."


@pytest.mark.parametrize(("text", "so_far"), [("drop-after-chunks", "This sente"), ("drop-in-tool", "")])
async def test_dropped_in_mid_stream(aimock: Aimock, text: str, so_far: str) -> None:
    """L-154: a transport error while reading is kind connection, behind what had come."""
    got: list[Any] = []
    error = await failing(over(aimock), text, got)
    assert error.kind == "connection"
    assert said(got) == so_far
    assert got
    assert not any(isinstance(delta, FinishDelta) for delta in got)


async def test_silence(aimock: Aimock) -> None:
    """L-154: a timeout while reading is kind timeout."""
    assert (await failing(over(aimock, timeout=0.2), "ttft")).kind == "timeout"


async def test_nobody_there() -> None:
    """L-154: a refused connection is kind connection."""
    backend = OpenAIBackend("fake-model", base_url="http://127.0.0.1:9/v1", api_key=KEY)
    assert (await failing(backend, "plain")).kind == "connection"


async def test_left_early(aimock: Aimock) -> None:
    """L-37: a stream that is left, or cancelled, in mid-text is closed, and nothing of it is left for the collector."""
    backend = over(aimock)
    async with backend.stream(asking("slow")) as deltas:
        assert isinstance(await anext(deltas), TextDelta)
    with anyio.move_on_after(0.5) as scope:
        await play(backend, "slow")
    assert scope.cancelled_caught
    assert said(await play(backend, "plain"))
    await backend.aclose()
    gc.collect()


def test_one_backend_in_several_event_loops(aimock: Aimock) -> None:
    """L-151, R-96: a client per loop, closed with it when nobody calls `aclose`; no warning, no socket left."""
    backend = over(aimock)
    for library in ("asyncio", "asyncio", "trio", "asyncio"):
        assert said(anyio.run(play, backend, "plain", backend=library))
    gc.collect()


async def test_aclose_is_for_the_client_made_here(aimock: Aimock) -> None:
    """L-151: it closes that one, the next request makes another; a client that was given stays open."""
    backend = over(aimock)
    await backend.aclose()
    await play(backend, "plain")
    first = await backend.client()
    await backend.aclose()
    assert first.is_closed()
    assert said(await play(backend, "plain"))
    await backend.aclose()

    async with openai.AsyncOpenAI(base_url=aimock.url, api_key=KEY) as mine:
        given = OpenAIBackend("fake-model", client=mine)
        assert said(await play(given, "plain"))
        await given.aclose()
        assert not mine.is_closed()


async def test_retries_of_a_client_that_was_given_are_off(aimock: Aimock) -> None:
    """L-150: retrying is the loop's."""
    before = len(aimock.journal())
    async with openai.AsyncOpenAI(base_url=aimock.url, api_key=KEY, max_retries=5) as mine:
        assert (await failing(OpenAIBackend("fake-model", client=mine), "always-500")).status == 500
    assert len(aimock.journal()) == before + 1


# Against answers in memory


def answering(answer: Callable[[Any], Any], **options: Any) -> OpenAIBackend:
    transport = http.MockTransport(answer)
    client = openai.AsyncOpenAI(base_url="http://x/v1", api_key=KEY, http_client=http.AsyncClient(transport=transport))
    return OpenAIBackend("fake-model", client=client, **options)


def sse(*datas: str, ends: str = "\n\n") -> Any:
    body = "".join(f"data: {data}{ends}" for data in datas)
    return http.Response(200, headers={"content-type": "text/event-stream"}, content=body.encode())


def call_chunk(call: str) -> str:
    return f'{{"choices": [{{"delta": {{"tool_calls": [{call}]}}}}]}}'


STOP = '{"choices": [{"delta": {}, "finish_reason": "stop"}]}'


@pytest.mark.parametrize(
    ("fragments", "deltas"),
    [
        (
            ['{"index": 0, "id": "A", "function": {"name": "f", "arguments": "{}"}}', '{"index": 0, "id": "B"}'],
            [ToolCallDelta(0, "A", "f", "{}"), ToolCallDelta(0, "B")],
        ),
        (
            ['{"id": "A", "function": {"name": "f", "arguments": "{"}}', '{"function": {"arguments": "}"}}'],
            [ToolCallDelta(None, "A", "f", "{"), ToolCallDelta(arguments="}")],
        ),
        (
            [
                '{"index": null, "id": "A", "function": {"name": "f"}}',
                '{"index": null, "function": {"arguments": "{}"}}',
            ],
            [ToolCallDelta(None, "A", "f"), ToolCallDelta(arguments="{}")],
        ),
    ],
)
async def test_fragments_with_and_without_an_index(fragments: list[str], deltas: list[ToolCallDelta]) -> None:
    """L-34, L-153: as the server sent them; joining is the loop's."""
    backend = answering(lambda _: sse(*map(call_chunk, fragments), STOP, "[DONE]"))
    got = await play(backend, "x")
    assert [d for d in got if isinstance(d, ToolCallDelta)] == deltas


async def test_an_empty_event_stream_is_called_one() -> None:
    """L-154: the failure says what is wrong with it."""
    with pytest.raises(BackendError, match="an event stream with no event in it") as raised:
        await play(answering(lambda _: sse()), "x")
    assert raised.value.kind == "response"


async def test_a_legacy_function_call_reaches_its_tool() -> None:
    """L-153: the fragments of one call, to which the loop gives an id."""
    pieces = [
        '{"choices": [{"delta": {"function_call": {"name": "add", "arguments": "{\\"a\\""}}}]}',
        '{"choices": [{"delta": {"function_call": {"arguments": ": 1}"}}}]}',
        '{"choices": [{"delta": {}, "finish_reason": "function_call"}]}',
    ]
    answers = iter([sse(*pieces, "[DONE]"), sse('{"choices": [{"delta": {"content": "ok"}}]}', STOP, "[DONE]")])
    ran: list[int] = []

    def add(a: int) -> None:
        ran.append(a)

    async with Loop(backends=[answering(lambda _: next(answers))], tools=[add]) as loop:
        outcome = await loop.run("hi").result
    assert (outcome.final, ran) == ("ok", [1])


@pytest.mark.parametrize(
    "answer",
    [
        sse('{"choices": [{"delta": {"content": "a"}}]}', "not json"),
        sse('{"choices": [{"delta": {"content": "a"}}]}', "[1]"),
        http.Response(200, content=b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: "\xff"\n\n'),
    ],
)
async def test_what_cannot_be_decoded(answer: Any) -> None:
    """L-154: kind response, behind what was read before it."""
    got: list[Any] = []
    error = await failing(answering(lambda _: answer), "x", got)
    assert error.kind == "response"
    assert got == [TextDelta("a")]


async def test_a_cut_stream_has_no_finish() -> None:
    """L-33: the body ends in good order and says nothing about it; the loop sees no finish reason."""
    backend = answering(lambda _: sse('{"choices": [{"delta": {"content": "a"}}]}'))
    assert await play(backend, "x") == [TextDelta("a")]


async def test_nothing_counts_behind_done() -> None:
    """L-153: "[DONE]" is the end, also of a body that goes on and of one without a last empty line."""
    backend = answering(lambda _: sse(STOP, "[DONE]", '{"choices": [{"delta": {"content": "a"}}]}'))
    assert await play(backend, "x") == [FinishDelta("stop")]
    backend = answering(lambda _: sse(STOP, ends=""))
    assert await play(backend, "x") == [FinishDelta("stop")]


async def test_a_body_that_never_ends() -> None:
    """L-33: a server that keeps the connection open behind "[DONE]" holds up nobody."""

    async def body() -> AsyncIterator[bytes]:
        yield f"data: {STOP}\n\ndata: [DONE]\n\n".encode()
        await anyio.sleep_forever()

    backend = answering(lambda _: http.Response(200, content=body()))
    with anyio.fail_after(5):
        assert await play(backend, "x") == [FinishDelta("stop")]


async def test_an_error_inside_the_stream() -> None:
    """L-154: by its code, without the key that the provider repeats (L-39)."""
    told = f'{{"error": {{"message": "no {KEY} no", "code": "rate_limit_exceeded"}}}}'
    got: list[Any] = []
    error = await failing(answering(lambda _: sse('{"choices": [{"delta": {"content": "a"}}]}', told)), "x", got)
    assert (error.kind, error.status, str(error)) == ("http", 429, "no *** no")
    assert got == [TextDelta("a")]


async def test_the_text_is_cut() -> None:
    """L-39: at 2,000 characters, and without the key."""
    answer = http.Response(500, json={"error": {"message": f"{KEY} " + "x" * 9_000}})
    error = await failing(answering(lambda _: answer), "x")
    assert len(str(error)) == 2_000
    assert KEY not in str(error)


@pytest.mark.parametrize("sent", ["soon", "Wed, 21 Oct 2026 07:28:00 GMT", None])
async def test_a_retry_after_that_is_no_number(sent: str | None) -> None:
    """L-154: then there is none."""
    headers = {} if sent is None else {"retry-after": sent}
    error = await failing(answering(lambda _: http.Response(429, headers=headers)), "x")
    assert (error.status, error.retry_after) == (429, None)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (http.ConnectTimeout("x"), "connection"),
        (http.PoolTimeout("x"), "connection"),
        (http.ReadTimeout("x"), "timeout"),
        (http.WriteTimeout("x"), "timeout"),
        (http.ConnectError("x"), "connection"),
        (http.ReadError("x"), "connection"),
    ],
)
async def test_transport_errors(raised: Exception, kind: str) -> None:
    """L-154: timeouts while connecting or waiting for a pool are connection, others timeout; before and in the body."""

    def refuse(_: Any) -> Any:
        raise raised

    assert (await failing(answering(refuse), "x")).kind == kind

    async def body() -> AsyncIterator[bytes]:
        yield b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
        raise raised

    got: list[Any] = []
    assert (await failing(answering(lambda _: http.Response(200, content=body())), "x", got)).kind == kind
    assert got == [TextDelta("a")]


async def test_tools_off() -> None:
    """L-31: with no tools in the request nothing about tools is sent, options included."""
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request.read())
        return sse(STOP)

    backend = answering(answer, tool_choice="auto", parallel_tool_calls=False, max_tokens=9)
    await play(backend, "x")
    assert b"tool" not in seen[0]
    assert b'"max_completion_tokens":9' in seen[0].replace(b" ", b"")
    async with backend.stream(asking("x", Tool(weather))) as deltas:
        assert [delta async for delta in deltas]
    assert b'"tool_choice":"auto"' in seen[1].replace(b" ", b"")


# Making one


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: OpenAIBackend("m", stream=False), TypeError, "stream cannot be an option"),
        (lambda: OpenAIBackend("m", messages=[], n=2), TypeError, "messages, n cannot"),
        (lambda: OpenAIBackend("m", tools=[]), TypeError, "tools cannot"),
        (lambda: OpenAIBackend("m", temprature=1), TypeError, "no option temprature.*extra_body"),
        (lambda: OpenAIBackend("m", max_tokens=0), ValueError, "from 1"),
        (lambda: OpenAIBackend("m", client=openai.OpenAI(api_key="x")), TypeError, "AsyncOpenAI"),  # pyright: ignore
        (
            lambda: OpenAIBackend("m", client=openai.AsyncOpenAI(api_key="x"), base_url="http://x"),
            ValueError,
            "your own client",
        ),
    ],
)
def test_misuse_is_said_when_it_is_made(make: Any, error: type[Exception], words: str) -> None:
    """L-150, L-2: refused at once, with what to do."""
    with pytest.raises(error, match=words):
        make()


async def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-38: an attempt that cannot be made is misuse, and names the key."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_ADMIN_KEY", raising=False)
    error = await failing(OpenAIBackend("m"), "x")
    assert error.kind == "misuse"
    assert "OPENAI_API_KEY" in str(error)


def test_it_is_a_backend() -> None:
    """L-30: model and max_tokens are what the loop reads."""
    backend = OpenAIBackend("m", max_tokens=5, api_key="x")
    assert isinstance(backend, Backend)
    assert (backend.model, backend.max_tokens, repr(backend)) == ("m", 5, "<OpenAIBackend m>")


def test_without_the_sdk() -> None:
    """L-150: importing handrail does not import it, and the import error says what to install."""
    program = """
import sys
import handrail, handrail.loop, handrail.tools
assert "openai" not in sys.modules and "httpx2" not in sys.modules
sys.modules["openai"] = None
try:
    import handrail.backends.openai
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (done.stderr, done.stdout) == (
        "",
        'OpenAIBackend stands on the openai SDK: pip install "handrail[openai]"\n',
    )
