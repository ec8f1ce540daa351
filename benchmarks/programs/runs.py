"""What a run costs in one framework.

runs FRAMEWORK one RUNS             runs with a one-token answer, one after the other: each
runs FRAMEWORK tokens TOKENS        one run with a long answer: each token, to the consumer
runs FRAMEWORK paced TOKENS         the same with a turn of the event loop for each token
runs FRAMEWORK rounds ROUNDS        one run with so many tool rounds: each round
runs FRAMEWORK growth ROUNDS        the exponent of the cost from an eighth of the tool rounds to all of them
runs FRAMEWORK open RUNS            KB that each of so many open runs takes, all held half way
runs FRAMEWORK at-once RUNS         runs that are open at once, 20 tokens each: each run
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import sys
import time
from collections.abc import Callable

from benchmarks.programs.clock import say, times_async
from benchmarks.programs.frameworks import FRAMEWORKS, Framework, Script


def nothing(*_: object) -> None:
    return None


async def one(framework: Framework, count: int) -> float:
    agent = framework.agent(Script())

    async def runs() -> None:
        for _ in range(count):
            await framework.play(agent, nothing, nothing)

    return (await times_async({"": runs}, count))[""]


async def tokens(framework: Framework, count: int, paced: bool = False) -> float:
    seen = [0]

    def heard() -> None:
        seen[0] += 1

    agent = framework.agent(Script(tokens=count, paced=paced))
    each = await times_async({"": lambda: framework.play(agent, heard, nothing)}, count)
    if seen[0] % count or not seen[0]:
        raise RuntimeError(f"{seen[0]} tokens were heard, of {count} a run")
    return each[""]


async def paced(framework: Framework, count: int) -> float:
    return await tokens(framework, count, paced=True)


async def rounds(framework: Framework, count: int) -> float:
    agent = framework.agent(Script(rounds=count))
    return (await times_async({"": lambda: framework.play(agent, nothing, nothing)}, count))[""]


async def growth(framework: Framework, count: int) -> float:
    few, many = await rounds(framework, count // 8), await rounds(framework, count)
    return 1 + math.log(many / few) / math.log(8)


def resident() -> int:
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def hold(framework: Framework, count: int) -> tuple[float, float]:
    """Kilobytes of each run that is open, and microseconds of each from start to end."""
    await framework.play(framework.agent(Script(tokens=20)), nothing, nothing)
    gate, arrived = asyncio.Event(), asyncio.Semaphore(0)
    script = [Script(tokens=20, hold=gate, at_hold=arrived.release) for _ in range(count)]
    agents = [framework.agent(each) for each in script]
    gc.collect()
    before, began = resident(), time.process_time()
    tasks = [asyncio.create_task(framework.play(agent, nothing, nothing)) for agent in agents]
    for _ in tasks:
        await arrived.acquire()
    opened = time.process_time() - began
    gc.collect()
    size = (resident() - before) / count / 1024
    began = time.process_time()
    gate.set()
    await asyncio.gather(*tasks)
    return size, (opened + time.process_time() - began) / count * 1e6


async def open_runs(framework: Framework, count: int) -> float:
    return (await hold(framework, count))[0]


async def at_once(framework: Framework, count: int) -> float:
    return (await hold(framework, count))[1]


WAYS: dict[str, Callable[..., object]] = {
    "one": one,
    "tokens": tokens,
    "paced": paced,
    "rounds": rounds,
    "growth": growth,
    "open": open_runs,
    "at-once": at_once,
}


def main(name: str, way: str, count: str) -> None:
    say({name: asyncio.run(WAYS[way](FRAMEWORKS[name](), int(count)))})


if __name__ == "__main__":
    main(*sys.argv[1:])
