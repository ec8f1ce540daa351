"""The chat in a real terminal: it starts from the command line, and leaving it waits for nothing."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PATIENCE = 40.0  # seconds; importing everything is slow on a busy machine

STUCK = """
import threading
from handrail import Loop, tool
from handrail.testing import ScriptedBackend, call

@tool
def sleep_on() -> str:
    "Listens to nobody."
    threading.Event().wait(3_600)
    return ""

loop = Loop(backends=[ScriptedBackend([call("sleep_on")])], tools=[sleep_on])
"""


class Terminal:
    def __init__(self, process: subprocess.Popen[bytes], end: int) -> None:
        self.process = process
        self.output = ""
        self._end = end

    def press(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def read_until(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.output):
            assert time.monotonic() < deadline, self.output[-2_000:]
            if select.select([self._end], [], [], 0.2)[0]:
                try:
                    self.output += os.read(self._end, 65_536).decode(errors="replace")
                except OSError:  # the other end is closed
                    assert text in self.output
                    return


@contextmanager
def terminal(*arguments: str, cwd: Path) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "handrail", *arguments]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=environment)
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo terminals")
def test_leaving_waits_for_no_tool_that_is_stuck_and_names_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(STUCK)
    with terminal("chat", "stuck:loop", cwd=tmp_path) as screen:
        screen.read_until("ready")
        screen.press("go\r")
        screen.read_until("waiting for its result")
        screen.press("\x11")
        pressed = time.monotonic()
        screen.read_until("The run that was going on has been stopped.")
        screen.read_until("Left behind, still running: sleep_on.")
        assert screen.process.wait(PATIENCE) == 0
        assert time.monotonic() - pressed < 10


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo terminals")
def test_without_an_argument_it_talks_to_the_scripted_agent(tmp_path: Path) -> None:
    with terminal("chat", cwd=tmp_path) as screen:
        screen.read_until("ready")
        screen.press("how is the weather?\r")
        screen.read_until("✓ finished")
        screen.press("\x11")
        assert screen.process.wait(PATIENCE) == 0
    assert "Traceback" not in screen.output


def test_what_is_typed_while_the_chat_comes_up_is_in_the_message(tmp_path: Path) -> None:
    with terminal("chat", cwd=tmp_path) as screen:
        screen.press("Grüße")
        screen.read_until("ready")
        screen.press(" long")
        screen.read_until("Grüße long")
        screen.press("\x11")
        assert screen.process.wait(PATIENCE) == 0
