"""Who waits for something to happen, in any thread and any event loop.

The one pattern behind `Settled` and the log, and the reason why neither needs a lock to wait:

    the waiter                          the other side
    1. registers its waker              1. makes the thing true
    2. looks whether the thing is true  2. lists the registered wakers, takes each out and wakes it
    3. if not, sleeps

Both orders are safe: a waiter that registers before the wakers are listed is woken, and one that registers behind is
behind step 1 as well, so that its second look finds the thing true. Registering, listing and taking out are each one
operation on one dictionary, a single step of the interpreter, so neither a thread switch nor a signal handler nor a
finaliser can find them half done, and who takes a waker out is the one to wake it. The dictionary is never replaced:
two wakings that meet could otherwise lose whoever registered between them. A waker that comes for nothing looks again
and goes back to sleep. A waiter that leaves takes its waker along, so waiting a thousand times with a
timeout leaves nothing behind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from handrail.run._loops import Waker, new_waker

__all__ = ["Waiters"]

_LOOK_UP = 1.0
"""Seconds after which a main thread that is blocked looks for signals.

A signal that comes between Python's last look and the system call that blocks interrupts nothing and would be found
when the wait is over. Giving up the interpreter lock is in that gap, so on a busy machine it is not small.
"""


class _ThreadWaker:
    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()

    def wake(self) -> None:
        self._gate.release()

    def wait(self, timeout: float) -> bool:
        return self._gate.acquire(timeout=timeout)


class Waiters:
    """The tasks and threads that wait for one thing."""

    __slots__ = ("wakers",)

    def __init__(self) -> None:
        self.wakers: dict[Waker, bool] = {}

    def wake_all(self) -> None:
        """Wake everybody who is registered now; costs nothing for those who are not."""
        wakers = self.wakers
        for waker in tuple(wakers):
            if wakers.pop(waker, False):
                waker.wake()

    async def until(self, true: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait in a task until `true()`; False after `timeout` seconds. Cancelling the task forgets it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            waker = new_waker()
            wakers = self.wakers
            wakers[waker] = True
            try:
                if true():
                    return True
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                await waker.wait(left)
            finally:
                wakers.pop(waker, False)
            if true():
                return True

    def block_until(self, true: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait in a thread until `true()`; False after `timeout` seconds. KeyboardInterrupt comes through."""
        deadline = None if timeout is None else time.monotonic() + timeout
        hears_signals = threading.current_thread() is threading.main_thread()
        longest = _LOOK_UP if hears_signals else threading.TIMEOUT_MAX
        while not true():
            left = longest if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            waker = _ThreadWaker()
            wakers = self.wakers
            wakers[waker] = True
            try:
                if true():
                    return True
                waker.wait(min(left, longest))
            finally:
                wakers.pop(waker, False)
        return True
