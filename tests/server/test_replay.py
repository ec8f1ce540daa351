"""Runs that are held: readers that come back, and cancelling by the run's address."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.kit import asking, frames_of, serving
from tests.server.scenarios import SCENARIOS, loop_of

from handrail import Loop
from handrail.server import _runs, agui_app
from handrail.testing import ScriptedBackend, gate, text

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
