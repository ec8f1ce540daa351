"""Events into state and activities."""

from __future__ import annotations

from typing import Any

import pytest
from tests.agui.folding import (
    Folded,
    activity,
    assistant,
    call,
    change,
    cr,
    delta,
    ev,
    numbered,
    rs,
    tc,
    te,
    text,
    tool,
    ts,
    user,
    wire,
)

from handrail.agui._history import stopped_answer


@pytest.mark.parametrize("value", [None, False, 0, "", [], {"a": 1}])
def test_state_snapshot(value: Any) -> None:
    """P-54: a snapshot replaces the state by its value, whatever it is."""
    assert Folded(rs(), ev("STATE_SNAPSHOT", snapshot=value), state={"old": 1}).fold.state == value


def test_state_delta() -> None:
    """P-54: it starts from the input's state, absent reading as {}; tags make no difference."""
    add = {"op": "add", "path": "/b", "value": 2}
    assert Folded(rs(), delta(add, subagentRunId="s1"), state={"a": 1}).fold.state == {"a": 1, "b": 2}
    assert Folded(rs(), delta(add)).fold.state == {"b": 2}
    assert Folded().fold.state == {}


def test_state_delta_that_does_not_apply() -> None:
    """P-54: all or nothing; told with operation, path and reason; the run goes on."""
    folded = Folded(
        rs(), delta({"op": "add", "path": "/b", "value": 2}, {"op": "remove", "path": "/zz"}), state={"a": 1}
    )
    assert folded.fold.state == {"a": 1}
    record = folded.told[0]
    assert (record.code, record.path) == ("state-delta", "/delta/1")
    for word in ("Failed to apply state patch", "remove", "/zz", "no member"):
        assert word in record.message
    folded.go(delta({"op": "replace", "path": "/a", "value": 3}))
    assert folded.fold.state == {"a": 3}


def shown(name: str = "x1", content: Any = None, **fields: Any) -> dict[str, Any]:
    return {"id": name, "role": "activity", "activityType": "plan", "content": content or {}, **fields}


def test_activity_snapshot() -> None:
    """P-56: an unknown id appends, a known activity is replaced in place unless `replace` is false."""
    folded = Folded(
        rs(),
        activity("x1", {"n": 1}, subagentRunId="s1", replace=False, metadata={"a": 1}),
        text("m1", "x"),
        activity("x1", {"n": 2}, replace=False, activityType="other", metadata={"b": 2}),
    )
    assert folded.messages[0] == shown("x1", {"n": 1}, subagentRunId="s1", metadata={"a": 1, "b": 2})
    folded.go(activity("x1", {"n": 3}, activityType="other", metadata={"b": 3}))
    assert folded.messages[0] == shown("x1", {"n": 3}, activityType="other", metadata={"a": 1, "b": 3})
    assert folded.codes == []


def test_activity_snapshot_on_another_message() -> None:
    """P-56: a known other message is replaced in place unless `replace` is false; metadata merges all the same."""
    start = [user("u0"), assistant("a1", "x", ("c1", "")), user("u2")]
    folded = Folded(rs(), ts("a1"), activity("a1", {"n": 1}, replace=False, metadata={"k": 1}), start=start)
    assert folded.messages[1] == {**start[1], "metadata": {"k": 1}}
    folded.go(activity("a1", {"n": 1}), tc("a1", "lost"), te("a1"), cr("c1"))
    assert folded.messages == [start[0], shown("a1", {"n": 1}, metadata={"k": 1}), start[2], tool("t1", "c1")]
    assert folded.codes == ["result-without-call"]


def test_activity_snapshot_on_a_result() -> None:
    """P-56, P-62: a call whose result an activity has replaced has none any more, as the next request says too."""
    folded = Folded(rs(), call("c1", "{}"), cr("c1", "t1"), activity("t1", {"n": 1}))
    assert folded.ids == ["c1", "t1"]
    assert folded.fold.pending_tool_calls == ("c1",)
    assert [message.id for message in folded.fold.history(stopped_answer(numbered()))] == ["c1", "n1"]
    folded.go(cr("c1", "t2", "again"))
    assert folded.ids == ["c1", "t1", "t2"]
    assert folded.fold.pending_tool_calls == ()
    assert folded.codes == []


def test_activity_snapshot_on_an_answered_call() -> None:
    """P-56, P-62: the result of a call that an activity has replaced waits for the call, and is its own again."""
    folded = Folded(rs(), call("c1", "{}"), cr("c1", "t1"), activity("c1", {"n": 1}), call("c1", "{}"))
    assert folded.ids == ["c1", "t1", "c1#2"]
    assert folded.fold.pending_tool_calls == ()
    assert [message.id for message in folded.fold.history()] == ["c1#2", "t1"]


def test_activity_delta() -> None:
    """P-56: patched like the state, its type set; the content of the event stays as it was."""
    first = activity("x1", {"steps": []})
    folded = Folded(rs(), first, change("x1", {"op": "add", "path": "/steps/-", "value": "a"}, metadata={"k": 1}))
    before = folded.fold.messages
    folded.go(change("x1", {"op": "add", "path": "/steps/-", "value": "b"}, activityType="other"))
    assert folded.messages == [shown("x1", {"steps": ["a", "b"]}, activityType="other", metadata={"k": 1})]
    assert wire(before[0]) == shown("x1", {"steps": ["a"]}, metadata={"k": 1})
    assert first.content == {"steps": []}  # type: ignore[union-attr]


def test_activity_delta_that_does_not_apply() -> None:
    """P-56: on a missing or other message, or with a result that is no object, it is skipped with a warning."""
    folded = Folded(rs(), activity("x1", {"n": 1}), start=[user()])
    folded.go(
        change("zz", {"op": "add", "path": "/a", "value": 1}),
        change("u1", {"op": "add", "path": "/a", "value": 1}, metadata={"k": 1}),
        change("x1", {"op": "add", "path": "/a", "value": 1}, {"op": "replace", "path": "", "value": [1]}),
        change("x1", {"op": "remove", "path": "/zz"}, activityType="other"),
    )
    assert folded.messages == [user(), shown("x1", {"n": 1})]
    assert folded.codes == ["activity"] * 4
    assert [record.path for record in folded.told] == ["/messageId", "/messageId", "/patch/1", "/patch/0"]
