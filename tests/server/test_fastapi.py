"""Inside of other frameworks: the example application, and what a mount and a middleware do to a stream."""

from __future__ import annotations

import queue
from typing import Any

import httpx
import pytest
from examples import fastapi_app
from fastapi import FastAPI, Request
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.server.kit import asking, judged
from tests.server.live import RawClient, live

from handrail import AgentSession, HttpAgent, Loop
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, stall, text

ADA = {"authorization": "Bearer ada-1"}


def test_the_example_application() -> None:
    """P-76, P-78, P-93: mounted beside ordinary routes; each user their own; the ledger knows how it ended."""
    fastapi_app.ledger.clear()
    with live(fastapi_app.app) as server:
        session = AgentSession(HttpAgent(f"{server.url}agent/", headers=ADA))
        assert session.send_sync("What did I order?").ok
        assert session.messages[-1].content == "You ordered a lamp."
        refused = httpx.post(f"{server.url}agent/", json=asking())
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "no-token")
        assert [run["outcome"] for run in httpx.get(f"{server.url}runs").json()] == ["completed"]
        events = f"{server.url}agent/runs/{fastapi_app.ledger[0][0]}/events"
        assert httpx.get(events, headers=ADA).status_code == 200
        assert httpx.get(events, headers={"authorization": "Bearer bob-2"}).status_code == 404


def test_a_mount_sends_the_form_without_the_slash_away() -> None:
    """P-76: a 307, which no client of the protocol follows (P-68)."""
    app = Starlette(routes=[Mount("/agent", agui_app(Loop([ScriptedBackend([text("ok")])])))])
    with live(app) as server:
        assert httpx.post(f"{server.url}agent", json=asking()).status_code == 307
        assert httpx.post(f"{server.url}agent/", json=asking()).status_code == 200
        assert httpx.get(f"{server.url}agent/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize("how", ["FIN", "RST"])
def test_a_client_that_goes_is_noticed_through_a_middleware(how: str) -> None:
    """P-93: behind what wraps `receive` and `send`, as FastAPI's middleware does."""
    ends: queue.Queue[str] = queue.Queue()
    backend = ScriptedBackend([[text("a"), stall()]])
    inner = agui_app(Loop([backend]), keepalive=0.05, on_finish=lambda given, outcome: ends.put(outcome.outcome))
    app = FastAPI()

    @app.middleware("http")
    async def pass_on(request: Request, call_next: Any) -> Any:
        return await call_next(request)

    app.mount("/", inner)
    with live(app) as server:
        client = RawClient(server.port, asking())
        client.read_frames(3)
        while b":\n\n" not in client.read:
            client.read += client.socket.recv(1000)
        client.go(how)
        assert ends.get(timeout=5) == "cancelled"
    assert backend.closed == backend.opened == 1


def test_in_one_event_loop_after_the_other() -> None:
    """P-76: an app that is served again, on another event loop, keeps nothing of the first."""
    app = agui_app(Loop([ScriptedBackend([text("one"), text("two")])]))
    for said in ("one", "two"):
        with live(app) as server:
            answer = httpx.post(server.url, json=asking())
            assert said in answer.text
            judged(answer.content)
