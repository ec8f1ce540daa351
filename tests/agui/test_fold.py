"""Events into messages and state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from ag_ui.core import Event, Message
from hypothesis import given
from pydantic import TypeAdapter
from tests.agui.counting import calls
from tests.agui.effort import effort
from tests.agui.streams import legal_streams

from handrail.agui._fold import Fold
from handrail.agui._history import stopped_answer
from handrail.agui._text import mend
from handrail.agui._warnings import WarningRecord

EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


def ev(kind: str, **fields: Any) -> Event:
    return EVENTS.validate_python({"type": kind, **fields})


def rs(run_id: str = "r1", **fields: Any) -> Event:
    return ev("RUN_STARTED", threadId="t1", runId=run_id, **fields)


def rf(run_id: str = "r1", **fields: Any) -> Event:
    return ev("RUN_FINISHED", threadId="t1", runId=run_id, **fields)


def re_() -> Event:
    return ev("RUN_ERROR", message="boom")


def ts(name: str, /, **fields: Any) -> Event:
    return ev("TEXT_MESSAGE_START", messageId=name, **fields)


def tc(name: str, delta: str, /, **fields: Any) -> Event:
    return ev("TEXT_MESSAGE_CONTENT", messageId=name, delta=delta, **fields)


def te(name: str, /, **fields: Any) -> Event:
    return ev("TEXT_MESSAGE_END", messageId=name, **fields)


def text(name: str, /, *deltas: str, **fields: Any) -> list[Event]:
    return [ts(name, **fields), *(tc(name, delta) for delta in deltas), te(name)]


def cs(name: str, parent: str | None = None, function: str = "f", **fields: Any) -> Event:
    if parent is not None:
        fields["parentMessageId"] = parent
    return ev("TOOL_CALL_START", toolCallId=name, toolCallName=function, **fields)


def ca(name: str, delta: str, **fields: Any) -> Event:
    return ev("TOOL_CALL_ARGS", toolCallId=name, delta=delta, **fields)


def ce(name: str, **fields: Any) -> Event:
    return ev("TOOL_CALL_END", toolCallId=name, **fields)


def call(name: str, *deltas: str, parent: str | None = None, function: str = "f") -> list[Event]:
    return [cs(name, parent, function), *(ca(name, delta) for delta in deltas), ce(name)]


def cr(name: str, message: str = "t1", content: Any = "done", **fields: Any) -> Event:
    return ev("TOOL_CALL_RESULT", messageId=message, toolCallId=name, content=content, **fields)


def thought(name: str, *deltas: str, **fields: Any) -> list[Event]:
    return [
        ev("REASONING_MESSAGE_START", messageId=name, role="reasoning", **fields),
        *(ev("REASONING_MESSAGE_CONTENT", messageId=name, delta=delta) for delta in deltas),
        ev("REASONING_MESSAGE_END", messageId=name),
    ]


def ms(*messages: dict[str, Any]) -> Event:
    return ev("MESSAGES_SNAPSHOT", messages=list(messages))


def user(name: str = "u1", content: Any = "hi", **fields: Any) -> dict[str, Any]:
    return {"id": name, "role": "user", "content": content, **fields}


def assistant(name: str, content: str | None = None, *calls: tuple[str, str], **fields: Any) -> dict[str, Any]:
    made = [
        {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}
        for call_id, arguments in calls
    ]
    return {
        "id": name,
        "role": "assistant",
        **({"content": content} if content is not None else {}),
        **({"toolCalls": made} if made else {}),
        **fields,
    }


def tool(name: str, call_id: str, content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"id": name, "role": "tool", "toolCallId": call_id, "content": content, **fields}


class Folded:
    """A fold, with what it told on the way; `messages` in the wire's shape, nothing made up."""

    def __init__(self, *events: Event | list[Event], start: list[dict[str, Any]] | None = None, state: Any = None):
        self.told: list[WarningRecord] = []
        self.fold = Fold(MESSAGES.validate_python(start or []), state, warn=self.told.append)
        self.go(*events)

    def go(self, *events: Event | list[Event]) -> Folded:
        for event in events:
            for one in event if isinstance(event, list) else [event]:
                self.fold.apply(one)
        return self

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [wire(message) for message in self.fold.messages]

    @property
    def ids(self) -> list[str]:
        return [message.id for message in self.fold.messages]

    @property
    def codes(self) -> list[str]:
        return [record.code for record in self.told]


def wire(message: Message) -> dict[str, Any]:
    return message.model_dump(by_alias=True, exclude_unset=True, mode="json")


# -- text and reasoning ----------------------------------------------------------------------------------------------


def test_text() -> None:
    """P-48: an unknown id appends, with role, name and owner when given; content grows."""
    folded = Folded(rs(), text("m1", "Hel", "", "lo"), text("m2", role="user", name="Ann", subagentRunId="s1"))
    assert folded.messages == [
        {"id": "m1", "role": "assistant", "content": "Hello"},
        {"id": "m2", "role": "user", "content": "", "name": "Ann", "subagentRunId": "s1"},
    ]
    assert folded.codes == []


def test_text_of_a_known_message() -> None:
    """P-48: a known one is used where it stands, its role, name and owner untouched; content is created."""
    start = [user(), assistant("a1", None, ("c1", "{}")), user("u2")]
    folded = Folded(
        rs(),
        text("u1", "!", role="assistant", name="X", subagentRunId="s1"),
        text("a1", "", role="user"),
        start=start,
    )
    assert folded.messages == [user("u1", "hi!"), assistant("a1", "", ("c1", "{}")), user("u2")]


def test_text_reopened_in_its_run() -> None:
    """P-48: a second start of a closed message goes on with it, quietly."""
    folded = Folded(rs(), text("m1", "one"), text("m2", "x"), text("m1", " two"), rf())
    assert folded.messages == [assistant("m1", "one two"), assistant("m2", "x")]
    assert folded.codes == []


def test_text_reused_by_another_run() -> None:
    """P-48: text this run did not stream, not empty and appended to: one warning a run, naming the id."""
    folded = Folded(
        rs(), text("m1", "one"), rf(), rs("r2"), text("m1", ""), text("m1", "", " two", " three"), text("m1", "!")
    )
    assert folded.messages == [assistant("m1", "one two three!")]
    assert folded.codes == ["message-id-reused"]
    assert "'m1'" in folded.told[0].message
    empty = Folded(rs(), text("m1"), rf(), rs("r2"), text("m1", "first text"))
    assert empty.codes == []
    carrier = Folded(rs(), call("c", parent="m"), text("m", "", "Hi"), rf())
    assert carrier.codes == []


def test_text_on_a_message_of_parts() -> None:
    """P-48: a text part is added and nothing replaced; the next stream adds its own."""
    parts = [{"type": "text", "text": "see"}, {"type": "image", "source": {"type": "url", "value": "x"}}]
    folded = Folded(rs(), ts("u1"), start=[user("u1", parts)])
    assert folded.messages == [user("u1", parts)]
    folded.go(tc("u1", "a"))
    first = folded.fold.messages
    folded.go(tc("u1", "b"), te("u1"), text("u1", "c"))
    assert folded.messages == [user("u1", [*parts, {"type": "text", "text": "ab"}, {"type": "text", "text": "c"}])]
    assert wire(first[0])["content"] == [*parts, {"type": "text", "text": "a"}]


@pytest.mark.parametrize(
    "message",
    [
        {"id": "x", "role": "reasoning", "content": "why"},
        tool("x", "c1"),
        {"id": "x", "role": "activity", "activityType": "plan", "content": {}},
    ],
)
def test_text_on_another_kind(message: dict[str, Any]) -> None:
    """P-48: on a reasoning, tool or activity message the text is dropped, with one warning."""
    folded = Folded(rs(), text("x", "a", "b"), start=[assistant("a1", None, ("c1", "{}")), message])
    assert folded.messages[1] == message
    assert folded.codes == ["message-kind"]


def test_reasoning() -> None:
    """P-49: reasoning messages are appended and grow; spans change nothing; another role is not written to."""
    folded = Folded(
        rs(),
        ev("REASONING_START", messageId="span"),
        thought("g1", "be", "cause", subagentRunId="s1"),
        ev("REASONING_END", messageId="span"),
        text("m1", "so"),
        thought("g1", "!"),
        thought("m1", "lost"),
    )
    assert folded.messages == [
        {"id": "g1", "role": "reasoning", "content": "because!", "subagentRunId": "s1"},
        assistant("m1", "so"),
    ]
    assert folded.codes == ["message-kind"]


def test_halves_of_a_character() -> None:
    """P-19: halves in two deltas are one character; one without its partner stays as it is."""
    folded = Folded(
        rs(), text("m1", "ok \ud83d", "\ude00 done"), text("m2", "\ud83d"), call("c1", '"\ud83d', '\ude00"')
    )
    assert [message.get("content") for message in map(dump, folded.fold.messages)] == ["ok 😀 done", "\ud83d", None]
    assert dump(folded.fold.messages[2])["tool_calls"][0]["function"]["arguments"] == '"😀"'
    reread = Folded(rs(), ts("m1"), tc("m1", "\ud83d"))
    assert dump(reread.fold.messages[0])["content"] == "\ud83d"
    reread.go(tc("m1", "\ude00"))
    assert reread.messages == [assistant("m1", "😀")]


def dump(message: Message) -> dict[str, Any]:
    return message.model_dump()


# -- tool calls ------------------------------------------------------------------------------------------------------


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


# -- results ---------------------------------------------------------------------------------------------------------


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


# -- snapshots of messages -------------------------------------------------------------------------------------------


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


# -- state and activities --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, False, 0, "", [], {"a": 1}])
def test_state_snapshot(value: Any) -> None:
    """P-54: a snapshot replaces the state by its value, whatever it is."""
    assert Folded(rs(), ev("STATE_SNAPSHOT", snapshot=value), state={"old": 1}).fold.state == value


def delta(*operations: dict[str, Any], **fields: Any) -> Event:
    return ev("STATE_DELTA", delta=list(operations), **fields)


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


def activity(name: str = "x1", content: Any = None, **fields: Any) -> Event:
    return ev("ACTIVITY_SNAPSHOT", messageId=name, content=content or {}, **{"activityType": "plan", **fields})


def shown(name: str = "x1", content: Any = None, **fields: Any) -> dict[str, Any]:
    return {"id": name, "role": "activity", "activityType": "plan", "content": content or {}, **fields}


def change(name: str, *operations: dict[str, Any], **fields: Any) -> Event:
    return ev("ACTIVITY_DELTA", messageId=name, patch=list(operations), **{"activityType": "plan", **fields})


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


# -- the rest --------------------------------------------------------------------------------------------------------


def test_encrypted_values() -> None:
    """P-57: on the call or the message it names, byte for byte, also later; unknown or an activity: dropped."""

    def secret(subtype: str, name: str, value: str = "\u2028=x") -> Event:
        return ev("REASONING_ENCRYPTED_VALUE", subtype=subtype, entityId=name, encryptedValue=value)

    folded = Folded(rs(), call("c1", "{}"), thought("g1", "x"), rf(), rs("r2"))
    folded.go(secret("tool-call", "c1"), secret("message", "g1"), secret("message", "c1", "carrier"))
    assert folded.messages[0]["toolCalls"][0]["encryptedValue"] == "\u2028=x"
    assert folded.messages[0]["encryptedValue"] == "carrier"
    assert folded.messages[1]["encryptedValue"] == "\u2028=x"
    assert [wire(message) for message in folded.fold.history()] == folded.messages
    folded.go(secret("tool-call", "zz"), secret("message", "zz"), activity("x1"), secret("message", "x1"))
    assert folded.codes == ["encrypted-value"] * 3


def test_metadata() -> None:
    """P-58: merged key by key, no recursion, the last write wins, null is data; on the call for a call."""
    folded = Folded(
        rs(),
        ts("m1", metadata={"a": {"x": 1}, "b": 1}),
        tc("m1", "x", metadata={"a": {"y": 2}}),
        te("m1", metadata={"b": None}),
        cs("c1", "m1", metadata={"k": 1}),
        ca("c1", "", metadata={"l": 2}),
        ce("c1", metadata={"k": 3}),
        ev("REASONING_MESSAGE_START", messageId="g1", role="reasoning", metadata={"r": 1}),
        ev("REASONING_MESSAGE_CONTENT", messageId="g1", delta="", metadata={"r": 2}),
        ev("REASONING_MESSAGE_END", messageId="g1", metadata={"s": 3}),
        ev("STATE_SNAPSHOT", snapshot={}, metadata={"not": "kept"}),
    )
    assert folded.messages[0]["metadata"] == {"a": {"y": 2}, "b": None}
    assert folded.messages[0]["toolCalls"][0]["metadata"] == {"k": 3, "l": 2}
    assert folded.messages[1]["metadata"] == {"r": 2, "s": 3}


def test_input_of_run_started() -> None:
    """P-59, S-60: unknown ids are appended, known ones never touched."""
    echoed = {
        "threadId": "t1",
        "runId": "r1",
        "messages": [user("u1", "other"), assistant("a1", None, ("c1", "")), tool("t9", "c0")],
    }
    start = [user("u0"), assistant("a0", None, ("c0", "")), user("u1")]
    folded = Folded(rs(input=echoed), start=start)
    assert folded.messages == [start[0], start[1], tool("t9", "c0"), start[2], assistant("a1", None, ("c1", ""))]


@pytest.mark.parametrize(
    "event",
    [
        ev("RAW", event={"a": 1}),
        ev("CUSTOM", name="x", value={"a": 1}),
        ev("STEP_STARTED", stepName="s"),
        ev("STEP_FINISHED", stepName="s"),
        ev("SUBAGENT_STARTED", subagentRunId="s", name="n"),
        ev("SUBAGENT_FINISHED", subagentRunId="s"),
        ev("SUBAGENT_ERROR", subagentRunId="s", message="boom"),
    ],
)
def test_events_that_change_nothing(event: Event) -> None:
    """P-59: RAW, CUSTOM, STEP and SUBAGENT events change neither messages nor state."""
    folded = Folded(rs(), text("m1", "x"), ev("STATE_SNAPSHOT", snapshot={"a": 1}))
    before = folded.fold.messages, folded.fold.state
    folded.go(event)
    assert folded.fold.messages is before[0]
    assert folded.fold.state is before[1]


def test_pending_calls() -> None:
    """P-62: per run, calls started less calls with a result; the list of a success if there is one."""
    success = {"type": "success"}
    folded = Folded(rs(), call("c0"), rf(), rs("r2"), call("c1"), call("c2"), call("c3"), cr("c2"))
    assert folded.fold.pending_tool_calls == ("c1", "c3")
    assert Folded(rs(), call("c1"), rf(outcome={**success, "pendingToolCallIds": []})).fold.pending_tool_calls == (
        "c1",
    )
    folded.go(rf("r2", outcome={**success, "pendingToolCallIds": ["c3"]}), re_())
    assert folded.fold.pending_tool_calls == ("c3",)
    assert folded.go(rs("r3")).fold.pending_tool_calls == ()
    asked = {"type": "interrupt", "interrupts": [{"id": "i1", "reason": "x"}]}
    assert Folded(rs(), call("c1"), rf(outcome=asked)).fold.pending_tool_calls == ("c1",)


def test_final() -> None:
    """P-4: the last text of an assistant in this run."""
    folded = Folded(rs(), text("m1", "one"), text("m2", "two"), text("u1", "user", role="user"), call("c1"), rf())
    assert folded.fold.final == "two"
    assert folded.go(rs("r2")).fold.final == ""
    assert folded.go(text("m1", "!")).fold.final == "one!"
    assert Folded(rs(), ms(assistant("a", "from a snapshot"))).fold.final == "from a snapshot"
    assert Folded(rs(), start=[assistant("a", "old")]).fold.final == ""
    echoed = {"threadId": "t1", "runId": "r1", "messages": [assistant("a", "old")]}
    assert Folded(rs(input=echoed)).fold.final == ""


@pytest.mark.parametrize("last", [text("b", ""), text("b", "", ""), text("b"), call("b")])
def test_final_is_the_last_text_that_says_something(last: list[Event]) -> None:
    """P-4: a message without a word in it is no answer, whether or not somebody has read the messages."""
    read, unread = Folded(rs(), text("a", "Hello"), last), Folded(rs(), text("a", "Hello"), last)
    assert read.fold.messages
    assert read.fold.final == unread.fold.final == "Hello"


# -- the next request ------------------------------------------------------------------------------------------------


def numbered() -> Callable[[], str]:
    numbers = iter(range(1, 100))
    return lambda: f"n{next(numbers)}"


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


# -- cost and safety -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("open_it", "event", "most"),
    [
        (ts("m"), tc("m", "x"), 5),
        (cs("c"), ca("c", "x"), 5),
        (activity("x"), change("x", {"op": "add", "path": "/k", "value": 1}), 20),
        (rf(), delta({"op": "add", "path": "/k0/x", "value": 1}), 12),
    ],
)
def test_cost_of_an_event(open_it: Event, event: Event, most: int) -> None:
    """P-60: the work of an event is the same in a small thread and in a large one, early and late."""
    counts = set[int]()
    for size in (1, 300):
        start = [user(f"u{number}") for number in range(size)]
        state = {f"k{number}": {} for number in range(size)}
        folded = Folded(rs(), open_it, start=start, state=state)
        for _ in range(size):
            folded.fold.apply(event)
        counts.add(calls(partial(folded.fold.apply, event), "call"))
    assert len(counts) == 1
    assert counts.pop() <= most


def test_what_was_read_stays() -> None:
    """P-60: messages and state once handed out do not change, and are not made anew while nothing changes."""
    folded = Folded(rs(), ts("m1"), tc("m1", "a", metadata={"k": [1]}), cs("c1", "m1"), ca("c1", "{"))
    folded.go(ev("STATE_SNAPSHOT", snapshot={"a": [1]}))
    messages, state = folded.fold.messages, folded.fold.state
    before = [wire(message) for message in messages]
    assert folded.fold.messages is messages
    folded.go(tc("m1", "b", metadata={"k": [2]}), ca("c1", "}"), ce("c1"), te("m1"), cr("c1"))
    folded.go(delta({"op": "add", "path": "/a/-", "value": 2}), ms(user()))
    assert [wire(message) for message in messages] == before
    assert state == {"a": [1]}
    assert folded.fold.state == {"a": [1, 2]}


def test_a_message_that_nothing_came_for_is_the_same_object() -> None:
    """P-60: whoever reads pays once for what has changed, and for nothing else."""
    folded = Folded(rs(), text("m1", "a"), call("c1", "{}", parent="m1"), cr("c1"), text("m2", "b"), activity("x1"))
    before = folded.fold.messages
    folded.go(tc("m2", "c"), ts("m2"), tc("m2", "d"), text("m3", "e"), delta({"op": "add", "path": "/k", "value": 1}))
    after = folded.fold.messages
    assert [old is new for old, new in zip(before, after, strict=False)] == [True, True, False, True]


def test_values_are_not_shared_with_events() -> None:
    """P-55, P-60: changing what an event carries afterwards changes no state."""
    snapshot = ev("STATE_SNAPSHOT", snapshot={"a": [1]})
    patch = delta({"op": "add", "path": "/b", "value": [1]})
    folded = Folded(rs(), snapshot, patch)
    snapshot.snapshot["a"].append(2)  # type: ignore[union-attr]
    patch.delta[0].value.append(2)  # type: ignore[union-attr]
    assert folded.fold.state == {"a": [1], "b": [1]}


def test_models_are_shared_with_events() -> None:
    """P-53, P-60: what a snapshot brings is kept as it came, at no cost; whoever changes a model copies it before."""
    snapshot = ms(user(), assistant("a1", "x"))
    for held, told in zip(Folded(rs(), snapshot).fold.messages, snapshot.messages, strict=True):  # type: ignore[union-attr]
        assert held is told


def test_ids_taken_many_times() -> None:
    """P-60: an id that a thousand messages wanted costs the next no more than the third."""
    counts = set[tuple[int, int]]()
    for size in (3, 1000):
        results, reuses = Folded(rs(), *(call(f"c{number}") for number in range(size + 1))), Folded()
        for number in range(size):
            results.go(cr(f"c{number}", "t1"))
            reuses.go(rs(), call("c0", str(number)), cr("c0", f"t{number}"), rf())
        reuses.go(rs(), cs("c0"), ca("c0", "last"))
        result, end = cr(f"c{size}", "t1"), ce("c0")
        counts.add((calls(partial(results.go, result), "call", "c_call"), calls(partial(reuses.go, end), "call")))
        assert results.ids[-1] == f"t1#{size + 1}"
        assert reuses.ids[-1] == f"c0#{size + 1}"
    assert len(counts) == 1


def test_local_messages() -> None:
    """S-53, S-56: what came by no event is taken in like the rest, a result behind its call."""
    folded = Folded(rs(), call("c1"), text("m2", "x"), rf())
    for message in MESSAGES.validate_python([user("u2"), tool("t1", "c1")]):
        folded.fold.add(message)
    assert folded.ids == ["c1", "t1", "m2", "u2"]
    folded.fold.state = {"new": 1}
    assert folded.fold.state == {"new": 1}


class SlowFold:
    """What the fold does with streams free of collisions, written without a thought for cost."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.state: Any = {}

    def apply(self, event: Any) -> None:
        kind = event.type.value
        if kind in ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START"):
            if self.find(event.message_id) is None:
                role = "assistant" if kind.startswith("TEXT") else "reasoning"
                self.messages.append({"id": event.message_id, "role": role, "content": "", "calls": {}})
        elif kind in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"):
            message = self.find(event.message_id)
            assert message is not None
            message["content"] = mend(message["content"] + event.delta)
        elif kind == "STATE_SNAPSHOT":
            self.state = dict(event.snapshot)
        elif kind == "STATE_DELTA":
            self.state = {**self.state, "k": event.delta[0].value}

    def find(self, name: str) -> dict[str, Any] | None:
        return next((message for message in self.messages if message["id"] == name), None)


@effort(40)
@given(legal_streams())
def test_against_the_slow_fold(events: list[Event]) -> None:
    """P-48, P-49, P-54, P-60: reading between any two events or only at the end gives the same, and the slow fold's."""
    slow, eager, lazy = SlowFold(), Folded(), Folded()
    for event in events:
        slow.apply(event)
        eager.go(event)
        lazy.go(event)
        assert eager.fold.messages is not None
    told = [
        {"id": message.id, "role": message.role, "content": message.content or ""}  # type: ignore[union-attr]
        for message in lazy.fold.messages
        if message.role in ("assistant", "reasoning") and not message.id.startswith("c")
    ]
    assert told == [{key: message[key] for key in ("id", "role", "content")} for message in slow.messages]
    assert eager.fold.messages == lazy.fold.messages
    assert eager.fold.state == lazy.fold.state == slow.state
