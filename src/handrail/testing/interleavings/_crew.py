"""Threads that are used again: to start one takes as long as a short interleaving."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context

__all__ = ["Crew"]

Work = Callable[[], object]


class Crew:
    """Threads that carry out one piece of work after the other, each as if it were new to the thread."""

    def __init__(self) -> None:
        self._idle: list[_Hand] = []
        self._is_dismissed = False

    def start(self, work: Work) -> None:
        """Have it carried out in a thread that has nothing else to do. `work` lets no exception through."""
        hand = self._idle.pop() if self._idle else _Hand(self._back)
        hand.give(work)

    def dismiss(self) -> None:
        """End the threads that have nothing to do, and every other one when it is through."""
        self._is_dismissed = True
        while self._idle:
            self._idle.pop().give(None)

    def _back(self, hand: _Hand) -> None:
        self._idle.append(hand)
        if self._is_dismissed:
            self.dismiss()


class _Hand:
    def __init__(self, back: Callable[[_Hand], object]) -> None:
        self._back = back
        self._work: Work | None = None
        self._given = threading.Lock()
        self._given.acquire()
        threading.Thread(target=self._live, name="explored", daemon=True).start()

    def give(self, work: Work | None) -> None:
        self._work = work
        self._given.release()

    def _live(self) -> None:
        while True:
            self._given.acquire()
            work, self._work = self._work, None
            if work is None:
                return
            Context().run(work)
            del work
            self._back(self)
