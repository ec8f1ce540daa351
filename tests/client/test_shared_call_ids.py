"""A thread whose calls share an id: what is executed, shown and sent."""

from __future__ import annotations

from ag_ui.core import Message
from tests.client.kit import answers, session, under, violations
from tests.transcript.events import answered, call, cr, error, ms, result, rf, rs, said, text
from tests.transcript.reading import calls

FIRST, SECOND = answered("a", None, ("c", '{"n": 1}')), answered("b", None, ("c", '{"n": 2}'))
BOTH_OPEN: list[Message] = [said("u1", "?"), FIRST, said("u2", "?"), SECOND]


def results(messages: list[Message]) -> list[object]:
    """What follows each call, or its lack."""
    return [
        behind.content if behind.role == "tool" else None
        for message, behind in zip(messages, [*messages[1:], said("", "")], strict=True)
        if message.role == "assistant" and message.tool_calls
    ]


async def test_a_call_in_a_snapshot_is_executed_though_an_earlier_one_had_its_id() -> None:
    """S-63, S-56: what was answered was the earlier call."""
    seen: list[int] = []

    def look(n: int) -> str:
        seen.append(n)
        return f"saw {n}"

    held = [said("u1", "?"), FIRST, result("t1", "c", "one"), said("u2", "?"), SECOND]
    made = session([rs("r1"), ms(*held), rf("r1")], [text("m", "done")], tools=[look])
    await made.run(under("r1"))
    assert seen == [2]
    assert results(made.script.inputs[1].messages) == ["one", "saw 2"]
    assert [part.result for part in calls(made.transcript).values()] == ["one", "saw 2"]


async def test_the_answer_that_is_missing_is_made_for_the_call_that_lacks_it() -> None:
    """S-57, S-58: in its place, once, and the answer of the other call stays."""
    history = [*BOTH_OPEN, result("t2", "c", "two"), answered("e", "done")]
    made = session([rs("r1"), text("m", "k"), rf("r1")], [rs("r2"), rf("r2")], messages=history)
    for run_id in ("r1", "r2"):
        await made.send("go on", under(run_id))
        sent = made.script.inputs[-1].messages
        assert results(sent) == ["Not executed: the run ended before this call was answered", "two"]
        assert violations(sent) == []
    assert made.codes == ["call-repaired"]
    assert [part.status for part in calls(made.transcript).values()] == ["failed", "complete"]


async def test_two_missing_answers_are_made_once_each() -> None:
    """S-57: of two calls with one id, neither of which was answered."""
    made = session([rs("r1"), rf("r1")], [rs("r2"), rf("r2")], messages=BOTH_OPEN)
    for run_id in ("r1", "r2"):
        await made.send("go on", under(run_id))
        assert violations(made.script.inputs[-1].messages) == []
    assert made.codes == ["call-repaired"] * 2
    assert [part.status for part in calls(made.transcript).values()] == ["failed", "failed"]


async def test_a_later_run_uses_the_id_of_a_call_that_failed() -> None:
    """S-57, S-133: each keeps its own answer in every request."""
    made = session(
        [rs("r1"), call("c", '{"n": 1}', parent="a"), error("no")],
        [rs("r2"), call("c", '{"n": 2}', parent="b"), cr("c", "two", "t2"), rf("r2")],
        [rs("r3"), rf("r3")],
    )
    for run_id in ("r1", "r2", "r3"):
        await made.send("?", under(run_id))
    assert results(made.script.inputs[2].messages) == [
        "Not executed: the run ended before this call was answered",
        "two",
    ]
    assert answers(made.script.inputs[2])["c"].content == "two"


async def test_a_result_made_here_is_not_given_to_another_call() -> None:
    """S-140, S-133: a snapshot has the result and, later, another call under its id, which is executed for itself."""
    seen: list[int] = []

    def look(n: int) -> str:
        seen.append(n)
        return f"saw {n}"

    for kept in ("t1", None):  # under its own id, or under one of the server's
        seen.clear()
        made = session(
            [rs("r1"), call("c", '{"n": 1}', parent="a"), rf("r1")],
            [text("m1", "one")],
            tools=[look],
        )
        await made.send("?", under("r1"))
        [answer] = [message for message in made.messages if message.role == "tool"]
        told = answer if kept is None else result(kept, "c", answer.content)
        made.script.push([rs("r2"), ms(FIRST, told, said("u2", "?"), SECOND), rf("r2")])
        made.script.push([text("m2", "two")])
        await made.send("?", under("r2"))
        assert seen == [1, 2]
        assert results(made.script.inputs[-1].messages) == ["saw 1", "saw 2"]
        assert violations(made.script.inputs[-1].messages) == []


async def test_of_two_open_calls_the_latest_is_executed() -> None:
    """S-56, S-57, S-63: the other one, which nobody will answer, gets the answer of the session."""
    seen: list[int] = []

    def look(n: int) -> str:
        seen.append(n)
        return f"saw {n}"

    made = session([rs("r1"), ms(*BOTH_OPEN), rf("r1")], [text("m", "done")], tools=[look])
    await made.run(under("r1"))
    assert seen == [2]
    assert results(made.script.inputs[1].messages) == [
        "Not executed: the run ended before this call was answered",
        "saw 2",
    ]
