"""Doing something at the n-th suspension of a task, on any event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class At(Generic[T]):
    """Awaits a coroutine, and calls `act` when it is about to suspend for the n-th time (from 1).

    `suspensions` is how often it suspended, `acted` whether it came that far.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], n: int, act: Callable[[], object]) -> None:
        self._coroutine = coroutine
        self._n = n
        self._act = act
        self.suspensions = 0
        self.acted = False

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._coroutine.__await__()
        send: Callable[[], Any] = lambda: next(steps)  # noqa: E731
        while True:
            try:
                wish = send()
            except StopIteration as ended:
                return ended.value
            self.suspensions += 1
            if self.suspensions == self._n:
                self.acted = True
                self._act()
            try:
                answer = yield wish
                send = lambda answer=answer: steps.send(answer)  # noqa: E731
            except BaseException as error:
                send = lambda error=error: steps.throw(error)  # noqa: E731
