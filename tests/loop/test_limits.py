"""How far a model may go on calling tools, as values."""

from __future__ import annotations

import pytest
from ag_ui.core import ToolCall
from hypothesis import given
from hypothesis import strategies as st

from handrail import Limits
from handrail.loop._limits import Tally
from handrail.messages import tool_call


def call(name: str = "f", arguments: str = "{}") -> ToolCall:
    return tool_call(name, arguments)


def test_the_order_of_limits() -> None:
    """L-100: turns with calls, then calls, then identical calls."""
    tally = Tally()
    tally.turns = 2
    everything = Limits(max_rounds=2, max_tool_calls=0, max_identical_calls=1)
    trip = tally.look(everything, [call(), call()])
    assert trip is not None
    assert (trip.limit, trip.count, trip.max, trip.name) == ("max-rounds", 2, 2, None)
    trip = tally.look(Limits(max_tool_calls=1, max_identical_calls=1), [call(), call()])
    assert trip is not None
    assert (trip.limit, trip.count, trip.max) == ("max-tool-calls", 2, 1)
    trip = tally.look(Limits(max_identical_calls=1), [call("g"), call("g")])
    assert trip is not None
    assert (trip.limit, trip.count, trip.max, trip.name) == ("max-identical-calls", 2, 1, "g")
    assert tally.look(Limits(), [call(), call()]) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1,"b":2}', '{ "b": 2, "a": 1 }', True),
        ("", "{}", True),
        ('{"a":1}', '{"a":2}', False),
        ("not json", "not json", True),
        ("not json", "not  json", False),
    ],
)
def test_what_is_identical(one: str, other: str, same: bool) -> None:
    """L-101: the same name and the same arguments after parsing, keys in any order."""
    tally = Tally()
    tally.dispatch(call("f", one))
    assert (tally.look(Limits(max_identical_calls=1), [call("f", other)]) is not None) == same
    assert tally.look(Limits(max_identical_calls=1), [call("g", one)]) is None


def test_what_counts() -> None:
    """L-100, L-101: dispatched calls count twice over, refused ones as identical only, others not at all."""
    tally = Tally()
    tally.refuse(call())
    assert tally.look(Limits(max_tool_calls=1), [call()]) is None
    assert tally.look(Limits(max_identical_calls=1), [call()]) is not None
    tally.dispatch(call("g"))
    assert tally.look(Limits(max_tool_calls=1), [call()]) is not None


@given(st.lists(st.sampled_from(["f", "g"]), max_size=40), st.integers(1, 10))
def test_no_more_identical_calls_than_allowed(names: list[str], allowed: int) -> None:
    """L-101: whoever asks before each call never makes more than the limit."""
    tally, made = Tally(), 0
    for name in names:
        if tally.look(Limits(max_identical_calls=allowed), [call(name)]) is None:
            tally.dispatch(call(name))
            made += name == "f"
    assert made <= allowed


@pytest.mark.parametrize(
    "wrong", [{"max_rounds": -1}, {"max_tool_calls": -1}, {"max_identical_calls": 0}, {"max_identical_calls": -3}]
)
def test_limits_that_cannot_work_are_refused(wrong: dict[str, int]) -> None:
    """L-2: at once."""
    with pytest.raises(ValueError, match="max_"):
        Limits(**wrong)
