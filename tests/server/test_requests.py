"""What is asked is judged before anything is done: routes, refusals in their order, who may, pages of other origins."""

from __future__ import annotations

import copy
import json
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.server.kit import Endpoint, Visit, asking, serving
from tests.server.scenarios import PICK, answered, loop_of, waiting

from handrail import Loop, RunScope
from handrail.server import Refuse, ServerRequest, agui_app
from handrail.testing import ScriptedBackend, gate, text


def endless() -> ScriptedBackend:
    """A model that is never at a loss."""
    return ScriptedBackend([text("ok")] * 300)


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


def look() -> str:
    """Look."""
    return "x"


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


# -- who may -----------------------------------------------------------------------------------------------------------


async def test_who_asks_is_looked_at_before_the_body_is_read() -> None:
    """P-78: by action, run, headers in any case, path and client."""
    seen: list[ServerRequest] = []

    async def nobody(request: ServerRequest) -> Any:
        seen.append(request)
        await anyio.lowlevel.checkpoint()
        return None

    async with serving(agui_app(Loop([endless()]), authorize=nobody)) as endpoint:
        for method, target in (("POST", "/"), ("GET", "/runs/r1/events"), ("POST", "/runs/a/b/cancel")):
            visit = await endpoint.ask(method, target, headers={"authorization": "Bearer 1"}).over()
            assert visit.error == (403, "forbidden")
            assert visit.asked == 0
    assert [(r.action, r.run_id, r.path) for r in seen] == [
        ("run", None, "/"),
        ("events", "r1", "/runs/r1/events"),
        ("cancel", "a/b", "/runs/a/b/cancel"),
    ]
    assert seen[0].headers["Authorization"] == seen[0].headers["authorization"] == "Bearer 1"
    assert "bearer" not in repr(seen[0]).lower()
    assert seen[0].client == ("192.0.2.7", 4711)


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (Refuse(401, "Log in.", "no-token"), (401, {"code": "no-token", "message": "Log in."})),
        (Refuse(429, "Slow down."), (429, {"code": "forbidden", "message": "Slow down."})),
        (Refuse(200, "sk-3"), (500, {"code": "internal-error", "message": "Internal error."})),
        (ValueError("sk-4"), (500, {"code": "internal-error", "message": "Internal error."})),
    ],
)
async def test_a_refusal_of_the_applications_own(refusal: Exception, expected: Any) -> None:
    """P-77, P-78: its status, code and text; anything else it raises is ours to hide."""

    def refuses(request: Any) -> Any:
        raise refusal

    async with serving(agui_app(Loop([endless()]), authorize=refuses)) as endpoint:
        visit = await endpoint.post().over()
    assert (visit.status, visit.json["error"]) == expected


async def test_a_run_is_served_to_whoever_started_it() -> None:
    """P-78: events and cancel of another's run are not found; equal principals are the same."""
    held = gate()
    app = agui_app(loop_of([text("a"), held]), authorize=lambda request: [request.headers["who"]])
    async with serving(app) as endpoint:
        endpoint.post(who="ann")
        await held.reached
        for method, target in (("GET", "/runs/r1/events"), ("POST", "/runs/r1/cancel")):
            other = await endpoint.ask(method, target, headers={"who": "bob"}).over()
            assert other.error == (404, "not-found")
        own = await endpoint.ask("POST", "/runs/r1/cancel", headers={"who": "ann"}).over()
        assert own.status == 202


# -- which loop --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_loop_may_depend_on_the_request(is_async: bool) -> None:
    """P-76: `loop` as a function of the input and the principal, which has `state` and `forwardedProps`."""
    seen: list[Any] = []

    def plain(given: Any, principal: Any) -> Loop:
        seen.append((given.state, given.forwarded_props, principal))
        return Loop([endless()])

    async def waits(given: Any, principal: Any) -> Loop:
        return plain(given, principal)

    app = agui_app(waits if is_async else plain, authorize=lambda request: "ann")
    async with serving(app) as endpoint:
        visit = await endpoint.post(asking(state={"a": 1}, forwardedProps={"b": 2})).over()
    assert visit.text() == "ok"
    assert seen == [({"a": 1}, {"b": 2}, "ann")]


@pytest.mark.parametrize("made", [None, "loop", Refuse(204, "x"), KeyError("sk-5")])
async def test_a_function_that_gives_no_loop(made: Any) -> None:
    """P-77: 500, and nothing of it is told."""

    def loop_for(given: Any, principal: Any) -> Any:
        if isinstance(made, Exception):
            raise made
        return made

    async with serving(agui_app(loop_for)) as endpoint:
        visit = await endpoint.post().over()
    assert visit.json == {"error": {"code": "internal-error", "message": "Internal error."}}
    assert visit.status == 500


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


# -- pages of other origins --------------------------------------------------------------------------------------------

ORIGIN = "https://app.example"
PREFLIGHT = {"origin": ORIGIN, "access-control-request-method": "POST", "access-control-request-headers": "x-a, x-b"}


async def test_no_page_is_let_in_by_default() -> None:
    """P-81: no header, and a preflight is refused."""
    async with serving(agui_app(Loop([endless()]))) as endpoint:
        asked = await endpoint.ask("OPTIONS", "/", headers=PREFLIGHT).over()
        used = await endpoint.post(origin=ORIGIN).over()
    assert asked.status == 403
    assert not [
        name for v in (asked, used) for name in v.headers if name.startswith("access-control") or name == "vary"
    ]


@pytest.mark.parametrize("allowed", [[ORIGIN], "*", ["*"], ORIGIN])
async def test_listed_origins_are_let_in(allowed: Any) -> None:
    """P-81: theirs echoed, with Vary, the methods and the headers asked for; never credentials; refusals too."""
    async with serving(agui_app(Loop([endless()]), allow_origins=allowed)) as endpoint:
        asked = await endpoint.ask("OPTIONS", "/", headers=PREFLIGHT).over()
        used = await endpoint.post(origin=ORIGIN).over()
        refused = await endpoint.post(b"[", origin=ORIGIN).over()
    assert asked.status in (200, 204)
    assert asked.headers["access-control-allow-methods"] == "POST, GET, OPTIONS"
    assert asked.headers["access-control-allow-headers"] == "x-a, x-b"
    for visit in (asked, used, refused):
        assert visit.headers["access-control-allow-origin"] == ORIGIN
        assert visit.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in visit.headers


async def test_other_origins_are_not() -> None:
    """P-81."""
    async with serving(agui_app(Loop([endless()]), allow_origins=["https://other.example"])) as endpoint:
        asked = await endpoint.ask("OPTIONS", "/", headers=PREFLIGHT).over()
        used = await endpoint.post(origin=ORIGIN).over()
    assert asked.error == (403, "forbidden")
    assert "access-control-allow-origin" not in used.headers
    assert used.headers["vary"] == "Origin"


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"on_disconnect": "stop"}, ValueError),
        ({"busy": "wait"}, ValueError),
        ({"stream": "dead"}, ValueError),
        ({"keepalive": 0}, ValueError),
        ({"keepalive": "15"}, TypeError),
        ({"max_body_bytes": 0}, ValueError),
        ({"replay_window": -1}, ValueError),
        ({"max_held_runs": -1}, ValueError),
        ({"replay_window": float("nan")}, ValueError),
        ({"keepalive": float("nan")}, ValueError),
        ({"keepalive": True}, TypeError),
        ({"max_body_bytes": 1.5}, TypeError),
        ({"max_held_runs": "many"}, TypeError),
        ({"max_held_runs": None}, TypeError),
        ({"busy": []}, ValueError),
        ({"on_disconnect": None}, ValueError),
        ({"allow_origins": 5}, TypeError),
        ({"allow_origins": None}, TypeError),
        ({"allow_origins": [5]}, TypeError),
        ({"allow_origins": b"*"}, TypeError),
        ({"allow_origins": "app.example"}, ValueError),
        ({"allow_origins": ["https://app.example/"]}, ValueError),
        ({"allow_origins": ["*", ""]}, ValueError),
        ({"authorize": "admin"}, TypeError),
        ({"on_finish": 5}, TypeError),
        ({"error_text": "It failed."}, TypeError),
        ({"on_warning": True}, TypeError),
    ],
)
def test_options_that_cannot_work_are_refused(options: Any, error: type[Exception]) -> None:
    """P-76: when the app is made."""
    with pytest.raises(error, match=next(iter(options))):
        agui_app(Loop([endless()]), **options)


@pytest.mark.parametrize("origin", ["null", "http://localhost:3000", "http://[::1]:3000", "capacitor://localhost"])
def test_every_origin_that_a_page_can_have_is_taken(origin: str) -> None:
    """P-81: alone, in a list, and as any iterable."""
    for allowed in (origin, [origin], iter([origin])):
        agui_app(Loop([endless()]), allow_origins=allowed)


def test_what_is_no_loop_is_refused() -> None:
    """P-76."""
    with pytest.raises(TypeError, match="Loop"):
        agui_app("loop")  # type: ignore[arg-type]


# -- bodies that were damaged ------------------------------------------------------------------------------------------

WHOLE = asking(
    tools=[PICK],
    context=[{"description": "Place", "value": "Rome"}],
    resume=[answered(approved=True)],
    parentRunId="r0",
    protocolVersion="1.0",
    messages=[
        {"id": "s1", "role": "system", "content": "Be brief."},
        {"id": "u1", "role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"id": "x1", "role": "activity", "activityType": "PLAN", "content": {"steps": []}},
        {"id": "n1", "role": "reasoning", "content": "hm", "encryptedValue": "e"},
        waiting()[1],
    ],
)
ODD = st.sampled_from([None, 0, -1, 1.5, True, "", "x", "\ud800", [], [1], {}, {"type": "odd"}, "user", "tool", 2**60])


def places_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in inner for place in places_of(item, (*at, key)))]


PLACES = places_of(WHOLE)[1:]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The request with a few places replaced, removed or doubled, and at times cut off or bent."""
    body = copy.deepcopy(WHOLE)
    for place in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)):
        holder: Any = body
        try:
            for key in place[:-1]:
                holder = holder[key]
            match draw(st.sampled_from(["replace", "remove", "double"])):
                case "replace":
                    holder[place[-1]] = draw(ODD)
                case "remove":
                    del holder[place[-1]]
                case _:
                    holder.insert(0, copy.deepcopy(holder[place[-1]]))
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # another damage took the place away
    data = json.dumps(body).encode()
    if draw(st.booleans()) and draw(st.booleans()):
        at = draw(st.integers(0, len(data) - 1))
        data = (
            data[:at]
            + draw(st.sampled_from([b"", b"\xff", b"}", b'"', b"\x00"]))
            + data[at + draw(st.integers(0, 9)) :]
        )
    return data


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=damaged())
def test_damaged_requests_are_served_or_refused(data: bytes) -> None:
    """P-77: never a 500, never a stream for what is refused, and never a request to a model for it."""
    backend = ScriptedBackend([text("ok")] * 3)
    app = agui_app(Loop([backend]), on_warning=lambda record: None)

    async def put() -> Visit:
        async with RunScope(), anyio.create_task_group() as group:
            return await Endpoint(app, group).post(data).over()

    visit = anyio.run(put)
    if visit.status == 200:
        assert visit.types[0] == "RUN_STARTED"
        assert visit.types[-1] == "RUN_FINISHED"
    else:
        assert visit.status in (400, 422)
        assert visit.json["error"]["code"] in ("invalid-json", "invalid-input", "unreadable-messages")
        assert backend.requests == []
