"""The explorer and tasks: what is between two awaits happens at once, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from tests.testing.exploring import Players, fault_in

from handrail.run import Settled
from handrail.run._settled import settle
from handrail.testing import explore


def test_tasks_go_on_in_any_order() -> None:
    """What is between two awaits happens at once, and nothing else does."""

    def scenario() -> Iterator[Players]:
        count = [0]

        async def add() -> None:
            read = count[0]
            await asyncio.sleep(0)
            count[0] = read + 1

        async def main() -> None:
            await asyncio.gather(add(), add())

        yield [main]
        assert count == [2]

    assert "awaits at" in str(fault_in(scenario))


def test_tasks_that_start_late_are_in_any_order() -> None:
    """Every order of three tasks that wait for nothing comes up."""
    orders: set[str] = set()

    def scenario() -> Iterator[Players]:
        order: list[str] = []

        async def say(name: str) -> None:
            order.append(name)

        async def main() -> None:
            await asyncio.gather(*(say(name) for name in "abc"))

        yield [main]
        orders.add("".join(order))

    assert explore(scenario, random=0).exhausted
    assert orders == {"abc", "acb", "bac", "bca", "cab", "cba"}


def test_callbacks_keep_their_order() -> None:
    """asyncio promises it; and a call from another thread stands in the same line."""

    def scenario() -> Iterator[Players]:
        row: list[int] = []
        ready: Settled[Any] = Settled()

        async def main() -> None:
            loop = asyncio.get_running_loop()
            done = loop.create_future()
            for number in range(3):
                loop.call_soon(row.append, number)
            settle(ready, (loop, done))
            await done

        def calls() -> None:
            loop, done = ready.wait()
            loop.call_soon_threadsafe(row.append, 3)
            loop.call_soon_threadsafe(done.set_result, None)

        yield [main, calls]
        assert row == [0, 1, 2, 3]

    assert explore(scenario, limit=150, random=50).count > 100


def test_a_task_that_waits_for_good_is_a_deadlock() -> None:
    """It says what the tasks of a loop wait for."""

    def scenario() -> Iterator[Players]:
        async def main() -> None:
            await Settled()

        yield [main]

    assert "main: task main awaits at" in str(fault_in(scenario))


def test_tasks_that_are_left_are_cancelled() -> None:
    """As `asyncio.run` does."""

    def scenario() -> Iterator[Players]:
        cancelled: list[bool] = []

        async def waits() -> None:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                cancelled.append(True)
                raise

        async def main() -> None:
            main.task = asyncio.create_task(waits())  # type: ignore[attr-defined]
            await asyncio.sleep(0)

        yield [main]
        assert cancelled == [True]

    explore(scenario, preemptions=0, random=0)


def test_an_exception_that_nobody_retrieves() -> None:
    """What a loop would only log is a fault."""

    def scenario() -> Iterator[Players]:
        async def fails() -> None:
            raise ValueError("nobody listens")

        async def main() -> None:
            asyncio.create_task(fails())  # noqa: RUF006  # that is the point
            await asyncio.sleep(0)

        yield [main]

    fault = fault_in(scenario)
    assert "Task exception was never retrieved" in str(fault)
    assert isinstance(fault.__cause__, RuntimeError)
    assert isinstance(fault.__cause__.__cause__, ValueError)
