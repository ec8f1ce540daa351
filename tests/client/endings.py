"""How a run over a socket ends, and what it ends with."""

from __future__ import annotations

from typing import Any, NamedTuple

import anyio
from tests.client.sockets import HostileServer, event
from tests.client.transports import ASKED

from handrail import AgentRun, HttpAgent, RunScope

STARTED = event(type="RUN_STARTED", threadId="t1", runId="r1")
FINISHED = event(type="RUN_FINISHED", threadId="t1", runId="r1")
TEXT = [
    event(type="TEXT_MESSAGE_START", messageId="m1", role="assistant"),
    *(
        event(type="TEXT_MESSAGE_CONTENT", messageId="m1", delta=word)
        for word in ("One ", "two ", "thrée", " four", ".")
    ),
    event(type="TEXT_MESSAGE_END", messageId="m1"),
]
BEAT = b": beat\n\n"


class Ends(NamedTuple):
    """How a run ends: the agent's own word, who failed, the kind of the cause, and what was warned about."""

    verdict: str | None = None
    failure: str | None = None
    kind: str | None = None
    codes: tuple[str, ...] = ()


def well(*codes: str) -> Ends:
    return Ends("success", codes=codes)


def badly(kind: str, *codes: str) -> Ends:
    return Ends(None, "client", kind, codes)


async def ended(server: HostileServer, given: Any = ASKED, **options: Any) -> AgentRun:
    """One run, to its end; a client that hangs fails the test."""
    with anyio.fail_after(15):
        async with RunScope(), HttpAgent(server.url, **options) as agent:
            run = agent.start(given)
            await run.result
            await run.drained
    return run


def ending_of(run: AgentRun) -> Ends:
    report = run.report
    kind = None if report.cause is None else report.cause.kind
    return Ends(report.verdict, report.failure, kind, tuple(record.code for record in report.warnings))


def is_over(server: HostileServer) -> bool:
    """Whether the server noticed within a second that the client went; five times that on a busy machine."""
    return all(visit.over.wait(5.0) for visit in server.visits)
