"""Interrupts: what is asked, what is answered, what is owed; and the questions of older servers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from ag_ui.core import Interrupt, ResumeEntry
from tests.client.kit import answers, calls, ids, loaded, session, texts, under
from tests.transcript.events import (
    THREAD,
    answered,
    asks,
    call,
    cr,
    cs,
    custom,
    error,
    ms,
    question,
    rf,
    rfx,
    rs,
    said,
    text,
)

from handrail import (
    Failed,
    Finished,
    InterruptedThreadError,
    NotInterruptedError,
    ResumeError,
    RunIdReusedError,
    RunParams,
    abandon,
    answer,
    approve,
    deny,
    edit,
)
from handrail.testing import gate

R = "*"
DONE = [rs(R), rf(R)]
YES_NO = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}},
    "required": ["approved"],
    "additionalProperties": False,
}


def asking(*questions: Interrupt) -> list[Any]:
    """A run that calls c1 and c2 under a1, and ends with these questions."""
    return [rs(R), text("a1", "May I?"), call("c1", parent="a1"), call("c2", parent="a1"), asks(R, *questions)]


def entry(interrupt_id: str, **fields: Any) -> ResumeEntry:
    return ResumeEntry(interrupt_id=interrupt_id, status=fields.pop("status", "resolved"), **fields)


# -- what is asked -----------------------------------------------------------------------------------------------------


async def test_a_run_that_ends_by_asking() -> None:
    """S-81: all fields; any reason; one that names no known call is listed; a call already answered stays complete."""
    details = {"message": "Pay?", "expires_at": "2027-01-01T00:00:00Z", "metadata": {"k": 1}}
    first = question("i1", "c1", reason="made-up", response_schema=YES_NO, **details)
    second = question("i2", "nobody")
    made = session([rs("r1"), call("c1"), call("c2"), cr("c2"), asks("r1", first, second)])
    state = await made.run(under("r1"))
    assert state == Finished(THREAD, "r1", "interrupt", None, (first, second))
    assert not state.ok
    assert made.pending_interrupts == (first, second)
    shown = calls(made.transcript)
    assert (shown["c1"].status, shown["c2"].status) == ("awaiting_approval", "complete")


async def test_a_question_that_names_no_call_holds_every_one_of_its_run() -> None:
    """S-101: it cannot be known which one it is about; calls of earlier runs are not its."""
    ran: list[str] = []

    def act() -> str:
        ran.append("x")
        return "x"

    made = session(
        [rs(R), call("c0", name="other"), rf(R)],
        [rs(R), call("c1", name="act"), call("c2"), cr("c2"), asks(R, question("i1"))],
        DONE,
        DONE,
        tools=[act],
    )
    await made.run()
    made.answer_tool_call("c0", "x")
    await made.run()
    assert [part.status for part in calls(made.transcript).values()] == ["complete", "awaiting_approval", "complete"]
    assert ran == []
    await made.resume([approve("i1")])
    assert ran == ["x"]


@pytest.mark.parametrize(
    "interrupts",
    [[], [{"id": "i1", "reason": "x"}] * 2, [{"id": "i1", "reason": "x"}, {"id": "i2"}], [{"id": 1, "reason": "x"}]],
)
async def test_a_malformed_outcome_asks_nothing(interrupts: list[Any]) -> None:
    """S-82: an empty list, one id twice, an entry that lacks something or has it wrong."""
    end = {"type": "RUN_FINISHED", "threadId": THREAD, "runId": "r1"}
    made = session([rs("r1"), {**end, "outcome": {"type": "interrupt", "interrupts": interrupts}}])
    state = await made.run(under("r1"))
    assert isinstance(state, Failed)
    assert (state.kind, made.pending_interrupts) == ("protocol", ())


# -- answering ---------------------------------------------------------------------------------------------------------


async def test_a_resume() -> None:
    """S-83: a new run on the same thread, entries in the order given, and then nothing pending."""
    made = session(asking(question("i1", "c1"), question("i2", "c2")), DONE)
    await made.run(under("r1"))
    assert (await made.resume([deny("i2"), approve(made.pending_interrupts[0])])).ok
    sent = made.script.inputs[1]
    assert [(e.interrupt_id, e.status, e.payload) for e in sent.resume or ()] == [
        ("i2", "resolved", {"approved": False}),
        ("i1", "resolved", {"approved": True}),
    ]
    assert (sent.thread_id, sent.run_id != "r1") == (THREAD, True)
    assert ids(sent) == ["a1"]
    assert (made.pending_interrupts, made.owed_answers) == ((), ())


async def test_a_resume_needs_a_run_id_of_its_own() -> None:
    """S-27, S-83"""
    made = session([rs("r1"), asks("r1", question("i1"))])
    await made.run(under("r1"))
    with pytest.raises(RunIdReusedError):
        await made.resume([approve("i1")], under("r1"))


@pytest.mark.parametrize(
    ("given", "attribute", "named"),
    [
        ([approve("i1"), approve("i1"), approve("i2")], "duplicate", ("i1",)),
        ([approve("i1"), approve("i2"), approve("i3")], "unknown", ("i3",)),
        ([approve("i1")], "uncovered", ("i2",)),
        ([], "uncovered", ("i1", "i2")),
        ([approve("i1"), approve("i2"), approve("i2"), approve("i9")], "duplicate", ("i2",)),
        ([approve("i9")], "unknown", ("i9",)),
    ],
)
async def test_answers_that_do_not_fit(given: Any, attribute: str, named: tuple[str, ...]) -> None:
    """S-84, S-85, S-92: refused before anything is sent, changing nothing, all ids of that kind listed."""
    made = session(asking(question("i1", "c1"), question("i2", "c2")), DONE)
    await made.run()
    before = made.transcript
    with pytest.raises(ResumeError) as caught:
        await made.resume(given)
    assert getattr(caught.value, attribute) == named
    assert isinstance(caught.value, ValueError)
    assert made.transcript is before
    assert (len(made.script.inputs), made.owed_answers) == (1, ())
    assert (await made.resume([approve("i2"), entry("i1", payload={"approved": True})])).ok


@pytest.mark.parametrize("given", [[approve("i1")], [approve("i1"), approve("i1")], []])
async def test_nothing_to_answer(given: Any) -> None:
    """S-84: a duplicate is named first."""
    made = session()
    with pytest.raises(ResumeError if len(given) == 2 else NotInterruptedError):
        await made.resume(given)


@pytest.mark.parametrize("given", ["i1", 5, {"i1": True}])
async def test_what_is_no_answer_is_refused(given: Any) -> None:
    """S-84"""
    made = session(asking(question("i1")))
    await made.run()
    with pytest.raises(TypeError):
        await made.resume([given])


async def test_only_the_last_questions_can_be_answered() -> None:
    """S-85: ids of older interrupted runs are unknown."""
    made = session([rs(R), asks(R, question("i1"))], [rs(R), asks(R, question("i2"))])
    await made.run()
    await made.resume([approve("i1")])
    assert [interrupt.id for interrupt in made.pending_interrupts] == ["i2"]
    for given in ([approve("i1")], [approve("i2"), approve("i1")]):
        with pytest.raises(ResumeError) as caught:
            await made.resume(given)
        assert caught.value.unknown == ("i1",)
    assert len(made.script.inputs) == 2


async def test_an_expired_question_can_only_be_given_up() -> None:
    """S-86: what is no date never expires; time is injectable."""
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    made = session(
        [rs(R), asks(R, question("i1", expires_at="2026-11-30T12:00:00"), question("i2", expires_at="sometime"))],
        DONE,
        now=lambda: now,
    )
    await made.run()
    with pytest.raises(ResumeError) as caught:
        await made.resume([approve("i1"), approve("i2")])
    assert caught.value.expired == ("i1",)
    assert (await made.resume([abandon("i1"), approve("i2")])).ok
    sent = [e.model_dump(by_alias=True, exclude_unset=True) for e in made.script.inputs[1].resume or ()]
    assert sent[0] == {"interruptId": "i1", "status": "cancelled"}


@pytest.mark.parametrize(
    ("given", "payload"),
    [
        (approve("i1"), {"approved": True}),
        (deny("i1"), {"approved": False}),
        (deny("i1", "too dear"), {"approved": False, "reason": "too dear"}),
        (answer("i1", {"choice": 2}), {"choice": 2}),
        (answer("i1", None), None),
        (entry("i1", payload=[1]), [1]),
    ],
)
async def test_what_the_helpers_send(given: Any, payload: Any) -> None:
    """S-87, S-88, S-89: without a schema."""
    made = session([rs(R), asks(R, question("i1"))], DONE)
    await made.run()
    await made.resume([given])
    [sent] = made.script.inputs[1].resume or ()
    assert sent.payload == payload
    assert ("payload" in sent.model_fields_set) == (payload is not None)


async def test_editing_needs_a_place_for_the_arguments() -> None:
    """S-90"""
    editable = {"type": "object", "properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}}}
    made = session([rs(R), asks(R, question("i1"))], [rs(R), asks(R, question("i2", response_schema=editable))], DONE)
    await made.run()
    with pytest.raises(ResumeError) as caught:
        await made.resume([edit("i1", {"n": 2})])
    assert caught.value.invalid[0][0] == "i1"
    await made.resume([approve("i1")])
    await made.resume([edit("i2", {"n": 2})])
    assert (made.script.inputs[2].resume or ())[0].payload == {"approved": True, "editedArgs": {"n": 2}}


async def test_payloads_are_held_against_the_schema() -> None:
    """S-91: with the id and the path; `validate=False` skips it."""
    made = session([rs(R), asks(R, question("i1", response_schema=YES_NO))], DONE)
    await made.run()
    with pytest.raises(ResumeError) as caught:
        await made.resume([answer("i1", {"approved": "yes"})])
    assert [(name, path) for name, path, _ in caught.value.invalid] == [("i1", "/approved")]
    assert (await made.resume([answer("i1", {"approved": "yes"})], validate=False)).ok


async def test_a_reason_without_a_place_is_kept_on_the_part() -> None:
    """S-89: with a warning."""
    made = session(asking(question("i1", "c1", response_schema=YES_NO)), DONE)
    await made.run()
    await made.resume([deny("i1", "too dear")])
    assert (made.script.inputs[1].resume or ())[0].payload == {"approved": False}
    assert "reason-not-sent" in made.codes
    part = calls(made.transcript)["c1"]
    assert (part.status, part.error) == ("denied", "Denied by the user: too dear")


async def test_the_servers_own_words_on_a_denied_call() -> None:
    """S-104: its result text, denied all the same; a raw entry that says no is a denial."""
    made = session(
        asking(question("i1", "c1"), question("i2", "c2")), [rs(R), cr("c1", "not sent"), cr("c2", "sent"), rf(R)]
    )
    await made.run()
    await made.resume([entry("i1", payload={"approved": False, "reason": "no"}), approve("i2")])
    shown = calls(made.transcript)
    assert (shown["c1"].status, shown["c1"].result) == ("denied", "not sent")
    assert (shown["c2"].status, shown["c2"].result) == ("complete", "sent")


async def test_a_result_of_the_resumed_run_reaches_its_call() -> None:
    """S-103: behind its message, without a warning."""
    made = session(
        [rs(R), text("a1", "I would like to."), call("c1", parent="a1"), asks(R, question("i1", "c1"))],
        [rs(R), cr("c1", "sent", "t1"), text("a2", "Sent."), rf(R)],
        DONE,
    )
    await made.send(said("u1", "Mail Sam"))
    await made.resume([approve("i1")])
    await made.send(said("u2", "Thanks"))
    assert ids(made.script.inputs[2]) == ["u1", "a1", "tool(c1)", "a2", "u2"]
    assert calls(made.transcript)["c1"].result == "sent"
    assert made.codes == []


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


# -- questions of older servers ----------------------------------------------------------------------------------------


async def test_a_legacy_question() -> None:
    """S-106: JSON text decoded; with a structured outcome the CUSTOM events mean nothing."""
    made = session(
        [rs("r1"), custom("on_interrupt", '{"message": "Which one?", "n": 1}'), custom("other", 1), rf("r1")],
    )
    state = await made.run(under("r1"))
    assert isinstance(state, Finished)
    assert (state.outcome, state.ok) == ("interrupt", False)
    [interrupt] = made.pending_interrupts
    assert (interrupt.id, interrupt.reason, interrupt.message) == ("legacy:r1:0", "langgraph:interrupt", "Which one?")
    assert interrupt.metadata == {"legacy": True, "value": {"message": "Which one?", "n": 1}}
    assert made.codes == ["legacy-interrupt"]
    plain = session([rs("r1"), custom("on_interrupt", "Go on?"), rf("r1")])
    await plain.run(under("r1"))
    assert plain.pending_interrupts[0].message == "Go on?"
    other = session([rs("r1"), custom("on_interrupt", "x"), rf("r1", pending=[])])
    assert (await other.run(under("r1"))).ok
    assert (other.pending_interrupts, other.codes) == ((), [])


async def test_a_legacy_answer_goes_as_a_command() -> None:
    """S-107, S-108, S-109: merged over the caller's forwarded props, without `resume`, owed like any."""
    made = session(
        [rs(R), custom("on_interrupt", "Which?"), rf(R)], [error("down")], DONE, [rs(R), rf(R)],
    )  # fmt: skip
    await made.run()
    props = {"k": 1, "command": {"x": 1}}
    await made.resume([answer(made.pending_interrupts[0], "blue")], RunParams(forwarded_props=props))
    assert len(made.owed_answers) == 1
    with pytest.raises(ResumeError):
        await made.resume([answer("nobody", 1)])
    await made.run()
    await made.run()
    first, second, third = made.script.inputs[1:]
    assert (first.resume, second.resume) == (None, None)
    assert first.forwarded_props == {"k": 1, "command": {"x": 1, "resume": "blue"}}
    assert second.forwarded_props == {"command": {"resume": "blue"}}
    assert third.forwarded_props == {}
    assert (made.pending_interrupts, made.owed_answers) == ((), ())


@pytest.mark.parametrize("number", [1, 2])
async def test_what_a_command_cannot_say(number: int) -> None:
    """S-107: giving up, null, or several at once."""
    made = session([rs(R), *(custom("on_interrupt", str(n)) for n in range(number)), rf(R)])
    await made.run()
    pending = made.pending_interrupts
    tries: list[list[Any]] = [[abandon(i) for i in pending], [answer(i, None) for i in pending]]
    if number == 2:
        tries.append([answer(i, 1) for i in pending])
    for given in tries:
        with pytest.raises(ResumeError) as caught:
            await made.resume(given)
        assert caught.value.invalid
        assert "abandon_interrupts" in str(caught.value)
    assert len(made.script.inputs) == 1
    made.abandon_interrupts()


async def test_owed_answers_never_travel_on_follow_ups() -> None:
    """S-109, S-62"""

    def act() -> str:
        return "x"

    for stream, entries in (
        ([rs(R), asks(R, question("i1"))], "resume"),
        ([rs(R), custom("on_interrupt", "?"), rf(R)], "command"),
    ):
        made = session(stream, [rs(R), call("c1", name="act"), rf(R)], DONE, tools=[act])
        await made.run()
        await made.resume([answer(made.pending_interrupts[0], 1)])
        resumed, follow_up = made.script.inputs[1:]
        assert (resumed.resume is not None) == (entries == "resume")
        assert follow_up.resume is None
        assert follow_up.forwarded_props == {}


async def test_legacy_questions_survive_a_dump() -> None:
    """S-150: marked by their metadata."""
    made = session([rs(R), custom("on_interrupt", "?"), rf(R)])
    await made.run()
    again = loaded(made.dump(), DONE)
    await again.resume([answer(again.pending_interrupts[0], 1)])
    assert again.script.inputs[0].forwarded_props == {"command": {"resume": 1}}


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
