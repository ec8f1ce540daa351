"""The end of the server: its runs are cancelled and waited for, and not for ever."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.server.kit import Kept, in_order, serving
from tests.server.loops import Turns

from handrail import Loop, Tool
from handrail.server import _runs, agui_app
from handrail.testing import ScriptedBackend, call, gate


class Lifespan:
    """A server's side of it."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self._messages = ["lifespan.startup"]
        self.stop = anyio.Event()

    async def receive(self) -> dict[str, str]:
        if self._messages:
            return {"type": self._messages.pop()}
        await self.stop.wait()
        return {"type": "lifespan.shutdown"}

    async def send(self, message: Any) -> None:
        self.sent.append(message["type"])


async def shut_down(app: Any) -> Lifespan:
    life = Lifespan()
    async with anyio.create_task_group() as group:
        group.start_soon(app, {"type": "lifespan"}, life.receive, life.send)
        life.stop.set()
    return life


async def test_shutdown_cancels_and_waits() -> None:
    """P-96, P-93: active runs and those in the queue; their streams end as cancelled, and `on_finish` has been told."""
    turns, kept = Turns(2), Kept()
    app = turns.app(busy="queue", on_finish=kept)
    async with serving(app) as endpoint:
        visits = await in_order(endpoint, 2)
        await turns.gates[0].reached
        life = await shut_down(app)
        assert sorted(kept.ends) == [("r0", "cancelled"), ("r1", "cancelled")]
        assert turns.backend.opened == turns.backend.closed == 1
        for visit in visits:
            await visit.over()
            assert visit.last()["outcome"] == {"type": "cancelled"}
    assert life.sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_shutdown_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-96: a tool in a thread that does not stop holds it up for so long and no longer."""
    monkeypatch.setattr(_runs, "SHUTDOWN_GRACE", 0.1)
    held = gate()
    app = agui_app(Loop([ScriptedBackend([call("blocks")])], [Tool(lambda: held.wait(10), name="blocks")]))
    async with serving(app) as endpoint:
        visit = endpoint.post()
        await held.reached
        with anyio.fail_after(3):
            await shut_down(app)
        assert (await visit.over()).last()["outcome"] == {"type": "cancelled"}
        held.open()
