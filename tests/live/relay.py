"""A relay between a client and a server that writes down what goes through it, byte for byte.

Two threads for each connection, one for each direction. HTTP/1.1 takes turns on a connection, so what the client says
and what the server says to that is one exchange, and the next word of the client begins the next one.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

PATIENCE = 10.0

Cut: TypeAlias = Callable[[bytearray], int | None]


def whole(answered: bytearray) -> int | None:
    """Nothing is lost."""
    return None


def behind_frames(count: int, having: bytes = b"") -> Cut:
    """The connection is lost behind so many frames that have these bytes in them."""

    def cut(answered: bytearray) -> int | None:
        end = answered.find(b"\r\n\r\n") + 4
        for _ in range(count):
            found = answered.find(having, end)
            end = -1 if found < 0 else answered.find(b"\n\n", found) + 2
            if end < 2:
                return None
        return end

    return cut


@dataclass
class Exchange:
    """One request and what was answered, as they went over the wire."""

    asked: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the client, or the server, has closed the connection."""
    closed_by: str | None = None
    """Who closed it first: the "client", or the "server", in whose name it is lost, too."""

    @property
    def headers(self) -> dict[str, str]:
        """Those of the request."""
        return _headers(self.asked)

    @property
    def is_asked(self) -> bool:
        """Whether the whole request has come."""
        length = self.headers.get("content-length")
        return length is not None and len(self.asked.partition(b"\r\n\r\n")[2]) >= int(length)

    @property
    def request(self) -> dict[str, Any]:
        return json.loads(self.asked.partition(b"\r\n\r\n")[2])

    @property
    def body(self) -> bytes:
        """That of the answer, as far as it came."""
        rest = bytes(self.answered.partition(b"\r\n\r\n")[2])
        return _joined(rest) if _headers(self.answered).get("transfer-encoding") == "chunked" else rest


class Relay:
    """Listens at `url`, and passes everything on to a port of 127.0.0.1. `exchanges` are in order of their beginning.

    `cut` is asked at each read what length of the answer so far is passed on before the connection is lost; None, all.
    """

    def __init__(self, port: int, path: str = "/agui") -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}{path}"
        self.exchanges: list[Exchange] = []
        self.cut: Cut = whole
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._open: list[socket.socket] = []
        self._threads[0].start()

    def close(self) -> None:
        """Lose every connection, and return when no thread is left."""
        for one in (self._listener, *self._open):
            _shut(one)
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        for one in (self._listener, *self._open):
            one.close()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._open.append(near)
                far = socket.create_connection(("127.0.0.1", self._port))
                self._open.append(far)
                conversation: list[Exchange] = []
                for target in (self._questions, self._answers):
                    thread = threading.Thread(target=target, args=(near, far, conversation), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _questions(self, near: socket.socket, far: socket.socket, conversation: list[Exchange]) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(65536):
                if not conversation or conversation[-1].answered:
                    conversation.append(Exchange())
                    self.exchanges.append(conversation[-1])
                conversation[-1].asked += data
                far.sendall(data)
        _over(near, far, conversation, "client")

    def _answers(self, near: socket.socket, far: socket.socket, conversation: list[Exchange]) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(65536):
                answered = conversation[-1].answered
                known = len(answered)
                answered += data
                end = self.cut(answered)
                if end is not None:
                    del answered[end:]
                near.sendall(answered[known:])
                if end is not None:
                    break
        _over(near, far, conversation, "server")


def _over(near: socket.socket, far: socket.socket, conversation: list[Exchange], by: str) -> None:
    for exchange in conversation:
        exchange.closed_by = exchange.closed_by or by
    _shut(far)  # first: the server is to know before the client can come again
    _shut(near)
    for exchange in conversation:
        exchange.over.set()


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def _headers(message: bytearray) -> dict[str, str]:
    _, *lines = bytes(message.partition(b"\r\n\r\n")[0]).decode("latin-1").split("\r\n")
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _joined(chunks: bytes) -> bytes:
    """The data of chunks; of the last one, what came of it."""
    data = b""
    while chunks:
        size, _, chunks = chunks.partition(b"\r\n")
        length = int(size.partition(b";")[0] or b"0", 16)
        data, chunks = data + chunks[:length], chunks[length + 2 :]
    return data
