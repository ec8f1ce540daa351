"""What is asked is judged before anything is done: routes, refusals in their order, and what is tolerated."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.kit import asking, serving
from tests.server.loops import endless, look
from tests.server.scenarios import answered, loop_of, waiting

from handrail import Loop
from handrail.server import Refuse, agui_app
from handrail.testing import gate, text


@pytest.mark.parametrize("path", ["/", "", "//"])
async def test_a_final_slash_makes_no_difference(path: str) -> None:
    """P-76: the place itself."""
    async with serving(agui_app(Loop([endless()]))) as endpoint:
        visit = await endpoint.post(target=path).over()
    assert visit.text() == "ok"


@pytest.mark.parametrize(
    ("root", "path"), [("/agent", "/agent"), ("/agent", "/agent/"), ("/a/b", "/a/b/"), ("/proxied", "/")]
)
async def test_it_serves_where_it_is_mounted(root: str, path: str) -> None:
    """P-76: `{path}` is the place of the mount; also behind a proxy that has taken the prefix away."""
    app = agui_app(Loop([endless()]))

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "root_path": root}, receive, send)

    async with serving(mounted) as endpoint:
        assert (await endpoint.post(target=path).over()).text() == "ok"
        assert (await endpoint.get(f"{path.rstrip('/')}/runs/r1/events").over()).status == 200
        assert (await endpoint.get(f"{path.rstrip('/')}/healthz").over()).json == {"status": "ok"}


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/", 405, "POST"),
        ("PUT", "/", 405, "POST"),
        ("OPTIONS", "/", 405, "POST"),
        ("POST", "/runs/r1/events", 405, "GET"),
        ("GET", "/runs/r1/cancel", 405, "POST"),
        ("POST", "/healthz", 405, "GET"),
        ("POST", "/elsewhere", 404, None),
        ("GET", "/runs", 404, None),
        ("GET", "/runs//events", 404, None),
        ("GET", "/runs/r1", 404, None),
        ("GET", "/runs/r1/events", 404, None),
        ("POST", "/runs/r1/cancel", 404, None),
    ],
)
async def test_whatever_else_is_asked(method: str, path: str, status: int, allow: str | None) -> None:
    """P-76: 404; 405 with Allow; as JSON."""
    async with serving(agui_app(Loop([endless()]))) as endpoint:
        visit = await endpoint.ask(method, path, b"{}", {"content-type": "application/json"}).over()
    code = "method-not-allowed" if allow else "not-found"
    assert visit.error == (status, code)
    assert visit.headers.get("allow") == allow


async def test_other_kinds_of_connections() -> None:
    """P-76: there are no websockets here; what is no request is left alone."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async def receive() -> dict[str, str]:
        raise AssertionError("nothing is to be read")

    app = agui_app(loop_of(text("ok")))
    await app({"type": "websocket"}, receive, send)
    await app({"type": "future"}, receive, send)
    assert sent == ["websocket.close"]


async def test_health_needs_no_authority() -> None:
    """P-76."""
    async with serving(agui_app(Loop([endless()]), authorize=lambda request: None)) as endpoint:
        visit = await endpoint.get("/healthz").over()
    assert (visit.status, visit.body) == (200, b'{"status":"ok"}')


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in asking().items() if name != key}


def last(message: dict[str, Any]) -> dict[str, Any]:
    return asking(messages=[{"id": "u0", "role": "user", "content": "a"}, message])


BAD = {
    "no JSON": (b"{", 400, "invalid-json", None),
    "nothing": (b"", 400, "invalid-json", None),
    "array": (b"[]", 400, "invalid-json", None),
    "two objects": (b"{}{}", 400, "invalid-json", None),
    "infinite": (b'{"state": Infinity}', 400, "invalid-json", None),
    "too deep": (b'{"state": ' + b"[" * 300 + b"]" * 300 + b"}", 400, "invalid-json", None),
    "empty object": ({}, 422, "invalid-input", "/threadId"),
    "no thread": (without("threadId"), 422, "invalid-input", "/threadId"),
    "no run id": (without("runId"), 422, "invalid-input", "/runId"),
    "no messages": (without("messages"), 422, "invalid-input", "/messages"),
    "null tools": (asking(tools=None), 422, "invalid-input", "/tools"),
    "number for a thread": (asking(thread_id=7), 422, "invalid-input", "/threadId"),  # type: ignore[arg-type]
    "messages no list": (asking(messages={}), 422, "invalid-input", "/messages"),
    "no content": (last({"id": "u1", "role": "user"}), 422, "invalid-input", "/messages/1/content"),
    "nameless tool": (asking(tools=[{"description": "x"}]), 422, "invalid-input", "/tools/0/name"),
    "answered twice": (
        asking(messages=waiting(), resume=[answered(approved=True), answered(approved=False)]),
        422,
        "invalid-input",
        "/resume/1/interruptId",
    ),
    "nothing said": (asking(messages=[]), 422, "unreadable-messages", "/messages"),
    "only activities": (
        asking(messages=[{"id": "x", "role": "activity", "activityType": "PLAN", "content": {}}]),
        422,
        "unreadable-messages",
        "/messages",
    ),
    "role of the future": (last({"id": "u1", "role": "robot"}), 422, "unreadable-messages", "/messages/1"),
    "only of the future": (asking(messages=[{"id": "u", "role": "robot"}]), 422, "unreadable-messages", "/messages/0"),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_cannot_be_served_is_refused(name: str) -> None:
    """P-77, case 147: in JSON that names the place, before a byte of a stream, and no model is asked."""
    body, status, code, path = BAD[name]
    backend = endless()
    async with serving(agui_app(Loop([backend], [look]), on_warning=lambda record: None)) as endpoint:
        visit = await endpoint.post(body).over()
    error = visit.json["error"]
    assert (visit.status, error["code"], error.get("path")) == (status, code, path)
    assert error["message"]
    assert "Traceback" not in error["message"]
    assert backend.requests == []


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"])
async def test_what_counts_as_json(kind: str) -> None:
    """P-77; Accept is not consulted (P-79): the answer is a stream."""
    async with serving(agui_app(Loop([endless()]))) as endpoint:
        visit = await endpoint.post(content_type=kind, accept="application/json").over()
    assert visit.headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("kind", ["", "text/plain", "multipart/form-data", "application/jsonp", "+json"])
async def test_what_does_not(kind: str) -> None:
    """P-77."""
    async with serving(agui_app(Loop([endless()]))) as endpoint:
        visit = await endpoint.post(content_type=kind).over()
    assert visit.error == (415, "unsupported-media-type")


@pytest.mark.parametrize("told", [True, False])
async def test_reading_stops_where_a_body_is_too_large(told: bool) -> None:
    """P-77: also where the length was not told, or is a lie."""
    body = json.dumps(asking("x" * 10_000)).encode()
    headers = {"content-type": "application/json"} | ({"content-length": str(len(body))} if told else {})
    async with serving(agui_app(Loop([endless()]), max_body_bytes=2_000)) as endpoint:
        visit = await endpoint.ask("POST", "/", body, headers, pieces=10).over()
    assert visit.error == (413, "too-large")
    assert visit.asked == (0 if told else 2)


async def test_a_client_that_goes_before_it_has_asked() -> None:
    """P-93: there is nobody to answer, and nothing to complain about."""
    async with serving(agui_app(Loop([endless()]))) as endpoint:
        visit = endpoint.ask("POST", "/", b"{", {"content-type": "application/json"}, pieces=1)
        visit._left = []
        visit.leave()
        await visit.over()
    assert visit.sent == []


async def test_a_body_comes_in_pieces() -> None:
    """P-79."""
    body = json.dumps(asking("😀")).encode()
    async with serving(agui_app(Loop([endless()]))) as endpoint:
        visit = await endpoint.ask("POST", "/", body, {"content-type": "application/json"}, pieces=len(body)).over()
    assert visit.text() == "ok"


async def test_the_order_of_refusals() -> None:
    """P-77: each stands before the next; what is wrong with everything is refused for who asks."""
    steps: list[tuple[dict[str, Any], tuple[int, str]]] = [
        ({"authority": "none"}, (403, "forbidden")),
        ({"content_type": "text/plain"}, (415, "unsupported-media-type")),
        ({"content_length": "99999"}, (413, "too-large")),
        ({"body": b"["}, (400, "invalid-json")),
        ({"body": asking(thread_id="t2", messages=[], tools=None)}, (422, "invalid-input")),
        ({"body": asking(thread_id="t2", messages=[])}, (422, "unreadable-messages")),
        ({"body": asking(thread_id="t2")}, (402, "pay")),
        ({"body": asking(thread_id="t1")}, (409, "run-id-conflict")),
        ({"body": asking(thread_id="t1", run_id="r2")}, (409, "thread-busy")),
    ]
    held = gate()
    loop = loop_of([text("a"), held])

    def loop_for(given: Any, principal: Any) -> Loop:
        if given.thread_id == "t2":
            raise Refuse(402, "Pay first.", "pay")
        return loop

    app = agui_app(loop_for, authorize=lambda request: request.headers.get("authority") != "none", max_body_bytes=2000)
    async with serving(app) as endpoint:
        endpoint.post()
        await held.reached
        for place, (own, refusal) in enumerate(steps):
            merged: dict[str, Any] = {}
            for later, _ in reversed(steps[place:]):
                merged |= later
            visit = endpoint.post(merged.pop("body"), **merged)
            assert (await visit.over()).error == refusal, own
        held.open()


# -- what is tolerated -------------------------------------------------------------------------------------------------


async def test_what_is_unknown_is_removed_and_the_request_served() -> None:
    """P-79, case 147: with a warning that names the place; a sink that raises changes nothing."""
    told: list[Any] = []

    def sink(record: Any) -> None:
        told.append((record.code, record.path))
        raise RuntimeError("sink")

    body = asking(fancy=1)
    body["messages"][0]["mood"] = "good"
    async with serving(agui_app(Loop([endless()]), on_warning=sink)) as endpoint:
        visit = await endpoint.post(body).over()
    assert visit.text() == "ok"
    assert sorted(told) == [("unknown-property", "/fancy"), ("unknown-property", "/messages/0/mood")]


async def test_warnings_go_to_the_log_where_nobody_takes_them(caplog: pytest.LogCaptureFixture) -> None:
    """P-6, P-79."""
    async with serving(agui_app(Loop([endless()]))) as endpoint:
        await endpoint.post(asking(fancy=1)).over()
    assert [(r.name, r.levelname) for r in caplog.records] == [("handrail.agui", "WARNING")]
    assert "fancy" in caplog.text


async def test_python_spellings_are_read_at_the_top() -> None:
    """P-79: as agent-framework's client sends them, with one warning."""
    told: list[Any] = []
    body = asking()
    for wire, python in (("threadId", "thread_id"), ("runId", "run_id"), ("forwardedProps", "forwarded_props")):
        body[python] = body.pop(wire)
    async with serving(agui_app(Loop([endless()]), on_warning=told.append)) as endpoint:
        visit = await endpoint.post(body).over()
    assert (visit.last()["threadId"], visit.last()["runId"]) == ("t1", "r1")
    assert [record.code for record in told] == ["legacy"]
