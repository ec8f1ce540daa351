"""Servers that do not stream, or say in another shape what they stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from tests.backends.openai_streams import answering, failing, http, play

from handrail import FinishDelta, ReasoningDelta, TextDelta, ToolCallDelta, Usage, UsageDelta
from handrail.backends import openai as adapter
from handrail.backends._openai_chunks import deltas_of
from handrail.backends.openai import OpenAIBackend

CALL = {"id": "A", "type": "function", "function": {"name": "f", "arguments": "{}"}}
WHOLE = {
    "model": "m",
    "choices": [{"message": {"role": "assistant", "content": "Hi.", "tool_calls": [CALL]}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}
DELTAS = [
    TextDelta("Hi."),
    ToolCallDelta(None, "A", "f", "{}"),
    FinishDelta("stop", "m"),
    UsageDelta(Usage(prompt_tokens=3, completion_tokens=2)),
]


def answered(*reads: bytes, content_type: str = "application/json") -> OpenAIBackend:
    """A backend whose server answers in these reads."""

    async def body() -> AsyncIterator[bytes]:
        for read in reads:
            await anyio.lowlevel.checkpoint()
            yield read

    def answer(_: Any) -> Any:
        return http.Response(200, headers={"content-type": content_type}, content=body())

    return answering(answer)


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
async def test_one_document_in_place_of_a_stream(content_type: str) -> None:
    """L-153: the answer of a server that does not stream counts like one that is streamed, however it is cut."""
    written = b"\n " + json.dumps(WHOLE, indent=1).encode()
    for cut in (len(written), 3, 40):
        assert await play(answered(written[:cut], written[cut:], content_type=content_type), "x") == DELTAS


async def test_an_error_under_status_200() -> None:
    """L-39, L-154: gateways fail behind a status of 200; the provider's words and code count all the same."""
    error = await failing(answered(b'{"error": {"message": "quota is used up", "code": "insufficient_quota"}}'), "x")
    assert (error.kind, error.status, str(error)) == ("http", 429, "quota is used up")


@pytest.mark.parametrize(
    "body", [b"{}", b'{"detail": "x"}', b'{"choices": [', b"<html>", b'{"choices": []}\n{}', b"[]"]
)
async def test_what_is_neither(body: bytes) -> None:
    """L-154: kind response, and it is said that no stream came."""
    error = await failing(answered(body), "x")
    assert (error.kind, str(error)) == (
        "response",
        "the answer is no event stream: its content type is application/json",
    )


async def test_a_document_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-154: what is held of it is bounded."""
    monkeypatch.setattr(adapter, "_MAX_CHUNK", 100)
    error = await failing(answered(b"{", b" " * 100), "x")
    assert (error.kind, str(error)) == ("response", "the answer is no event stream, and longer than 100 bytes")


async def test_a_stream_cut_before_its_first_brace() -> None:
    """L-153: only how a body begins says what it is."""
    chunk = json.dumps({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}).encode()
    got = await play(answered(b"data: ", chunk + b"\n\n", content_type="text/event-stream"), "x")
    assert got == [TextDelta("a"), FinishDelta("stop")]


@pytest.mark.parametrize(
    ("choice", "deltas"),
    [
        ({"message": {"content": "Hi."}}, [TextDelta("Hi.")]),
        ({"delta": {"content": "!"}, "message": {"content": "Hi!"}}, [TextDelta("!")]),
        ({"delta": {}, "message": {"content": "Hi!"}}, []),
    ],
)
def test_a_message_counts_where_there_is_no_delta(choice: dict[str, Any], deltas: list[Any]) -> None:
    """L-153: servers that send the text so far beside each delta say nothing new with it."""
    assert list(deltas_of({"choices": [choice]})) == deltas


@pytest.mark.parametrize(
    ("content", "deltas"),
    [
        ([{"type": "text", "text": "Hi"}, {"type": "text", "text": "."}], [TextDelta("Hi"), TextDelta(".")]),
        (
            [{"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]}],
            [ReasoningDelta("hm")],
        ),
        ([{"type": "reference", "reference_ids": [1]}, None, "x", {"text": 5}], []),
        ([], []),
    ],
)
def test_content_in_parts(content: Any, deltas: list[Any]) -> None:
    """L-153: content may be a list of parts; its texts are text, its thinking is reasoning."""
    assert list(deltas_of({"choices": [{"delta": {"content": content}}]})) == deltas
