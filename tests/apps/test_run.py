"""`handrail run` as a person types it: against a server of others' making, and with what people get wrong.

The server is aimock, an OpenAI-compatible mock from npm. What it answers is chosen by a word of the prompt.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.aimock import running as aimock
from typer.testing import CliRunner

from handrail.apps.cli import app

KEY = "sk-not-a-real-key-1234567890"

CUT: dict[str, Any] = {"chunkSize": 5, "latency": 50, "truncateAfterChunks": 4}
ANSWERS: list[dict[str, Any]] = [
    {"match": {"userMessage": "plain"}, "response": {"content": "Hello from the model: café ✓"}},
    {
        "match": {"userMessage": "weather", "hasToolResult": False},
        "response": {"content": "Let me look. ", "toolCalls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]},
    },
    {"match": {"userMessage": "weather", "hasToolResult": True}, "response": {"content": "It is 7 degrees in Oslo."}},
    {"match": {"userMessage": "busy", "sequenceIndex": 0}, "response": {
        "status": 429, "retryAfter": 1, "error": {"message": "Rate limited", "type": "rate_limit_error"}}},
    {"match": {"userMessage": "busy", "sequenceIndex": 1}, "response": {"content": "Second time lucky."}},
    {"match": {"userMessage": "broken", "sequenceIndex": 0}, "response": {"content": "This will be cut in the middle."}}
    | CUT,
    {"match": {"userMessage": "broken", "sequenceIndex": 1}, "response": {"content": "Whole this time."}},
    {"match": {"userMessage": "locked"}, "response": {
        "status": 401, "error": {"message": "Incorrect API key", "type": "invalid_request_error"}}},
    {"match": {"userMessage": "lost"}, "response": {
        "status": 404, "error": {"message": "The model does not exist", "type": "invalid_request_error"}}},
    {"match": {"userMessage": "junk"}, "response": {"content": "never seen"}, "chaos": {"malformedRate": 1.0}},
    {"match": {"userMessage": "hostile"}, "response": {"content": "\x1b[2Jgone\x1b]0;title\x07 \u202eback"}},
    {"match": {"userMessage": "slow"}, "response": {"content": "one two three four five six seven"}, "chunkSize": 4,
     "latency": 400},
]  # fmt: skip

TOOLS = """
from handrail import tool

@tool
def get_weather(city: str) -> str:
    "The weather in a city."
    return f"7 degrees in {city}"
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        return self.out.splitlines()[-1]


@pytest.fixture(scope="module")
def server(peers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a running aimock."""
    answers = tmp_path_factory.mktemp("aimock") / "answers.json"
    answers.write_text(json.dumps({"fixtures": ANSWERS}))
    with aimock(peers, answers) as mock:
        yield mock.url


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command is called: a folder with a module of tools, and a key in the environment."""
    (tmp_path / "mytools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mytools", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return tmp_path


def handrail(*args: str) -> Done:
    """The command in this process."""
    result = CliRunner().invoke(app, args)
    return Done(result.exit_code, result.stdout, result.stderr)


def process(*args: str) -> subprocess.Popen[bytes]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "handrail", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def asked(text: str, server: str, *more: str) -> Done:
    return handrail("run", text, "--model", "openai:fake-model", "--base-url", server, *more)


def test_plain_text(server: str, folder: Path) -> None:
    done = asked("plain", server)
    assert (done.code, done.err) == (0, "")
    assert "\nHello from the model: café ✓\n" in done.out
    assert re.fullmatch(
        r"completed · 1 round · \d+ tokens in, \d+ out · cost unknown · \d+\.\d s · drained", done.last_line
    )


def test_a_tool_call_and_its_follow_up(server: str, folder: Path) -> None:
    done = asked("weather", server, "--tools", "mytools")
    assert (done.code, done.err) == (0, "")
    assert '→ get_weather {"city":"Oslo"}\n' in done.out
    assert "← get_weather 7 degrees in Oslo\n" in done.out
    assert "\nIt is 7 degrees in Oslo.\n" in done.out
    assert done.last_line.startswith("completed · 2 rounds · ")


def test_a_429_is_waited_for_as_long_as_it_says(server: str, folder: Path) -> None:
    done = asked("busy", server)
    assert (done.code, done.err) == (0, "")
    assert "attempt 1 failed: " in done.out
    assert "429" in done.out
    assert "\nSecond time lucky.\n" in done.out
    assert done.last_line.startswith("completed · 1 round · ")


def test_a_connection_cut_in_mid_stream_is_retracted_and_tried_again(server: str, folder: Path) -> None:
    done = asked("broken", server)
    assert (done.code, done.err) == (0, "")
    assert re.search(r"\n✗ retracted: This wi", done.out)
    assert "\nround 1, attempt 2 · fake-model\nWhole this time.\n" in done.out
    assert done.last_line.startswith("completed · 1 round · at least ")


def test_a_refused_key_fails_at_once_and_is_not_shown(server: str, folder: Path) -> None:
    done = asked("locked", server)
    assert (done.code, done.err) == (1, "")
    assert "Incorrect API key" in done.out
    assert "OPENAI_API_KEY" in done.out
    assert KEY not in done.out
    assert "attempt 2" not in done.out
    assert done.last_line.startswith("failed · 1 round · tokens unknown · cost unknown · ")


@pytest.mark.slow
def test_a_body_of_junk_is_a_failed_attempt_and_not_an_empty_answer(server: str, folder: Path) -> None:
    done = asked("junk", server)
    assert (done.code, done.err) == (1, "")
    assert "attempt 1 failed: " in done.out
    assert "Does http://127.0.0.1" in done.out
    assert done.last_line.startswith("failed · 1 round · ")


def test_control_sequences_of_a_model_are_shown(server: str, folder: Path) -> None:
    done = asked("hostile", server)
    assert done.code == 0
    assert "\x1b" not in done.out
    assert r"\x1b[2Jgone\x1b]0;title\x07 \u202eback" in done.out


def test_json_lines_end_with_the_outcome(server: str, folder: Path) -> None:
    done = asked("weather", server, "--tools", "mytools:get_weather", "--json")
    assert (done.code, done.err) == (0, "")
    *events, outcome = [json.loads(line) for line in done.out.splitlines()]
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert events[0]["kind"] == "run-started"
    assert events[-1]["kind"] == "run-completed"
    assert outcome["outcome"] == "completed"
    assert outcome["final"] == "It is 7 degrees in Oslo."
    assert [message["role"] for message in outcome["messages"]] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_an_answer(server: str, folder: Path) -> None:
    with process("run", "slow", "--model", "openai:fake-model", "--base-url", server) as running:
        assert running.stdout is not None
        seen = b""
        while b"one" not in seen:
            seen += os.read(running.stdout.fileno(), 100)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    lines = out.decode().splitlines()
    assert (running.returncode, err) == (130, b"")
    assert any(line.startswith("✗ retracted: one") for line in lines)
    assert lines[-1].startswith("cancelled by Ctrl-C · 1 round · ")
    assert lines[-1].endswith(" · drained")


MISTAKES = [
    (["run", "hi", "--model", "gpt"], "There is no model 'gpt'; --model takes openai:NAME."),
    (["run", "hi", "--model", "acme:gpt"], "There is no model 'acme:gpt'; --model takes openai:NAME."),
    (["run", "hi", "--model", "openai:m", "--base-url", "localhost:1"], "'localhost:1' is no web address"),
    (["run", "hi", "--model", "openai:m", "--base-url", "http://"], "'http://' is no web address"),
    (["run", "hi", "--model", "openai:m", "--base-url", "http://a:port/v1"], "'http://a:port/v1' is no web address"),
    (["run", "hi", "--model", "openai:m", "--tools", "nowhere"], "There is no module 'nowhere'"),
    (["run", "hi", "--model", "openai:m", "--tools", "broken"], "does not import: ZeroDivisionError: division by zero"),
    (["run", "hi", "--model", "openai:m", "--tools", "twice"], "These tools cannot be used: "),
]


@pytest.mark.parametrize(("args", "said"), MISTAKES, ids=[" ".join(args[3:]) for args, _ in MISTAKES])
def test_a_mistake_is_one_or_two_lines_and_exit_code_2(args: list[str], said: str, folder: Path) -> None:
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "twice.py").write_text(TOOLS + "\ntools = [get_weather, get_weather]\n")
    done = handrail(*args)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.startswith("handrail: ")
    assert len(done.err.splitlines()) <= 2


def test_no_key_and_no_server_is_a_mistake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    done = handrail("run", "hi", "--model", "openai:m")
    assert done.code == 2
    assert "Set OPENAI_API_KEY" in done.err


def test_a_traceback_is_shown_when_asked_for(folder: Path) -> None:
    (folder / "broken.py").write_text("1 / 0\n")
    done = handrail("run", "hi", "--model", "openai:m", "--tools", "broken", "--debug")
    assert done.code == 2
    assert "Traceback" in done.err
    assert "ZeroDivisionError" in done.err


@pytest.mark.slow
def test_a_refused_connection_says_where_it_knocked(folder: Path) -> None:
    done = asked("hi", "http://127.0.0.1:9/v1")
    assert (done.code, done.err) == (1, "")
    assert "Is the server running, and is --base-url right? It was http://127.0.0.1:9/v1." in done.out
    assert done.last_line.startswith("failed · 1 round · ")


def test_an_unknown_model_or_path_says_what_to_look_at(server: str, folder: Path) -> None:
    done = asked("lost", server)
    assert done.code == 1
    assert f"Is the model's name right, and the path of --base-url? Most end in /v1; it was {server}." in done.out


def test_a_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "handrail.backends.openai", raising=False)
    monkeypatch.setitem(sys.modules, "openai", None)
    done = handrail("run", "hi", "--model", "openai:m")
    assert done.code == 2
    assert "handrail[openai]" in done.err


@pytest.mark.slow
def test_the_installed_command_from_end_to_end(server: str, folder: Path) -> None:
    with process("run", "weather", "--model", "openai:m", "--base-url", server, "--tools", "mytools") as running:
        out, err = running.communicate(timeout=50)
    assert (running.returncode, err) == (0, b"")
    assert out.decode().splitlines()[-1].startswith("completed · 2 rounds · ")


def test_the_command_line_itself_may_be_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "handrail.apps.cli")
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as left:
        importlib.import_module("handrail.apps.cli")
    assert left.value.code == 2
    assert capsys.readouterr().err == "handrail: the command line needs typer: pip install 'handrail[cli]'\n"
