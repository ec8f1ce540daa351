"""The messages of the next request."""

from __future__ import annotations

from tests.agui.folding import (
    Folded,
    activity,
    assistant,
    ca,
    call,
    cr,
    cs,
    numbered,
    re_,
    rf,
    rs,
    tc,
    text,
    tool,
    ts,
    user,
    wire,
)

from handrail.agui._history import stopped_answer


def test_history_leaves_out() -> None:
    """P-61: no activities, no calls whose arguments never ended, nor the messages left empty thereby."""
    folded = Folded(
        rs(),
        activity("x1"),
        text("m1", "part"),
        cs("c1", "m1"),
        ca("c1", '{"a'),
        cs("c2"),
        ts("m2"),
        tc("m2", "half"),
        re_(),
        start=[user()],
    )
    assert [wire(message) for message in folded.fold.history(stopped_answer(numbered()))] == [
        user(),
        assistant("m1", "part"),
        assistant("m2", "half"),
    ]


def test_history_after_a_failure() -> None:
    """P-61: each complete unanswered call is followed by a tool message with `error`."""
    folded = Folded(
        rs(), text("m1", "x"), call("c1", parent="m1"), call("c2", parent="m1"), cr("c2"), text("m2"), re_()
    )
    sent = [wire(message) for message in folded.fold.history(stopped_answer(numbered()))]
    assert [message["id"] for message in sent] == ["m1", "t1", "n1", "m2"]
    assert sent[2]["toolCallId"] == "c1"
    assert "stopped before" in sent[2]["content"]
    assert sent[2]["error"]
    assert len(folded.messages) == 3


def test_history_after_a_finished_run() -> None:
    """P-61: an unanswered call stays unanswered; ids and equal texts stay as they came."""
    folded = Folded(rs(), text("m1", "x"), text("m2", "x"), call("c1"), rf(), start=[user("u1"), user("u2")])
    assert [message.id for message in folded.fold.history()] == ["u1", "u2", "m1", "m2", "c1"]


def test_history_puts_results_in_place() -> None:
    """P-61, S-56, S-59: behind their calls, one for each call, the latest call owning a shared id."""
    start = [
        tool("t0", "c1"),
        user(),
        assistant("a1", None, ("c1", "1"), ("c2", "")),
        tool("t1", "c1"),
        tool("t2", "c1", "last"),
        user("u2"),
        tool("t3", "c2"),
        assistant("a2", None, ("c1", "2")),
        user("u3"),
    ]
    ids = [message.id for message in Folded(start=start).fold.history()]
    assert ids == ["u1", "a1", "t2", "t3", "u2", "a2", "t0", "u3"]
