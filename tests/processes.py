"""A program of its own that listens on a port, for as long as a `with` lasts.

A guard stands between: this very file, run as a program. It stops what it started when its standard input ends, and
that ends with the process at the other side, however it ends. So no server is left behind, not by a timeout either.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

UP_WITHIN = 45.0
GONE_WITHIN = 10.0


@contextlib.contextmanager
def listening(
    command: Callable[[int], Sequence[str]], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[int]:
    """Start the program that `command` names for a free port of 127.0.0.1; yields the port once something answers.

    Leaving stops it, and waits for that. Raises `RuntimeError` with its last words if it goes away by itself before
    anything answers, and `TimeoutError` if nothing ever does.
    """
    port = _free_port()
    with tempfile.TemporaryFile() as said:
        guard = subprocess.Popen(
            [sys.executable, "-I", __file__, *command(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,  # an interrupt from the keyboard is for the tests, which then stop it
        )
        try:
            _wait_until_up(guard, port, said)
            yield port
        finally:
            assert guard.stdin is not None
            guard.stdin.close()
            guard.wait(2 * GONE_WITHIN)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_up(process: subprocess.Popen[bytes], port: int, said: IO[bytes]) -> None:
    deadline = time.monotonic() + UP_WITHIN
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said.seek(0)
            last = said.read().decode(errors="replace")[-2000:]
            raise RuntimeError(f"{process.args} went away with code {process.returncode}: {last}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise TimeoutError(f"{process.args} is not up after {UP_WITHIN} s")


def _guard(command: Sequence[str]) -> int:
    """Run a program until it ends, or until standard input does; its exit code."""
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def stop() -> None:
        sys.stdin.buffer.read()
        program.terminate()
        try:
            program.wait(GONE_WITHIN)
        except subprocess.TimeoutExpired:
            program.kill()

    threading.Thread(target=stop, daemon=True).start()
    return program.wait()


if __name__ == "__main__":
    sys.exit(_guard(sys.argv[1:]))
