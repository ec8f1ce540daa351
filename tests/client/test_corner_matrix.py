"""The corner matrix: each thing that can happen, before a run has ended, behind its end, and behind its failure."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.client.kit import R, Session, session, texts, under
from tests.transcript.events import THREAD, call, error, rf, rs, said, ss, te
from tests.transcript.reading import calls

from handrail import Failed, Finished
from handrail.testing import gate, stall

AFTER = {
    "nothing": [rs("r1")],
    "finished": [rs("r1"), rf("r1")],
    "failed": [rs("r1"), error("no", "X")],
}
VERDICT: dict[str, Any] = {"finished": Finished(THREAD, "r1"), "failed": Failed("no", "X")}


async def outcome_of(stream: list[Any], **options: Any) -> tuple[Any, Session]:
    made = session(stream, grace=5.0, **options)
    with anyio.fail_after(10):
        return await made.run(under("r1")), made


@pytest.mark.parametrize("after", AFTER)
async def test_the_stream_ends(after: str) -> None:
    """S-13, S-18, row 1 of the matrix"""
    state, made = await outcome_of(AFTER[after])
    assert made.codes == []
    if after == "nothing":
        assert (state.kind, state.code) == ("truncated", "CLIENT_ERROR")
    else:
        assert state == VERDICT[after]


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("breaks", [OSError("gone"), te("nobody")])
async def test_the_stream_breaks_or_violates(after: str, breaks: Any) -> None:
    """S-14, S-18, row 2 of the matrix"""
    state, made = await outcome_of([*AFTER[after], breaks])
    if after == "nothing":
        assert (state.kind, state.code) == ("transport" if isinstance(breaks, OSError) else "protocol", "CLIENT_ERROR")
        assert made.codes == []
    else:
        assert state == VERDICT[after]
        assert made.codes == ["transport-after-end" if isinstance(breaks, OSError) else "event-after-end"]


@pytest.mark.parametrize("after", AFTER)
async def test_the_calling_task_is_cancelled(after: str) -> None:
    """S-18, S-41, row 3 of the matrix: recorded, and the cancellation goes on."""
    held = gate()
    made = session([*AFTER[after], held], [rs(R), rf(R)], grace=60.0)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(made.run, under("r1"))
            await held.reached
            scope.cancel()
    assert scope.cancelled_caught
    expected = Failed("Run cancelled", "CANCELLED") if after == "nothing" else VERDICT[after]
    assert made.transcript.run == expected
    assert made.script.runs[0].is_cancelled or made.script.runs[0].is_done
    assert not made.busy
    assert (await made.run()).ok


@pytest.mark.parametrize("after", AFTER)
async def test_stop(after: str) -> None:
    """S-18, S-43, row 4 of the matrix: the call returns."""
    held = gate()
    made = session([*AFTER[after], held], [rs(R), rf(R)], grace=60.0)
    states: list[Any] = []

    async def ask() -> None:
        states.append(await made.run(under("r1")))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await held.reached
        assert made.stop() is None
        made.stop()
    assert states == [Failed("Run cancelled", "CANCELLED") if after == "nothing" else VERDICT[after]]
    assert (await made.run()).ok


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("late", ["stand", "fail"])
async def test_an_error_event(after: str, late: str) -> None:
    """S-19, S-18, row 5 of the matrix"""
    state, made = await outcome_of([*AFTER[after], error("late", "L")], late_run_error=late)
    if after == "nothing":
        assert (state, made.codes) == (Failed("late", "L"), [])
    elif after == "failed":
        assert (state, made.codes) == (VERDICT["failed"], ["event-after-end"])
    else:
        stands = Finished(THREAD, "r1", late_error=Failed("late", "L"))
        assert state == (stands if late == "stand" else Failed("late", "L"))
        assert state.ok == (late == "stand")
        assert made.codes == ["late-run-error"]


@pytest.mark.parametrize("after", AFTER)
async def test_a_finish_event(after: str) -> None:
    """S-18, row 6 of the matrix"""
    state, made = await outcome_of([*AFTER[after], rf("r1", result=2)])
    if after == "nothing":
        assert state == Finished(THREAD, "r1", "success", 2)
    else:
        assert (state, made.codes) == (VERDICT[after], ["event-after-end"])


@pytest.mark.parametrize("after", AFTER)
async def test_a_start_event(after: str) -> None:
    """S-21, row 7 of the matrix"""
    state, made = await outcome_of([*AFTER[after], rs("r2"), rf("r2")])
    if after == "nothing":
        assert (state.kind, state.code) == ("protocol", "CLIENT_ERROR")
    else:
        assert (state, made.codes) == (Finished(THREAD, "r2"), [])


@pytest.mark.parametrize("after", AFTER)
async def test_any_other_event(after: str) -> None:
    """S-18, row 8 of the matrix: dropped behind the end, and not told to subscribers."""
    state, made = await outcome_of([*AFTER[after], ss({"n": 1}), *([rf("r1")] if after == "nothing" else [])])
    if after == "nothing":
        assert (state.ok, made.state) == (True, {"n": 1})
    else:
        assert (state, made.codes, made.state) == (VERDICT[after], ["event-after-end"], {})


@pytest.mark.parametrize("by", ["cancel", "stop"])
async def test_a_tool_still_runs(by: str) -> None:
    """S-46, S-76, row 9 of the matrix: the verdict stands, the call is answered with an error, no follow-up."""
    held = gate()

    async def slow() -> str:
        await held
        return "late"

    made = session([rs("r1"), call("c1", name="slow"), rf("r1")], [rs(R), rf(R)], tools=[slow])
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(made.run, under("r1"))
            await held.reached
            assert calls(made.transcript)["c1"].status == "running"
            if by == "cancel":
                scope.cancel()
            else:
                made.stop()
    assert scope.cancelled_caught == (by == "cancel")
    assert made.transcript.run == Finished(THREAD, "r1")
    part = calls(made.transcript)["c1"]
    assert (part.status, part.error) == ("failed", "Stopped before the tool finished")
    assert len(made.script.inputs) == 1
    assert made.codes == ["tool-loop-stopped"]


@pytest.mark.parametrize("after", ["finished", "failed"])
async def test_the_connection_stays_open(after: str) -> None:
    """S-22, row 10 of the matrix"""
    made = session([*AFTER[after], stall()], grace=0.02)
    with anyio.fail_after(5):
        assert await made.run(under("r1")) == VERDICT[after]


@pytest.mark.parametrize("waits", [1, 3])
async def test_cancelled_while_it_waits_for_its_turn(waits: int) -> None:
    """S-42, row 11 of the matrix: nothing recorded, drawn or sent, and the queue is intact."""
    held = gate()
    made = session([rs("r1"), held, rf("r1")], [rs(R), rf(R)])
    async with anyio.create_task_group() as group:
        group.start_soon(made.run, under("r1"))
        await held.reached
        async with anyio.create_task_group() as waiting:
            for number in range(waits):
                waiting.start_soon(made.send, said(f"w{number}", "never"), under(f"w{number}"))
            await anyio.wait_all_tasks_blocked()
            waiting.cancel_scope.cancel()
        held.open()
    assert made.transcript.run == Finished(THREAD, "r1")
    assert [given.run_id for given in made.script.inputs] == ["r1"]
    assert (await made.send(said("u1", "now"), under("w0"))).ok
    assert texts(made.transcript) == ["now"]
