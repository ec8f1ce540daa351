"""Calls that share an id, as servers make them that count from nought in every turn: each has its own result."""

from __future__ import annotations

import pytest
from ag_ui.core import Message
from tests.transcript.events import answered, call, cr, ms, result, rf, rs, said

from handrail.transcript import ToolCallPart, Transcript, TranscriptReducer

FIRST, SECOND = answered("a", None, ("c", '{"n": 1}')), answered("b", None, ("c", '{"n": 2}'))


def answers(transcript: Transcript) -> list[tuple[str, str, object]]:
    """The calls on the screen: id, status and result."""
    parts = (part for message in transcript.messages for part in message.parts)
    return [(part.id, part.status, part.result) for part in parts if isinstance(part, ToolCallPart)]


HISTORIES: list[tuple[list[Message], list[tuple[str, str, object]]]] = [
    (
        [FIRST, result("t1", "c", "one"), said("u", "?"), SECOND, result("t2", "c", "two")],
        [("tool:c", "complete", "one"), ("tool:c#2", "complete", "two")],
    ),
    (
        [FIRST, result("t1", "c", "one"), said("u", "?"), SECOND],
        [("tool:c", "complete", "one"), ("tool:c#2", "awaiting_result", None)],
    ),
    (
        [FIRST, said("u", "?"), SECOND, result("t2", "c", "two")],
        [("tool:c", "awaiting_result", None), ("tool:c#2", "complete", "two")],
    ),
    (
        [FIRST, SECOND, said("u", "?"), result("t2", "c", "two")],
        [("tool:c", "awaiting_result", None), ("tool:c#2", "complete", "two")],
    ),
    (
        [answered("a", None, ("c", "{}"), ("c", '{"n": 2}')), result("t1", "c", "one")],
        [("tool:c", "complete", "one"), ("tool:c#2", "complete", "one")],
    ),
]


@pytest.mark.parametrize(("history", "shown"), HISTORIES)
def test_each_has_the_result_it_is_followed_by(history: list[Message], shown: list[tuple[str, str, object]]) -> None:
    """S-2, S-56, S-136: in a history and in a snapshot; a result that follows none of them is for the latest."""
    reducer = TranscriptReducer()
    reducer.restore(history)
    assert answers(reducer.transcript) == shown
    reducer = TranscriptReducer()
    reducer.accept(rs())
    assert answers(reducer.accept(ms(*history))) == shown
    assert answers(reducer.accept(ms(*history))) == shown


def test_a_snapshot_of_what_was_streamed_changes_nothing() -> None:
    """S-136: each keeps the result that it has."""
    reducer = TranscriptReducer()
    for event in [rs("r1"), *call("c", '{"n": 1}', parent="a"), cr("c", "one", "t1"), rf("r1"), rs("r2")]:
        reducer.accept(event)
    for event in [*call("c", '{"n": 2}', parent="b"), cr("c", "two", "t2")]:
        reducer.accept(event)
    shown = answers(reducer.transcript)
    assert shown == HISTORIES[0][1]
    assert answers(reducer.accept(ms(FIRST, result("t1", "c", "one"), SECOND, result("t2", "c", "two")))) == shown


def test_an_answer_made_here_is_for_the_one_that_has_none() -> None:
    """S-57: the latest of those that have none; where all have one, for the latest."""
    reducer = TranscriptReducer()
    reducer.restore(HISTORIES[2][0])
    reducer.answer(result("t1", "c", "made"))
    assert answers(reducer.transcript) == [("tool:c", "complete", "made"), ("tool:c#2", "complete", "two")]
    reducer.answer(result("t3", "c", "again"))
    assert answers(reducer.transcript) == [("tool:c", "complete", "made"), ("tool:c#2", "complete", "again")]
