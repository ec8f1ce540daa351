"""The official TypeScript client as a judge: what it makes of our streams, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.server.live import live
from tests.server.scenarios import GATED, SCENARIOS, loop_of

from handrail import Loop
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, call, stall, text

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="the client runs on node, which is not here"),
]


class Talk:
    """What the client printed: its events, one line for each run, and what it has in the end."""

    def __init__(self, lines: list[dict[str, Any]]) -> None:
        self.events = [line["event"] for line in lines if "event" in line]
        self.runs = [line for line in lines if "run" in line]
        [self.end] = [line["end"] for line in lines if "end" in line]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def said(self) -> list[Any]:
        """Role and content of its messages."""
        return [(message["role"], message.get("content")) for message in self.end["messages"]]


@pytest.fixture
def talk(shared: Path, peers: Path) -> Any:
    """Runs the client against an app; `options` are those of its command line."""

    def run(app: Any, *options: str) -> Talk:
        with live(app) as server:
            command = [
                "node",
                str(shared / "peers/clients/tsclient.mjs"),
                server.url,
                "hi",
                "--timeout",
                "20",
                *options,
            ]
            env = os.environ | {"PEER_NODE": str(peers)}
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=40, check=False)
        assert done.returncode == 0, done.stderr
        return Talk([json.loads(line) for line in done.stdout.splitlines()])

    return run


def calm(talk: Talk) -> None:
    """Nothing went wrong at that end, and nothing was complained about."""
    assert talk.end["error"] is None
    assert talk.end["warnings"] == []


def test_text(talk: Any) -> None:
    """P-97: an answer, whole."""
    got = talk(agui_app(SCENARIOS["text"][0]()))
    calm(got)
    assert got.said == [("user", "hi"), ("assistant", "It is warm.")]
    assert got.runs[0]["outcome"] == "success"
    assert got.events[-1]["usage"][0]["totalTokens"] == 15


def test_server_tools(talk: Any) -> None:
    """P-86, P-97: three rounds, each answer with its own id, the results behind the calls."""
    got = talk(agui_app(SCENARIOS["tools"][0]()))
    calm(got)
    assert [role for role, _ in got.said] == ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
    assert got.said[-1] == ("assistant", "Done.")
    assert [m["content"] for m in got.end["messages"] if m["role"] == "tool"] == ["found a", "told", "found b"]


def test_reasoning(talk: Any) -> None:
    """P-87, P-97."""
    got = talk(agui_app(SCENARIOS["reasoning"][0]()))
    calm(got)
    assert got.said == [("user", "hi"), ("reasoning", "Hm, well.And"), ("assistant", "So it is.")]


def test_a_client_tool_and_its_follow_up(talk: Any) -> None:
    """P-79, P-87, P-97: pending, answered by the client, gone on with."""
    loop = loop_of([text("When?"), call("pick_date", id="c1")], text("On Friday."))
    got = talk(agui_app(loop), "--tool", 'pick_date={"day":"Friday"}')
    calm(got)
    assert [run["pendingToolCallIds"] for run in got.runs] == [["c1"], []]
    assert got.said[-2:] == [("tool", '{"day":"Friday"}'), ("assistant", "On Friday.")]


@pytest.mark.parametrize(
    ("resume", "result"),
    [('{"approved":true}', "found 1"), ('{"approved":false,"reason":"too dear"}', "too dear"), ("cancel", "withdrawn")],
)
def test_an_approval(talk: Any, resume: str, result: str) -> None:
    """P-80, P-97: approved, denied, abandoned."""
    loop = Loop([ScriptedBackend([call("pay", {"q": "1"}, id="c1"), text("So be it.")])], [GATED])
    got = talk(agui_app(loop), "--resume", resume)
    calm(got)
    assert [[i["id"] for i in run["interrupts"]] for run in got.runs] == [["c1"], []]
    [content] = [m["content"] for m in got.end["messages"] if m["role"] == "tool"]
    assert result in content
    assert got.said[-1] == ("assistant", "So be it.")
    assert got.end["pendingInterrupts"] == []


def test_an_error(talk: Any) -> None:
    """P-91, P-97: a code and a text, after what had been said."""
    got = talk(agui_app(SCENARIOS["failed"][0]()))
    assert got.types[-1] == "RUN_ERROR"
    assert got.events[-1]["message"] == "The run failed."
    assert got.said == [("user", "hi"), ("assistant", "The ans")]
    assert got.runs[0]["outcome"] == "RUN_ERROR"


@pytest.mark.parametrize("name", ["retried", "retried with reasoning"])
def test_a_retry_after_part_of_an_answer(talk: Any, name: str) -> None:
    """P-88, P-97: one answer in the end, and it is the second."""
    got = talk(agui_app(SCENARIOS[name][0]()))
    calm(got)
    assert [content for role, content in got.said if role == "assistant"] == ["4."]
    assert [content for role, content in got.said if role == "reasoning" and content] == []


def test_a_client_that_stops(talk: Any) -> None:
    """P-93, P-97: aborted after the first token; the run is cancelled and its stream closed."""
    ends: list[str] = []
    backend = ScriptedBackend([[text("It is"), stall()]])
    app = agui_app(Loop([backend]), on_finish=lambda given, outcome: ends.append(outcome.outcome))
    got = talk(app, "--abort-after", "3")
    assert got.said == [("user", "hi"), ("assistant", "It is")]
    assert ends == ["cancelled"]
    assert backend.closed == backend.opened == 1


def test_what_is_refused_is_an_error_there(talk: Any) -> None:
    """P-77, P-97: the client says the status."""
    got = talk(agui_app(SCENARIOS["text"][0](), authorize=lambda request: None))
    assert got.end["error"]["status"] == 403
    assert got.events == []
