"""Watching a run from a real process: its last line, its exit code, Ctrl-C, and a reader that goes away."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

import pytest

pytestmark = pytest.mark.slow  # every test starts an interpreter

PRELUDE = """
import sys, threading, anyio
from ag_ui import core as agui
from handrail import events as ev
from handrail.apps._watch import watch
from handrail.apps.cli import exit_code
from handrail.run import drive

async def body(driver):
    driver.emit(ev.RoundStarted(round=1))
    driver.emit(ev.AttemptStarted(round=1, attempt=1, backend_index=0, model="m", message_id="m1"))
    driver.emit(ev.Token(text="Hello", round=1, attempt=1))
    await rest(driver)

def completed():
    return ev.RunCompleted(final="Hello", rounds=1, message_count=1)

def main():
    sys.exit(exit_code(lambda: watch(drive(body), as_json="--json" in sys.argv), debug=False))
"""

ENDS = "async def rest(driver): driver.finish(completed(), final='Hello')"
FAILS = "async def rest(driver): driver.finish(ev.RunFailed(error='no', attempts=()), error='no')"
WAITS = "async def rest(driver): await anyio.sleep_forever()"
WEDGED = "async def rest(driver): threading.Event().wait()"
LEAVES_A_TOOL = """
async def rest(driver):
    driver.begin_work("tool slow")
    driver.finish(completed(), final="Hello")
"""
TALKS = """
async def rest(driver):
    while True:
        driver.emit(ev.Token(text="x" * 4096, round=1, attempt=1))
        await anyio.sleep(0)
"""


@contextmanager
def watching(rest: str, *args: str, stdout: int | IO[bytes] = subprocess.PIPE) -> Iterator[subprocess.Popen[bytes]]:
    script = f"{PRELUDE}\n{rest}\nmain()"
    with subprocess.Popen([sys.executable, "-c", script, *args], stdout=stdout, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def until_hello(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    seen = b""
    while b"Hello" not in seen:
        seen += os.read(process.stdout.fileno(), 1_000)


def end_of(process: subprocess.Popen[bytes]) -> tuple[list[str], int]:
    """The lines still to come on standard output, and the exit code; standard error stays empty."""
    out, err = process.communicate(timeout=30)
    assert err.decode() == ""
    return out.decode().splitlines(), process.returncode


@pytest.mark.parametrize(("rest", "word", "code"), [(ENDS, "completed", 0), (FAILS, "failed", 1)])
def test_the_exit_code_and_the_last_line_say_how_the_run_ended(rest: str, word: str, code: int) -> None:
    with watching(rest) as process:
        lines, returned = end_of(process)
    assert returned == code
    assert lines[-1].startswith(f"{word} · 1 round · ")
    assert lines[-1].endswith(" · drained")


def test_ctrl_c_cancels_and_the_last_line_says_so() -> None:
    with watching(WAITS) as process:
        until_hello(process)
        process.send_signal(signal.SIGINT)
        lines, returned = end_of(process)
    assert returned == 130
    assert lines[-1].startswith("cancelled by Ctrl-C · 1 round · ")


def test_a_second_ctrl_c_leaves_at_once() -> None:
    """A run that does not react to being cancelled holds nobody: not even the interpreter's exit waits for it."""
    with watching(WEDGED) as process:
        until_hello(process)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        lines, returned = end_of(process)
    assert returned == 130
    assert lines[-1].startswith("left by a second Ctrl-C, the run had not ended · 1 round · ")
    assert lines[-1].endswith(" · still running: run")


def test_a_tool_that_still_works_is_named_and_not_waited_for() -> None:
    with watching(LEAVES_A_TOOL) as process:
        lines, returned = end_of(process)
    assert returned == 0
    assert lines[-1].endswith(" · still running: tool slow")


def test_json_is_the_events_and_then_the_outcome() -> None:
    with watching(ENDS, "--json") as process:
        lines, returned = end_of(process)
    *events, outcome = [json.loads(line) for line in lines]
    assert [event["kind"] for event in events] == ["round-started", "attempt-started", "token", "run-completed"]
    assert [event["seq"] for event in events] == [0, 1, 2, 3]
    assert (outcome["outcome"], outcome["final"], returned) == ("completed", "Hello", 0)


@pytest.mark.parametrize("args", [(), ("--json",)])
def test_a_reader_that_goes_away_cancels_the_run_quietly(args: tuple[str, ...]) -> None:
    with watching(TALKS, *args) as process:
        until_hello(process)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(30) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_without_a_terminal_there_is_no_colour() -> None:
    with watching(FAILS) as process:
        lines, _ = end_of(process)
    assert "\x1b" not in "".join(lines)


TAKES_BACK = """
async def rest(driver):
    driver.emit(ev.AttemptFailed(round=1, attempt=1, backend_index=0, model="m", error="lost", error_class="connection",
                                 disposition="abort"))
    driver.emit(ev.ReasoningToken(text="Hm.", round=1, attempt=2))
    driver.finish(ev.RunFailed(error="lost", attempts=()), error="lost")
"""


def on_a_terminal(rest: str, **env: str) -> str:
    """What a person's terminal of 80 columns would be sent."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    script = f"{PRELUDE}\n{rest}\nmain()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=theirs,
        env={**os.environ, "TERM": "xterm-256color", "NO_COLOR": "", **env},
    ) as process:
        os.close(theirs)
        sent = b""
        with suppress(OSError):  # how Linux says that nobody has the other end any more
            while piece := os.read(ours, 4096):
                sent += piece
        process.wait(30)
    os.close(ours)
    return sent.decode()


def test_on_a_terminal_reasoning_is_dim_and_what_is_retracted_is_struck_out() -> None:
    sent = on_a_terminal(TAKES_BACK)
    assert "\x1b[2;9mHello\x1b[0m" in sent
    assert "\x1b[2;3mHm.\x1b[0m" in sent
    assert "\x1b[31mfailed · 1 round" in sent


def test_no_color_is_respected() -> None:
    sent = on_a_terminal(TAKES_BACK, NO_COLOR="1")
    assert "\x1b[3" not in sent


def test_the_last_line_is_wrapped_between_words() -> None:
    work = "a tool with a very long name"
    sent = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(LEAVES_A_TOOL.replace("tool slow", work)))
    assert " ".join(sent.split()).endswith(f"still running: {work}")
    assert max(len(line) for line in sent.splitlines()) <= 80
