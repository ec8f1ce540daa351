"""Processes that are there to be killed: forks of one program that has everything loaded, so each is up in an instant.

This file is both ends. Run as a program it takes lines of JSON: `{"start": role, ...}` forks a process that plays the
role and `{"kill": pid}` ends one by SIGKILL; when its standard input ends, so do all of them. What the processes have
to say are lines on its standard output, with the pid in each. `Forker` is the end that gives the orders.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0
"""Seconds within which a process says what it has to say."""

ROLES = {
    "server": "tests.faults.agent_server",
    "command": "tests.faults.served_by_command",
    "client": "tests.faults.killed_client",
}
"""Modules with a function `play(**options)`, and `warm()`, which loads before any fork what it would load in each."""


def say(**line: Any) -> None:
    """Tell the tests something; a line is one write, so that the lines of several processes do not mix."""
    os.write(1, json.dumps(line | {"pid": os.getpid(), "at": time.monotonic()}).encode() + b"\n")


class Child:
    """One of the processes, alive or killed. What it said is in `lines`, as it came."""

    def __init__(self, pid: int, kill: Callable[[], None]) -> None:
        self.pid = pid
        self.lines: list[dict[str, Any]] = []
        self._kill = kill
        self._news = threading.Condition()

    def hear(self, line: dict[str, Any]) -> None:
        with self._news:
            self.lines.append(line)
            self._news.notify_all()

    def told(self, what: str, **details: Any) -> list[dict[str, Any]]:
        """The lines of this kind, with these details, so far."""
        wanted = {"what": what} | details
        return [line for line in tuple(self.lines) if wanted.items() <= line.items()]

    def wait(self, what: str, *, within: float = PATIENCE, **details: Any) -> dict[str, Any]:
        """The first line of this kind, with these details, once it has come."""
        with self._news:
            came = self._news.wait_for(lambda: self.told(what, **details), within)
        assert came, f"{what} {details} never came of {self.pid}: {self.lines[-20:]}"
        return self.told(what, **details)[0]

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self._kill()
        self.wait("killed")


class Forker:
    """Gives the orders. `complaints` is all that the processes wrote to their standard error."""

    def __init__(self) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed in `close`
        self._program = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=ROOT,
            start_new_session=True,
        )
        self._children: dict[int, Child] = {}
        self._started: queue.Queue[Child | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name="forker", daemon=True)
        self._reader.start()

    def start(self, role: str, **options: Any) -> Child:
        self._order(start=role, **options)
        child = self._started.get(timeout=PATIENCE)
        assert child is not None, f"the program has gone away: {self.complaints()[-2000:]}"
        return child

    def complaints(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")

    def close(self) -> None:
        assert self._program.stdin is not None
        self._program.stdin.close()
        self._program.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self._program.stdout is not None
        self._program.stdout.close()
        self._stderr.close()

    def _order(self, **order: Any) -> None:
        assert self._program.stdin is not None
        self._program.stdin.write(json.dumps(order).encode() + b"\n")
        self._program.stdin.flush()

    def _read(self) -> None:
        assert self._program.stdout is not None
        for line in self._program.stdout:
            said = json.loads(line)
            pid = said.pop("pid")
            if said["what"] == "started":
                self._children[pid] = Child(pid, lambda pid=pid: self._order(kill=pid))
                self._started.put(self._children[pid])
            else:
                self._children[pid].hear(said)
        self._started.put(None)


@contextmanager
def forking() -> Generator[Forker]:
    forker = Forker()
    try:
        yield forker
    finally:
        forker.close()


def _main() -> None:
    modules = {role: importlib.import_module(name) for role, name in ROLES.items()}
    for module in modules.values():
        module.warm()
    for thread in threading.enumerate()[1:]:  # a fork has one thread, and would miss the others
        thread.join(PATIENCE)
    assert threading.active_count() == 1
    alive: set[int] = set()
    for line in sys.stdin:
        order = json.loads(line)
        if "kill" in order:
            _kill(order["kill"])
            alive.discard(order["kill"])
            os.write(1, json.dumps({"what": "killed", "pid": order["kill"]}).encode() + b"\n")
            continue
        play = modules[order.pop("start")].play
        pid = os.fork()
        if pid == 0:
            _play(play, order)
        alive.add(pid)
    for pid in alive:
        _kill(pid)


def _play(play: Callable[..., object], options: dict[str, Any]) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # orders are for the one that forks
    say(what="started")
    code = 1
    try:
        play(**options)
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    _main()
