"""Our client and our server, with one thing going wrong between them, at every kind of place in every exchange."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from tests.agui.effort import FACTOR
from tests.faults.conversation import SCENARIOS
from tests.faults.forker import Child, Forker
from tests.faults.judge import calls_at, executed_once, left_at, open_files, own_threads, until
from tests.faults.meeting import Case, cases, harmed, meet_all, named, one_of
from tests.faults.proxy import ACTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0 if FACTOR > 1 else 180), pytest.mark.usefixtures("quiet")]

SILENCE = 2.5


@pytest.fixture(scope="module")
def server(forker: Forker) -> Iterator[Child]:
    child = forker.start("server")
    yield child
    child.kill()


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_fault_between_client_and_server(
    scenario: str, anyio_backend: str, server: Child, survived: Counter[str], took: Callable[[str, float], None]
) -> None:
    """S-13, S-14, S-18, S-57, S-66, P-70, P-71, P-73, P-93: it ends, says what is true, and goes on.

    Half of the faults are met in each of the event loops.
    """
    port: int = server.wait("up")["port"]
    url = f"http://127.0.0.1:{port}/"
    before, files, threads = left_at(url), open_files(), own_threads()
    chosen = one_of(await cases(port, scenario), 59, half=anyio_backend == "trio")

    async def meet(number: int, case: Case) -> None:
        thread = named(anyio_backend, number, scenario)
        async with harmed(case, port, thread, silence=SILENCE) as talk:
            took("server's run over behind a harmed connection", await runs_over(server, thread))
        executed_once(talk, calls_at([server], thread))

    await meet_all(chosen, meet, survived)
    assert {case.fault.how for case in chosen} == set(ACTS)
    await until(lambda: open_files() <= files, "a socket is left")
    await until(lambda: own_threads() <= threads, "a thread is left")
    await until(lambda: left_at(url) == before, f"more is open than {before}")


async def runs_over(server: Child, thread: str) -> float:
    """Wait until the server has nothing to do for a thread any more; how many seconds that took."""
    since = time.monotonic()
    for began in server.told("began", thread=thread):
        await until(lambda run=began["run"]: server.told("ran", run=run), f"the run of {thread} goes on")
    return time.monotonic() - since
