"""The line that says how the conversation stands: what ended how, what it used up, and what is still running."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ag_ui.core import Event, Interrupt, RunErrorEvent, RunFinishedEvent, TokenUsage

from handrail.apps._render import spending
from handrail.apps._visible import clipped, one_line
from handrail.client._spent import spent
from handrail.transcript import Failed, Finished, RunState

__all__ = ["Meter", "Standing", "still_running", "tolerated", "verdict", "went_wrong"]

Mood = Literal["quiet", "busy", "good", "waiting", "bad"]


class Standing(NamedTuple):
    """The line, safe to draw, and its mood."""

    text: str
    mood: Mood


class Meter:
    """What one exchange used up, as far as the agent says so in its terminal events."""

    def __init__(self) -> None:
        self._usage: list[TokenUsage] = []
        self._is_complete = True

    def note(self, event: Event) -> None:
        """Take in an event of the exchange."""
        if isinstance(event, RunFinishedEvent | RunErrorEvent):
            self._usage.extend(event.usage or ())
            told_all = (event.metadata or {}).get("handrail.usageComplete", True)
            self._is_complete = self._is_complete and bool(event.usage) and told_all is True

    def read(self, seconds: float) -> str:
        """Tokens, cost and time, in words; what was not reported is unknown."""
        used = spent(self._usage, seconds)
        if used is None:
            return f"tokens unknown · cost unknown · {seconds:.1f} s"
        tokens, cost, time = spending(used)
        at_least = "" if self._is_complete or tokens.startswith("at least") else "at least "
        return f"{at_least}{tokens} · {cost} · {time}"


def verdict(run: RunState, questions: Sequence[Interrupt] = ()) -> Standing:
    """How a conversation stands whose last run ended so, with these questions open."""
    asks = f"? {len(questions)} waiting for your answer" if len(questions) > 1 else "? waiting for your answer"
    match run:
        case Failed(kind="cancelled"):
            return Standing("■ stopped", "waiting")
        case Failed(message=message, code=code):
            named = f" ({one_line(clipped(code, 60))})" if code else ""
            return Standing(f"✗ failed{named}: {one_line(clipped(message, 300))}", "bad")
        case _ if questions:
            return Standing(asks, "waiting")
        case Finished(outcome="cancelled"):
            return Standing("■ cancelled by the agent", "waiting")
        case Finished(late_error=Failed(message=message)):
            return Standing(f"✓ finished, then reported: {one_line(clipped(message, 200))}", "waiting")
        case Finished():
            return Standing("✓ finished", "good")
        case _:
            return Standing("ready", "quiet")


def went_wrong(run: RunState) -> bool:
    """Whether it ended so that a person may want to ask again."""
    return isinstance(run, Failed) or (isinstance(run, Finished) and run.outcome == "cancelled")


def still_running(names: Sequence[str]) -> str:
    """The tools that have not returned, in words; "" for none."""
    return f"still running: {', '.join(one_line(clipped(name, 60)) or 'unnamed' for name in names)}" if names else ""


def tolerated(count: int) -> str:
    """How many warnings there are, in words; "" for none."""
    return f"{count} warning{'s' if count > 1 else ''} (/warnings)" if count else ""
