"""One exchange at a time, first come first served, across tasks, event loops and threads.

A turn is handed on directly: whoever gives it back gives it to the first who waits, so nobody who comes later can slip
in between. Somebody who leaves in the very moment in which the turn is handed to him hands it on, and so does somebody
to whom it is handed in the moment in which the queue is closed: whoever closes it may wait for `over`, and nobody has a
turn behind that.
"""

from __future__ import annotations

import threading
from collections import deque

from anyio.lowlevel import checkpoint_if_cancelled

from handrail.errors import SessionClosedError
from handrail.run import Settled
from handrail.run._settled import settle

__all__ = ["Turns"]


class Turns:
    """The queue of a session. `is_free` is whether nobody has the turn or waits for it."""

    __slots__ = ("_lock", "_taken", "_waiting", "is_closed", "over")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: deque[Settled[bool]] = deque()
        self._taken = False
        self.is_closed = False
        self.over: Settled[None] = Settled()
        """Set when the queue is closed and the last turn was given back."""

    @property
    def is_free(self) -> bool:
        return not self._taken

    def try_take(self) -> bool:
        """Take the turn if nobody has it; never waits."""
        with self._lock:
            if self._taken or self.is_closed:
                return False
            self._taken = True
            return True

    async def take(self) -> None:
        """Wait for the turn and take it. Raises `SessionClosedError` when there will be none any more."""
        await checkpoint_if_cancelled()  # who is cancelled already has no turn (S-42)
        with self._lock:
            if self.try_take():
                return
            if self.is_closed:
                raise closed()
            place: Settled[bool] = Settled()
            self._waiting.append(place)
        try:
            granted = await place
        except BaseException:
            self._leave(place)
            raise
        if granted and self.is_closed:
            self.give()
        if self.is_closed:
            raise closed()

    def give(self) -> None:
        """Give the turn back: to the first who waits, if there is one."""
        with self._lock:
            self._taken = bool(self._waiting)
            if self._waiting:
                settle(self._waiting.popleft(), True)
            elif self.is_closed:
                settle(self.over, None)

    def close(self) -> None:
        """Nobody gets a turn any more, those who wait least of all."""
        with self._lock:
            self.is_closed = True
            while self._waiting:
                settle(self._waiting.popleft(), False)
            if not self._taken:
                settle(self.over, None)

    def _leave(self, place: Settled[bool]) -> None:
        with self._lock:
            if place in self._waiting:
                self._waiting.remove(place)
            elif place.value:
                self.give()


def closed() -> SessionClosedError:
    """The refusal of every call on a closed session."""
    return SessionClosedError("this session was closed; its values can still be read")
