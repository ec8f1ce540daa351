"""Events into messages: text and reasoning, metadata, and what changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import Event, Message
from tests.agui.folding import (
    Folded,
    activity,
    assistant,
    ca,
    call,
    ce,
    cr,
    cs,
    ev,
    ms,
    re_,
    rf,
    rs,
    tc,
    te,
    text,
    thought,
    tool,
    ts,
    user,
    wire,
)


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
