"""Events into messages: tool calls, and calls that come again."""

from __future__ import annotations

import pytest
from tests.agui.folding import Folded, assistant, ca, call, ce, cr, cs, ms, re_, rf, rs, text, tool, user, wire


def test_call_on_its_parent() -> None:
    """P-50: (2) attached to the assistant message it names, anywhere; arguments append."""
    folded = Folded(rs(), call("c1", '{"n"', ": 1}", parent="a0"), start=[assistant("a0", "old"), user()])
    assert folded.messages == [assistant("a0", "old", ("c1", '{"n": 1}')), user()]
    assert folded.codes == []


@pytest.mark.parametrize(
    ("parent", "carrier", "codes"), [("u1", "c1", ["message-kind"]), ("new", "new", []), (None, "c1", [])]
)
def test_call_without_its_parent(parent: str | None, carrier: str, codes: list[str]) -> None:
    """P-50: (3) another role, (4) unknown, (5) absent: a new assistant message, its id the call's or the parent's."""
    folded = Folded(rs(), call("c1", "{}", parent=parent), start=[user()])
    assert folded.messages == [user(), assistant(carrier, None, ("c1", "{}"))]
    assert folded.codes == codes


def test_calls_that_share_a_parent() -> None:
    """P-50: a parent made by the first call takes the second and the text."""
    folded = Folded(rs(), call("c1", parent="m"), call("c2", parent="m"), text("m", "so"), call("c3"))
    assert folded.ids == ["m", "c3"]
    assert folded.messages[0] == assistant("m", "so", ("c1", ""), ("c2", ""))


def test_call_id_taken_by_a_message() -> None:
    """P-50: the id of a new message is one that no other message has."""
    folded = Folded(rs(), call("u1", "{}"), start=[user()])
    assert folded.ids == ["u1", "u1#2"]


def test_call_restarted_in_its_run() -> None:
    """P-50, P-51: (1) renamed, metadata merged, nothing added; the arguments append."""
    folded = Folded(rs(), call("c1", "ab"), call("c1", "cd", function="g", parent="other"))
    assert folded.messages == [
        {
            "id": "c1",
            "role": "assistant",
            "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "g", "arguments": "abcd"}}],
        }
    ]
    assert folded.codes == ["tool-call-reopened", "call-renamed"]


def test_replay_of_a_call() -> None:
    """P-51: equal arguments of a call known from before this run change nothing, answered or not."""
    start = [user(), assistant("a1", None, ("c1", '{"n":1}'), ("c2", "")), tool("t1", "c1"), user("u2")]
    folded = Folded(rs(), call("c1", '{"n"', ":1}", parent="a1"), call("c2"), start=start)
    assert folded.messages == start
    assert folded.codes == []
    again = Folded(rs(), call("c1", "{}"), rf(), rs("r2"), cs("c1"), ca("c1", "{"))
    assert again.messages == [assistant("c1", None, ("c1", "{}"))]
    again.go(ca("c1", "}"), ce("c1"), rf("r2"))
    assert again.messages == [assistant("c1", None, ("c1", "{}"))]
    assert again.codes == []


def test_unanswered_call_goes_on_in_another_run() -> None:
    """P-51: different arguments append if the call is unanswered."""
    folded = Folded(rs(), call("c1", '{"n":'), rf(), rs("r2"), call("c1", "1}"), call("c1", " "))
    assert folded.messages == [assistant("c1", None, ("c1", '{"n":1} '))]
    assert folded.codes == ["tool-call-reopened", "tool-call-reopened"]


def test_call_id_of_an_answered_call() -> None:
    """P-51: of an answered call, or under another name, it is a new call in a new message; results go to the latest."""
    folded = Folded(rs(), call("c1", '{"n":1}'), cr("c1"), rf(), rs("r2"), call("c1", '{"n":2}'))
    assert folded.messages == [
        assistant("c1", None, ("c1", '{"n":1}')),
        tool("t1", "c1"),
        assistant("c1#2", None, ("c1", '{"n":2}')),
    ]
    assert folded.codes == ["call-id-reused"]
    assert folded.fold.pending_tool_calls == ("c1",)
    folded.go(cr("c1", "t2", "two"), rf("r2"))
    assert folded.messages[-1] == tool("t2", "c1", "two")
    assert folded.fold.pending_tool_calls == ()
    renamed = Folded(
        rs(), call("c1", "{}"), rf(), rs("r2"), text("m2", "hm"), call("c1", "{}", function="g", parent="m2")
    )
    assert renamed.ids == ["c1", "m2", "c1#2"]
    assert renamed.codes == ["call-id-reused"]


@pytest.mark.parametrize(
    ("known", "again", "is_another"),
    [
        ("{}", ["{", "}"], False),  # it repeats itself
        ('{"n":', ["1}"], False),  # it goes on
        ('{"n":1}', ['{"n":', "2}"], True),
    ],
)
def test_metadata_of_a_call_that_comes_again(known: str, again: list[str], is_another: bool) -> None:
    """P-51, P-58: it goes to what the call turns out to be, and to nothing before that is known."""
    folded = Folded(rs(), cs("c1", metadata={"a": 1, "b": 1}), ca("c1", known), ce("c1"))
    folded.go(cr("c1") if is_another else [], rf(), rs("r2"))
    before = folded.messages
    folded.go(cs("c1", metadata={"b": 2}), *(ca("c1", piece, metadata={"c": piece}) for piece in again))
    assert folded.messages == before
    folded.go(ce("c1", metadata={"d": 4}))
    brought = {"b": 2, "c": again[-1], "d": 4}
    calls = [call for message in folded.messages for call in message.get("toolCalls", ())]
    if is_another:
        assert [call["metadata"] for call in calls] == [{"a": 1, "b": 1}, brought]
    else:
        assert [call["metadata"] for call in calls] == [{"a": 1} | brought]


def test_call_cut_off_starts_over() -> None:
    """P-51, P-61, P-65: what a failed run said of a call that never ended is replaced by what the next run says."""
    for cut in ([], ["{}"], ['{"n": 9']):
        folded = Folded(rs(), cs("c1", function="g"), *(ca("c1", piece) for piece in cut), re_())
        assert folded.fold.unanswered == ()
        folded.go(rs("r2"), call("c1", "{", "}"), rf("r2"))
        assert folded.messages == [assistant("c1", None, ("c1", "{}"))]
        assert folded.codes == ["tool-call-reopened", "call-renamed"]
        assert folded.fold.pending_tool_calls == ("c1",)
        assert [call.function.arguments for call in folded.fold.unanswered] == ["{}"]
        assert [wire(message) for message in folded.fold.history()] == folded.messages


def test_call_cut_off_once_more() -> None:
    """P-51, P-58: a call that is cut off again is not complete; what was said beside its arguments is kept."""
    folded = Folded(
        rs(), cs("c1", metadata={"a": 1}), ca("c1", "x"), re_(), rs("r2"), cs("c1", metadata={"b": 2}), re_()
    )
    assert folded.messages[0]["toolCalls"][0]["metadata"] == {"a": 1, "b": 2}
    assert folded.fold.unanswered == ()
    assert folded.fold.history() == ()
    folded.go(rs("r3"), call("c1", "{}"), call("c1", " "), rf("r3"))
    assert folded.messages[0]["toolCalls"][0]["function"]["arguments"] == "{} "


def test_call_cut_off_but_answered() -> None:
    """P-51, P-52: an answered call never starts over: the same again completes it, other arguments are another call."""
    cut = [rs(), cs("c1"), ca("c1", "{}"), cr("c1", "t1"), re_(), rs("r2")]
    same = Folded(*cut, call("c1", "{}"), rf("r2"))
    assert [message.id for message in same.fold.history()] == ["c1", "t1"]
    assert same.fold.pending_tool_calls == ()
    other = Folded(*cut, call("c1", "[]"), rf("r2"))
    assert other.codes == ["result-before-end", "call-id-reused"]
    assert other.fold.pending_tool_calls == ("c1",)
    assert [message.id for message in other.fold.history()] == ["c1#2"]


def test_snapshot_completes_a_call_that_was_cut_off() -> None:
    """P-53, P-61: a call in a snapshot is whole, unless its arguments are arriving right now."""
    whole = ms(user(), assistant("c1", None, ("c1", "{}")), tool("t1", "c1"), assistant("a1", "so"))
    folded = Folded(rs(), cs("c1"), ca("c1", "{"), re_(), rs("r2"), whole, rf("r2"), start=[user()])
    assert [message.id for message in folded.fold.history()] == ["u1", "c1", "t1", "a1"]
    unanswered = Folded(rs(), cs("c1"), re_(), rs("r2"), ms(user(), assistant("c1", None, ("c1", "{}"))), rf("r2"))
    assert [call.id for call in unanswered.fold.unanswered] == ["c1"]
    again = Folded(rs(), cs("c1"), re_(), rs("r2"), cs("c1"), ms(assistant("c1", None, ("c1", "{"))))
    assert again.fold.unanswered == ()
    assert again.fold.history() == ()
    again.go(ca("c1", "}"), ce("c1"))
    assert [call.function.arguments for call in again.fold.unanswered] == ["{}"]


def test_replay_cut_off() -> None:
    """P-51: a replay whose arguments never ended leaves the known call as it was."""
    folded = Folded(rs(), call("c1", "{}"), rf(), rs("r2"), cs("c1", function="g"), ca("c1", "x"), re_())
    assert folded.messages == [assistant("c1", None, ("c1", "{}"))]
    assert [call.id for call in folded.fold.unanswered] == ["c1"]
