"""Servers in memory: what an `HttpAgent` is answered, read by read, and what it did with the connection."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import httpx
from tests.agui.wires import sse

from handrail import AgentRun, HttpAgent, RunScope

EVENT_STREAM = {"content-type": "text/event-stream"}
ASKED = {"threadId": "t1", "runId": "r1", "messages": [{"id": "u1", "role": "user", "content": "Hello"}]}
STARTED: dict[str, Any] = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
FINISHED: dict[str, Any] = {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"}
SAID: list[dict[str, Any]] = [
    {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Hi."},
    {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
]
CALLED: list[dict[str, Any]] = [
    {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "f", "parentMessageId": "m1"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{}"},
    {"type": "TOOL_CALL_END", "toolCallId": "c1"},
]

Line = bytes | Exception | Callable[[], Any]
"""A read; the connection breaking there; or what happens between two reads, awaited if it can be."""


@dataclass
class Body(httpx.AsyncByteStream):
    """The body of an answer. `ends` is "clean", or "never": the connection is held open."""

    lines: Sequence[Line]
    ends: str = "clean"
    is_closed: bool = False
    reading: anyio.Event = field(default_factory=anyio.Event)
    """Set when everything has been read and the next read waits."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for line in self.lines:
            await anyio.lowlevel.checkpoint()
            if isinstance(line, Exception):
                raise line
            if isinstance(line, bytes):
                yield line
            else:
                waiting = line()
                if waiting is not None:
                    await waiting
        self.reading.set()
        if self.ends == "never":
            await anyio.sleep_forever()

    async def aclose(self) -> None:
        self.is_closed = True


@dataclass
class Server(httpx.AsyncBaseTransport):
    """Answers every request with the next body, the last one again and again."""

    bodies: Sequence[Body]
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: dict(EVENT_STREAM))
    requests: list[httpx.Request] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = self.bodies[min(len(self.requests), len(self.bodies) - 1)]
        self.requests.append(request)
        await anyio.lowlevel.checkpoint()
        return httpx.Response(self.status, headers=self.headers, stream=body)

    @property
    def sent(self) -> Any:
        """The last request, decoded."""
        return json.loads(self.requests[-1].content)


def serve(*lines: Line, ends: str = "clean", status: int = 200, headers: dict[str, str] | None = None) -> Server:
    """A server that answers with these reads."""
    return Server([Body(lines, ends)], status, EVENT_STREAM if headers is None else headers)


def agent_of(server: httpx.AsyncBaseTransport, **options: Any) -> HttpAgent:
    """An agent that asks this server; its client needs no closing, since nothing is open."""
    return HttpAgent("http://agent/agui", client=httpx.AsyncClient(transport=server), **options)


async def ended(server: httpx.AsyncBaseTransport, given: Any = ASKED, **options: Any) -> AgentRun:
    """One run, to its end."""
    async with RunScope():
        run = agent_of(server, **options).start(given)
        await run.result
    return run


def types_of(run: AgentRun) -> list[str]:
    return [event.type.value for event in run.events.so_far()]


def answering(*payloads: dict[str, Any]) -> Server:
    """A server that answers with these events, in one read."""
    return serve(sse(payloads))
