"""The runs an endpoint holds: clients that go, come back and stop them; busy threads; replay; the end of the server."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from tests.server.kit import Endpoint, Visit, asking, frames_of, judged, serving
from tests.server.scenarios import SCENARIOS, loop_of

from handrail import Loop, Tool
from handrail.server import _runs, agui_app
from handrail.testing import ScriptedBackend, call, gate, stall, text


class Kept:
    """What `on_finish` was told; and a wait for it."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, str]] = []
        self._news = anyio.Event()

    async def __call__(self, given: Any, outcome: Any) -> None:
        self.ends.append((given.run_id, outcome.outcome))
        self._news.set()
        self._news = anyio.Event()

    async def told(self, count: int = 1) -> list[tuple[str, str]]:
        with anyio.fail_after(5):
            while len(self.ends) < count:
                await self._news.wait()
        return self.ends


# -- clients that go ---------------------------------------------------------------------------------------------------


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


# -- replay ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["after", "header", "both"])
async def test_a_reader_may_come_back(how: str) -> None:
    """P-76, P-95: the frames with a higher id, then live ones; `after` wins; 204 when none is left."""
    held = gate()
    async with serving(agui_app(loop_of([text("a"), held, text("b")]), on_disconnect="continue")) as endpoint:
        first = endpoint.post()
        await held.reached
        await first.until(lambda: first.text() == "a")
        seen = frames_of(first.body)[-1][0]
        target = f"/runs/r1/events?after={seen}" if how != "header" else "/runs/r1/events"
        headers = {"last_event_id": str(seen if how == "header" else 99)} if how != "after" else {}
        second = endpoint.get(target, **headers)
        third = endpoint.get("/runs/r1/events?after=99999")
        held.open()
        await first.over()
        await second.over()
        await third.over()
        end = frames_of(first.body)[-1][0]
        none = [
            await endpoint.get(f"/runs/r1/events?after={end}").over(),
            await endpoint.get("/runs/r1/events?after=99999").over(),
        ]
        all_again = await endpoint.get("/runs/r1/events?after=-1").over()
    assert frames_of(second.body) == frames_of(first.body)[seen + 1 :]
    assert (third.status, third.body) == (200, b"")
    assert [(v.status, v.body) for v in none] == [(204, b""), (204, b"")]
    assert all_again.body == first.body


@pytest.mark.parametrize("wrong", ["x", "1.5", "-2", "", "9" * 20])
async def test_a_place_that_is_no_number(wrong: str) -> None:
    """P-76: refused, as JSON."""
    async with serving(agui_app(loop_of(text("ok")))) as endpoint:
        await endpoint.played()
        visit = await endpoint.get(f"/runs/r1/events?after={wrong}").over()
    assert visit.error == (400, "invalid-input")


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_replay_is_what_was_sent(name: str) -> None:
    """P-95: byte for byte, from every place."""
    make, given = SCENARIOS[name]
    async with serving(agui_app(make())) as endpoint:
        visit = await endpoint.played(given)
        frames = frames_of(visit.body)
        for number, _ in frames[:-1]:
            again = await endpoint.get(f"/runs/r1/events?after={number}").over()
            assert frames_of(again.body) == frames[number + 1 :]


async def test_a_run_that_is_over_is_held_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-95: `replay_window` seconds, at most `max_held_runs` of them, the oldest dropped first."""
    now = 100.0
    monkeypatch.setattr(_runs.time, "monotonic", lambda: now)
    loop = Loop([ScriptedBackend([text("ok")] * 9)])
    async with serving(agui_app(loop, replay_window=30, max_held_runs=3)) as endpoint:

        async def held() -> list[str]:
            return [f"r{n}" for n in range(6) if (await endpoint.get(f"/runs/r{n}/events").over()).status == 200]

        for n in range(5):
            await endpoint.played(asking(run_id=f"r{n}"))
            now += 1
        assert await held() == ["r2", "r3", "r4"]
        now = 133.5
        assert await held() == ["r4"]
        assert (await endpoint.ask("POST", "/runs/r4/cancel").over()).json == {"runId": "r4", "status": "completed"}
        now = 200.0
        assert await held() == []
        assert (await endpoint.ask("POST", "/runs/r4/cancel").over()).status == 404


@pytest.mark.parametrize("options", [{"replay_window": 0}, {"max_held_runs": 0}])
async def test_none_may_be_held(options: Any) -> None:
    """P-95: 0 holds none; the reader that is there gets its run all the same."""
    async with serving(agui_app(loop_of(text("ok")), **options)) as endpoint:
        visit = await endpoint.played()
        assert visit.text() == "ok"
        assert (await endpoint.get("/runs/r1/events").over()).status == 404


async def test_a_new_run_takes_the_place_of_a_held_one() -> None:
    """P-95: with the same id; an active one is a conflict (P-77)."""
    held = gate()
    loop = loop_of(text("old"), [text("new"), held])
    async with serving(agui_app(loop)) as endpoint:
        await endpoint.played()
        visit = endpoint.post()
        await held.reached
        assert (await endpoint.post(asking(thread_id="t2")).over()).error == (409, "run-id-conflict")
        held.open()
        await visit.over()
        assert (await endpoint.get("/runs/r1/events").over()).text() == "new"


async def test_ten_readers_cost_one_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-95: frames are made once, however many read them."""
    from handrail.server import _tape

    encoded: list[int] = []

    def counted(encode: Any) -> Any:
        return lambda number, *what: encoded.append(number) or encode(number, *what)

    for name in ("encode", "encode_next"):
        monkeypatch.setattr(_tape, name, counted(getattr(_tape, name)))
    held = gate()
    async with serving(agui_app(loop_of([text("a"), held, text(*"bcd")]))) as endpoint:
        first = endpoint.post()
        await held.reached
        others = [endpoint.get("/runs/r1/events") for _ in range(9)]
        for other in others:
            await other.until(lambda other=other: other.text() == "a")
        held.open()
        for visit in (first, *others):
            await visit.over()
    assert {visit.body for visit in (first, *others)} == {first.body}
    assert encoded == list(range(len(frames_of(first.body))))


# -- cancel ------------------------------------------------------------------------------------------------------------


async def test_cancel_may_be_asked_again_and_again() -> None:
    """P-76: 202 with the run's status while it is active, 200 when it is over."""
    held = gate()
    async with serving(agui_app(loop_of([text("a"), held]))) as endpoint:
        visit = endpoint.post()
        await held.reached
        first = await endpoint.ask("POST", "/runs/r1/cancel").over()
        await visit.over()
        again = [await endpoint.ask("POST", "/runs/r1/cancel").over() for _ in range(2)]
    assert (first.status, first.json["runId"]) == (202, "r1")
    assert first.json["status"] in ("cancelling", "cancelled")
    assert [(v.status, v.json) for v in again] == [(200, {"runId": "r1", "status": "cancelled"})] * 2
    assert visit.last()["outcome"] == {"type": "cancelled"}


# -- busy threads ------------------------------------------------------------------------------------------------------


class Turns:
    """A model that holds every answer until it is told to go on."""

    def __init__(self, count: int) -> None:
        self.gates = [gate() for _ in range(count)]
        self.backend = ScriptedBackend([[text(f"<{n}>"), held] for n, held in enumerate(self.gates)])

    def app(self, **options: Any) -> Any:
        return agui_app(Loop([self.backend]), **options)


async def in_order(endpoint: Endpoint, count: int) -> list[Visit]:
    """Runs r0, r1, ... of one thread, each accepted before the next is asked for."""
    visits: list[Visit] = []
    for n in range(count):
        visits.append(visit := endpoint.post(asking(run_id=f"r{n}")))
        await visit.until(lambda visit=visit: visit.sent)
    return visits


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


# -- silence -----------------------------------------------------------------------------------------------------------


async def test_silence_is_broken_by_comments() -> None:
    """P-84: between frames, and none while something is said; they are no frames and carry no number."""
    held = gate()
    async with serving(agui_app(loop_of([text("a"), held, text("b")]), keepalive=0.02)) as endpoint:
        visit = endpoint.post()
        await held.reached
        await visit.until(lambda: visit.body.count(b":\n\n") >= 3)
        held.open()
        await visit.over()
    judged(visit.body)
    assert [body for body in visit.bodies if b":\n\n" in body and body != b":\n\n"] == []
    assert visit.text() == "ab"


async def test_comments_can_be_switched_off() -> None:
    """P-84."""
    held = gate()
    async with serving(agui_app(loop_of([text("a"), held]), keepalive=None)) as endpoint:
        visit = endpoint.post()
        await held.reached
        await anyio.sleep(0.05)  # the time in which another setting would have spoken
        held.open()
        await visit.over()
    assert b":\n\n" not in visit.body


async def test_a_client_that_does_not_read_gets_no_heap_of_comments() -> None:
    """P-84: a comment waits like everything else, and one is enough."""
    held, slow = gate(), gate()
    async with serving(agui_app(loop_of([text("a"), held]), keepalive=0.01)) as endpoint:
        visit = endpoint.post()
        visit.hold = lambda: slow
        await held.reached
        await anyio.sleep(0.1)
        held.open()
        slow.open()
        await visit.over()
    assert visit.body.count(b":\n\n") <= 3


# -- the end of the server ---------------------------------------------------------------------------------------------


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


async def shut_down(app: Any, endpoint: Endpoint, *visits: Visit) -> Lifespan:
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
        life = await shut_down(app, endpoint)
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
            await shut_down(app, endpoint)
        assert (await visit.over()).last()["outcome"] == {"type": "cancelled"}
        held.open()


async def test_other_kinds_of_connections() -> None:
    """P-76: there are no websockets here; what is no request is left alone."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async def receive() -> dict[str, str]:
        raise AssertionError("nothing is to be read")

    app = agui_app(loop_of(text("ok")))
    await app({"type": "websocket"}, receive, send)
    await app({"type": "future"}, receive, send)
    assert sent == ["websocket.close"]
