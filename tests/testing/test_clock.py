"""Time that a test moves."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.testing import FakeClock


async def sleepers(clock: FakeClock, seconds: list[float], woken: list[tuple[int, float]]) -> None:
    """Sleep each of these at once, and write down who woke when."""

    async def one(number: int) -> None:
        await clock.sleep(seconds[number])
        woken.append((number, clock.monotonic()))

    async with anyio.create_task_group() as group:
        for number in range(len(seconds)):
            group.start_soon(one, number)


async def settled(clock: FakeClock, count: int) -> None:
    with anyio.fail_after(5):
        while clock.sleeping != count:
            await anyio.lowlevel.checkpoint()


def test_time_stands_still() -> None:
    """L-165: now and monotonic move by `advance` only, and together."""
    start = datetime(2030, 5, 6, tzinfo=UTC)
    clock = FakeClock(start=start)
    assert (clock.now(), clock.monotonic(), clock.sleeping) == (start, 0.0, 0)
    clock.advance(1.5)
    assert (clock.now(), clock.monotonic()) == (start + timedelta(seconds=1.5), 1.5)
    assert "2030-05-06T00:00:01.500000+00:00" in repr(clock)
    assert FakeClock().now().tzinfo is not None


def test_misuse() -> None:
    """L-165: a start without a zone and a step backwards are refused."""
    with pytest.raises(ValueError, match="time zone"):
        FakeClock(start=datetime(2030, 1, 1))
    clock = FakeClock()
    with pytest.raises(ValueError, match="go back"):
        FakeClock().advance(math.nan)
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1)
    assert clock.monotonic() == 0


async def test_sleepers_wake_in_order_of_their_time() -> None:
    """L-165: also on trio, which runs what is woken together in any order."""
    for _ in range(20):
        clock, woken = FakeClock(), list[tuple[int, float]]()
        async with anyio.create_task_group() as group:
            group.start_soon(sleepers, clock, [3.0, 1.0, 2.0, 9.0], woken)
            await settled(clock, 4)
            clock.advance(5)
            assert clock.sleeping == 1
            assert woken == []
            with anyio.fail_after(5):
                while len(woken) < 3:
                    await anyio.lowlevel.checkpoint()
            assert [number for number, _ in woken] == [1, 2, 0]
            clock.advance(4)


async def test_a_cancelled_sleeper_holds_up_nobody() -> None:
    """L-165: whoever leaves is forgotten, and the next one still wakes."""
    clock, woken = FakeClock(), list[tuple[int, float]]()
    async with anyio.create_task_group() as group:
        group.start_soon(sleepers, clock, [2.0], woken)
        await settled(clock, 1)
        with anyio.move_on_after(0.01):
            await clock.sleep(1)
        assert clock.sleeping == 1
        clock.advance(2)
    assert woken == [(0, 2.0)]


async def test_nothing_to_wait_for() -> None:
    """L-165: zero and less do not sleep."""
    clock = FakeClock()
    await clock.sleep(0)
    await clock.sleep(-1)
    assert clock.monotonic() == 0


async def test_advance_from_a_thread() -> None:
    """L-165: any thread may move the time."""
    clock, woken = FakeClock(), list[tuple[int, float]]()
    async with anyio.create_task_group() as group:
        group.start_soon(sleepers, clock, [2.0, 1.0], woken)
        await settled(clock, 2)
        await anyio.to_thread.run_sync(clock.advance, 2)
    assert [number for number, _ in woken] == [1, 0]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.lists(st.integers(0, 10), max_size=8))
@settings(derandomize=True, deadline=None, max_examples=25)
def test_everyone_wakes_when_due_and_not_before(seconds: list[int], steps: list[int]) -> None:
    """L-165: for any sleepers and any steps of time."""

    async def main() -> None:
        clock, woken = FakeClock(), list[tuple[int, float]]()
        async with anyio.create_task_group() as group:
            group.start_soon(sleepers, clock, [float(s) for s in seconds], woken)
            await settled(clock, len(seconds))
            passed = 0
            for step in [*steps, 20]:
                clock.advance(step)
                passed += step
                due = sorted((s, n) for n, s in enumerate(seconds) if s <= passed)
                with anyio.fail_after(5):
                    while len(woken) < len(due):
                        await anyio.lowlevel.checkpoint()
                assert len(woken) == len(due)
        assert [seconds[number] for number, _ in woken] == sorted(seconds)

    anyio.run(main)
