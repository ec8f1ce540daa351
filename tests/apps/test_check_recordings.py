"""`handrail check FILE`: what is wrong with a recording, and in which of its runs."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.apps.checking import FINISHED, STARTED, TEXT, TEXT_END, UNKNOWN, check_text, lines, sse
from typer.testing import CliRunner

from handrail.apps.cli import app

HELLO = {"id": "u", "role": "user", "content": "Hi"}
ASKED: dict[str, Any] = {"threadId": "t", "tools": [], "context": [], "forwardedProps": {}}
CALLS = [
    {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"},
    {"type": "TOOL_CALL_END", "toolCallId": "c"},
]
CALLING = {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}


def take(run_id: str, *payloads: Any, messages: Sequence[Any] = (HELLO,), **answer: Any) -> list[Any]:
    """The lines of one run, as `handrail record` writes them; events have the id of the run."""
    events: list[Any] = [
        payload | {"runId": run_id} if isinstance(payload, dict) and "runId" in payload else payload
        for payload in payloads
    ]
    answered = {"status": 200, "headers": {"content-type": "text/event-stream"}} | answer
    request = ASKED | {"runId": run_id, "messages": [*messages]}
    return [{"request": request}, answered, {"at": 0.5, "text": sse(*events).decode()}, {"at": 0.7, "end": None}]


def recording(*takes: list[Any]) -> bytes:
    return lines({"format": "handrail.recording", "version": 1}, *(line for one in takes for line in one))


def test_a_finding_in_a_recording_says_in_which_run(tmp_path: Path) -> None:
    """Every run is judged, also behind one that was refused."""
    bad = take("r1", STARTED, TEXT_END, FINISHED)
    file = tmp_path / "tape"
    file.write_bytes(recording(take("r0", STARTED, FINISHED), bad, take("r2", STARTED, UNKNOWN, FINISHED)))
    code, out, err = check_text(str(file))
    refused, _, unknown, _, whole = out.splitlines()
    assert (code, err) == (1, "")
    assert refused.startswith("run 1, event 1: error P-39: ")
    assert unknown.startswith("run 2, event 1: warning unknown-event: ")
    assert whole == "7 events, 3 runs: 1 error, 1 warning. The run finished."
    [result] = json.loads(check_text(str(file), "--json")[1])["results"]
    assert [(one["run"], one["event"]) for one in result["findings"]] == [(1, 1), (2, 1)]
    assert [run["run_id"] for run in result["runs"]] == ["r0", "r1", "r2"]
    assert [(run["http_status"], run["first_event_ms"], run["duration_ms"]) for run in result["runs"]] == [
        (200, 500, 700)
    ] * 3


def test_a_recording_is_judged_with_what_was_asked() -> None:
    """P-38, P-52: the ids are those of the request, and a result is held against the calls of the thread."""
    result = {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "ok"}
    called = (HELLO, {"id": "a", "role": "assistant", "toolCalls": [CALLING]})
    known = take("r1", STARTED, result, FINISHED, messages=called)
    code, out, _ = check_text("-", stdin=recording(take("r0", STARTED, *CALLS, FINISHED), known))
    assert (code, out.splitlines()[-1].partition(": ")[2]) == (0, "clean. The run finished.")
    _, out, _ = check_text("-", stdin=recording(take("r0", STARTED, result, FINISHED)))
    assert "warning result-without-call" in out
    code, out, _ = check_text("-", stdin=recording(take("r0", {**STARTED, "threadId": "x"}, FINISHED)))
    assert (code, "event 0: error P-38 at /threadId: " in out) == (1, True)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": 401}, "error http: HTTP 401: "),
        ({"headers": {"content-type": "text/html"}}, "error http: HTTP 200: the answer is text/html"),
        ({"headers": {"content-type": "text/event-stream", "content-encoding": "br"}}, "error transport: "),
    ],
)
def test_what_is_no_stream_in_a_recording(answer: Any, words: str) -> None:
    """P-69, P-71"""
    code, out, _ = check_text("-", stdin=recording(take("r0", STARTED, FINISHED, **answer)))
    assert (code, words in out) == (1, True)


def test_how_a_recorded_connection_ended() -> None:
    """What broke is the agent's fault, or that of what is in between; that the client left is nobody's."""
    asked, answered, said, _ = take("r0", STARTED, TEXT)
    broken = {"at": 0.7, "end": "RemoteProtocolError: peer closed connection"}
    code, out, _ = check_text("-", stdin=recording([asked, answered, said, broken]))
    assert (code, "error transport: the connection to the agent failed (read): RemoteProtocolError" in out) == (1, True)
    left = {"at": 0.7, "end": "closed on this side"}
    code, out, _ = check_text("-", stdin=recording([asked, answered, said, left]))
    assert (code, out) == (0, "2 events, 1 run: clean. The client left before the run had ended.\n")
    code, out, _ = check_text("-", stdin=recording([asked, {"at": 0.1, "error": "ConnectError: refused"}]))
    assert (code, "error transport: the connection to the agent failed (connect): ConnectError: refused" in out) == (
        1,
        True,
    )


def test_a_compressed_answer_in_a_recording() -> None:
    asked, answered, _, end = take("r0", headers={"content-type": "text/event-stream", "content-encoding": "gzip"})
    body = base64.b64encode(gzip.compress(sse(STARTED | {"runId": "r0"}, FINISHED | {"runId": "r0"}))).decode()
    code, out, _ = check_text("-", stdin=recording([asked, answered, {"at": 0.1, "base64": body}, end]))
    assert (code, out) == (0, "2 events, 1 run: clean. The run finished.\n")


@pytest.mark.parametrize("content", [b'{"format": "other"}', b'{"format": "handrail.recording", "version": 9}'])
def test_a_recording_of_another_format_cannot_be_read(content: bytes) -> None:
    code, out, err = check_text("-", stdin=content)
    assert (code, out) == (2, "")
    assert "is no recording" in err


def test_a_recording_cut_off_at_any_byte_is_good_up_to_there(tmp_path: Path) -> None:
    """Who was cut off is the one that recorded; nothing is held against the agent."""
    request = {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": [], "state": {}}
    lines: list[object] = [
        {"format": "handrail.recording", "version": 1},
        {"request": request | {"forwardedProps": {}}},
        {"status": 200, "headers": {"content-type": "text/event-stream"}},
        {"at": 0.1, "text": 'data: {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}\n\n'},
        {"at": 0.2, "text": 'data: {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}\n\n'},
        {"at": 0.3, "end": None},
    ]
    written = [json.dumps(line).encode() + b"\n" for line in lines]
    file, whole = tmp_path / "tape", b"".join(written)
    for length in range(len(written[0] + written[1]), len(whole) + 1, 7):
        file.write_bytes(whole[:length])
        done = CliRunner().invoke(app, ["check", str(file), "--json"])
        assert (done.exit_code, json.loads(done.stdout)["errors"]) == (0, 0), (length, done.output)


@pytest.mark.parametrize(
    "line",
    [
        {"status": "soon", "headers": {}},
        {"status": 200, "headers": {"content-type": 1}},
        {"at": float("inf"), "end": None},
        {"at": 0.1, "end": 5},
        {"at": "0.1", "text": "x"},
        {"at": 0.1},
        3,
    ],
)
def test_a_recording_that_is_none_is_refused_in_a_sentence(tmp_path: Path, line: object) -> None:
    request = {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": [], "forwardedProps": {}}
    lines: list[object] = [{"format": "handrail.recording", "version": 1}, {"request": request}, line]
    file = tmp_path / "tape"
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    done = CliRunner().invoke(app, ["check", str(file)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is no recording: " in done.stderr
