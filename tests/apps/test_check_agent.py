"""`handrail check URL`: an agent that does everything right, and how the command goes about it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.responses import JSONResponse, Response
from tests.apps.agents import Asked, Event, agent, check, good, stream
from tests.apps.checking import check_text
from typer.testing import CliRunner

from handrail.apps import _check_agent
from handrail.apps.cli import app

SECRET = "Bearer kept-between-us"


# -- an agent that does everything right -------------------------------------------------------------------------------


def test_an_agent_that_does_everything_right() -> None:
    with agent(good) as url:
        found = check(url)
    assert found.code == 0
    assert found.statuses == {
        "run": "passed",
        "history": "passed",
        "tool": "passed",
        "interrupt": "not-offered",
        "disconnect": "passed",
        "bad-request": "passed",
    }
    assert (found.document["ok"], found.document["errors"], found.document["warnings"]) == (True, 0, 0)
    [run] = found["run"]["runs"]
    assert run.pop("first_event_ms") <= run.pop("duration_ms")
    assert run.pop("run_id")
    assert run == {
        "http_status": 200,
        "events": 5,
        "runs": 1,
        "outcome": "completed",
        "verdict": "success",
        "terminal": "RUN_FINISHED",
        "protocol_version": "1.0",
        "usage": {"total_tokens": 7, "prompt_tokens": 3, "completion_tokens": 4, "complete": True},
    }
    assert [run["outcome"] for run in found["tool"]["runs"]] == ["completed", "completed"]
    assert [run["outcome"] for run in found["disconnect"]["runs"]] == ["cancelled", "completed", "completed"]


def test_people_read_the_same() -> None:
    with agent(good) as url:
        code, out, err = check_text(url, "--only", "run", "--only", "bad-request")
    assert (code, err) == (0, "")
    heading, _, run, facts, bad_request, _, counts, spoken = out.splitlines()
    assert heading == url
    assert run == "✓ run         passed"
    assert facts.startswith("    HTTP 200, 5 events in ")
    assert facts.endswith("; finished")
    assert bad_request == "✓ bad-request passed       answered with HTTP 400"
    assert (counts, spoken) == ("2 probes: 2 passed.", "Protocol version 1.0; every run reports what it used.")


def test_a_question_is_answered_with_no() -> None:
    """S-83, S-89: never with an approval."""
    entries: list[Any] = []

    def answer(asked: Asked) -> Response:
        entries.extend(asked.body.get("resume", []))
        return good(asked)

    with agent(answer) as url:
        found = check(url, "--only", "interrupt", "--message", "delete it")
    assert (found.code, found.statuses) == (0, {"interrupt": "passed"})
    assert entries == [{"interruptId": "q1", "status": "resolved", "payload": {"approved": False}}]


def test_a_question_of_the_plain_run_is_taken_up() -> None:
    with agent(good) as url:
        found = check(url, "--only", "run", "--only", "interrupt", "--message", "delete it")
    assert found.statuses == {"run": "passed", "interrupt": "passed"}
    assert [len(found[probe]["runs"]) for probe in ("run", "interrupt")] == [1, 1]


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ({}, "cancelled"),
        ({"responseSchema": {"type": "string"}}, "cancelled"),
        ({"toolCallId": "c", "expiresAt": "2020-01-01T00:00:00Z"}, "cancelled"),
        ({"toolCallId": "c", "responseSchema": {"type": "integer"}}, "cancelled"),
        ({"toolCallId": "c", "responseSchema": {"type": "boolean"}}, "resolved"),
    ],
)
def test_what_takes_no_denial_is_given_up(question: Event, status: str) -> None:
    """S-86, S-89, S-92"""
    entries: list[Any] = []

    def answer(asked: Asked) -> Response:
        if resume := asked.body.get("resume"):
            entries.extend(resume)
            return asked.run()
        return stream([asked.begins(), asked.asks(**question)])

    with agent(answer) as url:
        found = check(url, "--only", "interrupt")
    assert found.code == 0
    assert [entry["status"] for entry in entries] == [status]
    assert not any(entry.get("payload", False) for entry in entries)


def test_headers_are_sent_with_every_request_and_told_to_nobody() -> None:
    seen: list[str | None] = []

    def answer(asked: Asked) -> Response:
        seen.append(asked.headers.get("authorization"))
        key = asked.headers["authorization"]
        failure = {"type": "RUN_ERROR", "message": f"who is {key}?", "code": key}
        return stream([asked.begins() | {"protocolVersion": key, key: 1}, failure])

    with agent(answer) as url:
        header = ("--header", f"Authorization: {SECRET}")
        found, (_, out, err) = check(url, *header), check_text(url, *header)
    assert set(seen) == {SECRET}
    assert len(seen) > 4
    for text in (found.text, out, err):
        assert "kept-between-us" not in text
    assert "who is [hidden]?" in out
    assert found["run"]["status"] == "warned"


def test_what_is_secret_in_the_address_is_told_to_nobody() -> None:
    def answer(asked: Asked) -> Response:
        return JSONResponse({"error": f"no {asked.headers['authorization']} nor kept%2Dbetween nor kept-between"}, 401)

    with agent(answer) as url:
        address = url.replace("http://", "http://ada:kept-between@") + "?key=kept%2Dbetween"
        found, (_, out, err) = check(address), check_text(address)
    for text in (found.text, out, err):
        assert "between" not in text
    assert "no Basic [hidden] nor [hidden] nor [hidden]" in out


def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every other command and `HttpAgent` do."""
    with agent(good) as url:
        monkeypatch.setenv("HTTP_PROXY", url)
        monkeypatch.setenv("NO_PROXY", "")
        found = check("http://agent.invalid/", "--only", "run")
    assert found["run"]["runs"][0]["http_status"] == 404, "this server has answered, and is no proxy"
    monkeypatch.setenv("HTTP_PROXY", "gopher://127.0.0.1")
    code, _, err = check_text("http://agent.invalid/")
    assert (code, "The proxy that the environment names cannot be used" in err) == (2, True)


def test_a_content_type_in_no_ascii() -> None:
    def answer(asked: Asked) -> Response:
        return Response(b"hello", headers={"content-type": "te\xffxt"})

    with agent(answer) as url:
        found = check(url, "--only", "run")
    assert (found.code, found.codes("run")) == (1, ["http"])


def test_a_module_of_tools_takes_the_place_of_the_harmless_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tools_to_offer.py").write_text(
        "from handrail import tool\n@tool\ndef where() -> str:\n    return 'x'\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    said: list[str] = []

    def answer(asked: Asked) -> Response:
        said.append(asked.said)
        assert [tool["name"] for tool in asked.body["tools"]] == ["where"]
        return asked.run() if asked.results else asked.run(asked.calls("where"))

    with agent(answer) as url:
        found = check(url, "--only", "tool", "--tools", "tools_to_offer", "--message", "Where?")
    assert (found.code, found.statuses, said) == (0, {"tool": "passed"}, ["Where?", "Where?"])


def test_an_agent_that_is_busy_for_a_moment_is_asked_again() -> None:
    """As `agui_app` is, until it has noticed that its client has gone."""

    def answer(asked: Asked) -> Response:
        return JSONResponse({"error": "busy"}, 409) if asked.number in (1, 2) else good(asked)

    with agent(answer) as url:
        found = check(url, "--only", "disconnect")
    assert (found.code, found.statuses) == (0, {"disconnect": "passed"})
    assert [run["http_status"] for run in found["disconnect"]["runs"]] == [200, 200, 200]


# -- while it goes on --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_is_going_on_is_said_on_a_terminal_only(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_check_agent, "_QUIET_FOR", 0.0)
    monkeypatch.setenv("FORCE_COLOR" if is_terminal else "NO_COLOR", "1")
    with agent(lambda asked: stream([], then=anyio.sleep_forever)) as url:
        done = CliRunner().invoke(app, ["check", url, "--only", "run", "--timeout", "0.5", "--json"])
    assert json.loads(done.stdout)["errors"] == 1
    assert ("a plain run" in done.stderr) is is_terminal
    assert is_terminal or not done.stderr


@pytest.mark.slow
def test_ctrl_c_stops_it() -> None:
    is_asked = threading.Event()

    def answer(asked: Asked) -> Response:
        is_asked.set()
        return stream([asked.begins()], then=anyio.sleep_forever)

    with agent(answer) as url:
        command = [sys.executable, "-m", "handrail", "check", url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert is_asked.wait(30)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert err == "handrail: stopped by Ctrl-C; what is left was not checked\n"


# -- what cannot be started --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["http://127.0.0.1:1/"], "No agent answers at http://127.0.0.1:1/: ConnectError"),
        (["http://127.0.0.1:1/", "--only", "bad-request"], "No agent answers at http://127.0.0.1:1/"),
        (["http://ada:secret@127.0.0.1:1/?key=secret"], "No agent answers at http://127.0.0.1:1/"),
        (["localhost:8000/agui"], "as in http://localhost:8000/agui"),
        (["http://a:port/"], "is no URL of an agent"),
        (["http://a", "http://b"], "An agent is checked by itself"),
        (["http://a", "--only", "walk"], "There is no probe 'walk'; --only takes run, history, tool,"),
        (["http://a", "--timeout", "0"], "--timeout is 0"),
        (["http://a", "--tools", "no_such_module"], "There is no module 'no_such_module'"),
        (["http://a", "--tools", "json:decoder"], "These tools cannot be used"),
        (["http://a", "--header", "secret"], "--header number 1 is no header"),
        (["http://a", "--header", "X-Key: se\ncret"], "--header X-Key has a character"),
        (["http://a", "--header", "k: secret", "--header", "K: secret"], "--header K is given twice"),
        (["http://"], "is no URL of an agent: HttpAgent takes a URL that names a host"),
        (["http://a:65536/"], "with a port of at most 65535"),
        (["http://a", "--header", "Content-Length: 3"], "--header Content-Length belongs to the body"),
        (["somewhere.sse", "--message", "hi"], "go with an http or https URL, which 'somewhere.sse' is not"),
        (["HTTP://127.0.0.1:1/", "--message", "hi"], "No agent answers at http://127.0.0.1:1/"),
    ],
)
def test_what_cannot_be_started_is_said_in_a_sentence(arguments: list[str], words: str) -> None:
    code, out, err = check_text(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err
    assert "secret" not in err
    assert len(err.splitlines()) <= 2
