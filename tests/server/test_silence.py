"""Silence on a stream is broken by comments."""

from __future__ import annotations

import anyio
from tests.server.kit import judged, serving
from tests.server.scenarios import loop_of

from handrail.server import agui_app
from handrail.testing import gate, text


async def test_silence_is_broken_by_comments() -> None:
    """P-84: between frames, and none while something is said; they are no frames and carry no number."""
    held = gate()
    async with serving(agui_app(loop_of([text("a"), held, text("b")]), keepalive=0.02)) as endpoint:
        visit = endpoint.post()
        await held.reached
        await visit.until(lambda: visit.body.count(b":\n\n") >= 3)
        held.open()
        await visit.over()
    judged(visit.body)
    assert [body for body in visit.bodies if b":\n\n" in body and body != b":\n\n"] == []
    assert visit.text() == "ab"


async def test_comments_can_be_switched_off() -> None:
    """P-84."""
    held = gate()
    async with serving(agui_app(loop_of([text("a"), held]), keepalive=None)) as endpoint:
        visit = endpoint.post()
        await held.reached
        await anyio.sleep(0.05)  # the time in which another setting would have spoken
        held.open()
        await visit.over()
    assert b":\n\n" not in visit.body


async def test_a_client_that_does_not_read_gets_no_heap_of_comments() -> None:
    """P-84: a comment waits like everything else, and one is enough."""
    held, slow = gate(), gate()
    async with serving(agui_app(loop_of([text("a"), held]), keepalive=0.01)) as endpoint:
        visit = endpoint.post()
        visit.hold = lambda: slow
        await held.reached
        await anyio.sleep(0.1)  # the time of ten comments
        held.open()
        slow.open()
        await visit.over()
    assert visit.body.count(b":\n\n") <= 3
