"""`handrail check FILE`: what is wrong with a stream, and where."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from tests.apps.checking import FINISHED, STARTED, TEXT, TEXT_END, UNKNOWN, check_text, lines, sse
from typer.testing import CliRunner

from handrail.apps._check_report import Line, show
from handrail.apps._findings import Finding, Heard
from handrail.apps._judge import judge_stream
from handrail.apps.cli import app

FAILED = {"type": "RUN_ERROR", "message": "boom", "code": "X"}


RESULT = {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "earlier", "content": "ok"}


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


def test_the_command_is_quiet_about_a_clean_stream(tmp_path: Path) -> None:
    file = tmp_path / "clean.sse"
    file.write_bytes(sse(STARTED, FAILED))
    assert check_text(str(file)) == (0, "2 events, 1 run: clean. The run failed: boom (X)\n", "")


def test_the_command_reads_standard_input_and_shows_nothing_it_must_not() -> None:
    code, out, err = check_text(
        "-", stdin=sse(STARTED, {"type": "\x1b[2J"}, {"type": "STEP_FINISHED", "stepName": "s"})
    )
    assert (code, err) == (1, "")
    unknown, do, refused, do_otherwise, whole = out.splitlines()
    assert unknown.startswith(r"event 1: warning unknown-event: unknown event \x1b[2J")
    assert refused.startswith("event 2: error P-39: ")
    assert do.startswith("  ")
    assert do_otherwise.startswith("  Start an item once")
    assert whole == "3 events, 1 run: 1 error, 1 warning. The agent never said how the run ended."


def test_json_is_one_document() -> None:
    code, out, _ = check_text("-", "--json", stdin=sse(STARTED, UNKNOWN, TEXT, FINISHED))
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
    _, out, _ = check_text("-", stdin=stream)
    told = out.splitlines()
    shown = [line for line in told if "unknown-event" in line]
    assert [line.partition(":")[0] for line in shown[:-1]] == [f"event {at}" for at in range(1, 6)]
    assert shown[-1] == "2 more warnings unknown-event; --json lists them all"
    assert told[-1] == "9 events, 1 run: 0 errors, 7 warnings. The run finished."
    _, out, _ = check_text("-", "--json", stdin=stream)
    assert len(json.loads(out)["results"][0]["findings"]) == 7


def test_warnings_alone_are_no_failure() -> None:
    code, out, _ = check_text("-", stdin=sse(STARTED, UNKNOWN, FINISHED))
    assert code == 0
    assert out.splitlines()[-1] == "3 events, 1 run: 0 errors, 1 warning. The run finished."


@pytest.mark.parametrize("body", [b"", b"\n\n", b"<!DOCTYPE html>\n<p>Not found</p>\n", b"Bad gateway", b"[1, 2]"])
def test_what_is_no_event_stream_is_told_so(body: bytes) -> None:
    code, out, _ = check_text("-", stdin=body)
    assert code == 1
    assert "this is not an event stream: no event is in it" in out
    assert out.splitlines()[-1] == "0 events, 0 runs: 2 errors, 0 warnings. There is no run in it."
    assert "not an event stream" not in check_text("-", stdin=sse(STARTED))[1]


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
    code, out, _ = check_text(str(clean), str(bad))
    assert code == 0
    files = (clean, bad, bad, bad)
    assert all(line.startswith(f"{file}: ") for file, line in zip(files, out.splitlines(), strict=True))
    _, out, _ = check_text(str(clean), str(bad), "--json")
    assert [result["file"] for result in json.loads(out)["results"]] == list(map(str, (clean, bad)))
    assert check_text(str(clean), str(clean))[0] == 0


def test_what_cannot_be_read_is_a_mistake(tmp_path: Path) -> None:
    code, out, err = check_text(str(tmp_path / "nowhere.sse"))
    assert (code, out) == (2, "")
    assert "nowhere.sse' cannot be read: No such file or directory." in err
    assert check_text(str(tmp_path))[0] == 2


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
    _, out, _ = check_text("-", stdin=sse(*payloads))
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


def test_a_file_of_brackets_is_no_event_stream(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"[" * 100_000)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "file")])
    assert (done.exit_code, "no event is in it" in done.stdout) == (1, True)
