"""Sessions with a running server, everything on the wire between them recorded and judged."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from ag_ui.core import Event, Message, RunAgentInput, RunErrorEvent, RunFinishedEvent
from tests.live.checking import Spoken, faults
from tests.live.relay import Exchange, Relay

from handrail import AgentRun, AgentSession, HttpAgent, ToolCallPart, WarningRecord

HELLO = "Hello from the fake model: café ✓ 🚀."
"""What every server answers to `text`."""


@dataclass
class Heard:
    """What a session took of one stream."""

    events: list[Event] = field(default_factory=list[Event])
    messages: tuple[Message, ...] | None = None


class Asking(HttpAgent):
    """An agent that begins a new list with each request."""

    heard: list[Heard]

    def start(self, input: RunAgentInput | Mapping[str, Any]) -> AgentRun:
        self.heard.append(Heard())
        return super().start(input)


@dataclass
class Live:
    """A server of the name `peer` behind a relay, and the conversations with it."""

    peer: str
    relay: Relay
    is_lenient: bool = False
    given_up: set[str] = field(default_factory=set[str])
    """Questions that a test has abandoned."""
    warnings: list[WarningRecord] = field(default_factory=list[WarningRecord])
    heard: dict[str, list[Heard]] = field(default_factory=dict[str, list[Heard]])

    @property
    def codes(self) -> list[str]:
        """The codes of all warnings so far."""
        return [warning.code for warning in self.warnings]

    @property
    def exchanges(self) -> list[Exchange]:
        return [exchange for exchange in self.relay.exchanges if exchange.is_asked]

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [exchange.request for exchange in self.exchanges]

    @asynccontextmanager
    async def session(self, data: Any = None, **options: Any) -> AsyncGenerator[AgentSession]:
        """A session with the server, or the one that was dumped as `data`; at its end its whole thread is judged."""
        options = {"on_warning": self.warnings.append} | options
        async with Asking(self.relay.url, lenient=self.is_lenient) as agent:
            made = AgentSession(agent, **options) if data is None else AgentSession.load(agent, data, **options)
            agent.heard = heard = self.heard.setdefault(made.thread_id, [])

            def listen(event: Event) -> None:
                heard[-1].events.append(event)
                if isinstance(event, RunFinishedEvent | RunErrorEvent):
                    heard[-1].messages = made.messages

            made.subscribe_events(listen)
            async with made as session:
                yield session
        self.judge(made.thread_id)

    def judge(self, thread_id: str) -> None:
        """Every request and every stream of a thread is as it has to be."""
        exchanges = [exchange for exchange in self.exchanges if exchange.request["threadId"] == thread_id]
        for exchange in exchanges:
            assert exchange.over.wait(5), "a connection was left open"
            assert exchange.headers["accept"] == "text/event-stream"
            assert exchange.headers["content-type"] == "application/json"
        thread = [
            Spoken(exchange.request, exchange.body, self.is_lenient, heard.events, heard.messages)
            for exchange, heard in zip(exchanges, self.heard[thread_id], strict=True)
        ]
        found = faults(thread, self.given_up)
        assert not found, "\n".join(found)


def call_parts(session: AgentSession) -> list[ToolCallPart]:
    """The calls on screen, in order."""
    parts = [part for message in session.transcript.messages for part in message.parts]
    return [part for part in parts if isinstance(part, ToolCallPart)]


def answer_of(session: AgentSession) -> str:
    """What the agent said last."""
    return session.transcript.messages[-1].text


SERVERS = ("handrail", "pydantic-ai", "langgraph")
AND_OLDER = (*SERVERS, "langgraph-older")
"""One of them asks in the older way, too; for the rest it is the same."""
KEEPS_NOTHING = ("handrail", "pydantic-ai")

servers_have_to_start = [pytest.mark.slow, pytest.mark.timeout(60, func_only=True)]
"""For a module: the first test that asks a server waits for it, and for its environment if that is not made yet."""


def on(*peers: str, trio: Sequence[str] = ()) -> pytest.MarkDecorator:
    """The servers a test is run against: on asyncio, and with these on trio, too."""
    cases = [(peer, "asyncio") for peer in peers] + [(peer, "trio") for peer in trio]
    return pytest.mark.parametrize(("live", "anyio_backend"), cases, indirect=["live"])
