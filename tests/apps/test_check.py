"""`handrail check FILE`: what is wrong with a recorded stream, in which run, and where."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from tests.conftest import ROOT
from typer.testing import CliRunner

from handrail import agui
from handrail.agui._verdict import Verdict
from handrail.apps._advice import advice_for
from handrail.apps._check_report import Line, document, show
from handrail.apps._findings import Finding, Heard, Result
from handrail.apps._judge import judge_stream
from handrail.apps._probes import PROBES
from handrail.apps.cli import app
from handrail.run import Spend

STARTED = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
FAILED = {"type": "RUN_ERROR", "message": "boom", "code": "X"}
TEXT = {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}
TEXT_END = {"type": "TEXT_MESSAGE_END", "messageId": "m"}
UNKNOWN = {"type": "FANCY_NEW_EVENT"}
RESULT = {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "earlier", "content": "ok"}


def sse(*payloads: Any) -> bytes:
    return b"".join(f"data: {json.dumps(payload)}\n\n".encode() for payload in payloads)


def lines(*payloads: Any) -> bytes:
    return b"\n".join(json.dumps(payload).encode() for payload in payloads)


def checked(*payloads: Any) -> Heard:
    return judge_stream([sse(*payloads)])


def places(found: Sequence[Finding]) -> list[tuple[str, int | None, str, str | None]]:
    return [(finding.level, finding.event, finding.code, finding.path) for finding in found]


def test_a_good_stream_is_clean() -> None:
    found = checked(STARTED, TEXT, TEXT_END, FINISHED)
    assert places(found.findings) == []
    assert (found.events, found.runs, found.verdict.said) == (4, 1, "success")


def test_a_run_error_is_well_formed() -> None:
    found = checked(STARTED, TEXT, FAILED)
    assert places(found.findings) == []
    assert (found.verdict.said, found.verdict.message, found.verdict.code) == ("error", "boom", "X")


@pytest.mark.parametrize(
    ("payloads", "expected"),
    [
        ([STARTED, TEXT_END, FINISHED], ("error", 1, "P-39", None)),
        ([STARTED, TEXT, FINISHED], ("error", 2, "P-37", None)),
        ([STARTED, {"type": "TEXT_MESSAGE_START"}, FINISHED], ("error", 1, "P-24", "/messageId")),
        ([STARTED, [1], FINISHED], ("error", 1, "decode", None)),
        ([STARTED, TEXT], ("error", None, "truncated", None)),
        ([STARTED, FINISHED, TEXT], ("error", 2, "P-36", None)),
        ([STARTED, UNKNOWN, FINISHED], ("warning", 1, "unknown-event", None)),
        ([STARTED, {**TEXT, "extra": 1}, TEXT_END, FINISHED], ("warning", 1, "unknown-property", "/extra")),
        ([STARTED, FINISHED, "DONE"], ("warning", 2, "event-after-end", None)),
    ],
)
def test_a_finding_says_where_and_which_rule(
    payloads: list[Any], expected: tuple[str, int | None, str, str | None]
) -> None:
    assert places(checked(*payloads).findings) == [expected]


def test_nothing_is_judged_behind_a_refusal() -> None:
    """P-42: one error, and what follows it is not counted."""
    found = checked(STARTED, TEXT_END, UNKNOWN, FINISHED)
    assert [finding.level for finding in found.findings] == ["error"]
    assert found.events == 2


def test_a_result_may_be_for_a_call_of_an_earlier_run() -> None:
    assert checked(STARTED, RESULT, FINISHED).findings == ()


def test_several_runs_on_one_stream() -> None:
    found = checked(STARTED, FINISHED, {**STARTED, "runId": "r2"}, FAILED)
    assert (found.runs, found.verdict.said, found.findings) == (2, "error", ())


def test_a_last_frame_without_its_blank_line_is_told() -> None:
    """P-15"""
    found = judge_stream([sse(STARTED, FINISHED).rstrip()])
    assert places(found.findings) == [("warning", 1, "unfinished-frame", None)]
    assert found.verdict.said == "success"


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n\n"])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n\r\n"])
def test_json_lines(start: bytes, end: bytes) -> None:
    found = judge_stream([start + lines(STARTED, UNKNOWN, FINISHED) + end])
    assert places(found.findings) == [("warning", 1, "unknown-event", None)]
    assert (found.events, found.verdict.said) == (3, "success")


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.data(), st.sampled_from([sse, lines]))
def test_it_does_not_matter_how_the_stream_is_cut(data: st.DataObject, form: Any) -> None:
    """P-13"""
    body = form(STARTED, TEXT, UNKNOWN, TEXT_END, TEXT_END)
    cuts = sorted({0, len(body), *data.draw(st.lists(st.integers(1, len(body))))})
    pieces = [body[a:b] for a, b in pairwise(cuts)]
    assert judge_stream(pieces).findings == judge_stream([body]).findings


def test_no_recording_of_a_real_server_has_an_error(shared: Path) -> None:
    recordings = [file for file in (shared / "recordings").glob("*/*.sse") if file.parent.name != "hostile"]
    assert recordings
    for file in recordings:
        found = judge_stream([file.read_bytes()])
        assert found.count("error") == 0, file
        assert found.verdict.said is not None, file


def run_check(*args: str, stdin: bytes = b"") -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["check", *args], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def test_the_command_is_quiet_about_a_clean_stream(tmp_path: Path) -> None:
    file = tmp_path / "clean.sse"
    file.write_bytes(sse(STARTED, FAILED))
    assert run_check(str(file)) == (0, "2 events, 1 run: clean. The run failed: boom (X)\n", "")


def test_the_command_reads_standard_input_and_shows_nothing_it_must_not() -> None:
    code, out, err = run_check("-", stdin=sse(STARTED, {"type": "\x1b[2J"}, {"type": "STEP_FINISHED", "stepName": "s"}))
    assert (code, err) == (1, "")
    unknown, do, refused, do_otherwise, whole = out.splitlines()
    assert unknown.startswith(r"event 1: warning unknown-event: unknown event \x1b[2J")
    assert refused.startswith("event 2: error P-39: ")
    assert do.startswith("  ")
    assert do_otherwise.startswith("  Start an item once")
    assert whole == "3 events, 1 run: 1 error, 1 warning. The agent never said how the run ended."


def test_json_is_one_document() -> None:
    code, out, _ = run_check("-", "--json", stdin=sse(STARTED, UNKNOWN, TEXT, FINISHED))
    whole = json.loads(out)
    [result] = whole.pop("results")
    assert (code, whole) == (1, {"ok": False, "errors": 1, "warnings": 1})
    unknown, refused = result["findings"]
    assert (unknown["level"], unknown["code"], unknown["event"]) == ("warning", "unknown-event", 1)
    assert (refused["level"], refused["code"], refused["event"]) == ("error", "P-37", 3)
    assert all(finding["advice"] and "run" not in finding for finding in (unknown, refused))
    [run] = result["runs"]
    assert run == {"events": 4, "runs": 1, "outcome": "failed", "message": refused["message"], "code": "CLIENT_ERROR"}
    assert (result["file"], result["status"]) == ("-", "failed")


def test_of_many_findings_of_a_kind_the_first_are_shown_and_all_are_counted() -> None:
    stream = sse(STARTED, *[UNKNOWN] * 7, FINISHED)
    _, out, _ = run_check("-", stdin=stream)
    told = out.splitlines()
    shown = [line for line in told if "unknown-event" in line]
    assert [line.partition(":")[0] for line in shown[:-1]] == [f"event {at}" for at in range(1, 6)]
    assert shown[-1] == "2 more warnings unknown-event; --json lists them all"
    assert told[-1] == "9 events, 1 run: 0 errors, 7 warnings. The run finished."
    _, out, _ = run_check("-", "--json", stdin=stream)
    assert len(json.loads(out)["results"][0]["findings"]) == 7


def test_warnings_alone_are_no_failure() -> None:
    code, out, _ = run_check("-", stdin=sse(STARTED, UNKNOWN, FINISHED))
    assert code == 0
    assert out.splitlines()[-1] == "3 events, 1 run: 0 errors, 1 warning. The run finished."


@pytest.mark.parametrize("body", [b"", b"\n\n", b"<!DOCTYPE html>\n<p>Not found</p>\n", b"Bad gateway", b"[1, 2]"])
def test_what_is_no_event_stream_is_told_so(body: bytes) -> None:
    code, out, _ = run_check("-", stdin=body)
    assert code == 1
    assert "this is not an event stream: no event is in it" in out
    assert out.splitlines()[-1] == "0 events, 0 runs: 2 errors, 0 warnings. There is no run in it."
    assert "not an event stream" not in run_check("-", stdin=sse(STARTED))[1]


def test_an_event_too_large_has_its_number() -> None:
    """P-5, P-14: also when it is the first."""
    large = b"data: " + b"x" * (16 * 2**20)
    for before in ([], [STARTED]):
        found = judge_stream([sse(*before), large])
        assert places(found.findings) == [("error", len(before), "decode", None)]
        assert found.events == len(before) + 1


def test_several_files_are_each_named(tmp_path: Path) -> None:
    clean, bad = tmp_path / "clean.sse", tmp_path / "bad.sse"
    clean.write_bytes(sse(STARTED, FINISHED))
    bad.write_bytes(sse(STARTED, UNKNOWN, FINISHED))
    code, out, _ = run_check(str(clean), str(bad))
    assert code == 0
    files = (clean, bad, bad, bad)
    assert all(line.startswith(f"{file}: ") for file, line in zip(files, out.splitlines(), strict=True))
    _, out, _ = run_check(str(clean), str(bad), "--json")
    assert [result["file"] for result in json.loads(out)["results"]] == list(map(str, (clean, bad)))
    assert run_check(str(clean), str(clean))[0] == 0


def test_what_cannot_be_read_is_a_mistake(tmp_path: Path) -> None:
    code, out, err = run_check(str(tmp_path / "nowhere.sse"))
    assert (code, out) == (2, "")
    assert "nowhere.sse' cannot be read: No such file or directory." in err
    assert run_check(str(tmp_path))[0] == 2


@pytest.mark.parametrize(
    ("payloads", "ending"),
    [
        ([STARTED, {**FINISHED, "outcome": {"type": "cancelled"}}], "The run was cancelled by the agent."),
        (
            [STARTED, {**FINISHED, "outcome": {"type": "interrupt", "interrupts": [{"id": "i", "reason": "ask"}]}}],
            "The run stopped with 1 open question.",
        ),
        ([STARTED, FINISHED, FAILED], "The run finished. An error came after that: boom"),
        ([], "There is no run in it."),
    ],
)
def test_the_last_line_says_what_became_of_the_run(payloads: list[Any], ending: str) -> None:
    _, out, _ = run_check("-", stdin=sse(*payloads))
    assert out.splitlines()[-1].endswith(ending)


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_reason_to_complain(tmp_path: Path) -> None:
    file = tmp_path / "long.sse"
    file.write_bytes(sse(STARTED, *[UNKNOWN] * 10_000))
    command = [sys.executable, "-m", "handrail", "check", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"event"
        process.stdout.close()
        assert process.wait(30) == 1, "a broken pipe"
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [("-", 0, "clean. The run finished."), ("http://127.0.0.1:1", 2, "pip install 'handrail[client]'")],
)
def test_a_bare_stream_needs_no_httpx(target: str, code: int, words: str) -> None:
    program = "import sys; sys.modules['httpx'] = None; from handrail.apps.cli import main; main()"
    command = [sys.executable, "-c", program, "check", target]
    done = subprocess.run(command, input=sse(STARTED, FINISHED), capture_output=True, timeout=40)
    assert done.returncode == code
    assert words in (done.stdout + done.stderr).decode()


# -- recordings --------------------------------------------------------------------------------------------------------

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
    code, out, err = run_check(str(file))
    refused, _, unknown, _, whole = out.splitlines()
    assert (code, err) == (1, "")
    assert refused.startswith("run 1, event 1: error P-39: ")
    assert unknown.startswith("run 2, event 1: warning unknown-event: ")
    assert whole == "7 events, 3 runs: 1 error, 1 warning. The run finished."
    [result] = json.loads(run_check(str(file), "--json")[1])["results"]
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
    code, out, _ = run_check("-", stdin=recording(take("r0", STARTED, *CALLS, FINISHED), known))
    assert (code, out.splitlines()[-1].partition(": ")[2]) == (0, "clean. The run finished.")
    _, out, _ = run_check("-", stdin=recording(take("r0", STARTED, result, FINISHED)))
    assert "warning result-without-call" in out
    code, out, _ = run_check("-", stdin=recording(take("r0", {**STARTED, "threadId": "x"}, FINISHED)))
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
    code, out, _ = run_check("-", stdin=recording(take("r0", STARTED, FINISHED, **answer)))
    assert (code, words in out) == (1, True)


def test_how_a_recorded_connection_ended() -> None:
    """What broke is the agent's fault, or that of what is in between; that the client left is nobody's."""
    asked, answered, said, _ = take("r0", STARTED, TEXT)
    broken = {"at": 0.7, "end": "RemoteProtocolError: peer closed connection"}
    code, out, _ = run_check("-", stdin=recording([asked, answered, said, broken]))
    assert (code, "error transport: the connection to the agent failed (read): RemoteProtocolError" in out) == (1, True)
    left = {"at": 0.7, "end": "closed on this side"}
    code, out, _ = run_check("-", stdin=recording([asked, answered, said, left]))
    assert (code, out) == (0, "2 events, 1 run: clean. The client left before the run had ended.\n")
    code, out, _ = run_check("-", stdin=recording([asked, {"at": 0.1, "error": "ConnectError: refused"}]))
    assert (code, "error transport: the connection to the agent failed (connect): ConnectError: refused" in out) == (
        1,
        True,
    )


def test_a_compressed_answer_in_a_recording() -> None:
    asked, answered, _, end = take("r0", headers={"content-type": "text/event-stream", "content-encoding": "gzip"})
    body = base64.b64encode(gzip.compress(sse(STARTED | {"runId": "r0"}, FINISHED | {"runId": "r0"}))).decode()
    code, out, _ = run_check("-", stdin=recording([asked, answered, {"at": 0.1, "base64": body}, end]))
    assert (code, out) == (0, "2 events, 1 run: clean. The run finished.\n")


@pytest.mark.parametrize("content", [b'{"format": "other"}', b'{"format": "handrail.recording", "version": 9}'])
def test_a_recording_of_another_format_cannot_be_read(content: bytes) -> None:
    code, out, err = run_check("-", stdin=content)
    assert (code, out) == (2, "")
    assert "is no recording" in err


RULES = Path(agui.__file__).parent
OUTBOUND = {"P-25", "P-85", "outgoing"}
"""What is only said about what goes out."""


def test_there_is_advice_on_everything_that_the_rules_find() -> None:
    source = "".join(file.read_text() for file in RULES.glob("*.py"))
    codes = set(re.findall(r'"(P-\d+)"', source)) | set(re.findall(r'(?:WarningRecord|_warn)\(\s*"([a-z-]+)"', source))
    assert {"P-24", "P-39", "unknown-event", "second-result"} <= codes
    assert [code for code in sorted(codes - OUTBOUND) if not advice_for(code)] == []


def test_the_page_names_every_key() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    one = Heard(
        1, 1, Verdict("t", "r", "error", "agent", "m", "c"), (), 200, "r", 1, 1, "1.0", Spend(1, 1.0, True, None, 1, 1)
    )
    finding = Finding("error", "code", "message", "advice", 0, 0, "/path")
    whole = json.loads(document([Result("run", [one], [finding], "note")], "probe", url="http://a"))
    assert sorted(set(keys_of(whole)) - set(re.findall(r"`(\w+)`", page))) == []
    assert [name for name in PROBES if f"| `{name}` |" not in page] == []


def keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in cast("dict[str, Any]", value).items():
            yield key
            yield from keys_of(member)
    elif isinstance(value, list):
        for member in cast("list[Any]", value):
            yield from keys_of(member)


# -- on a terminal -----------------------------------------------------------------------------------------------------


def test_a_line_that_is_too_long_goes_on_under_its_beginning() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=40, color_system=None)
    show(
        [Line("no answer came to what was asked", "red", 12, "✗ run"), Line("and so on and so forth and on", "", 20)],
        console,
    )
    assert [line.rstrip() for line in written.getvalue().splitlines()] == [
        "✗ run       no answer came to what was",
        "            asked",
        "                    and so on and so",
        "                    forth and on",
    ]


def test_what_chat_says_of_itself_is_no_event() -> None:
    """The output of `chat --once --json` is checked as it is."""
    said = CliRunner().invoke(app, ["chat", "demo", "--once", "Hi", "--json"]).stdout
    assert said.splitlines()[-1].startswith('{"kind": "verdict"')
    done = CliRunner().invoke(app, ["check", "-", "--json"], input=said)
    [result] = json.loads(done.stdout)["results"]
    assert (result["status"], result["runs"][0]["events"]) == ("passed", len(said.splitlines()) - 1)


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


def test_a_file_of_brackets_is_no_event_stream(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"[" * 100_000)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "file")])
    assert (done.exit_code, "no event is in it" in done.stdout) == (1, True)
