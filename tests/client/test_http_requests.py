"""What an agent behind HTTP sends."""

from __future__ import annotations

import copy
import json
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from ag_ui.core import RunAgentInput
from tests.client.transports import ASKED, FINISHED, STARTED, agent_of, answering, ended

from handrail import HttpAgent, RunScope, WarningRecord
from handrail.errors import LocalProtocolError, TransportError


async def test_the_request() -> None:
    """P-68, P-28: one POST with one JSON object; what was not given is not there."""
    server = answering(STARTED, FINISHED)
    await ended(server, headers={"ACCEPT": "text/html", "content-TYPE": "text/plain", "X-Key": "k"})
    (request,) = server.requests
    assert (request.method, str(request.url)) == ("POST", "http://agent/agui")
    assert request.headers.get_list("accept") == ["text/event-stream"]
    assert request.headers.get_list("content-type") == ["application/json"]
    assert request.headers["x-key"] == "k"
    of_the_client = {"host", "user-agent", "connection", "accept-encoding", "content-length"}
    assert set(request.headers) - of_the_client == {"accept", "content-type", "x-key"}
    assert json.loads(request.content) == ASKED | {
        "protocolVersion": "1.0",
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }


async def test_what_was_given_goes_out() -> None:
    """P-68, P-66: state, parent, resume, tools and props; a model and a dict of the wire's shape alike."""
    given = ASKED | {
        "state": {"n": 0},
        "parentRunId": "r0",
        "tools": [{"name": "f", "description": "", "parameters": {"type": "object"}}],
        "context": [{"description": "d", "value": "v"}],
        "forwardedProps": {"deep": [1, None]},
        "resume": [{"interruptId": "i1", "status": "cancelled"}],
    }
    for form in (given, RunAgentInput.model_validate(given)):
        before, server = copy.deepcopy(form), answering(STARTED, FINISHED)
        await ended(server, form)
        assert server.sent == given | {"protocolVersion": "1.0"}
        assert form == before


async def test_null_state_is_left_out() -> None:
    """P-68, P-27: null is no state; `lenient`, for old servers, sends {}."""
    for lenient in (False, True):
        server = answering(STARTED, FINISHED)
        await ended(server, ASKED | {"state": None}, lenient=lenient)
        assert server.sent.get("state") == ({} if lenient else None)
        assert ("state" in server.sent) is lenient


async def test_what_is_unknown_is_not_sent() -> None:
    """P-25, P-6: it is removed with an `outgoing` warning, told to whoever asks after `start`, and to nobody else."""
    server = answering(STARTED, FINISHED)
    told: list[WarningRecord] = []
    async with RunScope():
        run = agent_of(server).start(ASKED | {"future": 1})
        run.on_warning(told.append)
        await run.result
    assert "future" not in server.sent
    assert [(record.code, record.path) for record in told] == [("outgoing", "/future")]
    assert run.report.warnings == tuple(told)


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        pytest.param({"messages": [{"id": "u1", "role": "user", "content": 7}]}, "/messages/0/content", id="content"),
        pytest.param({"threadId": None}, "/threadId", id="thread"),
        pytest.param({"resume": [{"status": "cancelled"}]}, "/resume/0/interruptId", id="resume"),
    ],
)
async def test_a_malformed_input(wrong: dict[str, Any], path: str) -> None:
    """P-25, P-5: raised by `start` before a byte leaves, with the path."""
    server = answering()
    with pytest.raises(LocalProtocolError) as raised:
        agent_of(server).start(ASKED | wrong)
    assert (raised.value.rule, raised.value.path, raised.value.kind) == ("P-25", path, "local")
    assert server.requests == []


async def test_an_input_of_no_kind() -> None:
    """P-66: what is no input at all is a `TypeError`; what JSON cannot hold is P-25."""
    agent = agent_of(answering())
    with pytest.raises(TypeError, match="RunAgentInput"):
        agent.start("Hello")  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="JSON"):
        agent.start(ASKED | {"forwardedProps": {"now": object()}})


async def test_headers_are_made_for_each_request() -> None:
    """P-67: by a function, sync or async; by a mapping they are the same every time."""
    numbers = iter(range(10))

    async def later() -> dict[str, str]:
        await anyio.lowlevel.checkpoint()
        return {"x-n": str(next(numbers))}

    for maker in (lambda: {"x-n": str(next(numbers))}, later):
        server = answering(STARTED, FINISHED)
        agent = agent_of(server, headers=maker)
        async with RunScope():
            for _ in range(2):
                await agent.start(ASKED).result
        first, second = (int(request.headers["x-n"]) for request in server.requests)
        assert second == first + 1


async def test_headers_that_cannot_be_made() -> None:
    """P-67: nothing is sent, and the failure is in the report with its cause."""

    def broken() -> dict[str, str]:
        raise KeyError("no token")

    server = answering(STARTED, FINISHED)
    run = await ended(server, headers=broken)
    assert server.requests == []
    cause = run.report.cause
    assert isinstance(cause, TransportError)
    assert cause.phase == "send"
    assert isinstance(cause.__cause__, KeyError)
    assert "no token" in str(cause)


async def test_timeouts_of_the_request() -> None:
    """P-70: ours replace those of the client; None is no limit."""
    client = httpx.AsyncClient(transport=(server := answering(STARTED, FINISHED)), timeout=0.001)
    async with RunScope():
        await HttpAgent("http://agent/", client=client, connect_timeout=3, idle_timeout=None).start(ASKED).result
        await HttpAgent("http://agent/", client=client).start(ASKED).result
    first, second = (request.extensions["timeout"] for request in server.requests)
    assert first == {"connect": 3, "read": None, "write": 30.0, "pool": 10.0}
    assert second == {"connect": 10.0, "read": 600.0, "write": 30.0, "pool": 10.0}


async def test_encodings_that_are_accepted() -> None:
    """P-71: only those that are understood are asked for, whatever the client has installed."""
    for asked, sent in (("gzip, br, zstd", "gzip"), ("br", "identity"), ("identity", "identity")):
        server = answering(STARTED, FINISHED)
        await ended(server, headers={"accept-encoding": asked})
        assert server.requests[0].headers["accept-encoding"] == sent
