"""The status of a call, from its first argument to its answer."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import BaseEvent, TextPart
from tests.transcript.events import (
    answered,
    asks,
    ca,
    call,
    ce,
    cr,
    cs,
    error,
    ms,
    question,
    result,
    rf,
    rfx,
    rs,
    said,
    text,
)
from tests.transcript.reading import calls, reduced

from handrail.transcript import Failed, ToolCallPart, Transcript, TranscriptReducer


def status(transcript: Transcript, call_id: str = "c1") -> str:
    return calls(transcript)[call_id].status


def test_the_table_of_statuses() -> None:
    """Section 12, row by row: streaming_arguments, awaiting_result, running, complete."""
    reducer = TranscriptReducer()
    assert status(reduced(rs(), cs("c1"), start=reducer)) == "streaming_arguments"
    assert not calls(reduced(ca("c1", '{"n":1}'), start=reducer))["c1"].arguments_complete
    waiting = calls(reduced(ce("c1"), start=reducer))["c1"]
    assert (waiting.status, waiting.arguments_complete, waiting.arguments) == ("awaiting_result", True, '{"n":1}')
    assert status(reduced(rf(), start=reducer)) == "awaiting_result"
    reducer.run_tool("c1")
    assert status(reducer.transcript) == "running"
    reducer.answer(result("t1", "c1", "10"))
    done = calls(reducer.transcript)["c1"]
    assert (done.status, done.result, done.error, done.local) == ("complete", "10", None, True)


@pytest.mark.parametrize(
    ("end", "shown"),
    [(error("down", "X"), "down"), (rfx(), None), (rf(), None)],
)
def test_arguments_cut_off_by_the_end_of_the_run(end: BaseEvent, shown: str | None) -> None:
    """Section 12: streaming_arguments fails however the run ends, with what the run said about it."""
    part = calls(reduced(rs(), cs("c1"), ca("c1", '{"n"'), end))["c1"]
    assert (part.status, part.error, part.arguments_complete) == ("failed", shown, False)
    assert part.parsed_arguments is None


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (rf(), ("awaiting_result", None)),
        (rfx(), ("failed", None)),
        (error("down"), ("failed", "down")),
        (Failed("cut off", "CLIENT_ERROR"), ("failed", "cut off")),
    ],
)
def test_an_unanswered_call_at_the_end_of_its_run(end: Any, expected: tuple[str, str | None]) -> None:
    """S-120: after success it waits on; else nobody will answer it."""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1"), start=reducer)
    if isinstance(end, Failed):
        reducer.end(end)
    else:
        reducer.accept(end)
    part = calls(reducer.transcript)["c1"]
    assert (part.status, part.error) == expected


@pytest.mark.parametrize(
    ("arguments", "parsed"),
    [("", {}), ("  ", {}), ('{"a": 1}', {"a": 1}), ("[1]", [1]), ("{nope", None), ("NaN", None)],
)
def test_arguments_are_parsed_once_when_they_are_complete(arguments: str, parsed: Any) -> None:
    """S-121"""
    reducer = TranscriptReducer()
    assert calls(reduced(rs(), cs("c1"), ca("c1", arguments), start=reducer))["c1"].parsed_arguments is None
    assert calls(reduced(ce("c1"), start=reducer))["c1"].parsed_arguments == parsed


def test_a_result_that_comes_before_the_arguments_end() -> None:
    """S-120: it is kept, and shown complete at the end of the arguments."""
    reducer = TranscriptReducer()
    part = calls(reduced(rs(), cs("c1"), cr("c1", "early"), start=reducer))["c1"]
    assert (part.status, part.result) == ("streaming_arguments", "early")
    assert status(reduced(ce("c1"), start=reducer)) == "complete"


def test_a_later_result_clears_an_error() -> None:
    """S-120: any status becomes complete by a result; a later start releases nothing by itself."""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1"), error("down"), rs("r2"), start=reducer)
    assert status(reducer.transcript) == "failed"
    part = calls(reduced(cr("c1", "after all"), start=reducer))["c1"]
    assert (part.status, part.error, part.result, part.local) == ("complete", None, "after all", False)


def test_a_second_result_replaces_the_first() -> None:
    """S-59"""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1"), cr("c1", "one"), start=reducer)
    once = reducer.transcript
    assert reducer.accept(cr("c1", "one")) is once
    assert calls(reducer.accept(cr("c1", "two")))["c1"].result == "two"


def test_a_result_made_of_parts_is_kept_as_it_is() -> None:
    """Section 10: text, or the content parts the tool gave."""
    parts = [TextPart(type="text", text="10 x 20")]
    assert calls(reduced(rs(), call("c1"), cr("c1", parts)))["c1"].result == tuple(parts)


def test_a_failure_is_never_shown_as_success() -> None:
    """S-122: local errors, denials, and the mark that a handrail server puts on a failed result."""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1"), call("c2"), call("c3"), rf(), start=reducer)
    reducer.answer(result("t1", "c1", "Tool execution failed: ValueError: no", error="no"))
    reducer.answer(result("t2", "c2", "Denied by the user", error="Denied by the user"), denied=True)
    reduced(rs("r2"), cr("c3", "ValueError: no", metadata={"handrail.error": True}), start=reducer)
    shown = calls(reducer.transcript)
    assert [(part.status, part.error) for part in shown.values()] == [
        ("failed", "no"),
        ("denied", "Denied by the user"),
        ("failed", "ValueError: no"),
    ]
    assert [part.local for part in shown.values()] == [True, True, False]


def test_a_result_for_a_call_that_nobody_made() -> None:
    """S-55: a part with an empty name, complete, in the open turn."""
    transcript = reduced(rs(), text("m1", "a"), cr("c9", "stray"), rf())
    part = transcript.messages[0].parts[1]
    assert isinstance(part, ToolCallPart)
    assert (part.name, part.status, part.result, part.tool_call_id) == ("", "complete", "stray", "c9")


# -- questions ---------------------------------------------------------------------------------------------------------


def test_a_question_holds_the_calls_it_names_and_an_answer_releases_them() -> None:
    """S-81, S-101: one that names no call holds every unanswered call of its run; an answered one stays complete."""
    named, unnamed = TranscriptReducer(), TranscriptReducer()
    events = [rs(), *call("c1"), *call("c2"), *call("c3"), cr("c3")]
    reduced(*events, asks("r1", question("i1", "c1"), question("i2", "unknown")), start=named)
    reduced(*events, asks("r1", question("i1")), start=unnamed)
    assert [part.status for part in calls(named.transcript).values()] == [
        "awaiting_approval",
        "awaiting_result",
        "complete",
    ]
    assert [part.status for part in calls(unnamed.transcript).values()] == [
        "awaiting_approval",
        "awaiting_approval",
        "complete",
    ]
    unnamed.hold(["c2"], {})
    assert [part.status for part in calls(unnamed.transcript).values()] == [
        "awaiting_result",
        "awaiting_approval",
        "complete",
    ]


def test_approval_follows_the_pending_list_and_not_the_order_of_events() -> None:
    """S-102: failed resumes change nothing, whether they reached RUN_STARTED or not."""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1"), asks("r1", question("i1", "c1")), error("down"), start=reducer)
    assert status(reducer.transcript) == "awaiting_approval"
    reduced(rs("r2"), error("down"), start=reducer)
    assert status(reducer.transcript) == "awaiting_approval"
    reduced(rs("r3"), start=reducer)
    assert status(reducer.transcript) == "awaiting_approval"
    reducer.accept(rf("r3"))
    reducer.hold([], {})
    assert status(reducer.transcript) == "awaiting_result"


@pytest.mark.parametrize("server_says", [None, "not sent"])
def test_a_denied_call_ends_denied(server_says: str | None) -> None:
    """S-104: with the server's text, or with ours where it stays silent; only when the answer was consumed."""
    reducer = TranscriptReducer()
    denial = "Denied by the user: too dear"
    reduced(rs(), call("c1"), asks("r1", question("i1", "c1")), start=reducer)
    reducer.hold(["c1"], {"c1": denial})
    assert status(reducer.transcript) == "awaiting_approval"
    reduced(rs("r2"), cr("c1", server_says) if server_says else [], rf("r2"), start=reducer)
    reducer.hold([], {"c1": denial})
    part = calls(reducer.transcript)["c1"]
    assert (part.status, part.result, part.error) == ("denied", server_says or denial, denial)
    reduced(rs("r3"), ms(answered("c1", None, ("c1", "{}")), result("t1", "c1", part.result)), rf("r3"), start=reducer)
    assert status(reducer.transcript) == "denied"


def test_a_snapshot_may_bring_the_result_of_a_denied_call() -> None:
    """S-104"""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1"), asks("r1", question("i1", "c1")), start=reducer)
    reducer.hold(["c1"], {"c1": "Denied by the user"})
    reduced(rs("r2"), ms(answered("c1", None, ("c1", "{}")), result("t1", "c1", "refused")), start=reducer)
    part = calls(reducer.transcript)["c1"]
    assert (part.status, part.result, part.error) == ("denied", "refused", "Denied by the user")
    shown = reducer.transcript
    again = ms(answered("c1", None, ("c1", "{}")), result("t1", "c1", "refused"))
    assert reducer.accept(again) is shown


def test_a_result_of_a_later_run_reaches_the_call() -> None:
    """S-103"""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1", parent="a1"), asks("r1", question("i1", "c1")), rs("r2"), cr("c1", "sent"), start=reducer)
    assert [len(message.parts) for message in reducer.transcript.messages] == [1]
    assert status(reducer.transcript) == "complete"


# -- the same id again -------------------------------------------------------------------------------------------------


def test_an_equal_replay_in_a_later_run_changes_nothing() -> None:
    """S-132: status and result stay, and nothing changes while it streams."""
    reducer = TranscriptReducer()
    before = reduced(rs(), call("c1", '{"n":1}'), cr("c1"), rf(), start=reducer).messages
    reducer.accept(rs("r2"))
    for event in call("c1", '{"n":1}'):
        assert reducer.accept(event).messages == before
    assert reducer.accept(rf("r2")).messages[0] is before[0]


def test_other_arguments_for_an_unanswered_call_append() -> None:
    """S-132"""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1", '{"n":'), rf(), rs("r2"), cs("c1"), ca("c1", "1}"), start=reducer)
    assert calls(reducer.transcript)["c1"].arguments == '{"n":'
    part = calls(reduced(ce("c1"), start=reducer))["c1"]
    assert (part.arguments, part.parsed_arguments, part.status) == ('{"n":1}', {"n": 1}, "awaiting_result")


@pytest.mark.parametrize("again", [call("c1", '{"n":2}'), call("c1", '{"n":1}', name="other")])
def test_an_answered_id_used_again_is_a_new_call(again: list[BaseEvent]) -> None:
    """S-133: two parts, the first complete and unchanged; results go to the latest."""
    reducer = TranscriptReducer()
    first = reduced(rs(), call("c1", '{"n":1}', parent="a1"), cr("c1", "one"), rf(), start=reducer)
    shown = calls(reduced(rs("r2"), again, start=reducer))
    assert shown["c1"] is first.messages[0].parts[0]
    assert shown["c1#2"].status == "awaiting_result"
    assert len(reducer.transcript.messages) == 2
    shown = calls(reduced(cr("c1", "two"), rf("r2"), start=reducer))
    assert (shown["c1"].result, shown["c1#2"].result) == ("one", "two")


def test_a_call_started_again_in_one_run_goes_on() -> None:
    """S-134: its arguments append, and it stays one call."""
    reducer = TranscriptReducer()
    reduced(rs(), call("c1", '{"n":'), cs("c1"), start=reducer)
    assert status(reducer.transcript) == "streaming_arguments"
    part = calls(reduced(ca("c1", "1}"), ce("c1"), rf(), start=reducer))["c1"]
    assert (part.arguments, part.parsed_arguments, part.status) == ('{"n":1}', {"n": 1}, "awaiting_result")


def test_a_call_answered_and_started_again_in_one_run_keeps_its_result() -> None:
    """S-134, S-120"""
    part = calls(reduced(rs(), call("c1", "{"), cr("c1"), cs("c1"), ca("c1", "}"), ce("c1"), rf()))["c1"]
    assert (part.arguments, part.status, part.result) == ("{}", "complete", "found")


def test_facts_about_calls_that_are_not_there_change_nothing() -> None:
    """S-124"""
    reducer = TranscriptReducer()
    reducer.add_turn(said("u1", "hi"))
    before = reducer.transcript
    reducer.run_tool("nobody")
    reducer.hold(["nobody"], {"nobody": "Denied by the user"})
    assert reducer.transcript is before


def test_a_call_that_was_cut_off_starts_over() -> None:
    """S-132, P-51: of a call that an earlier run was cut off in, what the later run says is what is shown."""
    for pieces in (["{}"], ["{"], []):
        reducer = TranscriptReducer()
        reduced(rs(), cs("c1"), *(ca("c1", piece) for piece in pieces), error("down"), start=reducer)
        part = calls(reduced(rs("r2"), cs("c1"), start=reducer))["c1"]
        assert (part.status, part.arguments, part.error) == ("streaming_arguments", "", None)
        part = calls(reduced(ca("c1", "{}"), ce("c1"), rf("r2"), start=reducer))["c1"]
        assert (part.status, part.arguments, part.parsed_arguments) == ("awaiting_result", "{}", {})


@pytest.mark.parametrize("run", ["r1", "r2"])
def test_a_call_that_comes_after_its_result_takes_it(run: str) -> None:
    """P-52, S-55: the part that the result made becomes the call's, in the same run and in a later one."""
    between = [rf(), rs("r2")] if run == "r2" else []
    shown = calls(reduced(rs(), cr("c1", "10"), between, cs("c1", "look"), ca("c1", "{}"), ce("c1"), rf(run)))
    assert list(shown) == ["c1"]
    part = shown["c1"]
    assert (part.name, part.arguments, part.result, part.status) == ("look", "{}", "10", "complete")


@pytest.mark.parametrize("at", [0, 1])
def test_a_result_within_a_replay_is_for_what_that_turns_out_to_be(at: int) -> None:
    """S-133, P-51: before its end, the result of another call under a known id is not written to the known one."""
    known = [rs(), call("c1", '{"n":1}'), cr("c1", "one"), rf(), rs("r2"), cs("c1")]
    stream: list[BaseEvent] = [ca("c1", '{"n":2}')]
    stream.insert(at, cr("c1", "two"))
    shown = calls(reduced(*known, stream, ce("c1"), rf("r2")))
    assert [(part.arguments, part.result, part.status) for part in shown.values()] == [
        ('{"n":1}', "one", "complete"),
        ('{"n":2}', "two", "complete"),
    ]
    again = calls(reduced(*known, ca("c1", '{"n"'), cr("c1", "two"), ca("c1", ":1}"), ce("c1")))
    assert [part.result for part in again.values()] == ["two"]
    cut = calls(reduced(*known, stream, error("down")))
    assert cut["c1"].result == "one"
    assert (cut["c1#2"].status, cut["c1#2"].result) == ("failed", "two")
