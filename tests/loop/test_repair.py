"""Input that is no legal history is mended, and every mending is told."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ag_ui.core import ActivityMessage, AssistantMessage, Message, ReasoningMessage, ToolCall
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail import assistant, system, user
from handrail.loop._repair import Repaired, repair
from handrail.messages import tool_call, tool_result
from handrail.testing import check_messages


def turn(*ids: str, text: str | None = None) -> AssistantMessage:
    return assistant(text, tool_calls=[tool_call("f", id=id) for id in ids])


def mended(*messages: Message, waiting: Any = lambda call: False) -> Repaired:
    numbers = itertools.count(1)
    return repair(list(messages), waiting, lambda: f"new{next(numbers)}")


def shape(repaired: Repaired) -> list[str]:
    """Roles, with the id of its call on each tool message."""
    return [m.tool_call_id if m.role == "tool" else m.role for m in repaired.messages]


@pytest.mark.parametrize(
    ("messages", "expected", "remark"),
    [
        ([user("x"), turn("c"), user("y")], ["user", "assistant", "c", "user"], "had no answer"),
        ([user("x"), tool_result("c", "r"), user("y")], ["user", "user"], "answers no call"),
        ([turn("c"), tool_result("c", "1"), tool_result("c", "2")], ["assistant", "c"], "answered before"),
        ([turn("c"), user("y"), tool_result("c", "r")], ["assistant", "c", "user"], "moved"),
        ([tool_result("c", "r"), turn("c")], ["assistant", "c"], "moved"),
        (
            [turn("c"), tool_result("c", "1"), turn("c"), tool_result("c", "2")],
            ["assistant", "c", "assistant", "new1"],
            "used before",
        ),
        ([turn("c", "c"), tool_result("c", "1"), tool_result("c", "2")], ["assistant", "c", "new1"], "used before"),
    ],
)
def test_each_repair(messages: list[Message], expected: list[str], remark: str) -> None:
    """L-140 (case 153): one thing is wrong, one thing is told, and the history is legal."""
    repaired = mended(*messages)
    assert shape(repaired) == expected
    assert len(repaired.remarks) == 1
    assert remark in repaired.remarks[0]
    assert check_messages(repaired.messages) == []


def test_an_answer_in_nobodys_name_says_that_the_outcome_is_unknown() -> None:
    """L-140, L-95: it may have been run."""
    repaired = mended(user("x"), turn("c"))
    ((call, answer),) = repaired.unrecorded
    assert call.id == answer.tool_call_id == "c"
    assert "unknown" in str(answer.content)
    assert answer.error is None


def test_a_renamed_call_keeps_its_answer() -> None:
    """L-140: the second use of an id is renamed together with what answers it."""
    repaired = mended(turn("c"), tool_result("c", "one"), turn("c"), tool_result("c", "two"))
    calls = [call.id for m in repaired.messages if isinstance(m, AssistantMessage) for call in m.tool_calls or ()]
    answers = {m.tool_call_id: m.content for m in repaired.messages if m.role == "tool"}
    assert calls == ["c", "new1"]
    assert answers == {"c": "one", "new1": "two"}


def test_a_legal_history_is_left_alone() -> None:
    """L-140: nothing is told, and every message is the very one that came."""
    activity = ActivityMessage(id="x", activity_type="plot", content={})
    messages = [
        system("s"),
        user("x"),
        ReasoningMessage(id="r", content="hm"),
        turn("a", "b", text="t"),
        activity,
        tool_result("a", "1"),
        tool_result("b", "2"),
        user("y"),
        assistant("z"),
    ]
    repaired = mended(*messages)
    assert repaired.remarks == []
    assert all(kept is given for kept, given in zip(repaired.messages, messages, strict=True))


def test_results_come_into_call_order() -> None:
    """L-136, L-141: answers of one turn may come in any order; that is nothing to be told."""
    repaired = mended(turn("a", "b", "c"), tool_result("c", "3"), tool_result("a", "1"), tool_result("b", "2"))
    assert shape(repaired) == ["assistant", "a", "b", "c"]
    assert repaired.remarks == []


def test_a_waiting_call_stays_open() -> None:
    """L-128: only in the last turn of the agent; user turns may follow it."""
    yes = lambda call: True  # noqa: E731
    assert shape(mended(turn("c"), user("y"), waiting=yes)) == ["assistant", "user"]
    assert shape(mended(turn("c"), assistant("z"), waiting=yes)) == ["assistant", "c", "assistant"]
    some = mended(turn("a", "b"), tool_result("b", "2"), waiting=yes)
    assert shape(some) == ["assistant", "b"]
    assert some.remarks == []


ids = st.sampled_from(["a", "b", "c"])
anything = st.lists(
    st.one_of(
        st.builds(lambda: user("u")),
        st.builds(lambda: system("s")),
        st.builds(lambda: assistant("t")),
        st.builds(lambda: ActivityMessage(id="act", activity_type="x", content={})),
        st.lists(ids, min_size=1, max_size=3).map(lambda found: turn(*found)),
        ids.map(lambda id: tool_result(id, "r")),
    ),
    max_size=12,
)


@given(messages=anything, waits=st.sets(ids))
@settings(max_examples=300)
def test_whatever_comes_in_a_legal_history_goes_out(messages: list[Message], waits: set[str]) -> None:
    """L-140, L-141: legal, mending it again changes nothing, and no turn of anybody's is lost or reordered."""

    def waiting(call: ToolCall) -> bool:
        return call.id in waits

    repaired = mended(*messages, waiting=waiting)
    calls = [call for m in repaired.messages if isinstance(m, AssistantMessage) for call in m.tool_calls or ()]
    answered = {m.tool_call_id for m in repaired.messages if m.role == "tool"}
    open = [call.id for call in calls if call.id not in answered]
    assert all(id in waits for id in open)
    for number, message in enumerate(repaired.messages):
        message.id = str(number)
    assert check_messages(repaired.messages, open) == []
    assert [m.role for m in repaired.messages if m.role != "tool"] == [m.role for m in messages if m.role != "tool"]
    again = mended(*repaired.messages, waiting=waiting)
    assert again.messages == repaired.messages
    assert again.remarks == []
