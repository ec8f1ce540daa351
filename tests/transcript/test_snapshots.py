"""Snapshots of the messages, reconciled with the screen."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import AssistantMessage, ImagePart, Message, UrlSource, UserMessage
from ag_ui.core import TextPart as WireText
from tests.transcript.events import (
    acs,
    activity,
    answered,
    ca,
    call,
    ce,
    cr,
    cs,
    error,
    ms,
    qc,
    qs,
    reasoned,
    result,
    rf,
    rs,
    said,
    tc,
    te,
    text,
    thought,
    ts,
)
from tests.transcript.reading import outline, reduced

from handrail.transcript import ReasoningPart, TextPart, ToolCallPart, TranscriptReducer


def restored(*messages: Message) -> TranscriptReducer:
    reducer = TranscriptReducer()
    reducer.restore(messages)
    return reducer


def test_an_initial_history_is_drawn() -> None:
    """S-2, S-138: consecutive assistant messages make one turn, text before calls; no run, exchange 0."""
    transcript = restored(
        said("u0", "hi"), reasoned("q0", "hm"), answered("a0", "I look.", ("c0", '{"n":1}')), result("t0", "c0"),
        answered("a1", "Done."), said("u1", "thanks"), answered("a2", "Bye"),
    ).transcript  # fmt: skip
    assert outline(transcript) == [
        ("u0", ["text:u0"]),
        ("q0", ["reasoning:q0", "text:a0", "tool:c0", "text:a1"]),
        ("u1", ["text:u1"]),
        ("a2", ["text:a2"]),
    ]
    assert transcript.messages[1].parts[2] == ToolCallPart(
        "tool:c0", "a0", "c0", "look", '{"n":1}', {"n": 1}, True, "complete", "found"
    )
    assert {(message.run_id, message.exchange) for message in transcript.messages} == {(None, 0)}


def test_equal_content_leaves_everything_as_it_is() -> None:
    """S-136: order, grouping, ids and objects stay."""
    reducer = TranscriptReducer()
    reducer.add_turn(said("u1", "hi"))
    before = reduced(
        rs(), thought("q1", "hm"), text("a1", "One."), call("c1", '{"n":1}', parent="a1"), cr("c1"), text("a2", "Two."),
        start=reducer,
    )  # fmt: skip
    snapshot = ms(
        said("u1", "hi"), reasoned("q1", "hm"), answered("a1", "One.", ("c1", '{"n":1}')), result("t-c1", "c1"),
        answered("a2", "Two."),
    )  # fmt: skip
    assert reducer.accept(snapshot) is before
    assert outline(reduced(text("a3", "Three."), start=reducer))[1][1][-1] == "text:a3"


def test_a_different_text_replaces_the_first_part_and_removes_the_others() -> None:
    """S-136"""
    reducer = TranscriptReducer()
    reduced(rs(), text("a1", "one"), call("c1", parent="a1"), text("a1", "two"), start=reducer)
    transcript = reducer.accept(ms(answered("a1", "better", ("c1", "{}"))))
    assert outline(transcript) == [("a1", ["text:a1", "tool:c1"])]
    assert transcript.messages[0].text == "better"


def test_parts_that_join_to_the_snapshot_are_untouched() -> None:
    """S-136, S-125"""
    reducer = TranscriptReducer()
    before = reduced(rs(), text("a1", "one"), call("c1", parent="a1"), text("a1", "two"), start=reducer)
    assert reducer.accept(ms(answered("a1", "onetwo", ("c1", "{}")))) is before


def test_a_call_under_another_message_stays_where_it_is() -> None:
    """S-136: a call by its id, a result by its call."""
    reducer = TranscriptReducer()
    reduced(rs(), text("a1", "one"), call("c1", parent="a1"), text("a2", "two"), start=reducer)
    transcript = reducer.accept(ms(answered("a1", "one"), answered("a2", "two", ("c1", "{}")), result("t1", "c1")))
    assert outline(transcript) == [("a1", ["text:a1", "tool:c1", "text:a2"])]
    part: Any = transcript.messages[0].parts[1]
    assert (part.message_id, part.status) == ("a2", "complete")


def test_a_message_under_a_new_id_takes_over_the_part_it_repeats() -> None:
    """S-137: the server gives the streamed text's id to the message with the call, and the text another."""
    reducer = TranscriptReducer()
    before = reduced(rs(), text("a1", "Two hits."), call("c1", parent="a1"), start=reducer)
    transcript = reducer.accept(ms(answered("a1", None, ("c1", "{}")), result("t1", "c1"), answered("a2", "Two hits.")))
    assert outline(transcript) == outline(before)
    assert transcript.messages[0].parts[0] == TextPart("text:a1", "a2", "Two hits.")
    assert transcript.messages[0].text == "Two hits."
    assert reduced(text("a2", " More."), start=reducer).messages[0].text == "Two hits. More."


def test_repeated_contents_are_paired_in_order() -> None:
    """S-137: same role only; what finds no heir is gone, what finds no part is new."""
    reducer = restored(said("u1", "ok"), answered("a1", "ok"), said("u2", "ok"), answered("a2", "bye"))
    transcript = reducer.accept(ms(said("x1", "ok"), answered("y1", "ok"), said("x2", "ok"), said("x3", "ok")))
    assert [(message.id, message.parts[0].message_id) for message in transcript.messages] == [
        ("u1", "x1"),
        ("a1", "y1"),
        ("u2", "x2"),
        ("x3", "x3"),
    ]


def test_new_messages_behind_the_last_user_turn_join_the_open_turn() -> None:
    """S-138: while a run is open; what comes before it makes turns of its own."""
    reducer = TranscriptReducer()
    reducer.add_turn(said("u2", "second"))
    reduced(rs(), text("a2", "Now."), start=reducer)
    earlier = [said("u1", "first"), reasoned("q1", "hm"), answered("a1", "Then.")]
    transcript = reducer.accept(ms(*earlier, said("u2", "second"), answered("a2", "Now."), answered("a3", "More.")))
    assert outline(transcript) == [
        ("u2", ["text:u2"]),
        ("a2", ["text:a2", "text:a3"]),
        ("u1", ["text:u1"]),
        ("q1", ["reasoning:q1", "text:a1"]),
    ]
    assert reduced(text("a4", "End."), start=reducer).messages[1].text == "Now.More.End."


def test_a_snapshot_opens_the_turn_that_what_follows_joins() -> None:
    """S-138"""
    reducer = TranscriptReducer()
    reducer.add_turn(said("u1", "hi"))
    transcript = reduced(rs(), ms(said("u1", "hi"), answered("a1", "One.")), text("a2", "Two."), start=reducer)
    assert outline(transcript)[1] == ("a1", ["text:a1", "text:a2"])


def test_more_of_a_known_message_goes_to_where_it_is_shown() -> None:
    """S-138: text before its calls, further calls behind."""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1", parent="a1"), text("a2", "end"), start=reducer)
    transcript = reducer.accept(ms(answered("a1", "I look.", ("c1", "{}"), ("c2", "{}")), answered("a2", "end")))
    assert outline(transcript) == [("c1", ["text:a1", "tool:c1", "text:a2", "tool:c2"])]


def test_tool_messages_set_the_status_wherever_they_stand() -> None:
    """S-139; a result that the snapshot takes back leaves its call unanswered, one of our own stays."""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1"), call("c2"), call("c3"), cr("c3", "theirs"), start=reducer)
    reducer.answer(result("mine", "c2", "ours"))
    calls = answered("c1", None, ("c1", "{}"), ("c2", "{}"), ("c3", "{}"))
    transcript = reducer.accept(ms(result("t1", "c1", "no", error="no"), calls))
    shown: list[Any] = list(transcript.messages[0].parts)
    assert [(part.status, part.result) for part in shown] == [
        ("failed", "no"),
        ("complete", "ours"),
        ("awaiting_result", None),
    ]


def test_a_turn_drawn_under_another_id_is_found_by_its_own() -> None:
    """S-139, S-36"""
    reducer = TranscriptReducer()
    reduced(rs(), text("m1", "a"), rf(), start=reducer)
    reducer.add_turn(said("m1", "b"))
    before = reduced(rs("r2"), start=reducer)
    assert reducer.accept(ms(said("m1", "b"))).messages == (before.messages[1],)


def test_a_turn_that_the_snapshot_leaves_out_is_gone() -> None:
    """S-139"""
    reducer = restored(said("u1", "hi"), answered("a1", "hello"))
    reducer.accept(rs())
    assert outline(reducer.accept(ms(answered("a1", "hello")))) == [("a1", ["text:a1"])]


def test_results_of_this_side_survive() -> None:
    """S-140: RF!(i1→c2) with c1 executed; the snapshot has both calls and no result."""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1", parent="a1"), call("c2", parent="a1"), rf(), start=reducer)
    reducer.answer(result("t1", "c1", "ours"))
    transcript = reduced(rs("r2"), ms(answered("a1", None, ("c1", "{}"), ("c2", "{}"))), start=reducer)
    shown: list[Any] = list(transcript.messages[0].parts)
    assert [part.status for part in shown] == ["complete", "awaiting_result"]


def test_reasoning_and_activities_survive_a_snapshot_without_any() -> None:
    """S-135: with one of the kind, the others are gone."""
    reducer = TranscriptReducer()
    reduced(rs(), thought("q1", "hm"), acs("x", {"n": 1}), text("a1", "hi"), start=reducer)
    before = reducer.transcript
    assert reducer.accept(ms(answered("a1", "hi"))) is before
    transcript = reducer.accept(ms(answered("a1", "hi"), reasoned("q2", "oh", "sig"), activity("y", {"n": 2})))
    assert [part.id for message in transcript.messages for part in message.parts] == [
        "text:a1",
        "reasoning:q2",
        "activity:y",
    ]


def test_an_encrypted_value_is_replaced_and_the_words_stay() -> None:
    """S-136"""
    reducer = TranscriptReducer()
    reduced(rs(), thought("q1", "hm"), start=reducer)
    transcript = reducer.accept(ms(reasoned("q1", "hm", "sig")))
    assert transcript.messages[0].parts == (ReasoningPart("reasoning:q1", "q1", "hm", False, "sig"),)


def test_an_open_message_that_the_snapshot_leaves_out_is_dropped() -> None:
    """S-141: its later content does not bring it back; started again it is a new one."""
    reducer = TranscriptReducer()
    reduced(rs(), text("a0", "kept"), ts("a1"), tc("a1", "lost"), qs("q1"), cs("c1"), ca("c1", "{"), start=reducer)
    transcript = reduced(
        ms(answered("a0", "kept"), reasoned("q2", "kept")), tc("a1", "more"), te("a1"), ca("c1", "}"), ce("c1"),
        start=reducer,
    )  # fmt: skip
    assert outline(transcript) == [("a0", ["text:a0", "reasoning:q2"])]
    assert outline(reduced(text("a1", "again"), start=reducer))[0][1][-1] == "text:a1"


def test_an_open_message_that_the_snapshot_has_streams_on() -> None:
    """S-141, S-127: also with other words."""
    reducer = TranscriptReducer()
    reduced(rs(), ts("a1"), tc("a1", "Hel"), cs("c1", parent="a1"), ca("c1", '{"n"'), start=reducer)
    reducer.accept(ms(answered("a1", "Hallo", ("c1", '{"n"'))))
    transcript = reduced(tc("a1", "!"), te("a1"), ca("c1", ":1}"), ce("c1"), start=reducer)
    assert transcript.messages[0].text == "Hallo!"
    part: Any = transcript.messages[0].parts[1]
    assert (part.arguments, part.status) == ('{"n":1}', "awaiting_result")


def test_run_state_and_steps_are_untouched() -> None:
    """S-141"""
    reducer = TranscriptReducer()
    before = reduced(rs(), text("a1", "x"), start=reducer)
    after = reducer.accept(ms())
    assert after.messages == ()
    assert (after.run, after.state, after.steps) == (before.run, before.state, before.steps)


def test_what_a_snapshot_draws_says_whose_it_is() -> None:
    """S-111, S-138: name, role, run and exchange; what a session begins with is of no run."""
    turns: list[Message] = [
        UserMessage(id="u1", content="hi", name="Ann"),
        AssistantMessage(id="a1", content="x", name="bot"),
        activity("x1", {}),
    ]
    reducer = TranscriptReducer()
    reducer.begin_exchange(2)
    reduced(rs(), ms(*turns), start=reducer)
    for transcript, run_id, exchange in (
        (reducer.transcript, "r1", 2),
        (restored(*turns).transcript, None, 0),
    ):
        assert [(one.id, one.role, one.name, one.run_id, one.exchange) for one in transcript.messages] == [
            ("u1", "user", "Ann", run_id, exchange),
            ("a1", "assistant", "bot", run_id, exchange),
            ("x1", "activity", None, run_id, exchange),
        ]


def test_an_error_in_a_snapshot_is_shown_until_another_says_otherwise() -> None:
    """S-122, S-136: the same one again is idle, one of this side gives way to the server's."""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1"), rf(), start=reducer)
    reducer.answer(result("t1", "c1", "ours"))

    for why, status in (("no", "failed"), ("other", "failed"), (None, "complete")):
        snapshot = ms(answered("c1", None, ("c1", "{}")), result("t1", "c1", "theirs", why))
        shown = reducer.accept(snapshot)
        (part,) = shown.messages[0].parts
        assert isinstance(part, ToolCallPart)
        assert (part.status, part.result, part.error, part.local) == (status, "theirs", why, False)
        assert reducer.accept(snapshot) is shown


def test_other_arguments_and_names_are_taken_over() -> None:
    """S-136"""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1", '{"n":1}', name="old"), start=reducer)
    part: Any = reducer.accept(ms(answered("c1", None, ("c1", '{"n":2}')))).messages[0].parts[0]
    assert (part.name, part.arguments, part.parsed_arguments, part.status) == (
        "look",
        '{"n":2}',
        {"n": 2},
        "awaiting_result",
    )


def test_a_call_that_was_cut_off_is_whole_in_a_snapshot() -> None:
    """S-136, P-53: a snapshot of a later run completes it, answered or not; one that is open streams on."""
    for results in ([], [result("t1", "c1", "42")]):
        reducer = TranscriptReducer()
        reduced(rs(), cs("c1"), ca("c1", "{"), error("down"), start=reducer)
        reduced(rs("r2"), ms(answered("c1", None, ("c1", "{}")), *results), rf("r2"), start=reducer)
        (part,) = reducer.transcript.messages[0].parts
        assert isinstance(part, ToolCallPart)
        assert (part.arguments, part.parsed_arguments, part.arguments_complete, part.error) == ("{}", {}, True, None)
        assert (part.status, part.result) == (("complete", "42") if results else ("awaiting_result", None))


def test_a_multimodal_turn_is_compared_by_content() -> None:
    """S-112, S-136"""
    picture = ImagePart(type="image", source=UrlSource(type="url", value="https://a/b.png"))
    reducer = TranscriptReducer()
    reducer.add_turn(said("u1", [WireText(type="text", text="look"), picture]))
    reducer.accept(rs())
    before = reducer.transcript
    assert reducer.accept(ms(said("u1", [WireText(type="text", text="look"), picture]))) is before
    after = reducer.accept(ms(said("u1", [picture, WireText(type="text", text="here")])))
    assert [part.id for part in after.messages[0].parts] == ["file:u1#0", "text:u1#1"]


def test_a_result_without_a_call() -> None:
    """S-55: in a snapshot too; it is there as long as the snapshot has it."""
    reducer = TranscriptReducer()
    part: Any = reducer.accept(ms(result("t9", "c9", "stray"))).messages[0].parts[0]
    assert (part.name, part.status, part.result) == ("", "complete", "stray")
    assert reducer.accept(ms(result("t9", "c9", "stray"))).messages[0].parts[0] is part
    assert reducer.accept(ms()).messages == ()


def test_a_call_that_the_snapshot_leaves_out_stays_with_its_result() -> None:
    """S-55, S-136: a server may forget the call and keep the result; what was called is on the screen already."""
    history = (
        said("u1", "look"),
        answered("a1", "Yes.", ("c1", "{}")),
        result("t1", "c1", "found"),
        said("u2", "thanks"),
    )
    reducer = restored(*history)
    part = reducer.transcript.messages[1].parts[1]
    after = reducer.accept(ms(said("u1", "look"), result("t1", "c1", "found"), said("u2", "thanks")))
    assert outline(after) == [("u1", ["text:u1"]), ("a1", ["tool:c1"]), ("u2", ["text:u2"])]
    assert after.messages[1].parts[0] is part


# -- what is open when a snapshot comes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("open_one", "other", "more"),
    [
        ([ts("m"), tc("m", "Two")], answered("n", "Two"), tc("m", "!")),
        ([qs("m"), qc("m", "Two")], reasoned("n", "Two"), qc("m", "!")),
    ],
    ids=["text", "reasoning"],
)
def test_an_open_message_that_a_snapshot_renames_streams_no_more(open_one: list[Any], other: Any, more: Any) -> None:
    """S-117, S-137, S-141: it has its place and its new id; what comes for the old one is for nothing."""
    reducer = TranscriptReducer()
    for event in [rs(), *open_one, ms(said("u", "q"), other), more]:
        shown = reducer.accept(event)
    parts = [part for message in shown.messages for part in message.parts if part.message_id == "n"]
    assert [(part.text, part.streaming) for part in parts] == [("Two", False)]
    assert not any(message.is_streaming for message in reducer.accept(rf()).messages)


@pytest.mark.parametrize(
    ("restored", "start"),
    [(answered("m", "x"), ts("m")), (reasoned("m", "x"), qs("m"))],
    ids=["text", "reasoning"],
)
def test_a_message_that_one_snapshot_brings_and_the_next_drops_begins_anew(restored: Any, start: Any) -> None:
    """S-127, S-141"""
    reducer = TranscriptReducer()
    for event in [rs(), ms(said("u", "q"), restored), ms(said("u", "q")), start]:
        shown = reducer.accept(event)
    assert [(part.message_id, part.streaming) for part in shown.messages[-1].parts] == [("m", True)]


def test_an_open_message_whose_further_part_a_snapshot_removes_streams_on_in_the_first() -> None:
    """S-125, S-136, S-141"""
    reducer = TranscriptReducer()
    for event in [rs(), *text("m", "a"), *call("c"), ts("m"), tc("m", "b"), ms(answered("m", "other", ("c", "{}")))]:
        reducer.accept(event)
    shown = reducer.accept(tc("m", "!"))
    parts = [part for part in shown.messages[0].parts if isinstance(part, TextPart)]
    assert [(part.text, part.streaming) for part in parts] == [("other!", True)]
    assert not reducer.accept(rf()).messages[0].is_streaming
