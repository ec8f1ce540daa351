"""The same where one end is of others' making: their servers and our client, their client and our server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.agui.effort import FACTOR
from tests.faults.forker import Forker
from tests.faults.judge import WITHIN, left_at, open_files, own_threads, until
from tests.faults.meeting import Case, cases, harmed, meet_all, named, one_of
from tests.faults.proxy import Fault, Proxy
from tests.live.conftest import SERVERS, Servers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0 if FACTOR > 1 else 180)]

THEIRS = {
    ("pydantic-ai", "text"): 131,
    ("pydantic-ai", "tool"): 257,
    ("pydantic-ai", "client-tool"): 359,
    ("pydantic-ai", "interrupt"): 211,
    ("langgraph", "text"): 503,
}
"""What is played with them, and of how many faults one is tried."""
SILENCE = 5.0


@pytest.fixture(scope="module")
def peers_up() -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers({server for server, _ in THEIRS}, stack)


@pytest.fixture
def anyio_backend() -> str:
    """What is tried here is their ends; our client was tried in both event loops."""
    return "asyncio"


@pytest.mark.parametrize(("peer", "scenario"), THEIRS)
async def test_a_fault_between_our_client_and_their_server(
    peer: str, scenario: str, peers_up: Servers, survived: Counter[str]
) -> None:
    """S-13, S-14, S-57, P-70, P-71: what is true of our own server's answers is true of theirs."""
    port, path = peers_up.port(peer), SERVERS[peer].path.removeprefix("/")
    files, threads = open_files(), own_threads()
    chosen = one_of(await cases(port, scenario, path), THEIRS[peer, scenario])

    async def meet(number: int, case: Case) -> None:
        async with harmed(case, port, named(number, scenario), path=path, silence=SILENCE) as talk:
            talk.give_up()
        assert all(times == 1 for times in Counter(talk.calls).values())

    await meet_all(chosen, meet, survived)
    assert len(chosen) > 10
    await until(lambda: open_files() <= files, "a socket is left")
    await until(lambda: own_threads() <= threads, "a thread is left")


# -- the official TypeScript client ------------------------------------------------------------------------------------

TO_TYPESCRIPT = [
    Fault("cut", "answer", 700),
    Fault("reset", "answer", 900),
    Fault("drop", "answer", 1200),
]
"""All in the middle of something."""


@pytest.mark.skipif(shutil.which("node") is None, reason="the client runs on node, which is not here")
async def test_a_fault_between_their_client_and_our_server(
    shared: Path, peers: Path, forker: Forker, survived: Counter[str]
) -> None:
    """P-93, P-97: their client is told of no end that did not come, and our server's runs are over."""
    server = forker.start("server")
    port: int = server.wait("up")["port"]
    before = left_at(f"http://127.0.0.1:{port}/")
    program = [str(shared / "peers/clients/tsclient.mjs")]

    def converse(fault: Fault) -> None:
        with Proxy(port, fault) as proxy:
            command = ["node", *program, proxy.url, "text", "--thread", f"{fault.how} {fault.way}", "--timeout", "20"]
            env = os.environ | {"PEER_NODE": str(peers)}
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=40, check=False)
            assert done.returncode == 0, done.stdout
            lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
            passed = bytes(proxy.connections[0].answer.passed)
        told = [line["event"]["type"] for line in lines if "event" in line]
        assert passed.count(b"RUN_FINISHED") >= told.count("RUN_FINISHED")
        assert (lines[-1]["end"]["error"] is None) is ("RUN_FINISHED" in told)

    with ThreadPoolExecutor(2) as pool:
        for fault, _ in zip(TO_TYPESCRIPT, pool.map(converse, TO_TYPESCRIPT), strict=True):
            survived[fault.how] += 1
    for began in server.told("began"):
        server.wait("ran", run=began["run"], within=WITHIN)
    await until(lambda: left_at(f"http://127.0.0.1:{port}/") == before, f"more is open than {before}")
    server.kill()
