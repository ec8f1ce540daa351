"""The chat client of agent-framework on a stream that is in memory, in microseconds of CPU for each event.

agent_framework KIND COUNT
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator

import httpx
from agent_framework_ag_ui import AGUIChatClient

from benchmarks.programs.clock import say, times_async
from benchmarks.programs.scripts import body, payloads

READ = 16 * 1024


async def main(kind: str, count: int) -> None:
    data = body(kind, count)

    class Body(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for start in range(0, len(data), READ):
                yield data[start : start + READ]

    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Body())

    async def chat() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as transport:
            client = AGUIChatClient(endpoint="http://agent/", http_client=transport)
            async for _ in client.get_response("hi", stream=True):
                pass

    say(await times_async({"AGUIChatClient": chat}, len(payloads(kind, count))))


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
