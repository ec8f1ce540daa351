"""Who may ask, and which loop answers whom."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.server.kit import asking, serving
from tests.server.loops import endless
from tests.server.scenarios import loop_of

from handrail import Loop
from handrail.server import Refuse, ServerRequest, agui_app
from handrail.testing import gate, text

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
