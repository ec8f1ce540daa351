"""SIGKILL for the server, at every frame of every scenario; then another one comes up where it was."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import anyio
import pytest
from ag_ui.core import RunFinishedEvent
from tests.agui.effort import FACTOR
from tests.faults.conversation import SCENARIOS, go_on, talk
from tests.faults.forker import Child, Forker
from tests.faults.judge import Talk, calls_at, executed_once, nothing_twice, open_files, own_threads, talking, until

from handrail import Failed, Finished, RunState

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0 if FACTOR > 1 else 180), pytest.mark.usefixtures("quiet")]


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_server_is_killed(scenario: str, anyio_backend: str, forker: Forker, survived: Counter[str]) -> None:
    """S-13, S-14, S-57, S-94, P-71: the call returns, what was delivered stays, and the thread goes on elsewhere.

    Half of the frames are for each of the event loops.
    """
    servers = [forker.start("server")]
    port = servers[0].wait("up")["port"]
    files, threads = open_files(), own_threads()
    step = 2 if FACTOR == 1 else 1
    hold = 0
    for hold in count(0 if anyio_backend == "asyncio" else step - 1, step):
        thread = f"{scenario} {hold}"
        async with talking(f"http://127.0.0.1:{port}/", thread_id=thread) as watched:
            state = await killed(servers[-1], watched, scenario, hold)
            if not servers[-1].told("killed"):
                assert state.ok, "nothing was held, so nothing was lost"
                break
            ended_well(watched, state)
            servers.append(forker.start("server", port=port))
            await anyio.to_thread.run_sync(servers[-1].wait, "up")
            await go_on(watched.session)
            nothing_twice(watched, scenario)
            watched.judge()
            executed_once(watched, calls_at(servers, thread))
        survived["servers killed"] += 1
    servers[-1].kill()
    assert hold > 10
    await until(lambda: open_files() <= files, "a socket is left")
    await until(lambda: own_threads() <= threads, "a thread is left")


async def killed(server: Child, watched: Talk, scenario: str, hold: int) -> RunState:
    """The end of the conversation, whose server is killed when all that it sends has been heard."""
    states: list[RunState] = []

    async def converse() -> None:
        states.append(await talk(watched.session, scenario, hold))
        group.cancel_scope.cancel()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(converse)
            thread = watched.session.thread_id
            await until(lambda: server.told("held", thread=thread) and watched.events == hold, "never held", 20)
            await anyio.to_thread.run_sync(server.kill)
    return states[0]


def ended_well(watched: Talk, state: RunState) -> None:
    """The agent's word stands where it was heard whole, and nobody makes one up."""
    last: Any = watched.heard[-1].events[-1] if watched.heard[-1].events else None
    if isinstance(last, RunFinishedEvent):
        assert isinstance(state, Finished)
    else:
        assert isinstance(state, Failed)
        assert (state.code, state.kind) == ("CLIENT_ERROR", "transport")


async def test_the_command_is_killed(forker: Forker, survived: Counter[str]) -> None:
    """S-14, P-71: `handrail serve`, in the middle of an answer; the same command at the same port goes on."""
    server = forker.start("command")
    port = server.wait("up")["port"]
    async with talking(f"http://127.0.0.1:{port}/") as watched:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(watched.session.send, "slow")
                await until(lambda: watched.events == 4, "never came", 20)
                await anyio.to_thread.run_sync(server.kill)
        ended_well(watched, watched.session.transcript.run)
        server = forker.start("command", port=port)
        await anyio.to_thread.run_sync(server.wait, "up")
        await go_on(watched.session)
        nothing_twice(watched, "slow")
        watched.judge()
    server.kill()
    survived["servers killed"] += 1
