"""A request and what it was answered with, judged; whether that was just now or long ago makes no difference.

A probe of a live agent keeps the bytes first, and has them judged as those of a recording are.
"""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from handrail.agui._inbound import DEFAULT_MAX_EVENT_BYTES
from handrail.agui._sse import EventStreamFraming
from handrail.apps._findings import Heard
from handrail.apps._judge import Reading
from handrail.apps._tape import ReplayTransport, Take, answer_of
from handrail.client import HttpAgent
from handrail.client._body import read_body
from handrail.errors import HttpError, TransportError, WireError

__all__ = ["judge_take"]


async def judge_take(take: Take, run: int | None = None) -> Heard:
    """Judge a request and its answer; `run` is its number, where there are several."""
    asked = take.request
    reading = Reading(
        EventStreamFraming(DEFAULT_MAX_EVENT_BYTES),
        run=run,
        thread_id=asked.thread_id,
        run_id=asked.run_id,
        messages=asked.messages,
        state=asked.state,
    )
    failure: WireError | None = await _refusal_of(take)
    if failure is None:
        reads, failure = await _received(take)
        for at, read in reads:
            reading.feed(read, at)
    if failure is not None:
        reading.fail(failure)
    elif take.was_left:
        reading.leave()
    else:
        reading.end()
    return reading.heard(status=take.status or None, run_id=asked.run_id, ended_at=take.ended_at)


async def _refusal_of(take: Take) -> HttpError | None:
    """Why a client does not take the answer for a stream, None where it does."""
    client = httpx.AsyncClient(transport=ReplayTransport([take], 0), timeout=None)
    run = HttpAgent("http://recording.invalid", client=client, idle_timeout=None).start(take.request)
    run.on_warning(lambda record: None)
    await run.drained
    return cause if isinstance(cause := run.report.cause, HttpError) else None


async def _received(take: Take) -> tuple[Sequence[tuple[float, bytes]], TransportError | None]:
    """The reads of a take without their content encoding, and what broke them off."""
    reads: list[bytes] = []
    failure: TransportError | None = None

    def keep(read: bytes) -> bool:
        reads.append(read)
        return True

    try:
        await read_body(answer_of(take), keep)
    except TransportError as error:
        failure = error
    return [(at, read) for (at, _), read in zip(take.reads, reads, strict=False)], failure
