"""A thread that is busy refuses, queues or allows another run."""

from __future__ import annotations

from tests.server.kit import Kept, asking, in_order, judged, serving
from tests.server.loops import Turns


async def test_a_busy_thread_refuses() -> None:
    """P-94: by default; other threads are not busy, and neither is this one when its run has a result."""
    turns = Turns(3)
    async with serving(turns.app()) as endpoint:
        first = endpoint.post()
        await turns.gates[0].reached
        assert (await endpoint.post(asking(run_id="r2")).over()).error == (409, "thread-busy")
        other = endpoint.post(asking(run_id="r3", thread_id="t2"))
        await turns.gates[1].reached
        turns.gates[0].open()
        await first.over()
        again = endpoint.post(asking(run_id="r2"))
        await turns.gates[2].reached
        for held in turns.gates:
            held.open()
        assert (await again.over()).text() == "<2>"
        assert (await other.over()).text() == "<1>"


async def test_a_busy_thread_may_queue() -> None:
    """P-94, P-84: they wait their turn with the stream open, in order; sixteen at most; comments meanwhile."""
    turns = Turns(20)
    async with serving(turns.app(busy="queue", keepalive=0.01)) as endpoint:
        visits = await in_order(endpoint, 17)
        await turns.gates[0].reached
        await visits[16].until(lambda: b":\n\n" in visits[16].body)
        assert visits[16].types == []
        assert (await endpoint.post(asking(run_id="r17")).over()).error == (409, "thread-busy")
        assert (await endpoint.post(asking(run_id="r3")).over()).error == (409, "run-id-conflict")
        for n, visit in enumerate(visits):
            await turns.gates[n].reached
            assert len(turns.backend.requests) == n + 1
            turns.gates[n].open()
            assert (await visit.over()).text() == f"<{n}>"
            judged(visit.body)


async def test_whoever_goes_leaves_the_queue() -> None:
    """P-94: no run is started for it, and `on_finish` has nothing to tell; also where runs go on unread."""
    turns, kept = Turns(3), Kept()
    app = turns.app(busy="queue", on_disconnect="continue", on_finish=kept)
    async with serving(app) as endpoint:
        visits = await in_order(endpoint, 3)
        await turns.gates[0].reached
        visits[1].leave()
        await visits[1].over()
        assert (await endpoint.get("/runs/r1/events").over()).status == 404
        turns.gates[0].open()
        await turns.gates[1].reached
        turns.gates[1].open()
        assert (await visits[2].over()).text() == "<1>"
        assert await kept.told(2) == [("r0", "completed"), ("r2", "completed")]
    assert len(turns.backend.requests) == 2


async def test_what_waits_can_be_cancelled_and_read() -> None:
    """P-76, P-90, P-94: it ends as cancelled, and no model is asked."""
    turns = Turns(2)
    async with serving(turns.app(busy="queue")) as endpoint:
        first = endpoint.post()
        await turns.gates[0].reached
        second = endpoint.post(asking(run_id="r2"))
        await second.until(lambda: second.sent)
        reader = endpoint.get("/runs/r2/events")
        await reader.until(lambda: reader.sent)
        stopped = await endpoint.ask("POST", "/runs/r2/cancel").over()
        assert (stopped.status, stopped.json["status"]) == (202, "cancelled")
        await second.over()
        await reader.over()
        assert second.types == ["RUN_STARTED", "RUN_FINISHED"]
        assert second.last()["outcome"] == {"type": "cancelled"}
        assert reader.body == second.body
        judged(second.body)
        turns.gates[0].open()
        await first.over()
    assert len(turns.backend.requests) == 1


async def test_a_queue_goes_on_behind_a_run_that_was_cancelled() -> None:
    """P-94: whatever way the run before it ended."""
    turns = Turns(2)
    async with serving(turns.app(busy="queue")) as endpoint:
        first = endpoint.post()
        await turns.gates[0].reached
        second = endpoint.post(asking(run_id="r2"))
        await second.until(lambda: second.sent)
        first.leave()
        await turns.gates[1].reached
        turns.gates[1].open()
        assert (await second.over()).text() == "<1>"


async def test_a_thread_may_have_several_runs() -> None:
    """P-94: "allow": both run."""
    turns = Turns(2)
    async with serving(turns.app(busy="allow")) as endpoint:
        visits = [endpoint.post(asking(run_id=name)) for name in ("r1", "r2")]
        for held in turns.gates:
            await held.reached
        for held in turns.gates:
            held.open()
        assert sorted([(await v.over()).text() for v in visits]) == ["<0>", "<1>"]
