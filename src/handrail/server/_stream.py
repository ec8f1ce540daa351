"""One client that reads a run: frames go out whenever there are some, and the socket is watched all the time (P-93).

The task of the request waits for the client to go, and for nothing else: asking ASGI for the next message is the only
way to hear of it, and no time is a good one to stop asking. Sending is a task of its own that lives only while there
is something to send; whatever has news starts it. So a stream on which nothing happens has one task, and the frames of
one turn of the event loop go out in one send.

Silence is what the request's task notices, too: it looks up after so many seconds and has a comment sent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import anyio
from starlette.types import Receive, Send

from handrail.run._loops import Home, checkpoint, children
from handrail.server._tape import Tape

__all__ = ["COMMENT", "Reader"]

COMMENT = b":\n\n"


class Reader:
    """Sends a tape from frame number `start` on, and a comment after `keepalive` seconds without a byte."""

    __slots__ = (
        "_children",
        "_home",
        "_is_sending",
        "_keepalive",
        "_last_byte",
        "_next",
        "_send",
        "_stop_sending",
        "_tape",
        "_watch",
        "is_through",
    )

    def __init__(self, tape: Tape, start: int, send: Send, *, keepalive: float | None, home: Home) -> None:
        self._tape = tape
        self._next = start
        self._send = send
        self._keepalive = math.inf if keepalive is None else keepalive
        self._home = home
        self._children = children()
        self._is_sending = False
        self._stop_sending: Callable[[], object] = lambda: None
        self._last_byte = time.monotonic()
        self._watch: anyio.CancelScope | None = None
        self.is_through = False
        """Whether there is nothing more to do: everything was sent, or nothing can be."""

    async def serve(self, receive: Receive) -> None:
        """Send until the tape is complete or the client has gone; returns with nothing left running."""
        async with self._children:
            try:
                if not self._waits_for_news():
                    self._start_sending()
                await self._watch_client(receive)
            finally:
                self.is_through = True
                self._tape.waiters.wakers.pop(self, False)
                self._stop_sending()

    async def _watch_client(self, receive: Receive) -> None:
        while not self.is_through:
            patience = self._keepalive if self._is_sending else self._last_byte + self._keepalive - time.monotonic()
            with anyio.move_on_after(patience) as self._watch:
                while (await receive())["type"] != "http.disconnect":
                    pass
                return
            self._start_sending()

    def _waits_for_news(self) -> bool:
        """Put the waker out; False if there are news already, which nobody will be woken for."""
        self._tape.waiters.wakers[self] = True
        return not self._tape.has_news(self._next)

    # -- sending -----------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """There are news; from any thread."""
        if self._home.is_here():
            self._start_sending()
        else:
            self._home.call(self._start_sending)

    def _start_sending(self) -> None:
        if not self._is_sending and not self.is_through:
            self._is_sending = True
            self._stop_sending = self._children.start(self._send_what_is_ready, "send")

    async def _send_what_is_ready(self) -> None:
        """Send what there is, turn after turn; leave when a turn has brought nothing, with the waker out."""
        tape, send = self._tape, self._send
        try:
            while not self.is_through:
                frames, self._next, has_more = tape.frames(self._next)
                if tape.is_complete and not has_more:
                    await send({"type": "http.response.body", "body": frames, "more_body": False})
                    self._end()
                elif frames or time.monotonic() >= self._last_byte + self._keepalive:
                    await send({"type": "http.response.body", "body": frames or COMMENT, "more_body": True})
                    self._last_byte = time.monotonic()
                    await checkpoint()
                elif self._waits_for_news():
                    return
        except Exception:  # whatever the server raises, this client cannot be reached any more
            self._end()
        finally:
            self._is_sending = False

    def _end(self) -> None:
        self.is_through = True
        if self._watch is not None:
            self._watch.cancel()
