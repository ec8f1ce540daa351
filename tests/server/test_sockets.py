"""Over real sockets, under uvicorn: clients that go at every event, that read slowly, that come in hundreds."""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import threading
import time
from functools import partial
from typing import Any

import anyio
import httpx
import pytest
from tests.paced import Paced
from tests.server.kit import asking
from tests.server.live import RawClient, live
from tests.server.scenarios import SCENARIOS, loop_of

from handrail import AgentSession, FinishDelta, HttpAgent, Loop, TextDelta, Tool
from handrail.agui import approve, deny
from handrail.loop import BackendRequest
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, call, gate, stall, text


def paced(loop: Loop, pause: float) -> tuple[Loop, ScriptedBackend]:
    """The same loop, its models slower."""
    [inner] = loop._setting.backends
    assert isinstance(inner, ScriptedBackend)
    tools = list(loop._tools.values())
    setting = loop._setting
    return Loop(
        [Paced(inner, partial(anyio.sleep, pause))],
        tools,
        limits=setting.limits,
        retry=setting.retry,
        budget=setting.budget,
    ), inner


class Switch:
    """`loop` as a function: what the next request is served with."""

    def __init__(self) -> None:
        self.loop: Any = None
        self.ends: queue.Queue[tuple[str, str]] = queue.Queue()

    def __call__(self, given: Any, principal: Any) -> Any:
        return self.loop

    def on_finish(self, given: Any, outcome: Any) -> None:
        self.ends.put((given.run_id, outcome.outcome))


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", ["FIN", "RST"])
def test_a_client_may_go_at_any_event(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """P-93: at every event of every scenario: the run ends within a second, its streams are closed, nothing is left."""
    switch = Switch()
    app = agui_app(switch, on_finish=switch.on_finish, busy="allow")
    points: dict[str, list[str]] = {}
    with live(app) as server, caplog.at_level(logging.WARNING):
        for name, (make, given) in SCENARIOS.items():
            switch.loop = make()
            whole = httpx.post(server.url, json=given | {"runId": "whole"}).text.count("\ndata: ")
            natural = switch.ends.get(timeout=5)[1]
            for at in range(whole):
                switch.loop, inner = paced(make(), 0.004)
                client = RawClient(server.port, given | {"runId": f"{name} {at}"})
                client.read_frames(at + 1)
                client.go(how)
                went = time.monotonic()
                run_id, outcome = switch.ends.get(timeout=5)
                assert run_id == f"{name} {at}"
                assert outcome in ("cancelled", natural)
                assert time.monotonic() - went < 5
                assert inner.opened == inner.closed
                points.setdefault(name, []).append(outcome)
        _until_nothing_is_left(server)
    cancelled = sum(outcomes.count("cancelled") for outcomes in points.values())
    for name, outcomes in points.items():
        print(f"{how} {name}: {len(outcomes)} points, {outcomes.count('cancelled')} cancelled")
    assert sum(map(len, points.values())) >= 90
    assert cancelled >= 40
    assert [record.getMessage() for record in caplog.records] == []


def _until_nothing_is_left(server: Any) -> None:
    deadline = time.monotonic() + 10
    while tasks := server.tasks():
        assert time.monotonic() < deadline, tasks
        time.sleep(0.01)


@pytest.mark.parametrize("how", ["FIN", "RST"])
@pytest.mark.parametrize("where", ["in silence", "in a frame", "in a thread"])
def test_a_client_may_go_in_silence_and_half_way(how: str, where: str, caplog: pytest.LogCaptureFixture) -> None:
    """P-93, case 143: while nothing is sent, in the middle of a frame, while a tool blocks its thread."""
    ends: queue.Queue[str] = queue.Queue()
    held = threading.Event()
    script = {
        "in silence": [text("a"), stall()],
        "in a frame": [text("x" * 200_000), stall()],
        "in a thread": [text("a"), call("blocks")],
    }
    backend = ScriptedBackend([script[where]])
    tools = [Tool(lambda: held.wait(10), name="blocks")]
    app = agui_app(Loop([backend], tools), on_finish=lambda given, outcome: ends.put(outcome.outcome))
    with live(app) as server, caplog.at_level(logging.WARNING):
        client = RawClient(server.port, asking())
        if where == "in a frame":
            while len(client.read) < 1000:
                client.read += client.socket.recv(100)
        else:
            client.read_frames(3)
        client.go("RST" if where == "in a frame" else how)
        assert ends.get(timeout=5) == "cancelled"
        held.set()
        _until_nothing_is_left(server)
    assert backend.opened == backend.closed
    assert caplog.records == []


def test_not_reading_does_not_slow_the_run() -> None:
    """P-93, P-95: megabytes that nobody takes; the run completes, and every reader gets all of it in the end."""
    ends: queue.Queue[str] = queue.Queue()
    loop = Loop([ScriptedBackend([text(*("x" * 10_000 for _ in range(600)))])])
    with live(agui_app(loop, on_finish=lambda given, outcome: ends.put(outcome.outcome))) as server:
        client = RawClient(server.port, asking(), small_window=True)
        assert ends.get(timeout=10) == "completed"
        other = httpx.get(f"{server.url}runs/r1/events").text
        assert other.count("\ndata: ") == 604
        assert client.read_to_the_end().count(b"\ndata: ") == 604
        client.go("FIN")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_five_hundred_streams_at_once() -> None:
    """P-95, F-15: each gets its own two hundred tokens, all of them, in order, and nothing of another's."""
    with live(agui_app(Loop([Numbered()]), keepalive=None)) as server:
        started = time.monotonic()
        answers = asyncio.run(_ask_all(server.port, 500))
        print(f"500 streams of 200 tokens in {time.monotonic() - started:.1f} s")
        _until_nothing_is_left(server)
    for name, said in answers.items():
        assert said == "".join(f"{name}.{n} " for n in range(200))
    assert len(answers) == 500


class Numbered:
    """A model that counts, ten tokens at a breath, and says in every token who asked."""

    model = "numbered"
    max_tokens = None

    def stream(self, request: BackendRequest) -> Any:
        return _Count(str(request.messages[-1].content))


class _Count:
    def __init__(self, name: str) -> None:
        self._name = name
        self._next = 0

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *error: Any) -> None: ...

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        n, self._next = self._next, self._next + 1
        if n > 200:
            raise StopAsyncIteration
        if n % 10 == 0:
            await anyio.lowlevel.checkpoint()
        return FinishDelta("stop") if n == 200 else TextDelta(f"{self._name}.{n} ")


async def _ask_all(port: int, count: int) -> dict[str, str]:
    answers: dict[str, str] = {}
    all_open = asyncio.Event()
    is_open = 0

    async def ask(name: str) -> None:
        nonlocal is_open
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        is_open += 1
        if is_open == count:
            all_open.set()
        await all_open.wait()
        data = json.dumps(asking(name, run_id=name, thread_id=name)).encode()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        body = await reader.read()
        writer.close()
        deltas = [line for line in body.split(b"\n") if line.startswith(b'data: {"type":"TEXT_MESSAGE_CONTENT"')]
        answers[name] = "".join(json.loads(line[6:])["delta"] for line in deltas)

    async with asyncio.TaskGroup() as group:
        for n in range(count):
            group.create_task(ask(f"s{n}"))
    return answers


@pytest.mark.parametrize("name", ["text", "tools", "reasoning", "retried", "bad arguments"])
async def test_our_client_over_a_socket(name: str) -> None:
    """P-86: what the session has in the end is what the loop has."""
    outcomes: list[Any] = []
    app = agui_app(SCENARIOS[name][0](), on_finish=lambda given, outcome: outcomes.append(outcome))
    with live(app) as server:
        async with HttpAgent(server.url) as agent, AgentSession(agent) as session:
            state = await session.send("hi")
    assert state.ok
    [outcome] = outcomes
    assert [(m.id, m.role) for m in session.messages] == [(m.id, m.role) for m in outcome.messages]
    assert session.messages[-1].content == outcome.final


async def test_our_client_stops_a_run() -> None:
    """P-93, P-74: a session that is stopped closes the connection, and the server's run is cancelled."""
    ends: queue.Queue[str] = queue.Queue()
    held = gate()
    app = agui_app(Loop([ScriptedBackend([[text("a"), held]])]), on_finish=lambda given, o: ends.put(o.outcome))
    with live(app) as server:
        async with HttpAgent(server.url) as agent, AgentSession(agent) as session, anyio.create_task_group() as group:
            group.start_soon(session.send, "hi")
            await held.reached
            session.stop()
        assert ends.get(timeout=5) == "cancelled"


@pytest.mark.parametrize("answer", [approve, deny])
async def test_our_client_answers_a_question(answer: Any) -> None:
    """P-80: the run ends with a question; the next one, at a server that remembers nothing, has its answer."""
    make, _ = SCENARIOS["approval"]
    with live(agui_app(make())) as first, live(agui_app(loop_of(text("So be it.")))) as second:
        async with HttpAgent(first.url) as agent, AgentSession(agent) as session:
            assert not (await session.send("hi")).ok
            saved = session.dump()
        async with HttpAgent(second.url) as agent, AgentSession.load(agent, saved) as session:
            [question] = session.pending_interrupts
            assert (await session.resume([answer(question)])).ok
    results = {m.tool_call_id: m.content for m in session.messages if m.role == "tool"}
    assert (results["c1"] == "found 1") is (answer is approve)
    assert session.messages[-1].content == "So be it."


async def test_our_client_runs_its_own_tool() -> None:
    """P-79: a client tool over a socket."""

    def pick_date() -> str:
        """Asks the person."""
        return "Friday"

    backend = ScriptedBackend([call("pick_date"), text("On Friday.")])
    with live(agui_app(Loop([backend]))) as server:
        async with HttpAgent(server.url) as agent, AgentSession(agent, tools=[pick_date]) as session:
            assert (await session.send("hi")).ok
    assert session.messages[-1].content == "On Friday."
    assert [str(m.content) for m in backend.requests[1].messages if m.role == "tool"] == ["Friday"]
