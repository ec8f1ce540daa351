"""Agents for `handrail check URL` to look at, and what it says of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from tests.server.live import live
from typer.testing import CliRunner

from handrail.apps.cli import app

Event: TypeAlias = dict[str, Any]


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
