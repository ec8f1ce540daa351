"""The servers, each started at its first use and once for all tests, and a relay to one of them for each test."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.conftest import SHARED
from tests.live.environments import Unavailable, python_of
from tests.live.kit import Live
from tests.live.relay import Relay
from tests.processes import listening

THEIRS = SHARED / "peers" / "servers"


@dataclass(frozen=True)
class Server:
    """A program that serves an agent; an `environment` of None is the project's own."""

    script: Path
    environment: str | None
    path: str = "/agui"
    env: Mapping[str, str] = field(default_factory=dict[str, str])


SERVERS = {
    "handrail": Server(Path(__file__).parent / "handrail_server.py", None, path="/"),
    "pydantic-ai": Server(THEIRS / "pydantic_ai_server.py", "pydantic-ai", env={"PEER_SLOW": "0.15"}),
    "langgraph": Server(THEIRS / "langgraph_server.py", "langgraph"),
    "langgraph-older": Server(THEIRS / "langgraph_server.py", "langgraph", env={"PEER_OUTCOME": "0", "PEER_RAW": "0"}),
}


class Servers:
    """The servers that are asked for, by name; they come up side by side, and are stopped with `stack`."""

    def __init__(self, names: Iterable[str], stack: ExitStack) -> None:
        pool = stack.enter_context(ThreadPoolExecutor())
        self._ports = {name: pool.submit(_started, SERVERS[name], stack) for name in names}

    def port(self, name: str) -> int:
        """Where a server listens; skips the test where it cannot be had."""
        try:
            return self._ports[name].result()
        except Unavailable as error:
            pytest.skip(str(error))


def _started(server: Server, stack: ExitStack) -> int:
    if not server.script.exists():
        raise Unavailable("the servers of others' making are not beside this checkout")
    python = sys.executable if server.environment is None else str(python_of(server.environment))
    return stack.enter_context(
        listening(lambda port: [python, str(server.script), "--port", str(port)], env=server.env)
    )


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    cases = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    with ExitStack() as stack:
        yield Servers({params["live"] for params in cases if "live" in params}, stack)


@pytest.fixture
def anyio_backend() -> str:
    """Servers are too slow to be asked everything twice: a test says what it does on trio (`on(..., trio=...)`)."""
    return "asyncio"


@pytest.fixture
def live(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Live]:
    """The server that the test names by `on(...)`, behind a relay."""
    with Relay(servers.port(request.param), SERVERS[request.param].path) as relay:
        yield Live(request.param, relay)
