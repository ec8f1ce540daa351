"""A server on a real socket that does to its client what a script says, and sees when the client has gone.

Each connection has a thread of its own: it reads one request, plays the script, and then waits for the client to close.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

PATIENCE = 20.0
"""Seconds after which a client that is still there counts as never gone."""

Step: TypeAlias = "bytes | float | str | Callable[[], object]"
"""Bytes to send; seconds to wait; "reset" or "close" the connection; or anything to be done."""


def head(status: int = 200, **headers: str) -> bytes:
    """The head of an answer; `content_type="..."` is a header."""
    given = {"content_type": "text/event-stream"} | headers
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status} Something", *lines, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
CHUNKED = {"transfer_encoding": "chunked"}


def event(**payload: Any) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


@dataclass
class Visit:
    """One connection: what was asked, and whether it is over: the script closed it, or the client went."""

    request: bytes = b""
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def body(self) -> bytes:
        return self.request.partition(b"\r\n\r\n")[2]


class HostileServer:
    """Plays a script to every client. `visits` are the connections so far; `url` is where to ask."""

    def __init__(self, script: Callable[[Visit], Iterable[Step]]) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.visits: list[Visit] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/agui"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._open: list[socket.socket] = []
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                visit = Visit()
                self.visits.append(visit)
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection, visit), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, visit: Visit) -> None:
        connection.settimeout(PATIENCE)
        with connection, contextlib.suppress(TimeoutError):
            with contextlib.suppress(ConnectionError):
                visit.request = _read_request(connection)
                if all(self._play(connection, step) for step in self._script(visit)):
                    while connection.recv(4096):
                        pass
            visit.over.set()

    def _play(self, connection: socket.socket, step: Step) -> bool:
        if isinstance(step, bytes):
            connection.sendall(step)
        elif isinstance(step, float | int):
            time.sleep(step)
        elif step == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        elif step == "close":
            return False
        else:
            step()
        return True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)


def for_ever(data: bytes, every: float = 0.02) -> Iterator[Step]:
    """Steps without end: the client has to go."""
    while True:
        yield data
        yield every


def _read_request(connection: socket.socket) -> bytes:
    request = b""
    while b"\r\n\r\n" not in request:
        request += _some(connection)
    header, _, body = request.partition(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2]) for line in header.splitlines() if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += _some(connection)
    return header + b"\r\n\r\n" + body


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("the client went away before it had asked")
    return data


@contextlib.contextmanager
def hostile(*steps: Step, then: Callable[[], Iterable[Step]] = tuple) -> Iterator[HostileServer]:
    """A server that plays these steps to each client, and `then` what comes behind them, which may have no end."""
    server = HostileServer(lambda visit: itertools.chain(steps, then()))
    try:
        yield server
    finally:
        server.close()
