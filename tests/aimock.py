"""The OpenAI-compatible mock of others' making, as a process of its own for as long as a `with` lasts."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLI = Path("node_modules/@copilotkit/aimock/dist/cli.js")
UP_WITHIN = 20.0


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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["node", str(peers / CLI), "-p", str(port), "-f", str(fixtures), "--strict", "--log-level", "warn"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_up(process, port)
        yield Aimock(port)
    finally:
        process.terminate()
        process.wait(10)


def _wait_until_up(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + UP_WITHIN
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"aimock went away with code {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise TimeoutError(f"aimock is not up after {UP_WITHIN} s")
