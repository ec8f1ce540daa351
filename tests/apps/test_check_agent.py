"""`handrail check URL`: an agent that does everything right, and one that does one thing wrong, for each thing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.server.live import live
from typer.testing import CliRunner

from handrail.apps import _check_agent
from handrail.apps.cli import app

Event: TypeAlias = dict[str, Any]
SECRET = "Bearer kept-between-us"


@dataclass
class Asked:
    """One request: `number` is how many came before it."""

    number: int
    body: Event
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def said(self) -> str:
        """The last thing that a person said."""
        return [message["content"] for message in self.body["messages"] if message["role"] == "user"][-1]

    @property
    def results(self) -> list[Event]:
        """The tool messages behind that."""
        return [message for message in self.body["messages"] if message["role"] == "tool"]

    def begins(self) -> Event:
        return {"type": "RUN_STARTED", "threadId": self.body["threadId"], "runId": self.body["runId"]}

    def ends(self, **more: Any) -> Event:
        return {**self.begins(), "type": "RUN_FINISHED", **more}

    def says(self, text: str) -> list[Event]:
        name = {"messageId": f"a-{self.body['runId']}"}
        return [
            {"type": "TEXT_MESSAGE_START", **name, "role": "assistant"},
            {"type": "TEXT_MESSAGE_CONTENT", **name, "delta": text},
            {"type": "TEXT_MESSAGE_END", **name},
        ]

    def calls(self, name: str, arguments: str = "{}") -> list[Event]:
        call = {"toolCallId": f"c-{self.body['runId']}"}
        return [
            {"type": "TOOL_CALL_START", **call, "toolCallName": name},
            {"type": "TOOL_CALL_ARGS", **call, "delta": arguments},
            {"type": "TOOL_CALL_END", **call},
        ]

    def asks(self, **question: Any) -> Event:
        return self.ends(outcome={"type": "interrupt", "interrupts": [{"id": "q1", "reason": "confirm", **question}]})

    def run(self, *events: Event | list[Event]) -> Response:
        """A whole run that says so."""
        return stream([self.begins(), *flat(events), self.ends()])


Answer: TypeAlias = Callable[[Asked], Response]


def flat(events: Sequence[Event | list[Event]]) -> list[Event]:
    return [event for part in events for event in (part if isinstance(part, list) else [part])]


def stream(events: Sequence[Event], then: Callable[[], Any] | None = None) -> Response:
    """Events one by one; behind them `then` is awaited."""

    async def body() -> AsyncIterator[bytes]:
        for event in events:
            yield f"data: {json.dumps(event)}\n\n".encode()
            await anyio.lowlevel.checkpoint()
        if then is not None:
            await then()

    return StreamingResponse(body(), media_type="text/event-stream")


@contextmanager
def agent(answer: Answer, on_nonsense: Callable[[], Response] = lambda: Response(status_code=400)) -> Generator[str]:
    """An agent that answers so; yields its URL."""
    count = 0

    async def asked(request: Request) -> Response:
        nonlocal count
        try:
            body = json.loads(await request.body())
        except ValueError:
            return on_nonsense()
        count += 1
        return answer(Asked(count - 1, body, dict(request.headers)))

    with live(Starlette(routes=[Route("/", asked, methods=["POST"])])) as served:
        yield served.url


@dataclass
class Verdict:
    """What the command said, as JSON."""

    code: int
    document: Any
    text: str

    def __getitem__(self, probe: str) -> Any:
        return next(result for result in self.document["results"] if result["probe"] == probe)

    @property
    def statuses(self) -> dict[str, str]:
        return {result["probe"]: result["status"] for result in self.document["results"]}

    def codes(self, probe: str) -> list[str]:
        """The codes that a probe found."""
        return [finding["code"] for finding in self[probe]["findings"]]


def check(url: str, *options: str) -> Verdict:
    done = CliRunner().invoke(app, ["check", url, "--json", *options])
    assert done.stderr == ""
    return Verdict(done.exit_code, json.loads(done.stdout), done.stdout)


def check_text(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["check", *arguments])
    return done.exit_code, done.stdout, done.stderr


# -- an agent that does everything right -------------------------------------------------------------------------------


def good(asked: Asked) -> Response:
    """Answers, calls a tool that it is told to call, and asks before it deletes anything."""
    if asked.body.get("resume"):
        return asked.run(asked.says("Then not."))
    if asked.said.startswith("delete"):
        call = asked.calls("delete_file")
        return stream([asked.begins(), *call, asked.asks(toolCallId=call[0]["toolCallId"])])
    if "handrail_echo" in asked.said and not asked.results:
        return asked.run(asked.calls("handrail_echo", '{"text": "hello"}'))
    if asked.said.startswith("Please count"):
        return stream([asked.begins(), *asked.says("one, two")[:2]], then=anyio.sleep_forever)
    usage = [{"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}]
    begins = asked.begins() | {"protocolVersion": "1.0"}
    return stream([begins, *asked.says("Hello."), asked.ends(usage=usage)])


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


def test_what_was_recorded_is_judged_as_what_is_heard(tmp_path: Path) -> None:
    """P-8: one order of checks for every way in."""
    file = tmp_path / "tape"
    for answer, code in ((good, 0), (two_ends, 1)):
        with agent(answer) as url:
            CliRunner().invoke(app, ["record", url, str(file), "--once", "Hi"])
            found = check(url, "--only", "run", "--message", "Hi")
        recorded = json.loads(CliRunner().invoke(app, ["check", str(file), "--json"]).stdout)
        assert (found.code, recorded["errors"]) == (code, code)
        assert [one["code"] for one in recorded["results"][0]["findings"]] == found.codes("run")
        file.unlink()


# -- agents that do one thing wrong ------------------------------------------------------------------------------------


def html(asked: Asked) -> Response:
    return HTMLResponse("<!DOCTYPE html><p>It works!</p>")


def no_end(asked: Asked) -> Response:
    return stream([asked.begins(), *asked.says("Hel")])


def two_ends(asked: Asked) -> Response:
    return stream([asked.begins(), asked.ends(), asked.ends()])


def goes_on(asked: Asked) -> Response:
    return stream([asked.begins(), asked.ends(), *asked.says("And another thing")])


def left_open(asked: Asked) -> Response:
    return stream([asked.begins(), *asked.says("Hel")[:2], asked.ends()])


def another_thread(asked: Asked) -> Response:
    return stream([asked.begins() | {"threadId": "t1"}, asked.ends()])


def not_authorized(asked: Asked) -> Response:
    return JSONResponse({"detail": "Who are you?"}, 401)


def crash(asked: Asked) -> Response:
    return JSONResponse({"error": {"message": "Internal error."}}, 500)


def moved(asked: Asked) -> Response:
    return Response(status_code=307, headers={"location": "/agent"})


def wrong_type(asked: Asked) -> Response:
    response = asked.run()
    response.headers["content-type"] = "application/json"
    return response


def json_error(asked: Asked) -> Response:
    return JSONResponse({"error": "No model."})


def nothing(asked: Asked) -> Response:
    return stream([])


def null_field(asked: Asked) -> Response:
    return stream([asked.begins() | {"parentRunId": None}, asked.ends()])


def not_json(asked: Asked) -> Response:
    return Response("data: Hello\n\n", media_type="text/event-stream")


WRONG: dict[str, tuple[Answer, str, int | None, str]] = {
    "HTML": (html, "http", None, "not text/event-stream"),
    "no terminal event": (no_end, "truncated", None, "Stream ended before RUN_FINISHED"),
    "two terminal events": (two_ends, "P-36", 2, "RUN_FINISHED"),
    "an event behind the end": (goes_on, "P-36", 2, "TEXT_MESSAGE_START"),
    "an item left open": (left_open, "P-37", 3, "text message"),
    "a thread of its own": (another_thread, "P-38", 0, "threadId"),
    "401": (not_authorized, "http", None, "HTTP 401: Who are you?"),
    "500": (crash, "http", None, "HTTP 500: Internal error."),
    "307": (moved, "http", None, "HTTP 307"),
    "a stream of another type": (wrong_type, "http", None, "application/json"),
    "an error as JSON": (json_error, "http", None, "No model."),
    "an empty stream": (nothing, "truncated", None, "Stream ended before RUN_FINISHED"),
    "null": (null_field, "P-24", 0, "parentRunId"),
    "no JSON": (not_json, "decode", 0, "Hello"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_plain_run_finds(name: str) -> None:
    """P-24, P-36, P-37, P-38, P-69: one error, at its event, with what to do."""
    answer, code, event, words = WRONG[name]
    with agent(answer) as url:
        found = check(url, "--only", "run")
    assert (found.code, found.statuses) == (1, {"run": "failed"})
    [finding] = [one for one in found["run"]["findings"] if "no event is in it" not in one["message"]]
    assert (finding["level"], finding["code"], finding["run"]) == ("error", code, 0)
    assert finding.get("event") == event
    assert words in finding["message"]
    assert len(finding["advice"]) > 20


def test_without_any_answer_the_other_probes_are_skipped() -> None:
    with agent(not_authorized) as url:
        code, out, _ = check_text(url)
    assert code == 1
    assert out.count("skipped") == 6
    assert "Check" not in out
    assert "give --header 'Authorization: Bearer TOKEN'" in out
    assert out.splitlines()[-1] == "6 probes: 1 failed, 5 skipped."


def test_a_text_of_an_agent_is_shown_and_not_obeyed() -> None:
    with agent(lambda asked: JSONResponse({"detail": "\x1b[2J\u202e no\nway"}, 418)) as url:
        _, out, _ = check_text(url)
    assert r"HTTP 418: \x1b[2J\u202e no way" in out


@pytest.mark.parametrize("begins", [True, False])
def test_an_agent_that_never_ends(begins: bool) -> None:
    def answer(asked: Asked) -> Response:
        return stream([asked.begins(), *asked.says("Hm")] if begins else [], then=anyio.sleep_forever)

    with agent(answer) as url:
        found = check(url, "--only", "run", "--timeout", "0.5")
    assert (found.code, found.codes("run")) == (1, ["timeout"])
    assert found["run"]["runs"][0]["events"] == (4 if begins else 0)


def test_a_run_that_fails_and_says_so_is_a_warning() -> None:
    def answer(asked: Asked) -> Response:
        return stream([asked.begins(), {"type": "RUN_ERROR", "message": "no model", "code": "X"}])

    with agent(answer) as url:
        found = check(url)
    assert found.code == 0
    assert (found["run"]["status"], found.codes("run")) == ("warned", ["run-error"])
    assert found["run"]["runs"][0]["code"] == "X"
    assert found["history"]["status"] == found["disconnect"]["status"] == "not-offered"


def test_a_body_that_stays_open() -> None:
    """P-72: a client waits for what may follow, and this one does not end by itself."""

    def answer(asked: Asked) -> Response:
        return stream([asked.begins(), asked.ends()], then=anyio.sleep_forever)

    with agent(answer) as url:
        found = check(url, "--only", "run")
    assert (found.code, found.codes("run")) == (0, ["stream-open"])


def test_a_late_error_is_a_warning() -> None:
    """P-46"""
    late = {"type": "RUN_ERROR", "message": "oh"}
    with agent(lambda asked: stream([asked.begins(), asked.ends(), late])) as url:
        found = check(url, "--only", "run")
    assert (found.code, found.codes("run")) == (0, ["late-run-error"])
    assert found["run"]["findings"][0]["event"] == 2


def test_messages_that_come_back_under_other_ids() -> None:
    def answer(asked: Asked) -> Response:
        said = asked.says("Hello.")
        renamed = [message | {"id": f"new-{message['id']}"} for message in asked.body["messages"]]
        return asked.run(said, {"type": "MESSAGES_SNAPSHOT", "messages": renamed})

    with agent(answer) as url:
        found = check(url, "--only", "history")
    assert (found.code, found.statuses) == (0, {"history": "warned"})
    assert {"history", "snapshot-dropped-turn"} <= set(found.codes("history"))


def answers_another(asked: Asked) -> Response:
    return asked.run({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "x", "content": ""})


def calls_again(asked: Asked) -> Response:
    return asked.run(asked.calls("handrail_echo"))


def calls_another(asked: Asked) -> Response:
    return asked.run(asked.calls("other"))


def fails(asked: Asked) -> Response:
    return stream([asked.begins(), {"type": "RUN_ERROR", "message": "no"}])


@pytest.mark.parametrize(
    ("follow_up", "code", "status"),
    [
        (answers_another, "result-without-call", "warned"),
        (calls_again, "tool-rounds-exhausted", "warned"),
        (calls_another, "call-unanswered", "warned"),
        (fails, "run-error", "failed"),
        (crash, "http", "failed"),
    ],
)
def test_what_becomes_of_the_result_of_a_tool(follow_up: Answer, code: str, status: str) -> None:
    def answer(asked: Asked) -> Response:
        return follow_up(asked) if asked.results else asked.run(asked.calls("handrail_echo"))

    with agent(answer) as url:
        found = check(url, "--only", "tool")
    assert (found.statuses, found.codes("tool")) == ({"tool": status}, [code])
    assert found["tool"]["findings"][0]["run"] >= 1
    assert found.code == (1 if status == "failed" else 0)


def test_a_tool_that_the_agent_answers_itself_is_not_offered() -> None:
    def answer(asked: Asked) -> Response:
        call = asked.calls("handrail_echo")
        result = {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": call[0]["toolCallId"], "content": "x"}
        return asked.run(call, result)

    with agent(answer) as url:
        found = check(url, "--only", "tool")
    assert (found.code, found.statuses) == (0, {"tool": "not-offered"})


def asks_again(asked: Asked) -> Response:
    return stream([asked.begins(), asked.asks()])


def takes_it(asked: Asked) -> Response:
    return asked.run()


RESUMED: dict[str, tuple[Event, Answer, str, str]] = {
    "it fails": ({}, fails, "run-error", "failed"),
    "it is refused": ({}, crash, "http", "failed"),
    "it is asked again": ({}, asks_again, "question-again", "warned"),
    "it is about no call": ({"toolCallId": "c"}, takes_it, "question-of-no-call", "warned"),
    "it has no id": ({"id": None}, takes_it, "P-24", "failed"),
}


@pytest.mark.parametrize("name", RESUMED)
def test_what_becomes_of_the_answer_to_a_question(name: str) -> None:
    question, resumed, code, status = RESUMED[name]

    def answer(asked: Asked) -> Response:
        return resumed(asked) if asked.body.get("resume") else stream([asked.begins(), asked.asks(**question)])

    with agent(answer) as url:
        found = check(url, "--only", "interrupt")
    assert (found.statuses, found.codes("interrupt")) == ({"interrupt": status}, [code])


def test_an_agent_that_does_not_notice_that_its_client_has_gone() -> None:
    """It works on where nothing else can, so nobody is served meanwhile."""
    is_over = threading.Event()

    def answer(asked: Asked) -> Response:
        async def work() -> None:
            is_over.wait(20)

        return asked.run() if asked.number else stream([asked.begins(), *asked.says("Let me see")], then=work)

    with agent(answer) as url:
        found = check(url, "--only", "disconnect", "--timeout", "1.5")
        is_over.set()
    assert (found.code, found.statuses) == (1, {"disconnect": "failed"})
    assert found.codes("disconnect") == ["timeout", "timeout"]
    assert found["disconnect"]["note"] == "then the same thread not at all, another not at all"


def test_a_thread_that_stays_busy() -> None:
    threads: list[str] = []

    def answer(asked: Asked) -> Response:
        threads.append(asked.body["threadId"])
        return JSONResponse({"error": "busy"}, 409) if asked.number and threads[-1] == threads[0] else good(asked)

    with agent(answer) as url:
        found = check(url, "--only", "disconnect", "--timeout", "0.6")
    assert (found.code, set(found.codes("disconnect"))) == (1, {"http", "still-busy"})
    assert found["disconnect"]["note"].startswith("then the same thread not at all, another in ")


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (lambda: Response(status_code=422), 0),
        (lambda: Response(status_code=500), 1),
        (lambda: Response("{}"), 1),
        (lambda: stream([]), 1),
        (lambda: Response("data: {}\n\n", 400, media_type="text/event-stream"), 1),
    ],
)
def test_a_body_that_is_no_json(response: Callable[[], Response], code: int) -> None:
    with agent(good, response) as url:
        found = check(url, "--only", "bad-request")
    assert found.code == code
    assert found.codes("bad-request") == ["bad-request"] * code


def test_a_body_that_is_no_json_and_has_no_answer() -> None:
    is_over = threading.Event()

    def nothing() -> Response:
        is_over.wait(20)
        return Response(status_code=400)

    with agent(good, nothing) as url:
        found = check(url, "--only", "bad-request", "--timeout", "0.3")
        is_over.set()
    assert (found.code, found.codes("bad-request")) == (1, ["bad-request"])
    assert "no answer: TimeoutError" in found["bad-request"]["findings"][0]["message"]


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
