"""`--header`: sent to the agent by every command that asks one, and told to nobody else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apps.http_servers import served
from typer.testing import CliRunner

from handrail.apps._remote import concealed, headers_of, remote_agent, shown_url
from handrail.apps.cli import app
from handrail.errors import UsageError

KEY = "Bearer kept-between-us"


class Agent(BaseHTTPRequestHandler):
    """Answers as an agent, or as a model, and keeps what it was sent."""

    sent: list[tuple[str, str | None]]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.sent.append((self.path, self.headers["authorization"]))
        ids = {"threadId": asked.get("threadId"), "runId": asked.get("runId")}
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        stop = {"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}
        lines: dict[str, list[Any]] = {
            "/agent": [{"type": "RUN_STARTED", **ids}, {"type": "RUN_FINISHED", **ids}],
            "/v1/chat/completions": [chunk | {"choices": [stop]}],
        }
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write("".join(f"data: {json.dumps(line)}\n\n" for line in lines[self.path]).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def root() -> Iterator[str]:
    Agent.sent = []
    with served(Agent) as url:
        yield url


COMMANDS: dict[str, Callable[[str, Path], list[str]]] = {
    "chat": lambda root, file: ["chat", f"{root}/agent", "--once", "hi"],
    "record": lambda root, file: ["record", f"{root}/agent", str(file), "--once", "hi"],
    "check": lambda root, file: ["check", f"{root}/agent", "--only", "run"],
    "run": lambda root, file: ["run", "hi", "--model", "openai:m", "--base-url", f"{root}/v1"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_asks_an_agent_sends_it(
    name: str, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    file = tmp_path / "tape"
    done = CliRunner().invoke(app, [*COMMANDS[name](root, file), "--header", f"authorization: {KEY}"])
    assert (done.exit_code, [key for _, key in Agent.sent]) == (0, [KEY])
    assert "kept-between-us" not in done.output + (file.read_text() if file.exists() else "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["chat", "demo", "--once", "hi", "--header", "k: secret"],
        ["chat", "http://a", "--once", "hi", "--header", "secret"],
        ["record", "http://a", "tape", "--once", "hi", "--header", "k: secret", "--header", "k: secret"],
        ["run", "hi", "--model", "openai:m", "--base-url", "http://a", "--header", "secret"],
        ["check", "somewhere.sse", "--header", "k: secret"],
    ],
)
def test_what_is_no_header_is_refused_and_not_repeated(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert "--header" in done.output
    assert "secret" not in done.output
    assert not list(tmp_path.iterdir())


def test_a_header_is_a_name_and_a_value() -> None:
    assert headers_of(["Authorization:Bearer x", "X-Empty:", "X-Time:  12:30 "]) == {
        "Authorization": "Bearer x",
        "X-Empty": "",
        "X-Time": "12:30",
    }


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.text(max_size=12), max_size=3))
def test_whatever_is_given_is_sent_or_refused_without_being_repeated(given: list[str]) -> None:
    """What passes is accepted by the client, too."""
    said = ""
    try:
        headers = headers_of(given)
        assert len(headers) == len(given)
        remote_agent("http://a", headers=headers)
    except UsageError as refusal:
        said = str(refusal)
    values = [line.partition(":")[2].strip() for line in given]
    assert not any(value in said for value in values if len(value) > 5)


def test_a_text_that_repeats_a_value_is_told_without_it() -> None:
    values = ["Bearer abcdefgh", "42", "abcdefgh-ij"]
    assert concealed("abcdefgh-ij, Bearer abcdefgh, abcdefgh, Bearer, 42", values) == (
        "[hidden], [hidden], [hidden], Bearer, 42"
    )


def test_what_may_be_a_secret_in_an_address_is_not_shown() -> None:
    assert shown_url("https://ada:secret@example.org:8443/agent?key=secret#secret") == "https://example.org:8443/agent"
