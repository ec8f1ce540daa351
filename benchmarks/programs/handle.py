"""The handle: from `emit` to whoever reads, beside the `put` and `get` of an `asyncio.Queue`.

handle together|in-turn EVENTS     all events before the reader has a turn; or one, and the reader waits for the next
handle further EVENTS              what each of nine more readers adds, for each event
handle deciles EVENTS              the last tenth of the events, as a multiple of the first
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.programs.clock import say, times_async
from handrail.events import Token
from handrail.run import RunDriver

Emit = Callable[[RunDriver[Any], int], object]


def plain(driver: RunDriver[Any], number: int) -> None:
    driver.emit(number)


def stamped(driver: RunDriver[Any], number: int) -> None:
    driver.emit(Token(text="tokn ", round=1, attempt=1))


async def queue(count: int, turns: bool) -> None:
    line: asyncio.Queue[int | None] = asyncio.Queue()

    async def produce() -> None:
        for number in range(count):
            line.put_nowait(number)
            if turns:
                await asyncio.sleep(0)
        line.put_nowait(None)

    task = asyncio.create_task(produce())
    while await line.get() is not None:
        pass
    await task


async def handle(count: int, turns: bool, emit: Emit, readers: int = 1) -> None:
    driver: RunDriver[Any] = RunDriver()

    async def produce() -> None:
        for number in range(count):
            emit(driver, number)
            if turns:
                await asyncio.sleep(0)
        driver.finish(None, outcome="completed")

    async def read() -> None:
        async for _ in driver.run.events:
            pass

    await asyncio.gather(produce(), *(read() for _ in range(readers)))


async def making(count: int) -> None:
    """What the events themselves cost, without any handle."""
    for _ in range(count):
        Token(text="tokn ", round=1, attempt=1)


async def main(way: str, count: int) -> dict[str, float]:
    if way == "deciles":
        return {"handrail": await deciles(count)}
    if way == "further":
        cases = {
            "one": lambda: handle(count, True, plain),
            "ten": lambda: handle(count, True, plain, readers=10),
            "asyncio.Queue": lambda: queue(count, True),
        }
        took = await times_async(cases, count)
        return {"handrail": (took["ten"] - took["one"]) / 9, "asyncio.Queue": took["asyncio.Queue"]}
    turns = way == "in-turn"
    cases = {
        "asyncio.Queue": lambda: queue(count, turns),
        "handrail": lambda: handle(count, turns, plain),
        "handrail, stamped": lambda: handle(count, turns, stamped),
        "making the events": lambda: making(count),
    }
    return await times_async(cases, count)


async def deciles(count: int) -> float:
    """Emitting and reading the last tenth, as a multiple of the first."""
    driver: RunDriver[Any] = RunDriver()
    events = aiter(driver.run.events)
    tenths: list[float] = []
    for _ in range(10):
        before = time.process_time()
        for number in range(count // 10):
            driver.emit(number)
            await anext(events)
        tenths.append(time.process_time() - before)
    driver.finish(None, outcome="completed")
    return tenths[-1] / min(tenths[:2])


if __name__ == "__main__":
    say(asyncio.run(main(sys.argv[1], int(sys.argv[2]))))
