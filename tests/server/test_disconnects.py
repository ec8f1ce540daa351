"""Clients that go while their run goes on, and clients that do not read."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from tests.server.kit import Endpoint, Kept, judged, serving
from tests.server.scenarios import loop_of

from handrail import Loop
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, call, gate, stall, text


@pytest.mark.parametrize("where", ["in a text", "in silence", "in a tool", "in a tool's thread"])
async def test_a_client_that_goes_takes_its_run_along(where: str, caplog: pytest.LogCaptureFixture) -> None:
    """P-93, case 143: cancelled, its stream closed, no further request, nothing in the log, `on_finish` told."""
    held = gate()

    async def waits() -> str:
        await held
        return "late"

    def blocks() -> str:
        held.wait(5)
        return "late"

    script = {
        "in a text": [text("a"), held, text("b")],
        "in silence": [held],
        "in a tool": [call("waits")],
        "in a tool's thread": [call("blocks")],
    }
    backend = ScriptedBackend([script[where], text("never")])
    kept = Kept()
    app = agui_app(Loop([backend], [waits, blocks]), on_finish=kept)
    with caplog.at_level(logging.WARNING):
        async with serving(app) as endpoint:
            visit = endpoint.post()
            await held.reached
            await visit.until(lambda: visit.types)
            visit.leave()
            with anyio.fail_after(1):
                assert await kept.told() == [("r1", "cancelled")]
                await visit.over()
            held.open()
    assert len(backend.requests) == 1
    assert backend.opened == backend.closed
    assert caplog.records == []


async def test_a_run_may_go_on_unread() -> None:
    """P-93, P-95: "continue"; whoever comes later gets all of it."""
    held = gate()
    kept = Kept()
    app = agui_app(loop_of([text("a"), held, text("b")]), on_disconnect="continue", on_finish=kept)
    async with serving(app) as endpoint:
        first = endpoint.post()
        await held.reached
        first.leave()
        await first.over()
        held.open()
        assert await kept.told() == [("r1", "completed")]
        again = await endpoint.get("/runs/r1/events").over()
    assert again.text() == "ab"
    judged(again.body)


async def test_the_last_of_several_readers_counts() -> None:
    """P-93: one that goes leaves the run to the others."""
    held = gate()
    kept = Kept()
    async with serving(agui_app(loop_of([text("a"), held, text("b")]), on_finish=kept)) as endpoint:
        first = endpoint.post()
        await held.reached
        second = endpoint.get("/runs/r1/events")
        await second.until(lambda: second.text() == "a")
        first.leave()
        await first.over()
        assert kept.ends == []
        second.leave()
        assert await kept.told() == [("r1", "cancelled")]


async def test_a_client_that_does_not_read_does_not_slow_the_run() -> None:
    """P-93, P-95: a slow reader delays neither the run nor another reader."""
    kept, slow = Kept(), gate()
    async with serving(agui_app(loop_of(text(*"abcdefghij" * 50)), on_finish=kept)) as endpoint:
        first = endpoint.post()
        first.hold = lambda: slow
        assert await kept.told() == [("r1", "completed")]
        other = await endpoint.get("/runs/r1/events").over()
        assert len(other.text()) == 500
        assert first.payloads == []
        slow.open()
        await first.over()
    assert first.body == other.body


async def test_a_server_that_says_the_client_is_gone() -> None:
    """P-93: some servers raise from `send`; it is the same as being told."""
    kept = Kept()

    async def gone() -> None:
        raise OSError("client disconnected")

    async with serving(agui_app(loop_of([text("a"), stall()]), on_finish=kept)) as endpoint:
        visit = endpoint.post()
        visit.hold = gone
        assert await kept.told() == [("r1", "cancelled")]
        await visit.over()


async def test_the_task_of_a_request_may_be_cancelled() -> None:
    """P-93: as servers do that lose patience; the run is not left behind."""
    kept, held = Kept(), gate()
    app = agui_app(loop_of([text("a"), held]), on_finish=kept)
    async with serving(app) as endpoint:
        async with anyio.create_task_group() as group:
            visit = Endpoint(app, group).post()
            await held.reached
            await visit.until(lambda: visit.text() == "a")
            group.cancel_scope.cancel()
        assert await kept.told() == [("r1", "cancelled")]
        assert (await endpoint.get("/runs/r1/events").over()).last()["type"] == "RUN_FINISHED"


async def test_on_finish_may_raise_and_may_be_plain(caplog: pytest.LogCaptureFixture) -> None:
    """P-93: it is logged and changes nothing."""

    def raises(given: Any, outcome: Any) -> None:
        raise RuntimeError("mine")

    async with serving(agui_app(loop_of(text("ok")), on_finish=raises)) as endpoint:
        visit = await endpoint.played()
    assert visit.text() == "ok"
    assert [r.name for r in caplog.records] == ["handrail.server"]
