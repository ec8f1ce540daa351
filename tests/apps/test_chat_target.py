"""Whom `handrail chat` talks to: what a person can name, and what is said of everything else."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.apps.http_servers import served
from typer.testing import CliRunner

from handrail.apps.cli import app

MODULE = """
from handrail import Loop, LoopAgent, RetryPolicy, tool
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, fail, text

def saying(words):
    return Loop([ScriptedBackend([text(words)] * 9)])

loop = saying("from a loop")
agent = LoopAgent(saying("from an agent"))
served = agui_app(loop)

broken_off = [text("half an"), fail("connection")]
twice = Loop([ScriptedBackend([broken_off, text("a whole answer")])], retry=RetryPolicy(backoff_cap=0.0))

def made(given, principal):
    return saying(f"{len(given.messages)} from a function for {principal}")

async def made_later(given, principal):
    return made(given, principal)

def breaks(given, principal):
    raise LookupError("no such user")

def makes_nothing(given, principal):
    return None

def takes_nothing():
    return loop

@tool
def a_tool(one: str, other: str) -> str:
    return one + other
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "talked_to_here.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.delitem(sys.modules, "talked_to_here", raising=False)


def said(name: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["chat", name, "--once", "hi"])
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("talked_to_here", "from a loop"),
        ("talked_to_here:loop", "from a loop"),
        ("talked_to_here:agent", "from an agent"),
        ("talked_to_here:made", "1 from a function for None"),
        ("talked_to_here:made_later", "1 from a function for None"),
    ],
)
def test_what_serve_takes_can_be_talked_to(name: str, answer: str) -> None:
    code, output = said(name)
    assert code == 0
    assert output.splitlines()[0] == answer


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("talked_to_here:breaks", "LookupError: no such user"),
        ("talked_to_here:makes_nothing", "TypeError: the function that makes the loop returned a NoneType, not a Loop"),
    ],
)
def test_a_function_that_makes_no_loop_fails_the_run(name: str, why: str) -> None:
    code, output = said(name)
    assert code == 1
    assert f"✗ failed (run-failed): {why}" in output


@pytest.mark.parametrize("name", ["served", "takes_nothing", "saying", "a_tool", "__name__"])
def test_what_is_no_loop_is_refused_in_the_words_of_serve(name: str) -> None:
    code, output = said(f"talked_to_here:{name}")
    assert code == 2
    assert "it takes a Loop, a function of an input and a principal that returns one, or an agent" in output
    if name != "served":
        refused = CliRunner().invoke(app, ["serve", f"talked_to_here:{name}"])
        assert refused.exit_code == 2
        assert refused.output.partition(", or ")[0] == output.partition(", or ")[0]


def test_what_was_retracted_is_said_again_as_such() -> None:
    """P-88: or two attempts would read as one answer."""
    code, output = said("talked_to_here:twice")
    assert code == 0
    assert output.splitlines()[:3] == ["half an", "✗ retracted: half an", "a whole answer"]


class NoAgent(BaseHTTPRequestHandler):
    """Answers with the status that is its path."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(int(self.path.removeprefix("/")))
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>Welcome</title>")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("status", "advice"), [(200, "Check the path of the URL: this is a web page."), (401, "give --header")]
)
def test_what_to_do_about_an_answer_of_no_agent_is_said_in_front_of_the_verdict(status: int, advice: str) -> None:
    with served(NoAgent) as url:
        code, output = said(f"{url}/{status}")
    assert code == 1
    told, verdict = output.splitlines()
    assert advice in told
    assert verdict.startswith(f"✗ failed (CLIENT_ERROR): HTTP {status}: ")
