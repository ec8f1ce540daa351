"""A session that is watched, and what has to be true of its thread whatever came in the way."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.request import urlopen

import anyio
from ag_ui.core import Event, RunAgentInput, RunErrorEvent, RunFinishedEvent, ToolMessage, UserMessage
from tests.agui.wires import sse
from tests.faults.conversation import Compass, ignored
from tests.faults.forker import Child
from tests.live.checking import Spoken, faults
from tests.live.kit import Heard

from handrail import AgentRun, AgentSession, HttpAgent
from handrail.agui._input import encode_input, outgoing_input
from handrail.testing import check_messages

PATIENCE = 30.0
"""Seconds of silence that are too many from a server that nobody harms, however busy the machine is."""
GRACE = 0.1
"""Seconds in which something may follow the end of a run."""
WITHIN = 5.0
"""Five times the second in which a server has to notice that its client went; the machine may be busy."""


class Asking:
    """An agent that tells each request before it sends it, and waits no longer for a word than it `trusts` the way."""

    def __init__(self, url: str, silence: float, tell: Callable[[RunAgentInput], object]) -> None:
        self.close_grace = GRACE
        self.trusts = False
        self._brief, self._patient = (
            HttpAgent(url, close_grace=GRACE, idle_timeout=seconds) for seconds in (silence, PATIENCE)
        )
        self._tell = tell

    def start(self, input: RunAgentInput) -> AgentRun:
        self._tell(input)
        return (self._patient if self.trusts else self._brief).start(input)

    async def aclose(self) -> None:
        await self._brief.aclose()
        await self._patient.aclose()


@dataclass
class Talk:
    """A session, what it asked, and what it took of each answer."""

    session: AgentSession = field(init=False)
    agent: Asking = field(init=False)
    asked: list[RunAgentInput] = field(default_factory=list[RunAgentInput])
    heard: list[Heard] = field(default_factory=list[Heard])
    calls: list[str] = field(default_factory=list[str])
    """The calls that its own tool was executed for, one entry for each time."""
    given_up: set[str] = field(default_factory=set[str])
    """The questions that were abandoned."""

    def ask(self, given: RunAgentInput) -> None:
        self.asked.append(given)
        self.heard.append(Heard())

    def hear(self, event: Event) -> None:
        self.heard[-1].events.append(event)
        if isinstance(event, RunFinishedEvent | RunErrorEvent):
            self.heard[-1].messages = self.session.messages

    @property
    def events(self) -> int:
        """How many there were, in all answers."""
        return sum(len(heard.events) for heard in self.heard)

    def judge(self, bodies: Sequence[bytes] | None = None) -> None:
        """Nothing is wrong with the requests, nor with what was made of the answers: of `bodies`, or what was heard."""
        read = bodies or [sse(event.model_dump(by_alias=True) for event in heard.events) for heard in self.heard]
        thread = [
            Spoken(json.loads(_encoded(given)), body, False, heard.events, heard.messages)
            for given, body, heard in zip(self.asked, read, self.heard, strict=True)
        ]
        found = faults(thread, self.given_up)
        assert not found, "\n".join(found)

    def give_up(self) -> None:
        """Abandon what is owed: the server may have taken it and not be able to say so, and has no use for it twice."""
        if self.session.owed_answers:
            self.given_up |= {interrupt.id for interrupt in self.session.abandon_interrupts()}


@asynccontextmanager
async def talking(
    url: str, data: Any = None, *, thread_id: str | None = None, silence: float = PATIENCE
) -> AsyncGenerator[Talk]:
    """A session with the agent at `url`, or the one that was dumped as `data`."""
    talk = Talk()
    options: dict[str, Any] = {"tools": [Compass(talk.calls.append).get_location], "on_warning": ignored}
    async with aclosing(Asking(url, silence, talk.ask)) as talk.agent:
        talk.session = (
            AgentSession(talk.agent, thread_id=thread_id, **options)
            if data is None
            else AgentSession.load(talk.agent, data, **options)
        )
        talk.session.subscribe_events(talk.hear)
        async with talk.session:
            yield talk


def nothing_twice(talk: Talk, first_turn: str) -> None:
    """The last request is in order, each turn is in the history once, and each thing on screen is there once."""
    sent = talk.asked[-1]
    assert sent.resume or check_messages(sent.messages) == []
    turns = [message.content for message in talk.session.messages if isinstance(message, UserMessage)]
    assert turns in ([first_turn, "text"], [first_turn, "text", "text"])
    shown = talk.session.transcript.messages
    for ids in ([message.id for message in shown], [part.id for message in shown for part in message.parts]):
        assert len(ids) == len(set(ids)), ids
    assert not any(part.streaming for message in shown for part in message.parts)


def executed_once(talk: Talk, calls: Sequence[str], sent_before: int = 0) -> None:
    """No tool was executed twice for a call: neither the session's own nor the server's, whose `calls` these are.

    But for one case. A server that remembers nothing executes what it is told to, and an answer to its question is sent
    until the session has heard of a run that took it: then as often as it was sent, as long as no result was heard.
    `sent_before` is how often it had been, when this session was made.
    """
    assert all(times == 1 for times in Counter(talk.calls).values()), talk.calls
    for call, times in Counter(calls).items():
        told = sent_before + sum(_asks_for(call, given) for given in talk.asked)
        assert times <= max(1, told), f"{call} was executed {times} times, and asked for {told} times"


def _asks_for(call: str, given: RunAgentInput) -> bool:
    answered = {message.tool_call_id for message in given.messages if isinstance(message, ToolMessage)}
    return call not in answered and any(entry.interrupt_id == call for entry in given.resume or ())


def calls_at(servers: Sequence[Child], thread_id: str) -> list[str]:
    """The calls that these servers executed for a thread, one entry for each time."""
    return [line["call"] for server in servers for line in server.told("tool", thread=thread_id)]


# -- what is left ------------------------------------------------------------------------------------------------------


def open_files() -> int:
    """Those of this process, sockets among them."""
    return len(os.listdir("/dev/fd"))


def own_threads() -> set[str]:
    """The names of this process's threads, but for those that event loops keep for a while for their next job."""
    names = {thread.name for thread in threading.enumerate()}
    return {name for name in names if not name.startswith(("AnyIO worker thread", "Trio thread"))}


def left_at(url: str) -> dict[str, int]:
    """What is open in a server's process."""
    with urlopen(f"{url}left", timeout=WITHIN) as answer:
        return json.load(answer)


async def until(true: Callable[[], object], what: str, within: float = WITHIN) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, what
        await anyio.sleep(0.002)  # most of it is in another process


def _encoded(given: RunAgentInput) -> bytes:
    return encode_input(outgoing_input(given, lambda record: None))
