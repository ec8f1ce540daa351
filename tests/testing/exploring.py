"""Exploring in tests: as long as `HANDRAIL_FUZZ` says, elsewhere each time if it does; what was explored is printed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.agui.effort import FACTOR

from handrail.testing import Explored, InterleavingError, explore, replay

Explorer = Callable[..., Explored]
Players = list[Callable[[], object]]
Scenario = Callable[[], Iterator[Players]]


@pytest.fixture
def explored(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Explorer:
    """`explore`, `HANDRAIL_FUZZ` times as long, with a line that says how many interleavings it was."""

    def explored(scenario: Any, *, limit: int = 400, random: int = 100, **options: Any) -> Explored:
        seed = 0 if FACTOR == 1 else time.time_ns()
        found = explore(scenario, limit=limit * FACTOR, random=random * FACTOR, seed=seed, **options)
        with capsys.disabled():
            print(f"\n{request.node.name}: {found}", end="")
        return found

    return explored


def fault_in(scenario: Any, **options: Any) -> InterleavingError:
    """How the scenario fails in some interleaving; the test fails if none is found."""
    with pytest.raises(InterleavingError) as caught:
        explore(scenario, limit=3_000, **options)
    return caught.value


def found(bug: str, scenario: Scenario, told: str, lines_of: list[str]) -> str:
    """How a planted bug is found: with it an interleaving fails, and fails again when it is replayed."""
    fault = fault_in(scenario, lines_of=lines_of)
    assert told in str(fault)
    with pytest.raises(InterleavingError) as again:
        replay(scenario, fault.schedule, lines_of=lines_of)
    assert told in str(again.value)
    return f"{bug}: found after {fault.tried} interleavings, at {fault.schedule!r}"
