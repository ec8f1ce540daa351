"""Tools on this side that wait for a person to let them run."""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from ag_ui.core import Interrupt

from handrail.agui._interrupts import Answer

__all__ = ["Consents"]


class Consents:
    """The questions that are open, each with somebody who waits for its answer; false while there is none."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Interrupt, Future[Answer]]] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def asked(self) -> Sequence[Interrupt]:
        """What they ask, oldest first."""
        return [interrupt for interrupt, _ in self._open.values()]

    @contextmanager
    def asking(self, interrupt: Interrupt) -> Generator[Future[Answer]]:
        """Hold a question open; gives its answer, to be awaited."""
        answered: Future[Answer] = get_running_loop().create_future()
        self._open[interrupt.id] = (interrupt, answered)
        try:
            yield answered
        finally:
            del self._open[interrupt.id]

    def answer(self, answers: Iterable[Answer]) -> None:
        """Give the answers to those who wait for them, as far as they still do."""
        for one in answers:
            _, answered = self._open.get(one.interrupt_id, (None, None))
            if answered is not None and not answered.done():
                answered.set_result(one)
