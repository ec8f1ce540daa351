"""`handrail serve` as a person types it: up, asked, stopped; and what people get wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from handrail.apps.cli import app

MODULE = """
from handrail import Loop
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, fail, stall, text

loop = Loop([ScriptedBackend([text("It is warm.")] * 3, model="one")])
slow = Loop([ScriptedBackend([[text("It is"), stall()]])])
broken = Loop([ScriptedBackend([fail("http", status=401, message="no key")])])
closed = agui_app(loop, authorize=lambda request: request.headers.get("key") == "k")

def for_each(given, principal):
    return loop

def takes_nothing():
    return loop

word = "loop"
"""
ASKED: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "hi"}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module in it that is the current one."""
    (tmp_path / "served_here.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    return tmp_path


class Served:
    """A running command."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.first_line = process.stdout.readline()
        self.url = next((word.rstrip(".") for word in self.first_line.split() if word.startswith("http")), "")

    def stop(self, how: int = signal.SIGINT) -> tuple[int, str, str]:
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "handrail", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    try:
        yield Served(process)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "place"),
    [(["served_here:loop"], "/"), (["served_here", "--path", "agui"], "/agui"), (["served_here:for_each"], "/")],
)
def test_a_loop_is_served(folder: Path, arguments: list[str], place: str) -> None:
    """P-76: at the path it is told, the health of it at its own; elsewhere is nothing. Ctrl-C is a good end."""
    with served(folder, *arguments) as server:
        assert server.url.endswith(place)
        answer = httpx.post(server.url, json=ASKED)
        root = server.url.removesuffix(place)
        assert answer.status_code == 200
        assert "It is warm." in answer.text
        assert httpx.get(f"{root}/healthz").json() == {"status": "ok"}
        assert httpx.get(f"{server.url.rstrip('/')}/runs/r/events").status_code == 200
        assert httpx.post(f"{root}/elsewhere", json=ASKED).status_code == 404
        if place != "/":
            assert httpx.post(f"{root}/", json=ASKED).status_code == 404
        assert server.stop() == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)])
def test_stopping_ends_what_is_streamed(folder: Path, how: int, code: int) -> None:
    """P-96: the client is told that its run was cancelled, and the process goes without a complaint."""
    with served(folder, "served_here:slow") as server:
        body: list[str] = []
        begun = threading.Event()

        def read() -> None:
            with httpx.stream("POST", server.url, json=ASKED, timeout=20) as answer:
                for piece in answer.iter_text():
                    body.append(piece)
                    if "It is" in piece:
                        begun.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert begun.wait(10)
        ended = server.stop(how)
        reader.join(10)
    assert ended == (code, "", "")
    last = json.loads("".join(body).strip().splitlines()[-1].removeprefix("data: "))
    assert last["outcome"] == {"type": "cancelled"}


@pytest.mark.slow
def test_a_failure_is_told_here_and_not_to_the_client(folder: Path) -> None:
    with served(folder, "served_here:broken") as server:
        assert "no key" not in httpx.post(server.url, json=ASKED).text
        assert server.stop() == (0, "", "run r failed: BackendError (401): no key\n")


def test_a_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "handrail.apps._serve", raising=False)
    monkeypatch.setitem(sys.modules, "starlette.types", None)
    done = CliRunner().invoke(app, ["serve", "served_here"])
    assert done.exit_code == 2
    assert "pip install 'handrail[server]'" in done.stderr


@pytest.mark.slow
def test_an_app_with_its_own_options_is_served(folder: Path) -> None:
    """P-78: an `agui_app` is served as it is."""
    with served(folder, "served_here:closed") as server:
        assert httpx.post(server.url, json=ASKED).status_code == 403
        assert httpx.post(server.url, json=ASKED, headers={"key": "k"}).status_code == 200


@pytest.mark.slow
def test_whoever_serves_to_the_world_is_told_so(folder: Path) -> None:
    """P-78: without `authorize`, at an address that others reach."""
    with served(folder, "served_here", "--host", "0.0.0.0") as server:
        _, _, err = server.stop()
    assert err.startswith("Whoever reaches this address")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["served_here:nothing"], "has no 'nothing'"),
        (["served_here:word"], "'served_here:word' is of class str; it takes a Loop, "),
        (["served_here:takes_nothing"], "a function of an input and a principal that returns one, or an agui_app."),
        (["not_here"], "There is no module"),
        (["json"], "has no `loop`"),
        (["served_here", "--host", "192.0.2.1"], "Cannot listen at 192.0.2.1"),
        (["served_here", "--host", " "], "--host is empty"),
    ],
)
def test_what_people_get_wrong(folder: Path, arguments: list[str], words: str) -> None:
    """One or two lines, and code 2."""
    done = CliRunner().invoke(app, ["serve", *arguments])
    assert done.exit_code == 2
    assert words in done.output
    assert len(done.output.splitlines()) <= 2


def test_a_port_that_is_taken(folder: Path) -> None:
    """It says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = CliRunner().invoke(app, ["serve", "served_here", "--port", str(taken.getsockname()[1])])
    assert done.exit_code == 2
    assert done.output.endswith(": Address already in use. Choose others with --host, --port.\n")
