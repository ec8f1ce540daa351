"""A loop behind a `LoopAgent` and behind a real endpoint: a conversation cannot tell the two apart."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import anyio
import pytest
from ag_ui.core import UserMessage

from handrail import AgentSession, Loop, LoopAgent, RetryPolicy, RunParams, Tool, WarningRecord, approve, deny
from handrail.errors import BackendError
from handrail.testing import ScriptedBackend, call, cut, fail, pair, reasoning, text

Talk = Callable[[AgentSession], Awaitable[object]]


def numbered(prefix: str) -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers)}"


def weather(city: str) -> dict[str, Any]:
    return {"city": city, "degrees": 21}


def erase(name: str) -> str:
    return f"{name} is gone"


def broken() -> str:
    raise ValueError("boom")


def where() -> dict[str, float]:
    return {"lat": 41.9, "lon": 12.5}


def hello(session: AgentSession) -> Awaitable[object]:
    return session.send(UserMessage(id="u1", content="Hello"), RunParams(run_id="r1"))


async def hello_twice(session: AgentSession) -> None:
    await hello(session)
    await session.send(UserMessage(id="u2", content="And?"), RunParams(run_id="r2"))


async def approved(session: AgentSession) -> None:
    await hello(session)
    await session.resume([approve(one) for one in session.pending_interrupts], RunParams(run_id="r2"))


async def denied(session: AgentSession) -> None:
    await hello(session)
    await session.resume([deny(one, "no") for one in session.pending_interrupts], RunParams(run_id="r2"))


SCENARIOS: dict[str, tuple[list[Any], Talk]] = {
    "an answer": ([text("It is ", "warm.")], hello),
    "two turns": ([text("Yes?"), text("And so on.")], hello_twice),
    "reasoning": ([[reasoning("Hm. ", "Ha."), text("I see.")]], hello),
    "a tool": ([[text("Let me look."), call("weather", {"city": "Rome"}, id="c1")], text("21 degrees.")], hello),
    "two tools": (
        [[call("weather", {"city": "Rome"}, id="c1"), call("broken", {}, id="c2")], text("One failed.")],
        hello,
    ),
    "a tool of the client": ([call("where", {}, id="c1"), text("In Rome.")], hello),
    "approved": ([call("erase", {"name": "a"}, id="c1"), text("Done.")], approved),
    "denied": ([call("erase", {"name": "a"}, id="c1"), text("Very well.")], denied),
    "an attempt that failed in the middle": (
        [[text("The ans"), fail(BackendError("reset", "connection"))], text("4.")],
        hello,
    ),
    "a failure": ([fail(BackendError("secret", "misuse"))], hello),
    "a failure in the middle": ([[text("The ans"), fail(BackendError("secret", "misuse"))]], hello),
    "a conversation too long": ([fail("overflow")], hello),
    "a failure and another turn": ([fail(BackendError("secret", "misuse")), text("Now.")], hello_twice),
    "an answer cut off": ([[text("The ans"), cut()]] * 3, hello),
}


class Seen:
    """Everything that could tell one conversation from another."""

    def __init__(self, backend: ScriptedBackend, session: AgentSession, warnings: list[WarningRecord]) -> None:
        self.transcript = session.transcript
        self.messages = session.messages
        self.state = session.state
        self.interrupts = session.pending_interrupts
        self.warnings = warnings
        self.requests = [(request.messages, [tool.name for tool in request.tools]) for request in backend.requests]


async def seen(name: str, *, over_http: bool) -> Seen:
    steps, talk = SCENARIOS[name]
    backend, warnings = ScriptedBackend(steps), list[WarningRecord]()
    loop = Loop(
        backends=[backend],
        tools=[weather, broken, Tool(erase, needs_approval=True)],
        retry=RetryPolicy(backoff_cap=0),
        new_id=numbered("loop-"),
    )
    options: dict[str, Any] = {
        "thread_id": "t1",
        "tools": [where],
        "on_warning": warnings.append,
        "new_id": numbered("session-"),
    }
    with anyio.fail_after(20):
        if over_http:
            async with pair(loop, **options) as session:
                await talk(session)
        else:
            async with AgentSession(LoopAgent(loop), **options) as session:
                await talk(session)
    return Seen(backend, session, warnings)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_conversation(name: str) -> None:
    """S-156, P-75: equal transcripts, messages, states, warnings and requests."""
    in_process, over_http = await seen(name, over_http=False), await seen(name, over_http=True)
    assert in_process.transcript == over_http.transcript
    assert in_process.messages == over_http.messages
    assert in_process.state == over_http.state
    assert in_process.interrupts == over_http.interrupts
    assert in_process.warnings == over_http.warnings
    assert in_process.requests == over_http.requests
    assert in_process.requests != []
