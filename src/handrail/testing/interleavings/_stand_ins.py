"""`threading` and `time` as the explored modules see them: what waits there, waits in the scheduler.

While an interleaving runs, the global names `threading` and `time` of these modules stand for the two classes at the
end. Each gives a stand-in to the thread that has its turn, and the real thing to every other one; what has no stand-in
is the real thing for all. Nothing outside these modules changes.

A lock is taken at a point, so that whoever runs may be left just before. Threads that take no part may come across a
stand-in when the interleaving is over (a finaliser does): they get what they ask for and never wait.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from threading import get_ident
from types import ModuleType
from typing import Any

from handrail.testing.interleavings._lines import is_within
from handrail.testing.interleavings._scheduler import Player, Scheduler

__all__ = ["StandIns"]

_PACKAGE = __name__.partition(".")[0]
_OURS = __name__.rpartition(".")[0]


class StandIns:
    """For these modules, and for all of this package but what explores, as far as they are loaded now."""

    def __init__(self, modules: Sequence[str]) -> None:
        names = (*modules, _PACKAGE)
        self._places = [
            (module, real)
            for name, module in tuple(sys.modules.items())
            if is_within(name, names) and not is_within(name, (_OURS,))
            for real in (threading, time)
            if vars(module).get(real.__name__) is real
        ]

    @contextmanager
    def of(self, scheduler: Scheduler) -> Generator[None]:
        """In place for one interleaving."""
        made = {threading: _Threading(scheduler), time: _Time(scheduler)}
        try:
            for module, real in self._places:
                setattr(module, real.__name__, made[real])
            yield
        finally:
            for module, real in self._places:
                setattr(module, real.__name__, real)


class _Waiting:
    """What all that waits for has in common."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def _wait(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        scheduler = self._scheduler
        scheduler.point()
        if ready() or not scheduler.has_turn:
            return True
        return scheduler.block(ready, None if timeout is None or timeout < 0 else scheduler.now + timeout)


class _Lock(_Waiting):
    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._is_held = False

    def _is_free(self) -> bool:
        return not self._is_held

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._wait(self._is_free, timeout if blocking else 0):
            return False
        self._is_held = True
        return True

    def release(self) -> None:
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False

    def locked(self) -> bool:
        return self._is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _RLock(_Waiting):
    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._owner = 0
        self._count = 0

    def _is_free(self) -> bool:
        return self._count == 0 or self._owner == get_ident()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = get_ident()
        if not self._wait(lambda: self._count == 0 or self._owner == me, timeout if blocking else 0):
            return False
        self._owner = me
        self._count += 1
        return True

    def release(self) -> None:
        if self._count == 0 or self._owner != get_ident():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _Event(_Waiting):
    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._scheduler.point()
        self._is_set = True

    def clear(self) -> None:
        self._scheduler.point()
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._wait(self.is_set, timeout) and self._is_set


class _Thread(_Waiting):
    def __init__(
        self,
        scheduler: Scheduler,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        super().__init__(scheduler)
        self.name = name or getattr(target, "__name__", "thread")
        self.daemon = daemon
        self._target = target
        self._args = tuple(args)
        self._kwargs = dict(kwargs or {})
        self._player: Player | None = None

    def start(self) -> None:
        if self._player is not None:
            raise RuntimeError("threads can only be started once")
        self._player = self._scheduler.start(self.run, self.name)
        self._scheduler.point()

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def join(self, timeout: float | None = None) -> None:
        self._wait(lambda: not self.is_alive(), timeout)

    def is_alive(self) -> bool:
        return self._player is not None and not self._player.has_ended


class _Stand(ModuleType):
    """A module of which some names depend on who asks."""

    _real: ModuleType

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(self._real.__name__)
        self._scheduler = scheduler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _made(self, kind: Callable[..., Any], name: str, /, *args: Any, **kwargs: Any) -> Any:
        if self._scheduler.has_turn:
            return kind(self._scheduler, *args, **kwargs)
        return getattr(self._real, name)(*args, **kwargs)


class _Threading(_Stand):
    _real = threading

    def Lock(self) -> Any:
        return self._made(_Lock, "Lock")

    def RLock(self) -> Any:
        return self._made(_RLock, "RLock")

    def Event(self) -> Any:
        return self._made(_Event, "Event")

    def Thread(self, *args: Any, **kwargs: Any) -> Any:
        return self._made(_Thread, "Thread", *args, **kwargs)


class _Time(_Stand):
    _real = time

    def monotonic(self) -> float:
        return self._scheduler.now if self._scheduler.has_turn else time.monotonic()

    def sleep(self, seconds: float) -> None:
        if self._scheduler.has_turn:
            self._scheduler.block(lambda: False, self._scheduler.now + seconds)
        else:
            time.sleep(seconds)
