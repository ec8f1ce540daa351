"""Events into messages: the results of tool calls."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import Event
from tests.agui.folding import Folded, activity, assistant, ca, call, ce, cr, cs, ms, re_, rf, rs, text, tool, user


def test_place_of_a_result() -> None:
    """P-52, S-56: behind the message that owns the call and past the results there, whatever came since."""
    folded = Folded(
        rs(),
        text("m1", "x"),
        call("c1", parent="m1"),
        call("c2", parent="m1"),
        text("m2", "y"),
        cr("c2", "t2"),
        cr("c1", "t1", [{"type": "text", "text": "parts"}], subagentRunId="s1", metadata={"k": 1}),
    )
    assert folded.ids == ["m1", "t2", "t1", "m2"]
    assert folded.messages[2] == tool(
        "t1", "c1", [{"type": "text", "text": "parts"}], subagentRunId="s1", metadata={"k": 1}
    )
    assert folded.codes == []


def test_place_of_a_result_in_an_old_thread() -> None:
    """P-52: also behind a message of the input and past its results, and again after a reading."""
    start = [user(), assistant("a1", None, ("c1", ""), ("c2", ""), ("c3", "")), tool("t1", "c1"), user("u2")]
    folded = Folded(rs(), cr("c2", "t2"), start=start)
    assert folded.ids == ["u1", "a1", "t1", "t2", "u2"]
    folded.go(cr("c3", "t3"))
    assert folded.ids == ["u1", "a1", "t1", "t2", "t3", "u2"]


def test_second_result() -> None:
    """P-52, S-59: a second result replaces the first in place, under its own id."""
    folded = Folded(rs(), call("c1"), cr("c1", "t1"), call("c2", parent="c1"), cr("c2", "t2"), cr("c1", "t3", "new"))
    assert folded.messages[1:] == [tool("t3", "c1", "new"), tool("t2", "c2")]
    assert folded.codes == ["second-result"]


def test_the_id_of_a_replaced_result_is_free() -> None:
    """P-52: no message has it any more, so what comes under it is a message like any."""
    folded = Folded(rs(), call("c1"), cr("c1", "t1", "one"), cr("c1", "t2", "two"), text("t1", "x"))
    assert folded.messages[1:] == [tool("t2", "c1", "two"), assistant("t1", "x")]
    assert folded.codes == ["second-result"]
    folded.go(activity("t2"), text("t2", "y"))
    assert folded.ids == ["c1", "t2", "t1"]
    assert folded.codes == ["second-result", "message-kind"]


def test_result_without_call() -> None:
    """P-52, P-61: appended, and left out of the next request; a second one replaces it."""
    folded = Folded(rs(), text("m1", "x"), cr("zz", "t1"), cr("zz", "t1", "again"))
    assert folded.messages == [assistant("m1", "x"), tool("t1", "zz", "again")]
    assert folded.codes == ["result-without-call", "result-without-call", "second-result"]
    assert [message.id for message in folded.fold.history()] == ["m1"]


def test_result_before_end() -> None:
    """P-52: accepted, with a warning."""
    folded = Folded(rs(), cs("c1"), cr("c1"), ca("c1", "{}"), ce("c1"))
    assert folded.messages == [assistant("c1", None, ("c1", "{}")), tool("t1", "c1")]
    assert folded.codes == ["result-before-end"]


@pytest.mark.parametrize(
    ("events", "start"),
    [
        ([rs(), cr("c1")], []),
        ([rs(), ms(tool("t1", "c1"))], []),
        ([rs(input={"threadId": "t1", "runId": "r1", "messages": [tool("t1", "c1")]})], []),
        ([rs()], [tool("t1", "c1")]),
    ],
)
def test_result_before_its_call(events: list[Event], start: list[dict[str, Any]]) -> None:
    """P-52, P-62, P-65: a result that came before its call is the call's, by whatever way it came."""
    folded = Folded(events, call("c1", "{}"), start=start)
    assert folded.fold.pending_tool_calls == ()
    assert folded.fold.unanswered == ()
    assert [message.id for message in folded.fold.history()] == ["c1", "t1"]
    folded.go(cr("c1", "t2", "new"))
    assert folded.ids == ["t2", "c1"]
    assert folded.codes[-1] == "second-result"


def test_result_before_its_call_in_a_snapshot() -> None:
    """P-53, P-62: also where a snapshot or the input of a run brings the call."""
    for event in (
        ms(tool("t1", "c1", "done"), assistant("a1", None, ("c1", "{}"))),
        rs("r2", input={"threadId": "t1", "runId": "r2", "messages": [assistant("a1", None, ("c1", "{}"))]}),
    ):
        folded = Folded(rs(), cr("c1"), rf() if event.type == "RUN_STARTED" else [], event)
        assert folded.fold.unanswered == ()
        assert [message.id for message in folded.fold.history()] == ["a1", "t1"]


@pytest.mark.parametrize("pieces", [['{"b"', ":1}"], ['{"a"', ":2}"], [""]])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_result_within_another_call_of_a_known_id(pieces: list[str], at: int) -> None:
    """P-51, P-52: the id is used for another call, whose result comes before its end: it is that call's in the end."""
    stream: list[Event] = [ca("c1", piece) for piece in pieces]
    stream.insert(min(at, len(stream)), cr("c1", "t2", "two"))
    folded = Folded(rs(), call("c1", '{"a":1}'), cr("c1", "t1", "one"), rf(), rs("r2"), cs("c1"), stream, ce("c1"))
    assert folded.messages == [
        assistant("c1", None, ("c1", '{"a":1}')),
        tool("t1", "c1", "one"),
        assistant("c1#2", None, ("c1", "".join(pieces))),
        tool("t2", "c1", "two"),
    ]
    assert folded.fold.pending_tool_calls == ()
    assert "call-id-reused" in folded.codes


def test_result_within_a_replay() -> None:
    """P-51, P-52: a replay with its result gives the known call a second one; one that goes on keeps it."""
    known = [rs(), call("c1", "{}"), cr("c1", "t1"), rf(), rs("r2")]
    folded = Folded(*known, cs("c1"), ca("c1", "{"), cr("c1", "t2", "two"), cr("c1", "t3", "three"), ca("c1", "}"))
    folded.go(ce("c1"))
    assert folded.messages == [assistant("c1", None, ("c1", "{}")), tool("t3", "c1", "three")]
    assert folded.codes == ["second-result"] * 2
    more = Folded(rs(), call("c1", "{"), rf(), rs("r2"), cs("c1"), ca("c1", "}"), cr("c1", "t1"), ce("c1"))
    assert more.messages == [assistant("c1", None, ("c1", "{}")), tool("t1", "c1")]
    assert more.codes == ["result-before-end", "tool-call-reopened"]


def test_result_within_another_call_that_is_cut_off() -> None:
    """P-51, P-61: the answer to a known call stays its own when another call under its id never ends."""
    known = [rs(), call("c1", '{"a":1}'), cr("c1", "t1", "one"), rf(), rs("r2")]
    folded = Folded(*known, cs("c1"), ca("c1", '{"b"'), cr("c1", "t2", "two"), re_())
    assert [message.id for message in folded.fold.history()] == ["c1", "t1"]
    early = Folded(*known, cs("c1"), cr("c1", "t2", "two"), ca("c1", '{"b"'), re_())
    assert [message.id for message in early.fold.history()] == ["c1", "t1"]
    assert [message.id for message in Folded(*known, cs("c1"), cr("c1", "t2"), re_()).fold.history()] == ["c1", "t2"]
    renamed = Folded(rs(), call("c1", "{}"), rf(), rs("r2"), cs("c1", function="g"), cr("c1", "t2"), re_())
    assert [call.function.name for call in renamed.fold.unanswered] == ["f"]


def test_result_id_taken() -> None:
    """P-52: an id that another message has gets a suffix."""
    folded = Folded(rs(), call("c1"), call("c2"), cr("c1", "u1"), cr("c2", "u1"), start=[user()])
    assert folded.ids == ["u1", "c1", "u1#2", "c2", "u1#3"]
    assert folded.codes == ["message-kind", "message-kind"]
    assert "that of a message of role user" in folded.told[0].message
    two = Folded(rs(), call("c1"), call("c2"), cr("c1", "t1"), cr("c2", "t1"))
    assert two.ids == ["c1", "t1", "c2", "t1#2"]
    assert two.codes == ["message-id-reused"]
