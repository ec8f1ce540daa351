"""Interrupts: what is asked, and what is answered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from ag_ui.core import ResumeEntry
from tests.client.kit import DONE, R, asking, ids, session, under
from tests.transcript.events import THREAD, asks, call, cr, question, rf, rs, said, text
from tests.transcript.reading import calls

from handrail import (
    Failed,
    Finished,
    NotInterruptedError,
    ResumeError,
    RunIdReusedError,
    abandon,
    answer,
    approve,
    deny,
    edit,
)

YES_NO = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}},
    "required": ["approved"],
    "additionalProperties": False,
}


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
