"""The way to an agent as the environment has it: a proxy, its exceptions, and certificates.

httpx reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` for a client, and not for one that is given a
transport, as whoever records has to. So a client of its own stands behind that transport.
"""

from __future__ import annotations

import httpx

from handrail.errors import UsageError

__all__ = ["Network"]


class Network(httpx.AsyncBaseTransport):
    """A connection of its own for each request, through the proxy of the environment where one is set.

    Raises `UsageError` where what the environment says of one cannot be used.
    """

    def __init__(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        try:
            self._client = httpx.AsyncClient(limits=limits, timeout=None)
        except (ImportError, ValueError, httpx.InvalidURL) as refusal:
            raise UsageError(f"The proxy that the environment names cannot be used: {refusal}") from refusal

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._client.send(request, stream=True)

    async def aclose(self) -> None:
        await self._client.aclose()
