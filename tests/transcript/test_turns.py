"""A stream becomes turns and their parts."""

from __future__ import annotations

import pytest
from ag_ui.core import BaseEvent, Message
from tests.transcript.events import (
    THREAD,
    acs,
    answered,
    asks,
    ca,
    call,
    ce,
    cr,
    cs,
    encrypted,
    error,
    ms,
    qc,
    qe,
    qs,
    question,
    reasoned,
    rf,
    rfx,
    rs,
    said,
    span,
    tc,
    te,
    text,
    thought,
    ts,
)
from tests.transcript.reading import outline, reduced

from handrail.agui._warnings import WarningRecord
from handrail.transcript import (
    Failed,
    Finished,
    Idle,
    ReasoningPart,
    Running,
    TextPart,
    ToolCallPart,
    Transcript,
    TranscriptReducer,
)

# -- runs --------------------------------------------------------------------------------------------------------------


def test_events_give_one_value_each() -> None:
    """S-124: each reducer starts empty; six events give six values."""
    reducer = TranscriptReducer()
    assert reducer.transcript == Transcript()
    values = [reducer.accept(event) for event in [rs(), *text("m1", "Hel", "lo"), rf()]]
    assert len({id(value) for value in values}) == 6
    assert [value.version for value in values] == [1, 2, 3, 4, 5, 6]
    assert [value.messages[0].text if value.messages else None for value in values] == [
        None,
        "",
        "Hel",
        "Hello",
        "Hello",
        "Hello",
    ]


def test_the_run_goes_from_idle_to_running_to_its_end() -> None:
    """S-7, S-123: an error without a start goes to failed directly; the result is kept on success only."""
    reducer = TranscriptReducer()
    assert reducer.transcript.run == Idle()
    assert reducer.accept(rs("r1")).run == Running(THREAD, "r1")
    assert reducer.accept(rf("r1", result={"n": 1})).run == Finished(THREAD, "r1", "success", {"n": 1})
    assert reducer.accept(rs("r2")).run == Running(THREAD, "r2")
    assert reducer.accept(rfx("r2")).run == Finished(THREAD, "r2", "cancelled")
    assert reducer.accept(error("no", "X")).run == Failed("no", "X")
    assert TranscriptReducer().accept(error("alone")).run == Failed("alone", None)
    i1 = question("i1", "c1")
    assert TranscriptReducer().accept(asks("r", i1)).run == Finished(THREAD, "r", "interrupt", None, (i1,))


def test_a_second_run_appends() -> None:
    """S-10: one assistant message with the whole text, settled; the first answer stays."""
    reducer = TranscriptReducer()
    first = reduced(rs(), text("m1", "Hel", "lo"), rf(), start=reducer)
    assert first.messages[0].parts == (TextPart("text:m1", "m1", "Hello"),)
    both = reduced(rs("r2"), text("m2", "Bye"), rf("r2"), start=reducer)
    assert both.messages[0] is first.messages[0]
    assert [message.run_id for message in both.messages] == ["r1", "r2"]


@pytest.mark.parametrize("end", [rf(), error("no"), rs("r2")])
def test_whatever_ends_a_run_settles_what_is_open(end: BaseEvent) -> None:
    """S-117: detached parts too, and the turn is closed."""
    reducer = TranscriptReducer()
    reduced(rs(), ts("m1"), qs("q1"), acs("x", {}), ts("m2"), cs("c1"), start=reducer)
    transcript = reducer.accept(end)
    assert not any(message.is_streaming for message in transcript.messages)
    assert outline(reduced(rs("r3"), ts("m3"), start=reducer))[-1] == ("m3", ["text:m3"])


def test_a_client_side_ending_settles_and_keeps_what_came() -> None:
    """S-14, S-117: text holds what was delivered, an open call is failed with the failure's message."""
    reducer = TranscriptReducer()
    reduced(rs(), ts("m1"), tc("m1", "partial"), cs("c1"), ca("c1", '{"a"'), start=reducer)
    reducer.end(Failed("socket closed", "CLIENT_ERROR"))
    [message] = reducer.transcript.messages
    assert message.parts[0] == TextPart("text:m1", "m1", "partial")
    assert message.parts[1] == ToolCallPart(
        "tool:c1", "c1", "c1", "look", '{"a"', status="failed", error="socket closed"
    )


# -- turns -------------------------------------------------------------------------------------------------------------


def test_what_one_run_says_is_one_turn_in_order_of_arrival() -> None:
    """S-114, S-115: the id is that of the part that opened the turn."""
    transcript = reduced(
        rs(), [span("s1")[0]], thought("q1", "hm"), [span("s1")[1]], text("m1", "I look."), call("c1", parent="m1"),
        cr("c1"), text("m2", "Done."), rf(),
    )  # fmt: skip
    assert outline(transcript) == [("q1", ["reasoning:q1", "text:m1", "tool:c1", "text:m2"])]
    assert transcript.messages[0].role == "assistant"


def test_detaching_leaves_what_streams_in_its_place() -> None:
    """S-116: an activity comes in between; text grows where it stands, and is settled at the end."""
    reducer = TranscriptReducer()
    reduced(rs(), ts("m1"), tc("m1", "Search"), acs("x", {"n": 1}), tc("m1", "ing"), start=reducer)
    assert outline(reducer.transcript) == [("m1", ["text:m1"]), ("x", ["activity:x"])]
    assert reducer.transcript.messages[0].parts[0] == TextPart("text:m1", "m1", "Searching", streaming=True)
    after = reduced(text("m2", "Found"), rf(), start=reducer)
    assert outline(after)[2] == ("m2", ["text:m2"])
    assert not after.messages[0].is_streaming


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_streamed_text_in_another_role_detaches(role: str) -> None:
    """S-116"""
    transcript = reduced(rs(), text("m1", "a"), text("n1", "b", role=role, name="Ann"), text("m2", "c"), rf())
    assert [(message.role, message.text) for message in transcript.messages] == [
        ("assistant", "a"),
        (role, "b"),
        ("assistant", "c"),
    ]
    assert transcript.messages[1].name == "Ann"


def test_a_local_turn_detaches() -> None:
    """S-116, S-111: it has no run, and belongs to the exchange in which it was said."""
    reducer = TranscriptReducer()
    reduced(rs(), ts("m1"), start=reducer)
    reducer.begin_exchange(3)
    reducer.add_turn(said("u1", "wait"))
    reduced(tc("m1", "a"), text("m2", "b"), start=reducer)
    assert outline(reducer.transcript) == [("m1", ["text:m1"]), ("u1", ["text:u1"]), ("m2", ["text:m2"])]
    assert [(m.run_id, m.exchange) for m in reducer.transcript.messages] == [("r1", 0), (None, 3), ("r1", 3)]


def test_a_new_run_begins_a_new_message_but_a_call_may_join_its_parent() -> None:
    """S-118: the follow-up's answer has the same exchange; a call whose parent is on screen joins that message."""
    reducer = TranscriptReducer()
    reducer.begin_exchange(1)
    reduced(rs(), text("m1", "one"), call("c1", parent="m1"), rf(), rs("r2"), text("m2", "two"), start=reducer)
    reduced(call("c2", parent="m1"), call("c3", parent="m2"), rf("r2"), start=reducer)
    assert outline(reducer.transcript) == [("m1", ["text:m1", "tool:c1", "tool:c2"]), ("m2", ["text:m2", "tool:c3"])]
    assert {message.exchange for message in reducer.transcript.messages} == {1}


@pytest.mark.parametrize("parent", ["u1", "nobody"])
def test_a_call_under_no_assistant_joins_the_open_turn(parent: str) -> None:
    """S-119"""
    reducer = TranscriptReducer()
    reducer.add_turn(said("u1", "hi"))
    opened = reduced(rs(), call("c1", parent=parent), rf(), start=reducer)
    assert outline(opened)[1] == ("c1", ["tool:c1"])
    other = "u1" if parent == "u1" else "nobody else"
    joined = reduced(rs("r2"), text("m1", "a"), call("c2", parent=other), start=reducer)
    assert outline(joined)[2] == ("m1", ["text:m1", "tool:c2"])
    part = joined.messages[2].parts[1]
    assert part.message_id == ("c2" if parent == "u1" else other)


def test_a_taken_id_is_drawn_under_another() -> None:
    """S-36, S-142"""
    reducer = TranscriptReducer()
    reduced(rs(), text("m1", "a"), rf(), start=reducer)
    assert reducer.add_turn(said("m1", "b")) == "m1#2"
    assert outline(reducer.transcript) == [("m1", ["text:m1"]), ("m1#2", ["text:m1#2"])]
    assert reducer.transcript.messages[1].parts[0].message_id == "m1"


# -- text and reasoning ------------------------------------------------------------------------------------------------


def test_text_reopened_in_the_same_run() -> None:
    """S-125: it streams on where it is the last thing; else a new part follows what came between."""
    reducer = TranscriptReducer()
    reduced(rs(), text("a1", "one "), ts("a1"), tc("a1", "two "), te("a1"), start=reducer)
    assert reducer.transcript.messages[0].parts == (TextPart("text:a1", "a1", "one two "),)
    transcript = reduced(cs("c1"), ce("c1"), text("a1", "three"), rf(), start=reducer)
    assert [part.id for part in transcript.messages[0].parts] == ["text:a1", "tool:c1", "text:a1#2"]
    assert transcript.messages[0].text == "one two three"
    assert {part.message_id for part in transcript.messages[0].parts if isinstance(part, TextPart)} == {"a1"}


def test_a_message_id_used_again_by_a_later_run_is_drawn_in_the_new_turn() -> None:
    """S-126: nothing is glued above the question."""
    reducer = TranscriptReducer()
    reduced(rs(), text("msg-1", "Hello."), rf(), start=reducer)
    reducer.add_turn(said("u2", "two"))
    transcript = reduced(rs("r2"), text("msg-1", "World."), rf("r2"), start=reducer)
    assert outline(transcript) == [("msg-1", ["text:msg-1"]), ("u2", ["text:u2"]), ("msg-1#2", ["text:msg-1#2"])]
    assert [message.text for message in transcript.messages] == ["Hello.", "two", "World."]


def test_text_that_a_snapshot_restored_streams_again() -> None:
    """S-127: it appends, and the same words again are warned about."""
    warnings: list[WarningRecord] = []
    reducer = TranscriptReducer(on_warning=warnings.append)
    reduced(rs(), ms(answered("a1", "Hello")), start=reducer)
    assert reduced(ts("a1"), start=reducer).messages[0].parts[0].streaming
    assert reduced(tc("a1", " you"), te("a1"), start=reducer).messages[0].text == "Hello you"
    assert warnings == []
    reduced(ms(answered("a2", "Twice")), text("a2", "Twice"), start=reducer)
    assert [warning.code for warning in warnings] == ["message-restated"]
    assert reducer.transcript.messages[-1].text == "TwiceTwice"


@pytest.mark.parametrize(
    ("first", "restored", "again"),
    [
        (text("a1", "x"), answered("a1", "Hello"), text("a1", "Hello")),
        (thought("a1", "x"), reasoned("a1", "Hello"), thought("a1", "Hello")),
    ],
    ids=["text", "reasoning"],
)
def test_other_words_that_a_snapshot_gave_to_a_known_message_stream_again(
    first: list[BaseEvent], restored: Message, again: list[BaseEvent]
) -> None:
    """S-127: they are of the run that the snapshot came in, whoever said the words before."""
    warnings: list[WarningRecord] = []
    reducer = TranscriptReducer(on_warning=warnings.append)
    transcript = reduced(rs(), first, rf(), rs("r2"), ms(restored), again, rf("r2"), start=reducer)
    assert [[part.text for part in message.parts] for message in transcript.messages] == [["HelloHello"]]  # type: ignore[union-attr]
    assert [warning.code for warning in warnings] == ["message-restated"]


@pytest.mark.parametrize(
    ("restored", "again"),
    [(answered("a1", "Hello"), text("a1", "Bye")), (reasoned("a1", "Hello"), thought("a1", "Bye"))],
    ids=["text", "reasoning"],
)
def test_what_a_snapshot_of_an_earlier_run_restored_is_of_that_run(restored: Message, again: list[BaseEvent]) -> None:
    """S-126, S-127: used again by a later run, its id is drawn in the new turn, and nothing is glued to the old."""
    reducer = TranscriptReducer()
    transcript = reduced(rs(), ms(restored), rf(), rs("r2"), again, rf("r2"), start=reducer)
    assert [[part.text for part in message.parts] for message in transcript.messages] == [["Hello"], ["Bye"]]  # type: ignore[union-attr]


def test_a_half_that_finds_its_partner_is_one_character() -> None:
    """S-10: cut between two deltas, as a producer that counts in UTF-16 does."""
    transcript = reduced(rs(), text("a1", "ok \ud83d", "\ude00 done"), rf())
    assert transcript.messages[0].text == "ok 😀 done"


def test_reasoning_messages_are_parts_and_spans_are_not() -> None:
    """S-128: settled by their own end; several in one span are several parts."""
    reducer = TranscriptReducer()
    opened = reduced(rs(), [span("s1")[0], qs("q1"), qc("q1", "a"), qs("q2")], start=reducer)
    assert opened.messages[0].parts == (
        ReasoningPart("reasoning:q1", "q1", "a", streaming=True),
        ReasoningPart("reasoning:q2", "q2", streaming=True),
    )
    closed = reduced(qe("q1"), span("s1")[1], start=reducer)
    assert [part.streaming for part in closed.messages[0].parts] == [False, True]


def test_encrypted_values_go_to_what_they_name() -> None:
    """S-128: after its end, in a later run too; an unknown target changes nothing."""
    reducer = TranscriptReducer()
    reduced(rs(), thought("q1"), call("c1"), qs("q2"), rf(), rs("r2"), start=reducer)
    before = reducer.transcript
    assert reducer.accept(encrypted("message", "nobody", "x")) is before
    reduced(encrypted("message", "q1", "b64:AAA=="), encrypted("tool-call", "c1", "sig"), start=reducer)
    values = [getattr(part, "encrypted_value", None) for part in reducer.transcript.messages[0].parts]
    assert values == ["b64:AAA==", "sig", None]


def test_text_for_a_message_that_takes_none_is_not_drawn() -> None:
    """S-124: the fold drops it and says so."""
    reducer = TranscriptReducer()
    reduced(rs(), thought("q1", "hm"), acs("x", {}), start=reducer)
    before = reducer.transcript
    assert reduced(text("q1", "a"), text("x", "b"), thought("x", "c"), start=reducer) is before
