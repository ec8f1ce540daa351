"""A whole run as one value to look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar, overload

import anyio

from handrail import events as ev
from handrail.run import Outcome, Run

__all__ = ["Collected", "collect", "folded_text"]

E = TypeVar("E")
T = TypeVar("T")


class Collected(Sequence[E], Generic[E]):
    """All events of a run, in order, and its outcome."""

    def __init__(self, events: Iterable[E], outcome: Outcome) -> None:
        self.events: tuple[E, ...] = tuple(events)
        self.outcome = outcome

    def of(self, cls: type[T] | tuple[type[T], ...]) -> list[T]:
        """The events of this class, or of these, in order."""
        return [event for event in self.events if isinstance(event, cls)]

    def kinds(self) -> list[str]:
        """What happened, as a list of `kind` strings (for events of other libraries, of class names)."""
        return [getattr(event, "kind", type(event).__name__) for event in self.events]

    def text(self) -> str:
        """The answer, as a reader folds it from the tokens: `outcome.final` for every run that completed."""
        return folded_text(self.events)

    @property
    def terminal(self) -> E | None:
        """The event that ended the run; None if its source never said so."""
        last = self.events[-1] if self.events else None
        return last if getattr(last, "is_terminal", False) else None

    @overload
    def __getitem__(self, index: int) -> E: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[E]: ...
    def __getitem__(self, index: int | slice) -> E | Sequence[E]:
        return self.events[index]

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return f"<Collected {self.outcome.outcome}: {', '.join(self.kinds())}>"


async def collect(run: Run[E], timeout: float = 30) -> Collected[E]:
    """Wait for the end of a run and give all of it.

    Raises `TimeoutError`, saying how far it came, if it has not ended after `timeout` seconds; the run goes on.
    """
    events: list[E] = []
    with anyio.move_on_after(timeout):
        async for event in run.events:
            events.append(event)  # noqa: PERF401  # what came is in the report when the time is over
        return Collected(events, await run.result)
    last = getattr(events[-1], "kind", type(events[-1]).__name__) if events else "none"
    raise TimeoutError(
        f"run {run.id} has not ended after {timeout} s: {len(events)} events, the last is {last}; "
        f"still working: {', '.join(run.open_work) or 'nothing'}"
    )


def folded_text(events: Iterable[Any]) -> str:
    """The text of the last committed turn: tokens since its attempt began, unless it failed or was discarded."""
    streamed: list[str] = []
    kept = ""
    for event in events:
        match event:
            case ev.AttemptStarted() | ev.AttemptFailed() | ev.TurnDiscarded():
                streamed.clear()
            case ev.Token():
                streamed.append(event.text)
            case ev.AssistantMessage():
                kept = "".join(streamed)
            case _:
                pass
    return kept
