"""Sessions over HTTP with a server in a process of its own, and what both processes hold behind them."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from uuid import uuid4

import anyio
import httpx
from tests.conftest import ROOT
from tests.endurance.figures import Figures
from tests.endurance.runs import here, there
from tests.endurance.server import HELD
from tests.event_loops import HERE, run_on
from tests.processes import listening

from handrail import AgentSession, Failed, HttpAgent, RunParams, approve, deny
from handrail.run import start_thread

AT_ONCE = 10
ON_ONE_EVENT_LOOP = 25
"""Sessions between the making of an event loop and its end."""


class Server:
    """The server, as it is seen from here."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/"

    def figures(self) -> Figures:
        """What it holds. The last runs that it keeps readable are made the same each time."""
        play(self, HELD, only="talk")
        return Figures(**self._asked()["figures"])

    def noise(self) -> list[str]:
        """What it has complained of."""
        return [f"at the server: {said}" for said in self._asked()["noise"]]

    def _asked(self) -> Any:
        with urllib.request.urlopen(f"{self.url}figures", timeout=60) as answer:
            return json.load(answer)


@contextmanager
def serving() -> Generator[Server]:
    """A server for as long as the block."""
    with listening(lambda port: [sys.executable, "-m", "tests.endurance.server", str(port)], cwd=ROOT) as port:
        yield Server(port)


# -- kinds of sessions -------------------------------------------------------------------------------------------------


def new_session(agent: HttpAgent, **options: Any) -> AgentSession:
    return AgentSession(agent, on_warning=lambda record: None, **options)


async def talk(url: str, agent: HttpAgent) -> None:
    async with new_session(agent) as session:
        for _ in range(3):
            assert (await session.send("talk")).ok
        assert len(session.messages) >= 6


async def server_tools(url: str, agent: HttpAgent) -> None:
    async with new_session(agent) as session:
        assert (await session.send("look")).ok
        assert (await session.send("break")).ok


async def client_tools(url: str, agent: HttpAgent) -> None:
    async with new_session(agent, tools=[here, there]) as session:
        assert (await session.send("client")).ok


async def failed_and_asked_again(url: str, agent: HttpAgent) -> None:
    async with new_session(agent) as session:
        assert isinstance(await session.send("refuse"), Failed)
        assert isinstance(await session.run(), Failed)
        assert (await session.send("flaky")).ok


async def questions(url: str, agent: HttpAgent) -> None:
    """Answered, denied, and given up; the last one after a dump."""
    async with new_session(agent) as session:
        for answer in (approve, deny):
            await session.send("delete")
            assert (await session.resume([answer(question) for question in session.pending_interrupts])).ok
        await session.send("delete")
        kept = session.dump()
    async with AgentSession.load(agent, kept, on_warning=lambda record: None) as again:
        assert len(again.abandon_interrupts()) == 1
        assert (await again.send("talk")).ok


async def stopped(url: str, agent: HttpAgent, asked: str) -> None:
    """From inside, when the run has begun to speak or to work."""
    async with new_session(agent) as session:
        session.subscribe_events(
            lambda event: session.stop() if event.type in ("TEXT_MESSAGE_CONTENT", "TOOL_CALL_END") else None
        )
        state = await session.send(asked)
        assert not state.ok
        assert not session.busy


async def caller_gives_up(url: str, agent: HttpAgent) -> None:
    async with new_session(agent) as session:
        with anyio.CancelScope() as caller:
            session.subscribe_events(lambda event: caller.cancel() if event.type == "TEXT_MESSAGE_CONTENT" else None)
            await session.send("stall")
        assert caller.cancelled_caught


async def closed_in_the_middle(url: str, agent: HttpAgent) -> None:
    """The session is closed under the exchange that goes on."""
    session = new_session(agent)
    began = anyio.Event()
    session.subscribe_events(lambda event: began.set())
    async with session, anyio.create_task_group() as group:
        group.start_soon(session.send, "stall")
        await began.wait()
        await session.aclose()


async def line_is_cut(url: str, agent: HttpAgent) -> None:
    """A client that goes without a word, and another that reads what the run came to, and asks for its end."""
    run_id = str(uuid4())
    body: dict[str, Any] = {
        "threadId": str(uuid4()),
        "runId": run_id,
        "messages": [{"id": "u", "role": "user", "content": "stall"}],
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
    }
    data = json.dumps(body).encode()
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    async with await anyio.connect_tcp("127.0.0.1", int(urlsplit(url).port or 0)) as line:
        await line.send(head.encode() + data)
        assert (await line.receive()).startswith(b"HTTP/1.1 200")
    async with httpx.AsyncClient(timeout=30) as client:
        await client.post(f"{url}runs/{run_id}/cancel")
        replayed = await client.get(f"{url}runs/{run_id}/events")
        assert replayed.status_code in (200, 404)  # 404 where many others have ended meanwhile


async def own_agent(url: str, agent: HttpAgent) -> None:
    """An agent for one session, with a client of its own."""
    async with HttpAgent(url) as own, new_session(own) as session:
        assert (await session.send("look", RunParams(forwarded_props={"a": 1}))).ok


async def nobody_there(url: str, agent: HttpAgent) -> None:
    async with HttpAgent("http://127.0.0.1:1/", connect_timeout=5) as nowhere, new_session(nowhere) as session:
        assert isinstance(await session.send("talk"), Failed)


async def from_a_thread(url: str, agent: HttpAgent) -> None:
    def blocking() -> None:
        session = new_session(HttpAgent(url), tools=[here, there])
        assert session.send_sync("client").ok

    (await start_thread(blocking)).unwrap()


Kind: TypeAlias = Callable[[str, HttpAgent], Coroutine[Any, Any, None]]

KINDS: dict[str, Kind] = {
    "talk": talk,
    "server tools": server_tools,
    "client tools": client_tools,
    "failed and asked again": failed_and_asked_again,
    "questions": questions,
    "stopped in a stream": lambda url, agent: stopped(url, agent, "stall"),
    "stopped in a blocking tool": lambda url, agent: stopped(url, agent, "block"),
    "stopped in a tool that swallows it": lambda url, agent: stopped(url, agent, "hold"),
    "its caller gives up": caller_gives_up,
    "closed in the middle": closed_in_the_middle,
    "the line is cut": line_is_cut,
    "an agent of its own": own_agent,
    "nobody there": nobody_there,
    "from a thread": from_a_thread,
}


# -- all of them -------------------------------------------------------------------------------------------------------


def play(server: Server, count: int, only: str | None = None) -> None:
    """So many sessions, on each event loop in turn."""
    kinds = list(KINDS.values()) if only is None else [KINDS[only]]
    left = iter(range(count))
    while True:
        for event_loop in HERE.values():
            batch = list(islice(left, ON_ONE_EVENT_LOOP))
            if not batch:
                return
            run_on(event_loop, partial(_on_one_event_loop, server.url, kinds, batch))


async def _on_one_event_loop(url: str, kinds: list[Kind], numbers: Iterable[int]) -> None:
    left = iter(numbers)
    async with HttpAgent(url) as agent:
        while batch := list(islice(left, AT_ONCE)):
            async with anyio.create_task_group() as group:
                for number in batch:
                    group.start_soon(kinds[number % len(kinds)], url, agent)
