"""`handrail check URL`, as it is typed, on servers of others' making and on one of ours."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.aimock import running_agui
from tests.live.kit import AND_OLDER, KEEPS_NOTHING, SERVERS, Live, on, servers_have_to_start

pytestmark = servers_have_to_start

TOOLS = """
from handrail import tool

@tool
def get_location(accuracy: str) -> str:
    "Where the client is."
    return "here"
"""


async def check(url: str, folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and what came of each probe, by its name."""
    command = [sys.executable, "-m", "handrail", "check", url, "--json", *options]
    done = await anyio.run_process(command, check=False, cwd=folder, env={**os.environ, "NO_COLOR": "1"})
    assert done.stderr == b""
    document = json.loads(done.stdout)
    return done.returncode, {result["probe"]: result for result in document["results"]}


def only(*probes: str) -> list[str]:
    return [word for probe in probes for word in ("--only", probe)]


def codes(result: Any) -> list[str]:
    return [finding["code"] for finding in result["findings"]]


@on(*AND_OLDER)
async def test_a_plain_conversation(live: Live, tmp_path: Path) -> None:
    """Nothing is wrong with any of them; which of them state a version and their usage is told as it is."""
    code, found = await check(
        live.relay.url, tmp_path, "--message", "text", *only("run", "history", "interrupt", "bad-request")
    )
    assert code == 0
    assert {name: result["status"] for name, result in found.items()} == {
        "run": "passed",
        "history": "passed",
        "interrupt": "not-offered",
        "bad-request": "passed",
    }
    [run] = found["run"]["runs"]
    assert (run["http_status"], run["verdict"], run["terminal"]) == (200, "success", "RUN_FINISHED")
    assert 0 <= run["first_event_ms"] <= run["duration_ms"]
    assert run.get("protocol_version") == ("1.0" if live.peer in KEEPS_NOTHING else None)
    assert ("usage" in run) == (live.peer == "pydantic-ai")


@on(*AND_OLDER)
async def test_a_tool_of_the_client(live: Live, tmp_path: Path) -> None:
    (tmp_path / "tools_of_mine.py").write_text(TOOLS)
    options = ("--tools", "tools_of_mine", "--message", "client-tool", *only("tool"))
    code, found = await check(live.relay.url, tmp_path, *options)
    assert (code, found["tool"]["status"], found["tool"]["findings"]) == (0, "passed", [])
    assert len(found["tool"]["runs"]) == 2
    _, follow_up = live.requests
    assert follow_up["messages"][-1]["content"] == "here"


@on(*AND_OLDER)
async def test_a_question_is_never_answered_with_yes(live: Live, tmp_path: Path) -> None:
    code, found = await check(live.relay.url, tmp_path, "--message", "interrupt", *only("run", "interrupt"))
    is_older = live.peer == "langgraph-older"
    assert (code, found["interrupt"]["status"]) == (0, "passed")
    assert codes(found["run"]) == (["legacy-interrupt"] if is_older else [])
    asked, resumed = live.requests
    assert "resume" not in asked
    answers = resumed["forwardedProps"]["command"] if is_older else {"resume": resumed["resume"][0]["payload"]}
    assert answers["resume"] == {"approved": False}
    assert b"deleted /etc/motd" not in live.exchanges[1].body.replace(b"not deleted", b"")


@on(*KEEPS_NOTHING)
async def test_a_client_that_goes_away(live: Live, tmp_path: Path) -> None:
    code, found = await check(live.relay.url, tmp_path, "--message", "slow", *only("disconnect"))
    assert (code, found["disconnect"]["status"], found["disconnect"]["findings"]) == (0, "passed", [])
    left, same, other = live.requests
    assert live.exchanges[0].closed_by == "client"
    assert b"RUN_FINISHED" not in live.exchanges[0].body
    assert left["threadId"] == same["threadId"] != other["threadId"]


@on(*SERVERS)
async def test_a_run_that_fails(live: Live, tmp_path: Path) -> None:
    """It says so, as the protocol wants it, in the middle of an answer."""
    code, found = await check(live.relay.url, tmp_path, "--message", "error", *only("run"))
    assert (code, found["run"]["status"], codes(found["run"])) == (0, "warned", ["run-error"])


@pytest.fixture(scope="module")
def mock(peers: Path, shared: Path) -> Iterator[str]:
    with running_agui(peers, shared / "peers" / "aimock" / "agui.json") as port:
        yield f"http://127.0.0.1:{port}/agui"


async def test_a_mock_with_ids_of_its_own(mock: str, tmp_path: Path) -> None:
    """P-38: it answers every thread as another one."""
    code, found = await check(mock, tmp_path, "--message", "text", *only("run", "bad-request"))
    assert (code, found["run"]["status"], found["bad-request"]["status"]) == (1, "failed", "passed")
    [finding] = found["run"]["findings"]
    assert (finding["code"], finding["event"], finding["path"]) == ("P-38", 0, "/threadId")
    code, found = await check(mock, tmp_path, "--message", "what it does not know", *only("run"))
    assert (code, codes(found["run"])) == (1, ["http"])
