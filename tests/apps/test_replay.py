"""Recordings: every byte is kept, and goes the same way again."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.apps.chatting import ANY, Lines, calls, finished, says, shows, started
from tests.apps.http_servers import served
from typer.testing import CliRunner

from handrail import AgentSession, approve
from handrail.apps._replay import play
from handrail.apps._tape import RecordingTransport, ReplayTransport, Take, new_tape, read_tape
from handrail.apps.chat._app import ChatApp
from handrail.apps.cli import app
from handrail.client import HttpAgent

QUESTION = {"id": "i1", "reason": "tool_call", "message": "May I?", "toolCallId": "c1"}
STREAMS: list[Lines] = [
    [started(), *says("m1", "café ", "🚀 one"), finished()],
    [started(), *calls("c1", "send", "{}"), finished(interrupts=[QUESTION])],
    [started(), *says("m2", "sent"), finished()],
    [started(), *says("m3", "half")[:2]],
]


def body(stream: Lines, request: bytes) -> bytes:
    asked = json.loads(request)
    text = "".join(f"data: {json.dumps(line, ensure_ascii=False)}\n\n" for line in stream)
    run = text.replace(f'"threadId": "{ANY}"', f'"threadId": "{asked["threadId"]}"')
    return run.replace(f'"runId": "{ANY}"', f'"runId": "{asked["runId"]}"').encode()


class Reads(httpx.AsyncByteStream):
    """A body in reads of seven bytes, which cut characters in two."""

    def __init__(self, data: bytes) -> None:
        self._reads = iter([data[at : at + 7] for at in range(0, len(data), 7)])

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for read in self._reads:
            return read
        raise StopAsyncIteration


class Server(httpx.AsyncBaseTransport):
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if len(self.sent) == len(STREAMS):
            raise httpx.ConnectError("gone")
        self.sent.append(body(STREAMS[len(self.sent)], await request.aread()))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Reads(self.sent[-1]))


async def recorded(file: Path) -> tuple[Server, AgentSession]:
    server = Server()
    with new_tape(str(file)) as tape:
        client = httpx.AsyncClient(transport=RecordingTransport(tape, server))
        async with client, AgentSession(HttpAgent("http://agent", client=client)) as session:
            await session.send("first")
            await session.send("second")
            await session.resume([approve("i1")])
            await session.send("third")
            await session.run()
    return server, session


def heard(session: AgentSession) -> list[dict[str, Any]]:
    """The messages of a session, without the ids that it made itself."""
    return [message.model_dump(exclude={"id"} if message.role == "tool" else None) for message in session.messages]


def player(takes: list[Take], speed: float = 0.0) -> tuple[HttpAgent, dict[str, Any]]:
    client = httpx.AsyncClient(transport=ReplayTransport(takes, speed))
    return HttpAgent("http://recording", client=client), {"thread_id": takes[0].request.thread_id}


async def test_every_byte_is_kept_and_the_session_comes_out_the_same(tmp_path: Path) -> None:
    server, session = await recorded(tmp_path / "tape")
    takes = list(read_tape(str(tmp_path / "tape")))
    assert [b"".join(read for _, read in take.reads) for take in takes[:4]] == server.sent
    agent, options = player(takes)
    said: list[str] = []
    async with AgentSession(agent, **options) as again:
        state = await play(takes, again, said.append)
        assert said == ["first", "second", "third"]
        assert heard(again) == heard(session)
        assert again.transcript.text == session.transcript.text
        assert (state.kind, "gone" in state.message) == ("transport", True)  # pyright: ignore


async def test_a_replay_takes_the_time_it_took_or_as_much_less_as_is_asked_for(tmp_path: Path) -> None:
    await recorded(tmp_path / "tape")
    take = read_tape(str(tmp_path / "tape"))[0]
    assert [at for at, _ in take.reads] == sorted(at for at, _ in take.reads)
    late = Take(take.request, headers=take.headers, reads=[(3_000.0, take.reads[0][1])])
    late.reads.extend((3_000.0, read) for _, read in take.reads[1:])
    agent, options = player([late], speed=1_000_000.0)
    async with AgentSession(agent, **options) as again:
        assert (await play([late], again)).ok


async def test_a_recording_that_was_cut_off_is_good_up_to_there(tmp_path: Path) -> None:
    await recorded(tmp_path / "tape")
    whole = (tmp_path / "tape").read_text().splitlines(keepends=True)
    (tmp_path / "cut").write_text("".join(whole[:20]))
    takes = list(read_tape(str(tmp_path / "cut")))
    agent, options = player(takes)
    async with AgentSession(agent, **options) as again:
        assert (await play(takes, again)).kind == "truncated"  # pyright: ignore


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b"{nonsense",
        b'{"format": "handrail.recording", "version": 1}\n',
        b'{"format": "other"}\n',
        b'{"format": "handrail.session", "version": 1}\n',
        b'{"format": 1}\n3',
        b"",
        b"# agent.py\nloop = 1\n",
        b"\x80\xff data: {}",
    ],
)
def test_what_is_no_recording_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    done = CliRunner().invoke(app, ["replay", str(tmp_path / "file")])
    assert done.exit_code == 2
    assert "'" in done.output
    assert "Traceback" not in done.output
    assert "ValueError" not in done.output


class Agent(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = self.rfile.read(int(self.headers["content-length"]))
        answer = body([started(), *says("m1", "Hello\x1b[2J from afar."), finished()], request)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(Agent) as url:
        yield url


def test_record_and_replay_as_typed(url: str, tmp_path: Path) -> None:
    file = str(tmp_path / "tape")
    first = CliRunner().invoke(app, ["record", url, file, "--once", "hi"])
    assert first.exit_code == 0
    assert first.output.splitlines()[0] == r"Hello\x1b[2J from afar."
    assert first.output.splitlines()[1].startswith("✓ finished · tokens unknown · cost unknown")
    assert "127.0.0.1" not in Path(file).read_text()
    again = CliRunner().invoke(app, ["replay", file, "--speed", "0"])
    assert again.output.splitlines()[:2] == ["you: hi", r"Hello\x1b[2J from afar."]
    assert again.exit_code == 0
    refused = CliRunner().invoke(app, ["record", url, file, "--once", "hi"])
    assert (refused.exit_code, "is not written over" in refused.output) == (2, True)


def test_events_as_json_lines_are_a_recording_too(url: str, tmp_path: Path) -> None:
    lines = CliRunner().invoke(app, ["chat", url, "--once", "hi", "--json"]).output
    events = [json.loads(line) for line in lines.splitlines()]
    assert [event.get("type") for event in events] == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
        None,
    ]
    assert events[-1] == {"kind": "verdict", "ok": True, "outcome": "success"}
    (tmp_path / "lines").write_text(lines)
    again = CliRunner().invoke(app, ["replay", str(tmp_path / "lines"), "--json"])
    assert again.output == lines


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["chat"], "needs a terminal"),
        (["chat", "nonsense", "--once", "hi"], "There is no module 'nonsense'"),
        (["chat", "json", "--once", "hi"], "has no `loop`"),
        (["chat", "json:loads", "--once", "hi"], "takes a Loop"),
        (["chat", "http://a:port", "--once", "hi"], "is no URL of an agent"),
        (["chat", "localhost:8000/agent", "--once", "hi"], "as in http://localhost:8000/agent."),
        (["chat", "wss://a", "--once", "hi"], "it begins with http:// or https://"),
        (["chat", ":loop", "--once", "hi"], "':loop' names no module"),
        (["record", "localhost:8000", "tape"], "as in http://localhost:8000."),
        (["chat", "--json"], "--json goes with --once"),
        (["chat", "--tools", "x", "--once", "hi"], "nobody to consent"),
        (["record", "demo", "tape"], "is no URL"),
        (["record", "agent:loop", "tape"], "handrail serve agent:loop"),
        (["record", "http://127.0.0.1:9/", "tape"], "needs a terminal"),
        (["chat", "example.org/agent", "--once", "hi"], "as in http://example.org/agent."),
        (["chat", "http:/localhost:8000", "--once", "hi"], "it begins with http:// or https://"),
        (["check", "agent:loop"], "handrail serve agent:loop"),
        (["replay", "/nowhere/at/all"], "cannot be read"),
    ],
)
def test_what_cannot_be_started_is_said_in_a_sentence(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no file is left behind."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert says in done.output
    assert "Traceback" not in done.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["record", "http://127.0.0.1:9/", "tape", "--once", "hi"], ["replay", "tape"]])
def test_a_missing_extra_is_named(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "handrail.apps._replay", raising=False)
    monkeypatch.setitem(sys.modules, "httpx", None)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert done.output == "handrail: handrail record and replay need httpx: pip install 'handrail[client]'.\n"


@pytest.mark.parametrize(
    ("text", "code", "last"),
    [
        ("the weather?", 0, "✓ finished · 179 tokens in, 45 out · cost unknown"),
        ("delete it", 0, "Questions are answered in the chat.\n? waiting for your answer"),
        ("fail", 1, "✗ failed (run-failed)"),
    ],
)
def test_the_demo_answers_without_a_terminal(text: str, code: int, last: str) -> None:
    done = CliRunner().invoke(app, ["chat", "--once", text])
    assert done.exit_code == code
    assert f"\n{last}" in done.output
    assert last.splitlines()[-1] in done.output.splitlines()[-1]


def test_why_a_loop_of_ones_own_failed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fails_here.py").write_text(
        "from handrail import Loop\n"
        "from handrail.testing import ScriptedBackend, fail\n"
        "loop = Loop([ScriptedBackend([fail('http', status=401, message='no key')])])\n"
    )
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["chat", "fails_here:loop", "--once", "hi"])
    assert done.exit_code == 1
    assert "no key" in done.output


class TestInTheChat:
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    async def test_a_recording_plays_in_the_chat(self, tmp_path: Path) -> None:
        await recorded(tmp_path / "tape")
        takes = list(read_tape(str(tmp_path / "tape")))
        agent, options = player(takes)
        chat = ChatApp(
            agent,
            title="replay",
            opening=lambda session: play(takes, session),
            new_session=lambda agent, **more: AgentSession(agent, **options, **more),
        )
        async with chat.run_test(size=(80, 40)) as pilot:
            await shows(pilot, "first", "café 🚀 one", "second", "send", "sent", "third", "half", "✗ failed")
