"""`handrail check URL`: agents that do one thing wrong, for each thing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from starlette.responses import HTMLResponse, JSONResponse, Response
from tests.apps.agents import Answer, Asked, Event, agent, check, good, stream
from tests.apps.checking import check_text
from typer.testing import CliRunner

from handrail.apps.cli import app


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
