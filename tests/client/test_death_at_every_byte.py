"""A connection that dies at any byte: what had arrived stands, and nobody makes up an end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable

import anyio
import pytest
from tests.client.endings import FINISHED, STARTED, TEXT, badly, ending_of, well
from tests.client.sockets import CHUNKED, HostileServer, Step, Visit, chunk, event, head
from tests.client.transports import ASKED, types_of

from handrail import AgentRun, HttpAgent, RunScope

STREAM = [STARTED, *TEXT, event(type="CUSTOM", name="c", value=None), FINISHED]
BODY = b"".join(STREAM)


def cut_script(visit: Visit) -> Iterable[Step]:
    """As much of the body as the request says, and then the end it says."""
    asked = json.loads(visit.body)["forwardedProps"]
    part = BODY[: asked["cut"]]
    if asked["how"] == "clean":
        return [head(content_length=str(len(part))), part]
    return [head(**CHUNKED), chunk(part) if part else b"", "close"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["clean", "broken"])
async def test_death_at_every_byte(how: str) -> None:
    """P-43, P-44, P-45, P-15: what had arrived stands, event by event, and nobody makes up an end."""
    assert len(STREAM) == 10
    runs: list[AgentRun] = []
    server = HostileServer(cut_script)
    agent = HttpAgent(server.url)
    with anyio.fail_after(50), contextlib.closing(server):
        for batch in range(0, len(BODY) + 1, 64):
            async with RunScope():
                for cut in range(batch, min(batch + 64, len(BODY) + 1)):
                    props = {"cut": cut, "how": how}
                    runs.append(agent.start(ASKED | {"forwardedProps": props}))
    for cut, run in enumerate(runs):
        part = BODY[:cut]
        whole = part.count(b"\n\n")
        unfinished = how == "clean" and whole < 10 and part.split(b"\n\n")[-1].rstrip(b"\n") == STREAM[whole][:-2]
        delivered = whole + unfinished
        assert len(run.events.so_far()) == delivered, cut
        ending = ending_of(run)
        if delivered == 10:
            codes = ("unfinished-frame",) if unfinished else ("transport-after-end",) if how == "broken" else ()
            assert ending == well(*codes), cut
        else:
            assert ending[:3] == badly("truncated" if how == "clean" else "transport")[:3], cut
            assert "RUN_FINISHED" not in types_of(run)
        assert run.drained.is_set
