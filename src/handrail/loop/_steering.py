"""User turns that come while a run is going on.

A turn is accepted or refused, and the run decides to end or to go on: the two meet in this box and are decided under
one lock, so that nothing accepted is lost and nothing is accepted that no one will read.
"""

from __future__ import annotations

import threading

from ag_ui.core import UserMessage

__all__ = ["Steers"]


class Steers:
    """The accepted turns that nobody has taken yet. Any thread may put; only the run takes and closes."""

    __slots__ = ("_closed", "_lock", "_waiting")

    def __init__(self) -> None:
        # Re-entrant: a signal handler may steer a run whose loop it has interrupted in here.
        self._lock = threading.RLock()
        self._waiting: list[UserMessage] = []
        self._closed = False

    def put(self, message: UserMessage) -> bool:
        """Accept a turn; False: the run has already decided to end."""
        with self._lock:
            if not self._closed:
                self._waiting.append(message)
            return not self._closed

    def take(self) -> list[UserMessage]:
        """What has been accepted, in order."""
        with self._lock:
            taken, self._waiting = self._waiting, []
            return taken

    def close_if_empty(self) -> bool:
        """Decide to end, unless a turn is waiting."""
        with self._lock:
            self._closed = True  # first: a turn that comes from a signal handler right here is refused, and not lost
            self._closed = not self._waiting
            return self._closed

    def close(self) -> list[UserMessage]:
        """Decide to end, and take what is left."""
        with self._lock:
            self._closed = True
        return self.take()
