"""The adapter on the official SDK, against a mock server of others' making; and how it is made."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any
from uuid import uuid4

import anyio
import openai
import pytest
from tests.aimock import Aimock
from tests.backends.kit import KEY, said, weather
from tests.backends.openai_streams import asking, failing, over, play

from handrail import BackendError, FinishDelta, ReasoningDelta, TextDelta, Tool, ToolCallDelta, Usage, UsageDelta
from handrail.backends.openai import OpenAIBackend
from handrail.loop import Backend


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
