"""The questions of older servers, which come as CUSTOM events."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.kit import DONE, R, loaded, session, under
from tests.transcript.events import asks, call, custom, error, question, rf, rs

from handrail import Finished, ResumeError, RunParams, abandon, answer


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
