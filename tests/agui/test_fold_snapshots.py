"""Events into messages: snapshots of them all."""

from __future__ import annotations

from typing import Any

import pytest
from tests.agui.folding import Folded, assistant, ca, call, ce, cr, cs, ev, ms, rf, rs, tc, te, text, tool, ts, user


def test_snapshot_reconciles() -> None:
    """P-53: known in place and wholesale, unknown appended in order, others dropped; of a repeated id the last."""
    start = [user(), assistant("a1", "old", encryptedValue="e"), user("u2"), assistant("gone", "x")]
    folded = Folded(
        rs(),
        ms(user("u9"), assistant("a1", "new"), user(), user("u2", "first"), assistant("b", "1"), user("u2", "last")),
        start=start,
    )
    assert folded.messages == [
        user(),
        assistant("a1", "new"),
        user("u2", "last"),
        user("u9"),
        assistant("b", "1"),
    ]
    assert folded.codes == []


@pytest.mark.parametrize("role", ["activity", "reasoning"])
def test_snapshot_without_activities_or_reasoning(role: str) -> None:
    """P-53: activities stay if the snapshot holds no activity, reasoning if it holds no reasoning."""
    both: dict[str, dict[str, Any]] = {
        "activity": {"id": "x1", "role": "activity", "activityType": "plan", "content": {}},
        "reasoning": {"id": "x2", "role": "reasoning", "content": "why"},
    }
    start = [both["activity"], user(), both["reasoning"], assistant("a1", "x")]
    assert Folded(rs(), ms(user()), start=start).ids == ["x1", "u1", "x2"]
    other = {**both[role], "id": "x9"}
    kept = [message["id"] for message in both.values() if message["role"] != role]
    assert sorted(Folded(rs(), ms(user(), other), start=start).ids) == sorted(["u1", "x9", *kept])


def test_snapshot_drops_a_turn() -> None:
    """P-53: a user message that is left out is told."""
    folded = Folded(rs(), ms(user("u2")), start=[user("u1"), user("u2")])
    assert folded.ids == ["u2"]
    assert folded.codes == ["snapshot-dropped-turn"]
    assert "'u1'" in folded.told[0].message


def test_snapshot_drops_what_is_open() -> None:
    """P-53: what is open and left out is told, and what comes later for it is skipped."""
    folded = Folded(
        rs(),
        text("m0", "x"),
        ts("m1"),
        tc("m1", "a"),
        cs("c1", "m0"),
        ev("REASONING_MESSAGE_START", messageId="g1", role="reasoning"),
        ms(user("u9"), {"id": "g9", "role": "reasoning", "content": ""}),
        tc("m1", "b"),
        te("m1"),
        ca("c1", "{}"),
        ce("c1"),
        ev("REASONING_MESSAGE_CONTENT", messageId="g1", delta="x"),
        ev("REASONING_MESSAGE_END", messageId="g1"),
        rf(),
    )
    assert folded.ids == ["u9", "g9"]
    assert folded.codes == ["snapshot-dropped-open"] * 3
    assert folded.fold.pending_tool_calls == ()


def test_snapshot_keeps_what_is_open() -> None:
    """P-53: what is open and named goes on with what the snapshot says, and is nobody else's text."""
    folded = Folded(
        rs(),
        ts("m1"),
        tc("m1", "a"),
        cs("c1", "m1"),
        ca("c1", "x"),
        ms(assistant("m1", "A", ("c1", "X"))),
        tc("m1", "b"),
        ca("c1", "y"),
        te("m1"),
        ce("c1"),
        call("c1", "z"),
        cr("c1"),
    )
    assert folded.messages == [assistant("m1", "Ab", ("c1", "Xyz")), tool("t1", "c1")]
    assert folded.codes == ["tool-call-reopened"]


def test_snapshot_brings_calls_and_results() -> None:
    """P-53, P-52: what a snapshot brings is known like anything else."""
    folded = Folded(rs(), ms(assistant("a1", None, ("c1", "{}"), ("c2", "{}")), tool("t1", "c1"), assistant("a2", "x")))
    folded.go(cr("c2", "t2"), call("c1", "{}"), text("a2", "y"))
    assert folded.ids == ["a1", "t1", "t2", "a2"]
    assert folded.codes == ["message-id-reused"]
