"""Conversations through the proxy in which one thing goes wrong, judged, and gone on with."""

from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Literal, NamedTuple

import anyio
from tests.agui.effort import FACTOR
from tests.faults.conversation import go_on, talk
from tests.faults.judge import PATIENCE, Talk, nothing_twice, talking
from tests.faults.places import places
from tests.faults.proxy import ACTS, CHANGES, Fault, Proxy
from tests.faults.received import Received, received
from tests.faults.verdicts import judge, judge_end

AT_ONCE = 24
"""Cases that are met at the same time; most of the time most of them wait."""
Way = Literal["request", "answer"]
MAY_WAIT = CHANGES | {"stall"}
"""Faults that may leave both ends waiting, so that a client has to give up."""
BOUND = 30.0
"""Seconds within which a conversation is over, whatever goes wrong; most are in a few hundredths."""


class Case(NamedTuple):
    """A fault on one connection of a scenario."""

    scenario: str
    on: int
    fault: Fault
    where: str


def named(*what: object) -> str:
    """The id of a thread: of one length, so that answers have one layout, and no byte away from any other's."""
    return sha256(repr(what).encode()).hexdigest()[:32]


async def cases(port: int, scenario: str, path: str = "") -> list[Case]:
    """Everything that can go wrong at every place of the scenario; and, if more is asked for, at any byte."""
    with Proxy(port) as proxy:
        async with talking(proxy.url + path, thread_id=named("whole", scenario, path)) as watched:
            assert (await talk(watched.session, scenario)).ok
    found: list[Case] = []
    chance = random.Random(FACTOR)
    for on, connection in enumerate(proxy.connections):
        ways: list[tuple[Way, bytearray]] = [
            ("request", connection.request.passed),
            ("answer", connection.answer.passed),
        ]
        for way, message in ways:
            anywhere = [("anywhere", chance.randrange(len(message))) for _ in range(FACTOR - 1)]
            for where, at in [*places(bytes(message)), *anywhere]:
                found += [Case(scenario, on, Fault(how, way, at), where) for how in ACTS]
    return found


def one_of(found: Sequence[Case], many: int, *, half: int | None = None) -> Sequence[Case]:
    """One of so many cases, more if more is asked for, and of these all or one half; of each kind as many."""
    step = max(1, many // FACTOR)
    if step % len(ACTS) == 0:  # it would meet one kind of fault, and no other
        step += 1
    return found[::step] if half is None else found[half * step :: 2 * step]


async def meet_all(
    chosen: Sequence[Case], meet: Callable[[int, Case], Awaitable[object]], survived: Counter[str]
) -> None:
    """Meet all of them, some at a time; then say of all those that did harm what it was."""
    harm: list[str] = []
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(number: int, case: Case) -> None:
        async with limit:
            try:
                await meet(number, case)
                survived[case.fault.how] += 1
            except Exception as error:
                harm.append(f"{case}:\n{''.join(traceback.format_exception(error)[-2:])}")

    async with anyio.create_task_group() as group:
        for number, case in enumerate(chosen):
            group.start_soon(one, number, case)
    assert not harm, "\n".join(harm)


@asynccontextmanager
async def harmed(case: Case, port: int, thread: str, *, silence: float, path: str = "") -> AsyncGenerator[Talk]:
    """A conversation in which this has gone wrong, and has been judged; it is gone on with behind the block.

    `silence` is after how many seconds of it a client gives up where a fault may leave both ends waiting.
    """
    fault = case.fault
    with Proxy(port, fault, on=case.on) as proxy:
        silence = silence if fault.how in MAY_WAIT else PATIENCE
        async with talking(proxy.url + path, thread_id=thread, silence=silence) as watched:
            with anyio.fail_after(BOUND):
                state = await talk(watched.session, case.scenario)
            came = answers(proxy)
            if len(watched.asked) > case.on:
                judge(watched.asked[case.on], watched.heard[case.on], came[case.on], fault)
            judge_end(watched.asked[-1], watched.heard[-1], came[-1], state)
            watched.agent.trusts = True
            yield watched
            await go_on(watched.session)
            nothing_twice(watched, case.scenario)
            watched.judge([answer.body for answer in answers(proxy)])
    assert all(connection.over.is_set() for connection in proxy.connections)


def answers(proxy: Proxy) -> list[Received]:
    """What has come to the client so far, over each connection."""
    return [received(bytes(one.answer.passed), is_closed=one.answer.is_ended) for one in proxy.connections]
