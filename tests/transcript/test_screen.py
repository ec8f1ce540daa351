"""What stands beside the turns: activities, state, steps and inputs; and what makes no difference."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import BaseEvent, RunAgentInput, SubagentStartedEvent
from tests.transcript.events import (
    THREAD,
    acd,
    acs,
    answered,
    call,
    cr,
    cs,
    custom,
    error,
    ms,
    raw,
    reasoned,
    result,
    rf,
    rs,
    said,
    sd,
    ss,
    step,
    tc,
    text,
    thought,
    ts,
)
from tests.transcript.reading import outline, reduced

from handrail.agui._fold import Fold
from handrail.transcript import ActivityPart, TextPart, TranscriptReducer


def test_activities_live_in_their_place_across_runs() -> None:
    """S-129: known ids are replaced in place unless `replace` is false; a patch takes its type."""
    reducer = TranscriptReducer()
    reduced(rs(), acs("x", {"n": 1}), text("m1", "a"), rf(), rs("r2"), start=reducer)
    assert reducer.transcript.messages[0].parts == (ActivityPart("activity:x", "x", "PLAN", {"n": 1}),)
    reduced(acs("x", {"n": 2}, "LIST"), acs("x", {"n": 9}, replace=False), start=reducer)
    assert reducer.transcript.messages[0].parts == (ActivityPart("activity:x", "x", "LIST", {"n": 2}),)
    held = reducer.transcript
    reduced(acd("x", {"op": "add", "path": "/m", "value": [1]}, type="TREE"), start=reducer)
    assert reducer.transcript.messages[0].parts == (ActivityPart("activity:x", "x", "TREE", {"n": 2, "m": [1]}),)
    assert held.messages[0].parts == (ActivityPart("activity:x", "x", "LIST", {"n": 2}),)


@pytest.mark.parametrize(
    "event",
    [
        acd("x", {"op": "replace", "path": "/nothing", "value": 1}),
        acd("x", {"op": "add", "path": "/m", "value": 1}, {"op": "test", "path": "/n", "value": 7}),
        acd("x", {"op": "replace", "path": "", "value": [1]}),
        acd("y", {"op": "add", "path": "/n", "value": 1}),
    ],
)
def test_a_patch_that_does_not_apply_changes_no_activity(event: BaseEvent) -> None:
    """S-129: all or nothing; an unknown id and a result that is no object likewise."""
    reducer = TranscriptReducer()
    before = reduced(rs(), acs("x", {"n": 1}), start=reducer)
    assert reducer.accept(event) == before


@pytest.mark.parametrize("value", [None, False, 0, "", [], {"a": {"b": 1}}])
def test_state_snapshots_replace(value: Any) -> None:
    """S-130: every JSON value is a state."""
    assert reduced(rs(), ss({"old": 1}), ss(value)).state == value


def test_state_patches_are_all_or_nothing() -> None:
    """S-130: one that does not apply keeps the value; what was published stays what it was."""
    reducer = TranscriptReducer()
    first = reduced(rs(), ss({"items": ["bread"]}), start=reducer)
    second = reducer.accept(sd({"op": "add", "path": "/items/-", "value": "milk"}))
    failing = sd({"op": "add", "path": "/x", "value": 1}, {"op": "remove", "path": "/none"})
    assert reducer.accept(failing) is second
    assert reducer.accept(sd({"op": "test", "path": "/items/0", "value": "bread"})) is second
    assert second.state == {"items": ["bread", "milk"]}
    assert first.state == {"items": ["bread"]}
    second.state["items"].clear()
    assert reducer.accept(sd({"op": "add", "path": "/n", "value": 1})).state == {"items": ["bread", "milk"], "n": 1}


def test_steps_are_the_names_still_open() -> None:
    """S-110, S-130: oldest first, the first match goes at its end, none is left at the next start."""
    reducer = TranscriptReducer()
    (a, a_end), (b, _) = step("a"), step("b")
    assert reduced(rs(), a, b, a, start=reducer).steps == ("a", "b", "a")
    assert reducer.accept(a_end).steps == ("b", "a")
    assert reduced(error("no"), rs("r2"), start=reducer).steps == ()


@pytest.mark.parametrize(
    "event",
    [raw({"x": 1}), custom("note", 1), SubagentStartedEvent(subagent_run_id="s", name="helper"), tc("nobody", "x")],
)
def test_what_draws_nothing_gives_the_same_transcript(event: BaseEvent) -> None:
    """S-131, S-145"""
    reducer = TranscriptReducer()
    before = reduced(rs(), ts("m1"), start=reducer)
    assert reducer.accept(event) is before
    assert reducer.accept(tc("m1", "")) is before


def test_the_input_of_a_run_adds_what_is_unknown() -> None:
    """S-60: known messages stay untouched."""
    reducer = TranscriptReducer()
    reducer.restore([said("u1", "hi"), answered("a1", "mine", ("c1", "{}"))])
    before = reducer.transcript
    given = RunAgentInput(
        thread_id=THREAD,
        run_id="r1",
        messages=[said("u1", "other"), answered("a1", "theirs"), result("t1", "c1", "ok"), said("u2", "new"),
                  reasoned("q1", "hm"), answered("a2", "both")],
    )  # fmt: skip
    transcript = reducer.accept(rs("r1", input=given))
    assert [message.text for message in transcript.messages] == ["hi", "mine", "new", "both"]
    assert transcript.messages[0] is before.messages[0]
    assert transcript.messages[1].parts[1].status == "complete"
    assert outline(transcript)[3] == ("q1", ["reasoning:q1", "text:a2"])


def test_a_result_in_the_input_of_a_run_is_known_by_its_call() -> None:
    """S-60, S-55: one for a call that nobody made is drawn once, one for an answered call not at all."""
    reducer = TranscriptReducer()
    given = RunAgentInput(thread_id=THREAD, run_id="r1", messages=[result("t9", "c9", "stray")])
    first = reduced(rs("r1", input=given), call("c1"), cr("c1", "mine"), rf(), start=reducer)
    assert [[part.result for part in message.parts] for message in first.messages] == [["stray"], ["mine"]]  # type: ignore[union-attr]
    given.messages.append(result("t1", "c1", "theirs"))
    assert reduced(rs("r2", input=given), start=reducer).messages == first.messages


def test_the_owner_of_a_part_is_the_subagent_that_made_it() -> None:
    """S-110"""
    transcript = reduced(rs(), ts("m1", subagent_run_id="sub"), cs("c1", subagent_run_id="sub"), ts("m2"))
    assert [part.subagent_run_id for part in transcript.messages[0].parts] == ["sub", "sub", None]


# -- what makes no difference, and what changes its kind ---------------------------------------------------------------


@pytest.mark.parametrize(
    "again",
    [
        ss({"a": {"b": [1]}}),
        sd(),
        sd({"op": "replace", "path": "/a", "value": {"b": [1]}}),
        sd({"op": "test", "path": "/a/b/0", "value": 1}),
        acs("p", {"n": {"m": 1}}),
        acd("p"),
        acd("p", {"op": "replace", "path": "/n", "value": {"m": 1}}),
    ],
    ids=["state", "no-patch", "same-value", "test", "activity", "activity-no-patch", "activity-same-value"],
)
def test_an_equal_value_is_no_new_one(again: Any) -> None:
    """S-145, S-113: the transcript is the same object."""
    reducer = TranscriptReducer()
    for event in [rs(), ss({"a": {"b": [1]}}), acs("p", {"n": {"m": 1}})]:
        reducer.accept(event)
    shown = reducer.transcript
    assert reducer.accept(again) is shown


@pytest.mark.parametrize("before", [text("a1", "x"), call("c1", parent="a1"), thought("a1", "x")])
def test_an_activity_takes_the_place_of_a_message_of_another_kind(before: list[BaseEvent]) -> None:
    """S-129, P-56: on screen as on the wire; with replace false neither changes, nor does what patches it then."""
    reducer, fold = TranscriptReducer(), Fold()
    for event in [rs(), *text("a0", "kept"), *before]:
        reducer.accept(event)
        fold.apply(event)  # type: ignore[arg-type]
    shown = reducer.transcript
    for event in [acs("a1", {"n": 1}, replace=False), acd("a1", {"op": "replace", "path": "/n", "value": 2})]:
        assert reducer.accept(event) is shown
    shown = reducer.accept(acs("a1", {"n": 1}))
    fold.apply(acs("a1", {"n": 1}))  # type: ignore[arg-type]
    assert [(part.message_id, type(part)) for message in shown.messages for part in message.parts] == [
        ("a0", TextPart),
        ("a1", ActivityPart),
    ]
    assert [(message.id, message.role) for message in fold.messages] == [("a0", "assistant"), ("a1", "activity")]
    assert not any(message.is_streaming for message in reducer.accept(rf()).messages)


def test_a_snapshot_makes_an_activity_a_message_of_another_kind() -> None:
    """S-135, S-136: it survives a snapshot without activities, unless its id is another message's there."""
    reducer = TranscriptReducer()
    for event in [rs(), acs("a1", {}), acs("a2", {})]:
        reducer.accept(event)
    shown = reducer.accept(ms(answered("a1", "yy")))
    assert [(message.id, message.role) for message in shown.messages] == [("a2", "activity"), ("a1", "assistant")]
