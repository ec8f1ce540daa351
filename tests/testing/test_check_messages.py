"""The checker of conversations."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import ActivityMessage, ReasoningMessage

from handrail.messages import assistant, system, tool_call, tool_result, user
from handrail.testing import check_messages


def calls(*ids: str, turn: str = "a1") -> Any:
    return assistant("Let me look.", id=turn, tool_calls=[tool_call("f", id=id) for id in ids])


RIGHT: list[Any] = [
    system("Be brief."),
    user("How is Rome?"),
    ReasoningMessage(id="r1", content="hm"),
    calls("c1", "c2"),
    tool_result("c1", "1"),
    ActivityMessage(id="x", activity_type="map", content={}),
    tool_result("c2", "2"),
    assistant("Warm.", id="a2"),
    user("And Oslo?"),
    calls("c3", turn="a3"),
    tool_result("c3", "3"),
]


def test_right_conversations() -> None:
    """L-163: empty means right; models and mappings in wire form."""
    assert check_messages(RIGHT) == []
    assert check_messages([m.model_dump(by_alias=True, exclude_none=True) for m in RIGHT]) == []
    assert check_messages([]) == []
    assert check_messages(iter([user("hi")])) == []


def test_open_calls() -> None:
    """L-127, L-163: the calls named open stay unanswered, turns may follow them, and all others have their answer."""
    log = [user("go"), calls("c1", "c2", "c3"), tool_result("c2", "2"), user("steer")]
    assert check_messages(log, open=("c1", "c3")) == []
    assert check_messages(log, open={"c1"}) == ["L-141: call c3 has no answer before the turn that follows"]


@pytest.mark.parametrize(
    ("log", "open", "words"),
    [
        ([calls("c1")], (), "call c1 has no answer"),
        ([calls("c1"), user("x"), tool_result("c1", "1")], (), "call c1 has no answer before"),
        ([calls("c1"), user("x"), tool_result("c1", "1")], (), "no call of the turn before"),
        ([calls("c1", "c2"), tool_result("c1", "1"), assistant("x")], (), "call c2 has no answer"),
        ([calls("c1", "c2"), tool_result("c2", "2"), tool_result("c1", "1")], (), "call c2 before call c1"),
        ([calls("c1"), tool_result("c1", "1"), tool_result("c1", "1")], (), "answers call c1 again"),
        ([tool_result("c1", "1")], (), "message 0 answers c1, which is no call"),
        ([calls("c1"), tool_result("c1", "1")], ("c1",), "is to be open"),
        ([user("x")], ("c9",), "c9 is to be open, and is no call"),
        ([user("x", id="1"), user("y", id="1")], (), "message id 1 is used 2 times"),
        (
            [calls("c1"), tool_result("c1", "1"), calls("c1", turn="a2"), tool_result("c1", "1")],
            (),
            "call id c1 is used 2 times",
        ),
    ],
)
def test_each_fault_is_found(log: list[Any], open: tuple[str, ...], words: str) -> None:
    """L-141, L-163: each broken on purpose, each named."""
    violations = check_messages(log, open=open)
    assert any(v.startswith("L-141: ") and words in v for v in violations), violations


def test_what_is_no_message() -> None:
    """L-163: a mapping that does not fit is the caller's mistake."""
    with pytest.raises(ValueError, match="role"):
        check_messages([{"role": "nobody", "content": "x"}])
