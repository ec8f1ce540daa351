"""What goes back to the agent: the history, its order, and its repairs."""

from __future__ import annotations

import anyio
from ag_ui.core import RunAgentInput, TextPart
from tests.client.kit import DONE, R, answers, echo, finished, ids, session, texts, under
from tests.transcript.events import (
    THREAD,
    acs,
    answered,
    ca,
    call,
    cr,
    cs,
    encrypted,
    error,
    ms,
    reasoned,
    rf,
    rs,
    said,
    span,
    text,
    thought,
)
from tests.transcript.reading import calls

from handrail.testing import gate


async def test_every_request_has_the_same_shape() -> None:
    """S-52: version 1.0, no nulls, state left out when null, never an empty resume."""
    made = session([rs(R), rf(R)], [rs(R), rf(R)], state={"n": 1})
    await made.send("hi")
    made.state = None
    await made.run()
    first, second = (given.model_dump(by_alias=True, exclude_unset=True) for given in made.script.inputs)
    assert first["protocolVersion"] == "1.0"
    assert first["state"] == {"n": 1}
    assert "resume" not in first
    assert "state" not in second
    assert None not in second.values()


async def test_texts_and_encrypted_values_go_back_as_they_came() -> None:
    """S-54: reasoning goes back, with empty text too; ids are those that arrived."""
    reasoning = [span("s1")[0], *thought("q1"), encrypted("message", "q1", "b64:AAA=="), span("s1")[1]]
    calling = [*call("c1", parent="a1"), encrypted("tool-call", "c1", "sig:9/zz"), cr("c1", "ok", "t1")]
    made = session([rs(R), reasoning, calling, text("a2", "Ok."), rf(R)], [rs(R), rf(R)])
    await made.send(said("u1", "Hello"))
    await made.run()
    messages = made.script.inputs[1].model_dump(by_alias=True, exclude_none=True)["messages"]
    assert [message["id"] for message in messages] == ["u1", "q1", "a1", "t1", "a2"]
    assert (messages[1]["content"], messages[1]["encryptedValue"]) == ("", "b64:AAA==")
    assert messages[2]["toolCalls"][0]["encryptedValue"] == "sig:9/zz"
    assert made.codes == []
    assert [message.id for message in made.messages] == ["u1", "q1", "a1", "t1", "a2"]


async def test_activities_and_stray_results_are_not_sent() -> None:
    """S-55: the stray result is drawn, and the run does not fail."""
    made = session([rs(R), acs("x", {}), cr("c9", "stray"), rf(R)], [rs(R), rf(R)])
    assert (await made.run()).ok
    await made.run()
    assert ids(made.script.inputs[1]) == []
    assert made.codes == ["result-without-call"]
    assert (calls(made.transcript)["c9"].name, calls(made.transcript)["c9"].status) == ("", "complete")


async def test_a_result_stands_behind_its_call() -> None:
    """S-56: whatever came in between; the latest call owns a repeated id."""
    made = session(
        [rs(R), call("c1", '{"n":1}', parent="a1"), text("a2", "x"), cr("c1", "one"), rf(R)],
        [rs(R), call("c1", '{"n":2}', parent="a3"), text("a4", "y"), cr("c1", "two", "t2"), rf(R)],
        [rs(R), rf(R)],
    )
    for _ in range(3):
        await made.run()
    assert ids(made.script.inputs[1]) == ["a1", "tool(c1)", "a2"]
    assert ids(made.script.inputs[2]) == ["a1", "tool(c1)", "a2", "a3", "tool(c1)", "a4"]
    assert [m.content for m in made.script.inputs[2].messages if m.role == "tool"] == ["one", "two"]
    assert made.codes == ["call-id-reused"]


async def test_no_request_has_a_call_without_an_answer() -> None:
    """S-57: made at request time, drawn on the part, adopted."""
    held = gate()
    made = session([rs(R), call("c1", parent="a1"), held], [rs(R), rf(R)], [rs(R), rf(R)])
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(made.send, said("u1", "test"))
            await held.reached
            scope.cancel()
    assert calls(made.transcript)["c1"].status == "failed"
    await made.send(said("u2", "test"))
    assert ids(made.script.inputs[1]) == ["u1", "a1", "tool(c1)", "u2"]
    repair = answers(made.script.inputs[1])["c1"]
    assert repair.content == repair.error == "Not executed: the run ended before this call was answered"
    part = calls(made.transcript)["c1"]
    assert (part.status, part.result, part.error, part.local) == ("failed", repair.content, repair.error, True)
    assert made.codes == ["call-repaired"]
    await made.run()
    assert ids(made.script.inputs[2]) == ["u1", "a1", "tool(c1)", "u2"]
    assert answers(made.script.inputs[2])["c1"].id == repair.id
    assert made.codes == ["call-repaired"]


async def test_a_call_whose_arguments_never_closed_is_left_out() -> None:
    """S-58: with its message when nothing else is in it; never executed, never answered."""
    made = session(
        [
            rs(R),
            text("a1", "so"),
            cs("c1", parent="a1", name="echo"),
            ca("c1", "{"),
            cs("c2", name="echo"),
            error("cut"),
        ],
        [rs(R), rf(R)],
        tools=[echo],
    )
    await made.run()
    await made.run()
    assert ids(made.script.inputs[1]) == ["a1"]
    assert made.script.inputs[1].messages[0].tool_calls is None  # type: ignore[union-attr]
    assert made.codes == []


async def test_exactly_one_result_for_a_call() -> None:
    """S-59"""
    made = session([rs(R), call("c1"), cr("c1", "one"), cr("c1", "two", "t9"), rf(R)], [rs(R), rf(R)])
    await made.run()
    await made.run()
    assert answers(made.script.inputs[1])["c1"].content == "two"
    assert ids(made.script.inputs[1]) == ["c1", "tool(c1)"]
    assert made.codes == ["second-result"]


async def test_what_is_streamed_into_a_result_is_neither_sent_nor_drawn() -> None:
    """P-48, P-49, S-54: the wire drops text and reasoning under the id of a tool message, and so does the screen."""
    made = session(finished(call("c1", parent="a1"), cr("c1", id="t1"), text("t1", "ghost"), thought("t1", "hm")), DONE)
    await made.run()
    await made.run()
    assert made.codes == ["message-kind", "message-kind"]
    assert [part.id for message in made.transcript.messages for part in message.parts] == ["tool:c1"]
    assert ids(made.script.inputs[1]) == ["a1", "tool(c1)"]


async def test_the_input_of_a_run_started_is_added() -> None:
    """S-60"""
    given = RunAgentInput(thread_id=THREAD, run_id="r1", messages=[said("u1", "other"), said("u0", "more")])
    made = session([rs("r1", input=given), text("a1", "x"), rf("r1")], [rs(R), rf(R)])
    await made.send(said("u1", "mine"), under("r1"))
    await made.run()
    assert [(m.id, m.content) for m in made.script.inputs[1].messages] == [("u1", "mine"), ("u0", "more"), ("a1", "x")]
    assert texts(made.transcript) == ["mine", "more", "x"]


async def test_results_and_repairs_go_ahead_of_the_new_turn() -> None:
    """S-38"""
    made = session(
        [rs(R), call("c1", name="echo", parent="a1"), call("c2", parent="a1"), rf(R)], [rs(R), rf(R)], tools=[echo]
    )
    await made.send(said("u1", "go"))
    await made.send(said("u2", "on"))
    assert ids(made.script.inputs[1]) == ["u1", "a1", "tool(c1)", "tool(c2)", "u2"]
    assert answers(made.script.inputs[1])["c1"].content == "got 0"
    assert answers(made.script.inputs[1])["c2"].error == "Not executed: no result was given for this call"


async def test_a_snapshot_decides_what_is_sent() -> None:
    """S-135, S-54"""
    made = session(
        [rs(R), text("a1", "old"), ms(said("u1", "hi"), reasoned("q1", "hm"), answered("a2", "new")), rf(R)],
        [rs(R), rf(R)],
    )
    await made.send(said("u1", "hi"))
    await made.run()
    assert ids(made.script.inputs[1]) == ["u1", "q1", "a2"]


async def test_a_multimodal_turn_is_sent_as_it_is() -> None:
    """S-112, S-31"""
    made = session([rs(R), rf(R)])
    await made.send(said("u1", [TextPart(type="text", text="a"), TextPart(type="text", text="b")]))
    assert [part.text for part in made.script.inputs[0].messages[0].content] == ["a", "b"]  # type: ignore[union-attr]
    assert [part.id for part in made.transcript.messages[0].parts] == ["text:u1#0", "text:u1#1"]


async def test_a_half_character_does_not_break_the_next_request() -> None:
    """S-54: joined where its partner came, and sent as U+FFFD by the encoder where it did not."""
    made = session([rs(R), text("a1", "ok \ud83d", "\ude00 done"), rf(R)], [rs(R), rf(R)])
    await made.run()
    await made.run()
    assert made.script.inputs[1].messages[0].content == "ok 😀 done"


async def test_ids_are_stable_over_many_requests() -> None:
    """S-54: every id in the third request occurred before, but for the new turn."""
    made = session([rs(R), text("a1", "x"), acs("x", {}), rf(R)], [rs(R), text("a2", "y"), rf(R)], [rs(R), rf(R)])
    for turn in ("u1", "u2", "u3"):
        await made.send(said(turn, turn))
    assert ids(made.script.inputs[2]) == ["u1", "a1", "u2", "a2", "u3"]


async def test_a_call_that_was_cut_is_sent_once_it_is_whole() -> None:
    """S-58, P-51: a call that was cut is not sent; a later run may send it whole under its id."""
    made = session([rs(R), cs("c1"), error("cut")], [rs(R), call("c1", '{"n":1}'), cr("c1"), rf(R)], [rs(R), rf(R)])
    for _ in range(3):
        await made.run()
    assert ids(made.script.inputs[1]) == []
    assert ids(made.script.inputs[2]) == ["c1", "tool(c1)"]
    assert calls(made.transcript)["c1"].arguments == '{"n":1}'
