"""Requests that were damaged are served or refused, and nothing else."""

from __future__ import annotations

import copy
import json
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.server.kit import Endpoint, Visit, asking
from tests.server.scenarios import PICK, answered, waiting

from handrail import Loop, RunScope
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, text

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
