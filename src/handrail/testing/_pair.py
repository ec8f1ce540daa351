"""A client and a server with nothing between them but bytes in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from handrail.run import RunScope

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

    from handrail.client import AgentSession
    from handrail.loop import Loop

__all__ = ["pair"]


@asynccontextmanager
async def pair(loop: Loop | Callable[[RunAgentInput, Any], Any], **options: Any) -> AsyncGenerator[AgentSession]:
    """`async with pair(loop) as session:` is a session on the real endpoint of a loop, wired in memory.

    Both ends run whole: requests and answers are HTTP, streamed in pieces, and a client that goes away is told to the
    server. The session is an `AgentSession` and gets the options. Leaving closes it and waits until every run is
    drained. Works on asyncio and trio. Raises `ImportError` without httpx (`handrail[client]`).
    """
    from handrail.client import AgentSession, HttpAgent  # at its first use: both ends take a while to load
    from handrail.server import agui_app
    from handrail.testing._transport import AsgiTransport, new_client

    failure: Exception | None = None
    async with RunScope(), anyio.create_task_group() as server:
        try:
            async with (
                new_client(AsgiTransport(agui_app(loop), server)) as client,
                AgentSession(HttpAgent("http://handrail.test/", client=client), **options) as session,
            ):
                yield session
        except Exception as error:  # the body's own: it goes on as it is, not in an exception group
            failure = error
    if failure is not None:
        raise failure
