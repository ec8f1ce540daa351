"""A session as data, and back."""

from __future__ import annotations

import copy
import json
from typing import Any

import anyio
import pytest
from ag_ui.core import ImagePart, UrlSource
from tests.client.kit import Agent, R, Session, answers, ids, loaded, session, texts, under
from tests.transcript.events import (
    acs,
    asks,
    ca,
    call,
    cr,
    cs,
    encrypted,
    error,
    question,
    rf,
    rfx,
    rs,
    said,
    ss,
    step,
    tc,
    text,
    thought,
    ts,
)
from tests.transcript.reading import calls

from handrail import AgentSession, Failed, Finished, approve, deny
from handrail.testing import gate


def same_again(made: Session) -> Any:
    """The dump, checked to be JSON data that loads to an equal session."""
    data = made.dump()
    assert json.loads(json.dumps(data)) == data
    again = AgentSession.load(Agent(), data, on_warning=lambda record: None)
    assert again.dump() == data
    assert again.transcript == loaded(data).transcript
    return data


async def a_rich_session() -> Session:
    """A thread with something of everything."""

    def look() -> str:
        return "found"

    picture = ImagePart(type="image", source=UrlSource(type="url", value="https://a/b.png"))
    thinking = [*step("think"), *thought("q1", "hm"), encrypted("message", "q1", "b64:AAA==")]
    looking = [*text("a1", "I look."), *call("c1", name="look", parent="a1")]
    made = session(
        [rs("r1"), thinking, looking, acs("x", {"n": [1]}), ss({"deep": {"n": 1}}), rf("r1")],
        [rs(R), call("c2", name="other", parent="a2"), cr("c2", "theirs"), text("s1", "note", role="system"), rf(R)],
        [rs(R), call("c3", name="other", parent="a3"), call("c4", parent="a3"), asks(R, question("i1", "c3"))],
        [rs(R), ts("a4"), tc("a4", "part"), error("down", "X")],
        tools=[look],
        state={"begin": 1},
        messages=[said("u0", [picture])],
    )
    await made.send(said("u1", "go"), under("r1"))
    await made.send("ask")
    await made.resume([deny("i1", "too dear")])
    return made


async def test_a_dump_loads_to_an_equal_session() -> None:
    """S-150: history, screen, questions, owed, unsent, and the same next request."""
    made = await a_rich_session()
    data = same_again(made)
    assert (data["format"], data["version"], data["thread_id"]) == ("handrail.session", 1, "t")
    assert [one["id"] for one in data["run_ids"]] == [given.run_id for given in made.script.inputs]
    again = loaded(data, [rs(R), rf(R)])
    made.script.push([rs(R), rf(R)])
    await made.run()
    await again.run()
    sent, likewise = (one.model_dump(by_alias=True) for one in (made.script.inputs[-1], again.script.inputs[-1]))
    assert sent.pop("runId") != likewise.pop("runId")
    for given in (sent, likewise):
        for message in given["messages"]:
            if message.get("error", "").startswith("Not executed"):
                message.pop("id")
    sent.pop("tools")
    likewise.pop("tools")
    assert sent == likewise
    assert likewise["resume"][0]["payload"] == {"approved": False, "reason": "too dear"}


async def test_what_is_not_in_a_dump() -> None:
    """S-151, S-150: no agent, tools, callbacks, nor the cause of a failure; a failure is a failure all the same."""
    made = session([OSError("gone")])
    await made.run()
    again = loaded(same_again(made))
    assert again.transcript.run == Failed("gone", "CLIENT_ERROR")
    assert (again.tools, again.warnings) == ((), ())


@pytest.mark.parametrize(
    "end",
    [
        [rf(R, result={"n": 1})],
        [rfx(R)],
        [error("no", "X")],
        [],
        [rf(R), error("late")],
        [asks(R, question("i1", "c1"))],
    ],
)
async def test_every_state_is_kept(end: list[Any]) -> None:
    """S-150"""
    made = session([rs(R), text("a1", "x"), call("c1"), *end], grace=5.0)
    await made.run()
    again = loaded(same_again(made))
    if isinstance(made.transcript.run, Finished):
        assert again.transcript == made.transcript
    assert again.pending_interrupts == made.pending_interrupts
    assert again.pending_tool_calls == made.pending_tool_calls


async def test_a_fresh_session_is_kept_too() -> None:
    """S-150"""
    again = loaded(same_again(session(state=[1, None])))
    assert again.state == [1, None]
    assert again.transcript.messages == ()


async def test_an_answer_goes_on_in_a_new_process() -> None:
    """S-153: RF!(i1→c1), dump, load, resume; and a failed resume, dump, load, run: the same entry again."""
    made = session([rs(R), call("c1", parent="a1"), asks(R, question("i1", "c1"))])
    await made.send(said("u1", "go"))
    again = loaded(same_again(made), [rs(R), error("down")])
    assert calls(again.transcript)["c1"].status == "awaiting_approval"
    assert isinstance(await again.resume([approve("i1")]), Failed)
    assert ids(again.script.inputs[0]) == ["u1", "a1"]
    third = loaded(same_again(again), [rs(R), rf(R)])
    assert (await third.run()).ok
    assert third.script.inputs[0].resume == again.script.inputs[0].resume
    assert third.codes == ["answers-resent"]
    assert third.pending_interrupts == ()


async def test_unsent_results_are_kept() -> None:
    """S-150, S-140"""

    def echo() -> str:
        return "got"

    made = session([rs(R), call("c1", name="echo"), call("c2", name="other"), rf(R)], tools=[echo])
    await made.run()
    again = loaded(same_again(made), [rs(R), rf(R)])
    assert again.pending_tool_calls == ("c2",)
    again.answer_tool_call("c2", 7)
    await again.run()
    assert [answers(again.script.inputs[0])[call_id].content for call_id in ("c1", "c2")] == ["got", "7"]


async def test_ids_and_exchanges_go_on() -> None:
    """S-150, S-27"""
    made = session([rs("r1"), rf("r1")])
    await made.send("one", under("r1"))
    again = loaded(same_again(made), [rs(R), rf(R)])
    with pytest.raises(ValueError, match="r1"):
        await again.run(under("r1"))
    await again.send("two")
    assert [message.exchange for message in again.transcript.messages] == [1, 2]


PART = {"type": "text", "id": "text:m", "message_id": "m", "text": "hi"}
MESSAGE = {"id": "m", "role": "user", "parts": [PART]}
REST = {"run": {"type": "idle"}, "steps": []}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "other"),
        ({"version": 2}, "2"),
        ({"version": "1"}, "'1'"),
        ({"thread_id": None}, "/thread_id"),
        ({"messages": [{"role": "user"}]}, "/messages/0"),
        ({"messages": [{"role": "narrator", "id": "x"}]}, "/messages/0"),
        ({"transcript": {"messages": [], "run": {"type": "resting"}, "steps": []}}, "/transcript/run/type"),
        ({"transcript": {"messages": [{"parts": []}], "run": {"type": "idle"}, "steps": []}}, "/transcript/messages/0"),
        ({"pending_interrupts": [{"id": "i1"}]}, "/pending_interrupts/0/reason"),
        ({"owed": 5}, "/owed"),
        ({"exchange": "many"}, "/exchange"),
        ({"run_ids": [{"id": 1}]}, "/run_ids/0/id"),
        (
            {"transcript": {"messages": [{**MESSAGE, "parts": [{**PART, "text": 5}]}], **REST}},
            "/messages/0/parts/0/text",
        ),
        ({"transcript": {"messages": [{**MESSAGE, "role": "narrator"}], **REST}}, "/transcript/messages/0/role"),
        ({"transcript": {"messages": [{**MESSAGE, "parts": [{"type": "text"}]}], **REST}}, "/messages/0/parts/0"),
    ],
)
def test_wrong_data_is_refused_with_its_path(change: dict[str, Any], words: str) -> None:
    """S-151: no half-loaded session."""
    data = {**session().dump(), **change}
    with pytest.raises(ValueError, match=r"(?s).") as caught:
        AgentSession.load(Agent(), data)
    assert words in str(caught.value)


def test_what_is_no_mapping_is_refused() -> None:
    """S-151"""
    with pytest.raises(ValueError, match="mapping"):
        AgentSession.load(Agent(), [])  # type: ignore[arg-type]


async def test_unknown_keys_are_ignored_and_the_data_is_not_touched() -> None:
    """S-151, S-6"""
    made = await a_rich_session()
    data = made.dump()
    data["from_the_future"] = 1
    data["transcript"]["messages"][0]["mood"] = "good"
    before = copy.deepcopy(data)
    again = loaded(data, [rs(R), rf(R)])
    again.abandon_interrupts()
    await again.run()
    assert data == before
    data["messages"].clear()
    assert again.messages


# -- in the middle of an exchange --------------------------------------------------------------------------------------


async def test_saved_while_a_run_is_in_flight() -> None:
    """S-152: failed, its parts settled, the answers that it carried owed."""
    held = gate()
    made = session(
        [rs(R), call("c1"), asks(R, question("i1", "c1"))],
        [rs(R), ts("a1"), tc("a1", "part"), cs("c2"), ca("c2", "{"), call("c3"), held, rf(R)],
    )
    await made.run()
    async with anyio.create_task_group() as group:
        group.start_soon(made.resume, [approve("i1")])
        await held.reached
        data = same_again(made)
        made.stop()
    again = loaded(data, [rs(R), rf(R)])
    assert again.transcript.run == Failed("Session was saved while a run was in flight", "CLIENT_ERROR")
    assert not any(message.is_streaming for message in again.transcript.messages)
    assert [part.status for part in calls(again.transcript).values()] == ["awaiting_approval", "failed", "failed"]
    assert [owed.interrupt_id for owed in again.owed_answers] == ["i1"]
    assert "".join(texts(again.transcript)) == "part"
    await again.run()
    assert [entry.interrupt_id for entry in again.script.inputs[0].resume or ()] == ["i1"]


async def test_saved_before_the_run_has_begun() -> None:
    """S-152: the turn is there, and the run failed, whatever the last one was."""
    held = gate()
    made = session([rs(R), rf(R)], [held, rs(R), rf(R)])
    await made.run()
    async with anyio.create_task_group() as group:
        group.start_soon(made.send, said("u1", "hi"))
        await held.reached
        data = same_again(made)
        held.open()
    again = loaded(data)
    assert isinstance(again.transcript.run, Failed)
    assert texts(again.transcript) == ["hi"]


async def test_saved_while_a_tool_runs() -> None:
    """S-152: the verdict stands; what had an answer keeps it, what ran is repaired at the next request."""
    held = gate()

    async def slow() -> str:
        await held
        return "late"

    def quick() -> str:
        return "quick"

    made = session(
        [rs("r1"), call("c1", name="quick", parent="a1"), call("c2", name="slow", parent="a1"), rf("r1")],
        tools=[quick, slow],
    )
    async with anyio.create_task_group() as group:
        group.start_soon(made.run, under("r1"))
        await held.reached
        data = same_again(made)
        made.stop()
    again = loaded(data, [rs(R), rf(R)])
    assert again.transcript.run == Finished("t", "r1")
    assert again.pending_tool_calls == ()
    await again.run()
    assert ids(again.script.inputs[0]) == ["a1", "tool(c1)", "tool(c2)"]
    given = answers(again.script.inputs[0])
    assert (given["c1"].content, given["c2"].error) == ("quick", "Stopped before the tool finished")


async def test_saved_while_two_tools_run_together() -> None:
    """S-152: a result that is ready before its neighbours is kept."""
    from handrail import tool

    held = gate()

    @tool(parallel=True)
    async def slow() -> str:
        await held
        return "late"

    @tool(parallel=True)
    async def quick() -> str:
        return "quick"

    made = session(
        [rs(R), call("c1", name="slow", parent="a1"), call("c2", name="quick", parent="a1"), rf(R)], tools=[slow, quick]
    )
    async with anyio.create_task_group() as group:
        group.start_soon(made.run)
        await held.reached
        async for transcript in made.changes():
            if calls(transcript)["c2"].status == "complete":
                break
        data = same_again(made)
        made.stop()
    again = loaded(data, [rs(R), rf(R)])
    await again.run()
    assert answers(again.script.inputs[0])["c2"].content == "quick"
    assert sorted(ids(again.script.inputs[0])) == ["a1", "tool(c1)", "tool(c2)"]


async def test_a_call_that_was_cut_off_is_not_kept_as_a_whole_one() -> None:
    """S-58, P-61: half its arguments go nowhere, also by way of a dump; the words beside it stay."""
    made = session([rs(R), text("a1", "Let me look."), cs("c1", parent="a1"), ca("c1", "{"), cs("c2"), error()])
    await made.send("q")
    again = loaded(same_again(made), [rs(R), call("c2"), rf(R)], [rs(R), rf(R)])
    await again.run()
    assert [message.id for message in again.script.inputs[0].messages][1:] == ["a1"]
    assert not again.script.inputs[0].messages[1].tool_calls
    assert again.pending_tool_calls == ("c2",)
