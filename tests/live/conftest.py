"""The servers, each started at its first use and once for all tests, and a relay to one of them for each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
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
    "pydantic-ai": Server(THEIRS / "pydantic_ai_server.py", "pydantic-ai"),
    "langgraph": Server(THEIRS / "langgraph_server.py", "langgraph"),
    "langgraph-older": Server(THEIRS / "langgraph_server.py", "langgraph", env={"PEER_OUTCOME": "0", "PEER_RAW": "0"}),
}


class Servers:
    """The port of each server, by its name. One that cannot be started once is not tried again."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._started: dict[str, int | Unavailable] = {}

    def port(self, name: str) -> int:
        if name not in self._started:
            try:
                self._started[name] = self._start(SERVERS[name])
            except Unavailable as error:
                self._started[name] = error
        port = self._started[name]
        if isinstance(port, Unavailable):
            pytest.skip(str(port))
        return port

    def _start(self, server: Server) -> int:
        if not server.script.exists():
            raise Unavailable("the servers of others' making are not beside this checkout")
        python = sys.executable if server.environment is None else str(python_of(server.environment))
        program = listening(lambda port: [python, str(server.script), "--port", str(port)], env=server.env)
        return self._stack.enter_context(program)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack)


@pytest.fixture
def anyio_backend() -> str:
    """Servers are too slow to be asked everything twice: a test says what it does on trio (`on(..., trio=...)`)."""
    return "asyncio"


@pytest.fixture
def live(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Live]:
    """The server that the test names by `on(...)`, behind a relay."""
    with Relay(servers.port(request.param), SERVERS[request.param].path) as relay:
        yield Live(request.param, relay)
