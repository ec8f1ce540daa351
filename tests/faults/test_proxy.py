"""The proxy does what its table says, and nothing else: it is judged before anything is judged through it."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest
from tests.faults.proxy import ACTS, Fault, Proxy

ASKED = b"GET / HTTP/1.1\r\n\r\n"
ANSWER = b"0123456789" * 3
WITHIN = 5.0


class Server:
    """Takes one connection, keeps what is said to it, answers once it was asked, and waits for the end."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard = bytearray()
        self.end: str = ""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(WITHIN)
        answered = False
        with connection:
            try:
                while data := connection.recv(4096):
                    self.heard += data
                    if len(self.heard) >= len(ASKED) - 1 and not answered:
                        answered = True
                        connection.sendall(ANSWER)
                self.end = "closed"
                if not answered:
                    connection.sendall(ANSWER)
            except ConnectionError:
                self.end = "reset"
            except TimeoutError:
                self.end = "silence"

    def close(self) -> None:
        self._thread.join(2 * WITHIN)
        self._listener.close()


def ask(fault: Fault | None, expected: bytes, end: str) -> Server:
    """One question through the proxy; its answer and the end of that are these. The server as it was left."""
    server = Server()
    with contextlib.closing(server), Proxy(server.port, fault) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port), WITHIN) as client:
            client.sendall(ASKED)
            assert answered(client, expected) == (expected, end)
        [connection] = proxy.connections
        assert connection.over.wait(WITHIN)
    assert bytes(connection.answer.passed) == expected
    assert bytes(connection.request.passed) == bytes(server.heard)
    return server


def answered(client: socket.socket, expected: bytes) -> tuple[bytes, str]:
    """What comes, and how it ends; nothing for a moment behind all that is expected is "silence"."""
    answer = b""
    try:
        while True:
            client.settimeout(WITHIN if len(answer) < len(expected) else 0.1)
            data = client.recv(4096)
            if not data:
                return answer, "closed"
            answer += data
    except ConnectionError:
        return answer, "reset"
    except TimeoutError:
        return answer, "silence"


CHANGED = {
    "low bit": ANSWER[:12] + b"3" + ANSWER[13:],
    "high bit": ANSWER[:12] + b"\xb2" + ANSWER[13:],
    "line end": ANSWER[:12] + b"\n" + ANSWER[13:],
    "drop": ANSWER[:12] + ANSWER[13:],
    "double": ANSWER[:12] + ANSWER[12:] + ANSWER[12:],
    "delay": ANSWER,
    "split": ANSWER,
    "stall": ANSWER[:12],
}


@pytest.mark.parametrize("how", CHANGED)
def test_what_an_answer_becomes(how: str) -> None:
    """What stands before the place is as it was, and the connection is left open."""
    server = ask(Fault(how, "answer", 12), CHANGED[how], "silence")
    assert (bytes(server.heard), server.end) == (ASKED, "closed")


@pytest.mark.parametrize(("how", "end"), [("cut", "closed"), ("half-close", "closed"), ("reset", "reset")])
@pytest.mark.parametrize("at", [0, 12, len(ANSWER)])
def test_how_an_answer_ends(how: str, end: str, at: int) -> None:
    """Nothing is passed on behind the place; both ends hear of it, in good order or not."""
    server = ask(Fault(how, "answer", at), ANSWER[:at], end)
    assert server.end == ("reset" if how == "reset" else "closed")


@pytest.mark.parametrize(
    ("how", "end"), [("cut", "closed"), ("half-close", "closed"), ("reset", "reset"), ("stall", "silence")]
)
def test_how_a_request_ends(how: str, end: str) -> None:
    """The server hears the beginning of it, and then the end, or nothing until the client goes."""
    server = ask(Fault(how, "request", 5), ANSWER if how == "half-close" else b"", end)
    assert bytes(server.heard) == ASKED[:5]
    assert server.end == ("reset" if how == "reset" else "closed")


def test_a_place_that_is_never_reached() -> None:
    """A connection that is shorter is clean."""
    for how in ACTS:
        server = ask(Fault(how, "answer", len(ANSWER) + 1), ANSWER, "silence")
        assert bytes(server.heard) == ASKED


def test_only_the_connection_that_is_named() -> None:
    """The others are clean."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Proxy(listener.getsockname()[1], Fault("cut", "answer", 0), on=1) as proxy,
    ):
        for number in range(3):
            with socket.create_connection(("127.0.0.1", proxy.port), WITHIN) as client:
                far, _ = listener.accept()
                with far, contextlib.suppress(OSError):
                    far.sendall(b"here")
                    client.settimeout(WITHIN)
                    assert client.recv(10) == (b"" if number == 1 else b"here")
