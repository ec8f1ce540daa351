"""Fragments joined into an answer."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import ReasoningDelta, ToolCallDelta, Usage
from handrail.loop._backend import merged
from handrail.loop._turn import Turn

Fragment = tuple[int | None, str | None, str | None, str | None]


def calls(*fragments: Fragment) -> list[tuple[str | None, str | None, str]]:
    turn = Turn()
    for fragment in fragments:
        turn.add_call(ToolCallDelta(*fragment))
    return [(call.id, call.name, call.arguments) for call in turn.calls]


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        # two calls under one index (case 139)
        ([(0, "A", "time", "{}"), (0, "B", "weather", "{}")], [("A", "time", "{}"), ("B", "weather", "{}")]),
        ([(0, None, "time", "{}"), (0, None, "weather", "{}")], [(None, "time", "{}"), (None, "weather", "{}")]),
        # no index: a new id opens, no id continues
        (
            [(None, "A", "f", '{"a":'), (None, None, None, "1}"), (None, "B", "g", "{}")],
            [("A", "f", '{"a":1}'), ("B", "g", "{}")],
        ),
        ([(None, "A", "f", "{"), (None, "B", "g", "["), (None, "A", None, "}")], [("A", "f", "{}"), ("B", "g", "[")]),
        # the index on the first fragment only
        ([(0, "A", "f", "{"), (None, None, None, "}")], [("A", "f", "{}")]),
        # interleaved by index, ids on the first fragment only (case 141)
        (
            [(0, "A", "a", ""), (1, "B", "b", ""), (0, None, None, '{"t":1}'), (1, None, None, '{"t":2}')],
            [("A", "a", '{"t":1}'), ("B", "b", '{"t":2}')],
        ),
        # repeated equal id and name continue
        ([(0, "A", "f", "{"), (0, "A", "f", "}")], [("A", "f", "{}")]),
        # id or name that come late belong to the call that has none
        ([(0, None, None, "{"), (0, "A", "f", "}")], [("A", "f", "{}")]),
        ([(None, None, None, "{}")], [(None, None, "{}")]),
        ([(0, "A", "f", None)], [("A", "f", "")]),
    ],
)
def test_whose_a_fragment_is(fragments: list[Fragment], expected: list[tuple[str | None, str | None, str]]) -> None:
    """L-34, L-82: an index decides; without one an id; calls stand in order of first appearance."""
    assert calls(*fragments) == expected


@given(
    texts=st.lists(st.text(alphabet='{}"1,:', min_size=1, max_size=8), min_size=1, max_size=4),
    data=st.data(),
)
def test_any_interleaving_by_index_gives_the_same_calls(texts: list[str], data: st.DataObject) -> None:
    """L-34: however the fragments of several calls are mixed, each call gets its own, in order."""
    pieces = {
        i: [(i, f"id{i}" if n == 0 else None, "f" if n == 0 else None, c) for n, c in enumerate(text)]
        for i, text in enumerate(texts)
    }
    order = data.draw(st.permutations(list(itertools.chain(*([i] * len(t) for i, t in enumerate(texts))))))
    taken = {i: iter(fragments) for i, fragments in pieces.items()}
    found = calls(*(next(taken[i]) for i in order))
    assert {call_id: arguments for call_id, _, arguments in found} == {f"id{i}": t for i, t in enumerate(texts)}
    assert [call_id for call_id, _, _ in found] == [f"id{i}" for i in dict.fromkeys(order)]


def test_reports_of_usage_are_cumulative() -> None:
    """L-35: None is ignored, and of each value the last report counts, once."""
    assert merged(Usage(5, 1), Usage(None, 2, 7)) == Usage(5, 2, 7)
    assert merged(None, Usage(1)) == Usage(1)
    assert merged(Usage(1), None) == Usage(1)


def test_reasoning_and_what_is_opaque() -> None:
    """L-32: the text is joined; the last opaque value stands."""
    turn = Turn()
    for delta in (ReasoningDelta("a"), ReasoningDelta("", "sig1"), ReasoningDelta("b", "sig2"), ReasoningDelta("c")):
        turn.add_reasoning(delta)
    assert (turn.reasoning, turn.opaque) == ("abc", "sig2")
