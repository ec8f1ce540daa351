"""The app under uvicorn on a real socket, in a thread of its own; and clients that do what no library would."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn

from handrail.run._loops import Home, current_home


class _Server(uvicorn.Server):
    """Says when it is up."""

    def __init__(self, app: Any) -> None:
        super().__init__(uvicorn.Config(app, port=0, log_config=None, lifespan="on", ws="none", access_log=False))
        self.is_up = threading.Event()
        self.home: Home | None = None

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.home = current_home()
        self.is_up.set()


class Live:
    """A running server."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self.port: int = server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"

        self._own = self._look()

    def tasks(self) -> list[str]:
        """What is running on the server's event loop, but for the server itself."""
        return [name for name in self._look() if name not in self._own]

    def _look(self) -> list[str]:
        names: list[str] = []
        done = threading.Event()

        def look() -> None:
            names.extend(task.get_name() for task in asyncio.all_tasks())
            done.set()

        assert self._server.home is not None
        self._server.home.call(look)
        assert done.wait(5)
        return names


@contextlib.contextmanager
def live(app: Any) -> Iterator[Live]:
    """Serve the app on a free port of this machine."""
    server = _Server(app)
    thread = threading.Thread(target=server.run, name="uvicorn", daemon=True)
    thread.start()
    assert server.is_up.wait(10), "uvicorn is not up"
    try:
        yield Live(server)
    finally:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive(), "uvicorn does not stop"


class RawClient:
    """A connection that asks for a run, reads as much as it is told to, and goes as it is told to."""

    def __init__(self, port: int, body: Any, *, small_window: bool = False) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(20)
        if small_window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", port))
        data = json.dumps(body).encode()
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        self.socket.sendall(head.encode() + data)
        self.read = b""

    def read_frames(self, count: int) -> None:
        """Read until so many frames have come."""
        while self.read.count(b"\ndata: ") < count or not self.read.rstrip(b"\r\n0").endswith(b"}"):
            piece = self.socket.recv(65536)
            if not piece:
                return
            self.read += piece

    def read_to_the_end(self) -> bytes:
        """Everything there is."""
        while not self.read.endswith(b"0\r\n\r\n"):
            piece = self.socket.recv(1 << 20)
            assert piece, "the body was cut off"
            self.read += piece
        return self.read

    def go(self, how: str) -> None:
        """Close the connection, orderly ("FIN") or not ("RST")."""
        if how == "RST":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
