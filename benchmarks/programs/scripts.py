"""Streams of AG-UI to measure with, the same ones every time: made from a kind and a size, such as `text 10000`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["KINDS", "body", "patches", "payloads", "state"]

WORDS = ["the ", "answer ", "is ", "été ", "42 ", 'a "quoted" ', "word, ", "then\n", "more", ". "]
ROWS = 1_000

Payload = dict[str, Any]


def text(count: int) -> Iterator[Payload]:
    """One long message."""
    yield {"type": "TEXT_MESSAGE_START", "messageId": "m-0001", "role": "assistant"}
    for number in range(count):
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m-0001", "delta": WORDS[number % len(WORDS)]}
    yield {"type": "TEXT_MESSAGE_END", "messageId": "m-0001"}


def messages(count: int) -> Iterator[Payload]:
    """Many short messages."""
    for number in range(count):
        name = f"m-{number:05}"
        yield {"type": "TEXT_MESSAGE_START", "messageId": name, "role": "assistant"}
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": name, "delta": f"message number {number}"}
        yield {"type": "TEXT_MESSAGE_END", "messageId": name}


def calls(count: int) -> Iterator[Payload]:
    """Many tool calls, each answered."""
    for number in range(count):
        name = f"c-{number:05}"
        parent = f"m-{number:05}"
        yield {"type": "TOOL_CALL_START", "toolCallId": name, "toolCallName": "look", "parentMessageId": parent}
        for piece in ('{"query":"row', f' {number}","limit":', "10}"):
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": name, "delta": piece}
        yield {"type": "TOOL_CALL_END", "toolCallId": name}
        yield {
            "type": "TOOL_CALL_RESULT", "messageId": f"r-{number:05}", "toolCallId": name,
            "content": f"result {number}", "role": "tool",
        }  # fmt: skip


def deltas(count: int) -> Iterator[Payload]:
    """A state of a thousand rows and patches to it."""
    yield {"type": "STATE_SNAPSHOT", "snapshot": state(ROWS)}
    for patch in patches(count, ROWS):
        yield {"type": "STATE_DELTA", "delta": patch}


KINDS = {"text": text, "messages": messages, "calls": calls, "state": deltas}


def state(rows: int) -> Payload:
    """A shared state of so many rows."""
    return {f"k{number}": {"count": 0, "name": f"row {number}", "tags": ["a", "b"]} for number in range(rows)}


def patches(count: int, rows: int) -> Iterator[list[Payload]]:
    """Patches that go all over such a state: of a value, of a list, of a member that is new, of three at once."""
    for number in range(count):
        row = f"/k{number * 7 % rows}"
        yield [
            [{"op": "replace", "path": f"{row}/count", "value": number}],
            [{"op": "add", "path": f"{row}/tags/-", "value": f"t{number}"}],
            [{"op": "add", "path": f"{row}/note", "value": f"n{number}"}],
            [
                {"op": "replace", "path": f"{row}/name", "value": f"row {number}"},
                {"op": "remove", "path": f"{row}/tags/0"},
                {"op": "add", "path": f"{row}/tags/0", "value": "z"},
            ],
        ][number % 4]


def payloads(kind: str, count: int) -> list[bytes]:
    """The events of one run as JSON, as a server writes them."""
    run = {"threadId": "t-1", "runId": "r-1"}
    events = [{"type": "RUN_STARTED", **run}, *KINDS[kind](count), {"type": "RUN_FINISHED", **run}]
    return [json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode() for event in events]


def body(kind: str, count: int) -> bytes:
    """The body of a response that streams them."""
    return b"".join(b"data: %b\n\n" % payload for payload in payloads(kind, count))


if __name__ == "__main__":
    sys.stdout.buffer.write(body(sys.argv[1], int(sys.argv[2])))
