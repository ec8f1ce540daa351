"""Our client and our server, with one thing going wrong between them, at every kind of place in every exchange."""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import anyio
import pytest
from tests.agui.effort import FACTOR
from tests.faults.conversation import SCENARIOS, go_on, talk
from tests.faults.forker import Child, Forker
from tests.faults.judge import (
    calls_at,
    executed_once,
    left_at,
    nothing_twice,
    open_files,
    own_threads,
    talking,
    until,
)
from tests.faults.places import places
from tests.faults.proxy import ACTS, CHANGES, Fault, Proxy
from tests.faults.received import Received, received
from tests.faults.verdicts import judge, judge_end

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STRIDE = max(1, 41 // FACTOR)
"""Of so many faults one is tried."""
AT_ONCE = 24
SILENCE = 2.5
"""Seconds of silence after which a client gives up where a fault may leave both ends waiting."""
WAITING = CHANGES | {"stall"}


class Case(NamedTuple):
    """A fault on one connection of a scenario."""

    scenario: str
    on: int
    fault: Fault
    where: str


@pytest.fixture(scope="module")
def server(forker: Forker) -> Iterator[Child]:
    child = forker.start("server")
    child.wait("up")
    yield child
    child.kill()


def port_of(server: Child) -> int:
    return server.wait("up")["port"]


def named(what: str, scenario: str) -> str:
    """The id of a thread; all are of one length, so that answers have one layout."""
    return f"{what:>20} {scenario:>12}"


async def whole(server: Child, scenario: str) -> list[tuple[bytes, bytes]]:
    """What goes over each connection of a conversation in which nothing goes wrong."""
    with Proxy(port_of(server)) as proxy:
        async with talking(proxy.url, thread_id=named("whole", scenario)) as watched:
            assert (await talk(watched.session, scenario)).ok
    return [(bytes(one.request.passed), bytes(one.answer.passed)) for one in proxy.connections]


async def cases(server: Child, scenario: str) -> list[Case]:
    """Everything that can go wrong at every place; and, if more is asked for, at any byte."""
    found: list[Case] = []
    chance = random.Random(FACTOR)
    for on, (request, answer) in enumerate(await whole(server, scenario)):
        for way, message in (("request", request), ("answer", answer)):
            anywhere = [("anywhere", chance.randrange(len(message))) for _ in range(20 * (FACTOR - 1))]
            for where, at in [*places(message), *anywhere]:
                found += [Case(scenario, on, Fault(how, way, at), where) for how in ACTS]
    return found


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_fault_between_client_and_server(
    scenario: str, anyio_backend: str, server: Child, survived: Counter[str], slowest: Counter[str]
) -> None:
    """S-13, S-14, S-18, S-57, S-66, P-70, P-71, P-73, P-93: it ends, says what is true, and goes on.

    Half of the faults are met in each of the event loops.
    """
    before, files, threads = left_at(f"http://127.0.0.1:{port_of(server)}/"), open_files(), own_threads()
    chosen = (await cases(server, scenario))[(anyio_backend == "trio") * STRIDE :: STRIDE * 2]
    failed: list[str] = []
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def meet(number: int, case: Case) -> None:
        async with limit:
            try:
                await survive(server, case, named(f"{anyio_backend} {number}", scenario), survived, slowest)
            except Exception as error:
                failed.append(f"{case}:\n{''.join(traceback.format_exception(error)[-2:])}")

    async with anyio.create_task_group() as group:
        for number, case in enumerate(chosen):
            group.start_soon(meet, number, case)
    assert not failed, "\n".join(failed)
    assert len(chosen) > 20
    assert {case.fault.how for case in chosen} == set(ACTS)
    await until(lambda: open_files() <= files, "a socket is left")
    await until(lambda: own_threads() <= threads, "a thread is left")
    await until(lambda: left_at(f"http://127.0.0.1:{port_of(server)}/") == before, f"more is open than {before}")


async def survive(server: Child, case: Case, thread: str, survived: Counter[str], slowest: Counter[str]) -> None:
    """One conversation in which this goes wrong, and its going on."""
    fault = case.fault
    with Proxy(port_of(server), fault, on=case.on) as proxy:
        patience = SILENCE if fault.how in WAITING else 20.0
        async with talking(proxy.url, thread_id=thread, idle_timeout=patience) as watched:
            with anyio.fail_after(30):
                state = await talk(watched.session, case.scenario)
            [*_, last] = answers(proxy)
            if len(watched.asked) > case.on:
                judge(watched.asked[case.on], watched.heard[case.on], answers(proxy)[case.on], fault)
            judge_end(watched.asked[-1], watched.heard[-1], last, state)
            slowest["server's run over"] = max(slowest["server's run over"], await runs_over(server, thread))
            await go_on(watched.session)
            nothing_twice(watched, case.scenario)
            assert watched.problems([answer.body for answer in answers(proxy)]) == []
            executed_once(watched, calls_at([server], thread))
    assert all(connection.over.is_set() for connection in proxy.connections)
    survived[f"{fault.how} ({fault.way})"] += 1


def answers(proxy: Proxy) -> list[Received]:
    """What has come to the client so far, over each connection."""
    return [received(bytes(one.answer.passed), is_closed=one.answer.is_ended) for one in proxy.connections]


async def runs_over(server: Child, thread: str) -> float:
    """Wait until the server has nothing to do for a thread any more; how many seconds that took."""
    since = time.monotonic()
    for asked in server.told("asked", thread=thread):
        await until(lambda run=asked["run"]: server.told("ran", run=run), f"the run of {thread} goes on")
    return time.monotonic() - since
