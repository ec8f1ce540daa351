"""The mock of others' making (OpenAI-compatible, and AG-UI), as a process of its own for as long as a `with` lasts."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.processes import listening

DIST = Path("node_modules/@copilotkit/aimock/dist")


class Aimock:
    """A running mock: `url` is what a client takes as its base url."""

    def __init__(self, port: int) -> None:
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"

    def journal(self) -> list[dict[str, Any]]:
        """The requests it has seen, oldest first."""
        with urllib.request.urlopen(f"{self.root}/__aimock/journal", timeout=5) as answer:
            seen = json.load(answer)
        return seen["entries"] if isinstance(seen, dict) else seen


@contextlib.contextmanager
def running(peers: Path, fixtures: Path) -> Iterator[Aimock]:
    """Start it on a free port with these fixtures; stop it on leaving."""
    options = ["-f", str(fixtures), "--strict", "--log-level", "warn"]
    with listening(lambda port: ["node", str(peers / DIST / "cli.js"), "-p", str(port), *options]) as port:
        yield Aimock(port)


@contextlib.contextmanager
def running_agui(peers: Path, config: Path) -> Iterator[int]:
    """Start it with its AG-UI mock, as a configuration says; yields the port, and POST /agui is the agent."""
    program = str(peers / DIST / "aimock-cli.js")
    options = ["--config", str(config)]
    with listening(lambda port: ["node", program, *options, "-p", str(port)], cwd=config.parent) as port:
        yield port
