"""Answers are owed until a finished run has carried them."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.client.kit import DONE, R, answers, asking, ids, session, texts, under
from tests.transcript.events import THREAD, answered, asks, call, cs, error, ms, question, rf, rfx, rs, said
from tests.transcript.reading import calls

from handrail import Failed, Finished, InterruptedThreadError, abandon, approve, deny
from handrail.testing import gate

# -- owed --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fails",
    [[error("down")], [rs(R), error("down")], [], [rs(R)], [OSError("gone")], [rs(R), cs("c9"), rf(R)]],
)
async def test_answers_are_owed_until_a_finished_run_has_carried_them(fails: list[Any]) -> None:
    """S-93, S-94, S-105: pending and owed stay, the call still waits; run() sends the same entry under a new id."""
    made = session([rs("r1"), call("c1"), asks("r1", question("i1", "c1"))], fails, DONE)
    await made.run(under("r1"))
    assert isinstance(await made.resume([approve("i1")]), Failed)
    assert [interrupt.id for interrupt in made.pending_interrupts] == ["i1"]
    [owed] = made.owed_answers
    assert (owed.interrupt_id, calls(made.transcript)["c1"].status) == ("i1", "awaiting_approval")
    assert (await made.run()).ok
    first, second = made.script.inputs[1], made.script.inputs[2]
    assert second.resume == first.resume
    assert second.run_id not in (first.run_id, "r1")
    assert (made.pending_interrupts, made.owed_answers) == ((), ())
    started = bool(fails) and getattr(fails[0], "type", None) is not None and fails[0].type.value == "RUN_STARTED"
    assert ("answers-resent" in made.codes) == started


@pytest.mark.parametrize("by", ["cancel", "stop"])
async def test_a_stopped_resume_still_owes(by: str) -> None:
    """S-93, S-96"""
    held = gate()
    made = session([rs(R), asks(R, question("i1"))], [rs(R), held], DONE)
    await made.run()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(made.resume, [approve("i1")])
            await held.reached
            scope.cancel() if by == "cancel" else made.stop()
    assert len(made.owed_answers) == 1
    await made.run()
    assert made.codes == ["answers-resent"]
    assert made.owed_answers == ()


async def test_a_refused_request_still_owes() -> None:
    """S-93: the agent could not even be started."""
    made = session([rs(R), asks(R, question("i1"))])
    await made.run()
    assert isinstance(await made.resume([approve("i1")]), Failed)
    assert len(made.owed_answers) == 1


async def test_a_cancelled_outcome_consumes_the_answers() -> None:
    """S-93: any finished run that carried them does."""
    made = session([rs(R), asks(R, question("i1"))], [rs(R), rfx(R)])
    await made.run()
    await made.resume([approve("i1")])
    assert (made.pending_interrupts, made.owed_answers) == ((), ())


async def test_a_new_resume_replaces_what_is_owed_and_a_send_carries_it() -> None:
    """S-95, S-30, S-37"""
    made = session(asking(question("i1", "c1")), [error("down")], [error("down")], DONE)
    await made.run()
    await made.resume([approve("i1")])
    await made.resume([deny("i1", "after all")])
    assert (made.script.inputs[2].resume or ())[0].payload == {"approved": False, "reason": "after all"}
    await made.send(said("u1", "and go on"))
    assert made.script.inputs[3].resume == made.script.inputs[2].resume
    assert ids(made.script.inputs[3]) == ["a1", "tool(c2)", "u1"]
    assert calls(made.transcript)["c1"].status == "denied"


async def test_asking_again_in_the_resumed_run() -> None:
    """S-93, S-97: the answers are consumed, and the new questions take their place."""
    made = session([rs(R), asks(R, question("i1"))], [rs(R), asks(R, question("i1"), question("i2"))], DONE)
    await made.run()
    await made.resume([approve("i1")])
    assert [interrupt.id for interrupt in made.pending_interrupts] == ["i1", "i2"]
    assert made.owed_answers == ()
    with pytest.raises(InterruptedThreadError):
        await made.run()
    assert (await made.resume([approve("i1"), approve("i2")])).ok


async def test_only_the_run_that_carried_them_retires() -> None:
    """P-63, S-97: another run on the stream asks, and the requested one finishes plainly."""
    made = session([rs("rA"), asks("rA", question("i1")), rs("r1"), rf("r1")], grace=5.0)
    assert await made.send("hi", under("r1")) == Finished(THREAD, "r1")
    assert [interrupt.id for interrupt in made.pending_interrupts] == ["i1"]
    with pytest.raises(InterruptedThreadError):
        await made.send("never")


@pytest.mark.parametrize(
    ("stream", "retired"),
    [
        ([rs("rA"), rf("rA"), rs("r2"), error("down")], False),
        ([rs("rA"), rf("rA"), rs("r2"), rf("r2")], True),
        ([rs("rA"), rf("rA")], True),
        ([rs("rA"), rf("rA"), rs("rB"), error("down")], False),
        ([rs("r2"), rf("r2"), rs("rB"), error("down")], True),
    ],
)
async def test_which_run_on_the_stream_is_that_one(stream: list[Any], retired: bool) -> None:
    """S-97: the one with the requested id, or the last one when none has it."""
    made = session([rs("r1"), asks("r1", question("i1"))], stream, grace=5.0)
    await made.run(under("r1"))
    await made.resume([approve("i1")], under("r2"))
    assert (made.pending_interrupts == (), made.owed_answers == ()) == (retired, retired)


async def test_a_replay_changes_neither_pending_nor_owed() -> None:
    """S-98"""
    made = session(
        [rs("r1"), asks("r1", question("i1"))],
        [rs("r1"), asks("r1", question("i9")), rs("r2"), error("down")],
        grace=5.0,
    )
    await made.run(under("r1"))
    await made.resume([approve("i1")], under("r2"))
    assert [interrupt.id for interrupt in made.pending_interrupts] == ["i1"]
    assert len(made.owed_answers) == 1


async def test_giving_up_on_this_side() -> None:
    """S-99: the way out when the server has forgotten the question."""
    made = session(
        [rs(R), call("c1", parent="a1"), asks(R, question("i1", "c1"))],
        [error("unknown", "UNKNOWN_INTERRUPT_ID")],
        DONE,
    )
    assert made.abandon_interrupts() == ()
    await made.run()
    await made.resume([approve("i1")])
    assert [interrupt.id for interrupt in made.abandon_interrupts()] == ["i1"]
    assert (made.pending_interrupts, made.owed_answers, len(made.script.inputs)) == ((), (), 2)
    assert calls(made.transcript)["c1"].status == "denied"
    await made.send(said("u2", "on"))
    sent = made.script.inputs[2]
    assert sent.resume is None
    assert ids(sent) == ["a1", "tool(c1)", "u2"]
    assert answers(sent)["c1"].error == "Abandoned by the user"
    assert made.codes == ["interrupt-lost", "interrupts-abandoned", "call-repaired"]


@pytest.mark.parametrize(
    "code",
    ["UNKNOWN_INTERRUPT_ID", "INTERRUPT_EXPIRED", "INTERRUPT_RESUME_ERROR", "INTERRUPT_SESSION_REQUIRED",
     "INTERRUPT_RECONCILIATION_ERROR"],
)  # fmt: skip
async def test_a_question_that_the_server_has_lost(code: str) -> None:
    """S-100: named in a warning; nothing is released without the caller."""
    made = session([rs(R), asks(R, question("i1"))], [error("no", code)], [error("no", code)])
    await made.run()
    await made.resume([approve("i1")])
    assert made.codes == ["interrupt-lost"]
    assert "abandon_interrupts" in made.told[0].message
    assert len(made.pending_interrupts) == 1
    other = session([error("no", code)])
    await other.run()
    assert other.codes == []


async def test_a_client_that_lost_its_list_relearns_it() -> None:
    """S-100: with nothing pending, run() is allowed."""
    made = session(asking(question("i1", "c1")))
    await made.run()
    assert [interrupt.id for interrupt in made.pending_interrupts] == ["i1"]


async def test_a_send_is_refused_while_questions_are_open() -> None:
    """S-37, S-30: the text is in neither transcript nor history; giving up, it works."""
    made = session([rs(R), asks(R, question("i1"))], DONE, DONE)
    await made.run()
    for go in (made.send("never mind"), made.run()):
        with pytest.raises(InterruptedThreadError):
            await go
    assert (texts(made.transcript), made.messages, len(made.script.inputs)) == ([], (), 1)
    assert (await made.resume([abandon("i1")])).ok
    assert (await made.send("next")).ok


async def test_a_snapshot_in_the_resumed_run_shows_what_still_waits() -> None:
    """S-102, S-101"""
    made = session(
        asking(question("i1", "c1")),
        [rs(R), ms(answered("a1", "May I?", ("c1", "{}"), ("c2", "{}"))), error("down")],
    )
    await made.run()
    await made.resume([approve("i1")])
    assert calls(made.transcript)["c1"].status == "awaiting_approval"


# -- what the run that carried the answers says ------------------------------------------------------------------------


async def test_a_question_asked_again_under_the_servers_own_run_id_is_open() -> None:
    """S-81, S-93, S-97: the answer was consumed, the question is a new one, and holds its call."""
    made = session(asking(question("i1", "c1")), [rs("own"), asks("own", question("i1", "c1"))], DONE)
    await made.run()
    state = await made.resume([approve("i1")])
    assert isinstance(state, Finished)
    assert state.outcome == "interrupt"
    assert [interrupt.id for interrupt in made.pending_interrupts] == ["i1"]
    assert made.owed_answers == ()
    assert calls(made.transcript)["c1"].status == "awaiting_approval"
    with pytest.raises(InterruptedThreadError):
        await made.run()
    await made.resume([approve("i1")])
    assert made.pending_interrupts == ()


@pytest.mark.parametrize("run_id", [R, "own"], ids=["as-asked", "its-own"])
async def test_a_resumed_run_that_is_cancelled_leaves_its_call_failed(run_id: str) -> None:
    """S-17, S-93, S-102: the answers are consumed, the call is released, and nobody will answer it."""
    made = session(asking(question("i1", "c1")), [rs(run_id), rfx(run_id)])
    await made.run()
    await made.resume([approve("i1")])
    assert (made.pending_interrupts, made.owed_answers, made.pending_tool_calls) == ((), (), ())
    shown = calls(made.transcript)["c1"]
    assert (shown.status, shown.error) == ("failed", None)
