"""Pages of other origins: none is let in that was not listed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.kit import serving
from tests.server.loops import endless

from handrail import Loop
from handrail.server import agui_app

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


@pytest.mark.parametrize("origin", ["null", "http://localhost:3000", "http://[::1]:3000", "capacitor://localhost"])
async def test_every_origin_that_a_page_can_have_is_taken(origin: str) -> None:
    """P-81: alone, in a list, and as any iterable."""
    for allowed in (origin, [origin], iter([origin])):
        async with serving(agui_app(Loop([endless()]), allow_origins=allowed)) as endpoint:
            visit = await endpoint.post(origin=origin).over()
        assert visit.headers["access-control-allow-origin"] == origin
