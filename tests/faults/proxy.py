"""A proxy on a real socket that passes a connection on, and at one chosen byte of it does one thing wrong.

What can go wrong is the table `ACTS`. A fault stands behind so many bytes of what goes one way; everything before it is
passed on as it came. Two threads for each connection, one for each way, and the client's closing ends both: a proxy
never keeps a server from hearing that its client went, and never a client from waiting.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

PATIENCE = 30.0
"""Seconds after which a connection on which nothing happens counts as forgotten."""
PAUSE = 0.03
"""Seconds of a delay."""
DOUBLED = 64
"""Bytes that come twice where a piece is doubled; fewer, where fewer are there."""


class Fault(NamedTuple):
    """What goes wrong, on which way, behind how many bytes of it; behind none means in place of the first read."""

    how: str
    way: Literal["request", "answer"]
    at: int


class Lost(Exception):
    """The connection is over both ways."""


class Reset(Lost):
    """So it is, and whoever listens is not told that in good order."""


@dataclass
class Way:
    """One direction of a connection, and what of it has been passed on so far."""

    source: socket.socket
    target: socket.socket
    fault: Fault | None = None
    passed: bytearray = field(default_factory=bytearray)
    came: int = 0
    is_silent: bool = False
    """Nothing is passed on any more, the end of it neither."""
    piece: int | None = None
    """How many bytes are passed on at once; None for as many as come."""
    is_ended: bool = False
    """Its target was told that nothing more will come, or was going to be in this moment."""

    def pump(self) -> None:
        """Pass on what comes until its end. Raises `Lost`, or what the sockets raise."""
        while data := self.source.recv(65536):
            self._take(data)

    def _take(self, data: bytes) -> None:
        fault, place = self.fault, (0 if self.fault is None else self.fault.at - self.came)
        self.came += len(data)
        if fault is None or place > len(data) or (place == len(data) and fault.how in CHANGES):
            self._pass_on(data)
            return
        self._pass_on(data[:place])
        self.fault = None
        self._pass_on(ACTS[fault.how](self, data[place:]))

    def _pass_on(self, data: bytes) -> None:
        if self.is_silent:
            return
        step = self.piece or max(len(data), 1)
        for start in range(0, len(data), step):
            self.passed += data[start : start + step]
            self.target.sendall(data[start : start + step])


Act = Callable[[Way, bytes], bytes]
"""Is given what has come and stands behind the place; returns what is passed on of it."""


def _cut(way: Way, rest: bytes) -> bytes:
    raise Lost


def _reset(way: Way, rest: bytes) -> bytes:
    raise Reset


def _stall(way: Way, rest: bytes) -> bytes:
    way.is_silent = True
    return b""


def _half_close(way: Way, rest: bytes) -> bytes:
    way.is_ended = True
    way.target.shutdown(socket.SHUT_WR)
    return _stall(way, rest)


def _delay(way: Way, rest: bytes) -> bytes:
    time.sleep(PAUSE)
    return rest


def _split(way: Way, rest: bytes) -> bytes:
    way.piece = 1
    return rest


def _flip(bits: int) -> Act:
    return lambda way, rest: bytes([rest[0] ^ bits]) + rest[1:]


ACTS: dict[str, Act] = {
    "cut": _cut,
    "reset": _reset,
    "stall": _stall,
    "half-close": _half_close,
    "delay": _delay,
    "split": _split,
    "low bit": _flip(0x01),
    "high bit": _flip(0x80),
    "line end": lambda way, rest: b"\n" + rest[1:],
    "drop": lambda way, rest: rest[1:],
    "double": lambda way, rest: rest[:DOUBLED] + rest,
}
CHANGES = frozenset({"low bit", "high bit", "line end", "drop", "double"})
"""Those that change what is said; the others say a part of it, or all, in another time."""
HARMLESS = frozenset({"delay", "split"})


@dataclass
class Connection:
    """What has gone through one connection; `over` is set when it is closed at both ends."""

    near: socket.socket
    far: socket.socket
    request: Way
    answer: Way
    is_reset: bool = False
    is_left: bool = False
    """The client has closed it, or its half of it, before anybody else did."""
    over: threading.Event = field(default_factory=threading.Event)

    def end_answer(self) -> None:
        """The client is about to be told that nothing more will come, if it is still there."""
        self.answer.is_ended = self.answer.is_ended or not self.is_left


class Proxy:
    """Listens on a port of its own and passes on to another of this machine.

    Of its connections the one with the number `on` meets the fault; all others are clean.
    """

    def __init__(self, port: int, fault: Fault | None = None, *, on: int = 0) -> None:
        self._far_port = port
        self._fault = fault
        self._on = on
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.connections: list[Connection] = []
        self._threads = [threading.Thread(target=self._accept, name="proxy", daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Lose every connection, and return when no thread is left."""
        for one in (self._listener, *(end for c in self.connections for end in (c.near, c.far))):
            _shut(one)
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._far_port), PATIENCE)
                except OSError:
                    near.close()
                    continue
                self._begin(near, far)

    def _begin(self, near: socket.socket, far: socket.socket) -> None:
        for end in (near, far):
            end.settimeout(PATIENCE)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fault = self._fault if len(self.connections) == self._on else None
        request, answer = Way(near, far), Way(far, near)
        if fault is not None:
            (request if fault.way == "request" else answer).fault = fault
        connection = Connection(near, far, request, answer)
        self.connections.append(connection)
        answers = threading.Thread(target=_answers, args=(connection,), name="proxy answer", daemon=True)
        questions = threading.Thread(target=_questions, args=(connection, answers), name="proxy request", daemon=True)
        self._threads += [answers, questions]
        answers.start()
        questions.start()


def _questions(connection: Connection, answers: threading.Thread) -> None:
    """The client's way. When its end has come and that of the answers, nothing of the connection is left."""
    _pump(connection, connection.request)
    answers.join(PATIENCE)
    connection.near.close()
    connection.far.close()
    connection.over.set()


def _answers(connection: Connection) -> None:
    _pump(connection, connection.answer)


def _pump(connection: Connection, way: Way) -> None:
    """One way to its end: the server hears that its client has gone, the client that nothing more will come."""
    try:
        way.pump()
        if connection.is_reset:
            return
        if way is connection.request:
            connection.is_left = True
            _shut(way.target)
        elif not way.is_silent:
            connection.end_answer()
            _shut(way.target, socket.SHUT_WR)
    except Reset:
        connection.is_reset = True
        connection.end_answer()
        for end in (connection.near, connection.far):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # to close is to reset
            _shut(end, socket.SHUT_RD)  # says nothing, and ends the other thread's waiting
    except (Lost, OSError):
        connection.end_answer()
        _shut(connection.far)
        _shut(connection.near)


def _shut(end: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(how)
