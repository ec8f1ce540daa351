"""The adapter on the official SDK, against odd answers in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from tests.backends.kit import KEY, weather
from tests.backends.openai_streams import answering, asking, failing, http, play

from handrail import BackendError, FinishDelta, Loop, TextDelta, Tool, ToolCallDelta


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
