"""What folding costs and shares, and a slow fold beside it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from ag_ui.core import Event
from hypothesis import given
from tests.agui.counting import calls
from tests.agui.effort import effort
from tests.agui.folding import (
    MESSAGES,
    Folded,
    activity,
    assistant,
    ca,
    call,
    ce,
    change,
    cr,
    cs,
    delta,
    ev,
    ms,
    rf,
    rs,
    tc,
    te,
    text,
    tool,
    ts,
    user,
    wire,
)
from tests.agui.streams import legal_streams

from handrail.agui._text import mend


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
