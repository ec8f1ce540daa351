"""What the tests of the server stand on: requests put to the app in memory, and streams read strictly.

A stream is judged three times when it is looked at: byte by byte by the rules of framing, by the client's pipeline, and
by `ag-ui-validate`, which is of others' making.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from ag_ui.core import RunAgentInput
from ag_ui_validate.pytest_plugin import validate_agui
from anyio.abc import TaskGroup
from tests.agui.wires import Reading, read

from handrail import RunScope
from handrail.agui._fold import Fold

URL = "http://agent.test"
CONTRADICTS = {
    # Rules of ag-ui-validate 0.4.0 that AG-UI 1.0 does not have, or has the other way round.
    "AGUI104": "a message id may be reopened within a run",
    "AGUI207": "a result may come for a call of an earlier run, when an answer was resumed",
    "AGUI204": "arguments that are not JSON are no matter of the protocol",
}
FRAME = re.compile(rb"id: (\d+)\ndata: ([^\r\n]+)\n\n")


def asking(text: str = "hi", *, run_id: str = "r1", thread_id: str = "t1", **fields: Any) -> dict[str, Any]:
    """The body of a request; `messages` and everything else may be given."""
    plain = {
        "threadId": thread_id,
        "runId": run_id,
        "state": {},
        "messages": [{"id": "u1", "role": "user", "content": text}],
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }
    return plain | fields


class Visit:
    """One request put to an app, and what has come of it so far."""

    def __init__(self, method: str, target: str, body: bytes, headers: Mapping[str, str], pieces: int = 1) -> None:
        path, _, query = target.partition("?")
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
            "client": ("192.0.2.7", 4711),
        }
        size = max(1, -(-len(body) // pieces))
        self._left = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
        self._gone = anyio.Event()
        self._news = anyio.Event()
        self.sent: list[Any] = []
        self.body = b""
        self.is_over = False
        self.asked = 0
        """How many pieces of the body the app has read."""
        self.hold: Callable[[], Any] | None = None
        """Awaited by every send of a piece of the body: a client that is slow."""

    async def serve(self, app: Any) -> None:
        try:
            await app(self.scope, self._receive, self._send)
        finally:
            self.is_over = True
            self._tell()

    async def _receive(self) -> dict[str, Any]:
        if self._left:
            self.asked += 1
            piece = self._left.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._left)}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self.hold is not None and message["type"] == "http.response.body":
            await self.hold()
        self.sent.append(message)
        self.body += message.get("body", b"")
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def until(self, true: Callable[[], Any]) -> None:
        """Wait until something is true of what was sent."""
        with anyio.fail_after(10):
            while not true():
                assert not self.is_over, f"over, and it never came: {self.status} {self.body[-500:]!r}"
                await self._news.wait()

    async def over(self) -> Visit:
        """Wait for the end of the answer."""
        with anyio.fail_after(10):
            while not self.is_over:
                await self._news.wait()
        return self

    def leave(self) -> None:
        """The client goes away."""
        self._gone.set()

    # -- what was answered -------------------------------------------------------------------------------------------

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int | None, str]:
        """Status and code of a refusal."""
        return self.status, self.json["error"]["code"]

    @property
    def bodies(self) -> list[bytes]:
        """The pieces that were sent."""
        return [message["body"] for message in self.sent[1:]]

    @property
    def payloads(self) -> list[dict[str, Any]]:
        """The events so far, as they stand."""
        return [json.loads(data) for _, data in frames_of(self.body)]

    @property
    def types(self) -> list[str]:
        return [payload["type"] for payload in self.payloads]

    def has(self, *types: str) -> bool:
        """Whether events of these types have come."""
        return set(types) <= set(self.types)

    def text(self) -> str:
        """All text of the answer."""
        return "".join(p["delta"] for p in self.payloads if p["type"] == "TEXT_MESSAGE_CONTENT")

    def last(self) -> dict[str, Any]:
        return self.payloads[-1]


def frames_of(body: bytes) -> list[tuple[int, bytes]]:
    """The frames of a body that is nothing but frames of ours and comments."""
    plain = body.replace(b":\n\n", b"")
    found = FRAME.findall(plain)
    assert b"".join(b"id: %b\ndata: %b\n\n" % frame for frame in found) == plain
    return [(int(number), data) for number, data in found]


class Endpoint:
    """An app, and the requests that are put to it."""

    def __init__(self, app: Any, group: TaskGroup) -> None:
        self.app = app
        self._group = group
        self.visits: list[Visit] = []

    def ask(
        self, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] = {}, *, pieces: int = 1
    ) -> Visit:
        """Put a request; the answer comes by and by."""
        visit = Visit(method, target, body, headers, pieces)
        self.visits.append(visit)
        self._group.start_soon(visit.serve, self.app)
        return visit

    def post(self, body: Any = None, target: str = "/", **headers: str) -> Visit:
        """Start a run; `body` may be bytes."""
        data = body if isinstance(body, bytes) else json.dumps(asking() if body is None else body).encode()
        return self.ask("POST", target, data, {"content-type": "application/json"} | _named(headers))

    def get(self, target: str, **headers: str) -> Visit:
        return self.ask("GET", target, headers=_named(headers))

    async def played(self, body: Any = None) -> Visit:
        """One run, from its request to its end, the stream judged."""
        asked = asking() if body is None else body
        visit = await self.post(asked).over()
        judged(visit.body, RunAgentInput.model_validate(asked).messages)
        return visit


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@asynccontextmanager
async def serving(app: Any) -> AsyncGenerator[Endpoint]:
    """The app in memory; leaving lets all clients go and waits until nothing is left of any run."""
    async with RunScope(), anyio.create_task_group() as group:
        endpoint = Endpoint(app, group)
        yield endpoint
        for visit in endpoint.visits:
            visit.leave()


def judged(body: bytes, messages: Any = ()) -> Reading:
    """The events of a whole stream, after every judge has seen it. `messages` are what the client has already."""
    frames = frames_of(body)
    assert [number for number, _ in frames] == list(range(len(frames)))
    assert not any(mark in body for mark in (b"\r", b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xc2\x85"))
    reading = read([body], messages=messages)
    assert reading.types == [json.loads(data)["type"] for _, data in frames]
    assert reading.warnings == []
    assert reading.verdict.rejected is None
    assert [t for t in reading.types if t in ("RUN_FINISHED", "RUN_ERROR")] == reading.types[-1:]
    assert foreign_findings([data.decode() for _, data in frames]) == []
    return reading


def foreign_findings(lines: list[str]) -> list[str]:
    """What ag-ui-validate finds, but for the rules that AG-UI 1.0 contradicts."""
    report = validate_agui(lines)
    return [
        f"{found.rule} {found.severity}: {found.message}"
        for found in report.diagnostics
        if found.severity in ("error", "warning") and found.rule not in CONTRADICTS
    ]


def folded(body: bytes, given: dict[str, Any]) -> list[Any]:
    """The messages that a client has in the end."""
    fold = Fold(RunAgentInput.model_validate(given).messages)
    for event in judged(body, fold.messages).events:
        fold.apply(event)
    return [message.model_dump(by_alias=True, exclude_none=True) for message in fold.messages]


class Kept:
    """What `on_finish` was told; and a wait for it."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, str]] = []
        self._news = anyio.Event()

    async def __call__(self, given: Any, outcome: Any) -> None:
        self.ends.append((given.run_id, outcome.outcome))
        self._news.set()
        self._news = anyio.Event()

    async def told(self, count: int = 1) -> list[tuple[str, str]]:
        with anyio.fail_after(5):
            while len(self.ends) < count:
                await self._news.wait()
        return self.ends


async def in_order(endpoint: Endpoint, count: int) -> list[Visit]:
    """Runs r0, r1, ... of one thread, each accepted before the next is asked for."""
    visits: list[Visit] = []
    for n in range(count):
        visits.append(visit := endpoint.post(asking(run_id=f"r{n}")))
        await visit.until(lambda visit=visit: visit.sent)
    return visits
