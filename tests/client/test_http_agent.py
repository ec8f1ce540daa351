"""An agent behind HTTP: how it is made, whose client it uses, and where it runs."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from typing import Any

import anyio
import httpx
import pytest
from tests.agui.wires import bytewise, sse
from tests.client.sockets import head, hostile
from tests.client.transports import ASKED, FINISHED, SAID, STARTED, Body, Server, agent_of, answering, ended, serve

from handrail import CANCELLED_CODE, CLIENT_ERROR_CODE, AgentRun, HttpAgent, Outcome, RunScope
from handrail.errors import TransportError, UsageError

# -- construction and clients ----------------------------------------------------------------------------------------


def test_what_cannot_work() -> None:
    """P-67: misuse is named at once."""
    for url in ("agent/agui", "ftp://agent/agui", "/agui"):
        with pytest.raises(ValueError, match="http or https URL"):
            HttpAgent(url)
    with pytest.raises(ValueError, match="names a host"):
        HttpAgent("http://")
    with pytest.raises(ValueError, match="a port of at most 65535"):
        HttpAgent("http://agent:65536/")
    for wrong in (
        {"close_grace": -1},
        {"max_event_bytes": 0},
        {"connect_timeout": 0},
        {"idle_timeout": -1.0},
        {"late_run_error": "perhaps"},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            HttpAgent("http://agent/", **wrong)  # type: ignore[arg-type]
    agent = HttpAgent("http://me:secret@agent/agui?key=secret", close_grace=0.5)
    assert agent.close_grace == 0.5
    assert repr(agent) == "<HttpAgent http://agent/agui>"


async def test_a_client_that_was_given_stays_open() -> None:
    """P-67: it is used and never closed, also when its owner gave it a base URL."""
    server = answering(STARTED, FINISHED)
    client = httpx.AsyncClient(transport=server, base_url="http://base/", headers={"x-of-the-client": "1"})
    async with RunScope(), HttpAgent("/agui", client=client) as agent:
        await agent.start(ASKED).result
    assert not client.is_closed
    assert str(server.requests[0].url) == "http://base/agui"
    assert server.requests[0].headers["x-of-the-client"] == "1"
    await client.aclose()


async def test_a_client_of_our_own_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-67: one is made on the first run, and closed by `async with`; after that the agent makes another."""
    made: list[httpx.AsyncClient] = []
    init = httpx.AsyncClient.__init__

    def noted(self: httpx.AsyncClient, *args: Any, **options: Any) -> None:
        made.append(self)
        init(self, *args, **options)

    monkeypatch.setattr(httpx.AsyncClient, "__init__", noted)
    with hostile(head(), sse([STARTED, FINISHED]), "close") as server:
        agent = HttpAgent(server.url)
        for number in (1, 2):
            async with agent, RunScope():
                for _ in range(3):
                    assert (await agent.start(ASKED).result).ok
            assert [client.is_closed for client in made] == [True] * number
        await agent.aclose()
    assert len(server.visits) == 6


async def test_no_cookies_and_no_kept_connections() -> None:
    """P-66, P-68: a run owes nothing to the one before; each has a connection of its own."""
    answer = sse([STARTED, FINISHED])
    with hostile(head(set_cookie="s=1", content_length=str(len(answer))), answer) as server:
        async with HttpAgent(server.url) as agent, RunScope():
            for _ in range(2):
                assert (await agent.start(ASKED).result).ok
        assert all(visit.over.wait(5) for visit in server.visits)
    assert len(server.visits) == 2
    assert b"cookie" not in server.visits[1].request.lower()


# -- where it runs ---------------------------------------------------------------------------------------------------


def test_two_event_loops_one_after_the_other() -> None:
    """P-67, R-96: one agent in two `asyncio.run`, in trio, and in threads with no loop; nothing is kept of any."""
    with hostile(head(), sse([STARTED, *SAID, FINISHED]), "close") as server:
        agent = HttpAgent(server.url)

        async def ask() -> Outcome:
            async with RunScope():
                return await agent.start(ASKED).result

        for backend in ("asyncio", "asyncio", "trio"):
            assert anyio.run(ask, backend=backend).final == "Hi."
        assert agent.start(ASKED).result.wait(10).final == "Hi."
        finals: list[str] = []
        threads = [
            threading.Thread(target=lambda: finals.append(agent.start(ASKED).result.wait(10).final)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert finals == ["Hi."] * 4


def test_cancel_from_another_thread() -> None:
    """P-74, P-66: a run on the shared thread is cancelled by whoever holds it."""
    with hostile(head(), sse([STARTED, *SAID])) as server:
        run = HttpAgent(server.url).start(ASKED)
        assert [number for number, _ in zip(range(4), run.events, strict=False)] == [0, 1, 2, 3]
        run.cancel()
        assert run.result.wait(5).outcome == "cancelled"
        run.drained.wait(5)
        assert server.visits[0].over.wait(5)
    assert run.result.value.final == "Hi."


def test_nothing_keeps_a_run_that_is_over() -> None:
    """R-103: the handle, its driver and its messages can be collected."""
    server = answering(STARTED, *SAID, FINISHED)
    agent = agent_of(server)

    async def main() -> weakref.ref[AgentRun]:
        run = agent.start(ASKED)
        await run.result
        await run.drained
        return weakref.ref(run)

    kept = asyncio.run(main())
    gc.collect()
    assert kept() is None


def test_a_client_without_httpx() -> None:
    """P-67: sessions and agents in process need no httpx; `HttpAgent` says what to install."""
    script = """
import sys
sys.modules["httpx"] = None
from handrail import AgentSession, LoopAgent
try:
    from handrail import HttpAgent
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'handrail[client]'" in done.stdout


def test_trio_without_a_scope() -> None:
    """P-66: refused with the way out, and nothing is sent."""
    server = answering(STARTED, FINISHED)

    async def main() -> None:
        with pytest.raises(UsageError, match="RunScope"):
            agent_of(server).start(ASKED)

    anyio.run(main, backend="trio")
    assert server.requests == []


async def test_many_at_once() -> None:
    """P-66: an agent keeps nothing of a run, so any number go on together; `start` returns before anything is sent."""
    server = Server([Body([sse([STARTED | {"runId": f"r{n}"}, FINISHED | {"runId": f"r{n}"}])]) for n in range(120)])
    agent = agent_of(server)
    async with RunScope():
        runs = [agent.start(ASKED | {"runId": f"r{n}"}) for n in range(120)]
        assert server.requests == []
        assert [run.status for run in runs] == ["running"] * 120
        await runs[-1].result
    assert [run.result.value.outcome for run in runs] == ["completed"] * 120
    assert [run.id for run in runs] == [f"r{n}" for n in range(120)]


async def test_cancelled_before_it_began() -> None:
    """P-74, P-3: nothing is sent, and there is a report."""
    server = answering(STARTED, FINISHED)
    async with RunScope():
        run = agent_of(server).start(ASKED)
        run.cancel()
        await run.result
    assert server.requests == []
    assert (run.report.failure, run.report.code) == ("cancelled", CANCELLED_CODE)


async def test_a_scope_that_is_left_before_it_began() -> None:
    """P-3, R-91: a host that ends the run itself leaves a report, too."""
    server = answering(STARTED, FINISHED)
    with anyio.CancelScope() as outer:
        async with RunScope():
            run = agent_of(server).start(ASKED)
            outer.cancel()
    assert run.result.value.outcome == "cancelled"
    assert run.report.failure == "cancelled"
    assert not run.is_cancelled


def test_a_torn_down_event_loop_leaves_a_report() -> None:
    """P-3, P-73, R-91: `asyncio.run` ends with the run going on; the response is closed in it."""
    server = serve(sse([STARTED, *SAID]), ends="never")

    async def main() -> AgentRun:
        run = agent_of(server).start(ASKED)
        await server.bodies[0].reading.wait()
        return run

    run = asyncio.run(main())
    assert run.result.value.outcome == "cancelled"
    assert run.result.value.final == "Hi."
    assert run.report.failure == "cancelled"
    assert server.bodies[0].is_closed
    assert run.drained.is_set


def test_a_closed_event_loop_leaves_a_report() -> None:
    """P-3, R-100: a loop that is closed without a word fails the run, and the report says why."""
    server = serve(sse([STARTED, *SAID]), ends="never")
    loop = asyncio.new_event_loop()

    async def main() -> AgentRun:
        run = agent_of(server).start(ASKED)
        await server.bodies[0].reading.wait()
        return run

    run = loop.run_until_complete(main())
    loop.close()
    assert run.result.wait(5).outcome == "failed"
    assert "the event loop closed before the run ended" in str(run.result.value.error)
    assert run.report.failure == "client"
    assert isinstance(run.report.cause, TransportError)


async def test_a_reader_that_crashes(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """P-73: a fault of our own ends the run as failed, closes the response, and is logged."""
    from handrail.agui._fold import Fold

    def broken(self: Fold, event: Any) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(Fold, "apply", broken)
    server = serve(sse([STARTED]), ends="never")
    run = await ended(server)
    assert (run.report.failure, run.report.code) == ("client", CLIENT_ERROR_CODE)
    assert "ZeroDivisionError: ours" in str(run.report.cause)
    assert server.bodies[0].is_closed
    assert "the reader itself raised" in caplog.text


async def test_nobody_has_to_read() -> None:
    """P-74: a reader that stops reading stops nothing."""
    server = serve(*bytewise(sse([STARTED, *SAID, FINISHED])))
    async with RunScope():
        run = agent_of(server).start(ASKED)
        async for _ in run.events:
            break
        assert (await run.result).ok
    assert len(run.events.so_far()) == 5
