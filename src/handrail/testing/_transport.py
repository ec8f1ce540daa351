"""HTTP in memory: an httpx transport in front of an ASGI app.

httpx has one of its own, which collects the body before it gives an answer, so that nothing can be seen before the end
and nobody can leave early. Here each request is a task of the server, pieces of both bodies pass one by one, and
closing the answer is a disconnect.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

import anyio
import httpx
from anyio.abc import TaskGroup

__all__ = ["AsgiTransport", "new_client"]

_Message: TypeAlias = dict[str, Any]
_App: TypeAlias = Callable[[Any, Any, Any], Awaitable[object]]

_UNREAD = 16
"""Pieces of an answer that may be on their way; then whoever sends waits for whoever reads."""


class AsgiTransport(httpx.AsyncBaseTransport):
    """Sends requests to `app`, which answers in tasks of `server`."""

    def __init__(self, app: _App, server: TaskGroup) -> None:
        self._app = app
        self._server = server

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Ask, and give the answer as soon as its head is there."""
        assert isinstance(request.stream, httpx.AsyncByteStream)
        connection = _Connection(request.stream)
        self._server.start_soon(connection.serve, self._app, _scope_of(request))
        try:
            await connection.is_answered.wait()
        except BaseException:
            await connection.aclose()
            raise
        if connection.head is None:
            await connection.aclose()
            raise httpx.RemoteProtocolError("the app ended without an answer", request=request)
        return httpx.Response(connection.head["status"], headers=connection.head["headers"], stream=connection)


class _Connection(httpx.AsyncByteStream):
    """One request and its answer; to the client it is the answer's body."""

    def __init__(self, asked: httpx.AsyncByteStream) -> None:
        self._asked = asked
        self._is_asked = False
        self._is_gone = anyio.Event()
        self._pieces, self._body = anyio.create_memory_object_stream[bytes](_UNREAD)
        self.head: _Message | None = None
        self.is_answered = anyio.Event()

    # -- the server's side -------------------------------------------------------------------------------------------

    async def serve(self, app: _App, scope: _Message) -> None:
        """Run the app for this request."""
        with self._pieces:
            try:
                await app(scope, self._receive, self._send)
            finally:
                self.is_answered.set()

    async def _receive(self) -> _Message:
        if self._is_asked:
            await self._is_gone.wait()
            return {"type": "http.disconnect"}
        self._is_asked = True
        return {"type": "http.request", "body": b"".join([piece async for piece in self._asked]), "more_body": False}

    async def _send(self, message: _Message) -> None:
        if message["type"] == "http.response.start":
            self.head = message
            self.is_answered.set()
            return
        with suppress(anyio.BrokenResourceError):  # as servers do: nobody is there, and nobody is told
            await self._pieces.send(message.get("body", b""))
        if not message.get("more_body", False):
            self._pieces.close()

    # -- the client's side -------------------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._body:
            yield piece

    async def aclose(self) -> None:
        """The client goes away."""
        self._is_gone.set()
        self._body.close()


def _scope_of(request: httpx.Request) -> _Message:
    url = request.url
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.raw_path.partition(b"?")[0],
        "root_path": "",
        "query_string": url.query,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 0),
        "server": (url.host, url.port or 80),
    }


def new_client(transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
    """A client that uses this transport for everything, and has patience."""
    return httpx.AsyncClient(transport=transport, timeout=math.inf)
