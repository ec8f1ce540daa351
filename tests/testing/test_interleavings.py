"""The explorer: which interleavings it chooses, and what it takes for a scenario."""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.effort import effort
from tests.testing.exploring import Players, fault_in

from handrail import UsageError
from handrail.run import _core
from handrail.testing import InterleavingError, explore, replay
from handrail.testing.interleavings._search import Choices, at_random, read_schedule, shorter, within, written


def quiet() -> Iterator[Players]:
    yield [lambda: None]


# -- which interleavings -----------------------------------------------------------------------------------------------


def carried_out(choices: Choices, *lengths: int) -> tuple[str, int]:
    """Processes of so many steps each, as a row of their letters, and how often one was left that could go on."""
    left = dict(zip("abcd", lengths, strict=False))
    row, running, preemptions = "", "", 0
    while any(left.values()):
        able = sorted((name for name in left if left[name]), key=lambda name: name != running)
        free = 1 if running in able else len(able)
        option = choices.choose(len(able), free) if len(able) > 1 else 0
        preemptions += option >= free
        running = able[option]
        left[running] -= 1
        row += running
    return row, preemptions


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2))
@effort(30)
def test_all_interleavings_come_once_each(a: int, b: int, c: int) -> None:
    """With preemptions enough these are all the orders there are, and none of them comes twice."""
    rows = [carried_out(choices, a, b, c)[0] for choices in within(a + b + c)]
    count = math.factorial(a + b + c) // (math.factorial(a) * math.factorial(b) * math.factorial(c))
    assert len(rows) == len(set(rows)) == count


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 3))
@effort(30)
def test_few_preemptions_come_first(a: int, b: int, limit: int) -> None:
    """All with so many at most, in the order of how many they have, and no others."""
    tried = [carried_out(choices, a, b) for choices in within(limit)]
    everything = [carried_out(choices, a, b) for choices in within(a + b)]
    assert [count for _, count in tried] == sorted(count for _, count in tried)
    assert set(tried) == {(row, count) for row, count in everything if count <= limit}


@given(st.integers(0, 5), st.integers(0, 30))
@effort(30)
def test_what_was_taken_is_taken_again(seed: int, number: int) -> None:
    """An interleaving at random has a schedule, and that is the same interleaving; the seed gives it again."""
    first, second = at_random(seed), at_random(seed)
    for _ in range(number):
        next(first), next(second)
    choices = next(first)
    row = carried_out(choices, 4, 4, 4)
    again = Choices(read_schedule(written(tuple(choices.taken))))
    assert carried_out(again, 4, 4, 4) == row == carried_out(next(second), 4, 4, 4)
    assert again.fits
    assert again.taken == choices.taken


def test_a_schedule_is_made_shorter() -> None:
    """What does not matter is left out; what is left fails."""

    def fails(choices: Choices) -> bool:
        return carried_out(choices, 4, 4)[0].startswith("aab")

    choices = next(choices for choices in at_random(0) if fails(choices))
    assert len(shorter(tuple(choices.taken), fails)) == 1


def test_a_schedule_of_something_else_does_not_fit() -> None:
    """An option that is not offered is not taken."""
    choices = Choices(((0, 7),))
    assert carried_out(choices, 1, 1) == ("ab", 0)
    assert not choices.fits


@pytest.mark.parametrize("text", ["1", "1.2.3", "a.b", "1,2"])
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(ValueError, match="a schedule is written as"):
        replay(quiet, text)


# -- the scenario ------------------------------------------------------------------------------------------------------


def test_a_player_that_raises() -> None:
    """Its exception is the cause, whatever it is."""

    def scenario() -> Iterator[Players]:
        def fails() -> None:
            raise KeyboardInterrupt("mine")

        yield [fails]

    fault = fault_in(scenario)
    assert "fails raises KeyboardInterrupt: mine" in str(fault)
    assert isinstance(fault.__cause__, KeyboardInterrupt)


def test_what_is_no_scenario() -> None:
    """It is said before anything is explored."""

    def yields(what: Any) -> Callable[[], Iterator[Any]]:
        def scenario() -> Iterator[Any]:
            yield what

        return scenario

    def twice() -> Iterator[Players]:
        yield [lambda: None]
        yield [lambda: None]

    def breaks() -> Iterator[Players]:
        raise LookupError("in the set-up")
        yield []

    with pytest.raises(TypeError, match="a generator function"):
        explore(lambda: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="yields none"):
        explore(yields([]))
    with pytest.raises(TypeError, match="yields functions, not 3"):
        explore(yields([3]))
    with pytest.raises(InterleavingError, match="yields once"):
        explore(twice)
    with pytest.raises(LookupError, match="in the set-up"):
        explore(breaks)
    with pytest.raises(TypeError, match="lines_of is a list"):
        explore(quiet, lines_of=__name__)
    with pytest.raises(ValueError, match="limit is a number from 0"):
        explore(quiet, limit=-1)
    with pytest.raises(UsageError, match=r"no interleaving '0.7'"):
        replay(quiet, "0.7")
    assert explore(yields(lambda: None)).count == 1


def test_one_at_a_time_and_nothing_stays() -> None:
    """A second exploration is refused; behind one, modules and the collector are as they were."""

    def scenario() -> Iterator[Players]:
        assert _core.threading is not threading
        assert not gc.isenabled()
        yield [lambda: explore(quiet)]

    assert "UsageError: one exploration at a time" in str(fault_in(scenario))
    assert _core.threading is threading
    assert gc.isenabled()
    assert explore(quiet).count > 0
