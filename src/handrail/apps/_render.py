"""What the events of a run look like: a fold from events to pieces of styled text.

No terminal here. `Screen.show` answers each event with the pieces to append, `last_line` an outcome with one line.
A terminal that only appends cannot take text back, so what is retracted is said again, struck out, below what was
shown: a pipe and a log show it too. Everything that comes from outside goes through `visible`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from handrail.apps._visible import clipped, one_line, spelled, visible
from handrail.events import (
    AssistantMessage,
    AttemptFailed,
    AttemptStarted,
    LimitReached,
    Log,
    ReasoningToken,
    RoundStarted,
    RunCompleted,
    RunEvent,
    RunFailed,
    Steered,
    Token,
    ToolAbandoned,
    ToolCall,
    ToolProgress,
    ToolResult,
    TurnDiscarded,
)
from handrail.run import Outcome, Spend

__all__ = ["Piece", "Screen", "Style", "last_line", "spending"]

Style: TypeAlias = Literal["text", "reasoning", "retracted", "note", "call", "result", "warning", "error", "good"]


class Piece(NamedTuple):
    """A bit of text, safe to print, and what it is."""

    text: str
    style: Style


class Screen:
    """Folds the events of one run, in their order, into what to append to a terminal.

    Kinds of events it does not know show nothing. `rounds` is how many rounds have begun.
    """

    def __init__(self) -> None:
        self.rounds = 0
        self._flowing: Style | None = None  # what the unfinished line at the bottom is made of
        self._standing: list[str] = []  # text that was shown and is not committed yet
        self._told: str | None = None  # the last failure of an attempt in the round at hand

    def show(self, event: RunEvent) -> Iterator[Piece]:
        """What `event` adds."""
        match event:
            case RoundStarted(round=number):
                if self.rounds:
                    yield Piece("\n", "note")
                self.rounds = number
                self._told = None
            case AttemptStarted():
                again = f", attempt {event.attempt}" if event.attempt > 1 else ""
                yield from self._line(f"round {event.round}{again} · {one_line(event.model)}", "note")
            case ReasoningToken(text=text):
                yield from self._flow(text, "reasoning")
            case Token(text=text):
                self._standing.append(text)
                yield from self._flow(text, "text")
            case AttemptFailed():
                yield from self._retract()
                if event.error_class != "cancelled":
                    self._told = event.error
                    yield from self._line(_failure(event), "warning")
            case TurnDiscarded():
                yield from self._retract()
            case AssistantMessage():
                self._standing.clear()
                yield from self.end_line()
            case ToolCall() | ToolProgress() | ToolResult() | ToolAbandoned():
                yield from self._tool(event)
            case _:
                yield from self._remark(event)

    def _tool(self, event: ToolCall | ToolProgress | ToolResult | ToolAbandoned) -> Iterator[Piece]:
        match event:
            case ToolCall(name=name, arguments=arguments):
                yield from self._line(f"→ {one_line(name)} {clipped(one_line(spelled(arguments)), 500)}", "call")
            case ToolProgress(progress=progress, total=total, message=message):
                done = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
                yield from self._line(f"  … {done}{f' · {one_line(message)}' if message else ''}", "note")
            case ToolResult(name=name, content=content):
                took = f" ({event.duration:.1f} s)" if event.duration and event.duration >= 0.1 else ""
                style: Style = "warning" if event.is_error else "result"
                yield from self._line(f"← {one_line(name)}{took} {_content(content)}", style)
            case ToolAbandoned(name=name, content=content):
                yield from self._line(f"✗ {one_line(name)} ({event.reason}) {_content(content)}", "warning")

    def _remark(self, event: RunEvent) -> Iterator[Piece]:
        match event:
            case Log(level="warning" | "error", data=data):
                yield from self._line(f"{event.level}: {one_line(str(data))}", "warning")
            case LimitReached():
                yield from self._line(f"limit {event.limit} reached: {event.count} of {event.max}", "warning")
            case Steered():
                yield from self._line(f"you: {_content(event.message.content)}", "note")
            case RunCompleted(interrupts=interrupts):
                for interrupt in interrupts or ():
                    yield from self._line(
                        f"waits for an answer: {one_line(interrupt.message or interrupt.id)}", "warning"
                    )
            case RunFailed(error=error) if self._told is None or (event.reason and error != self._told):
                yield from self._line(clipped(visible(error), 600), "error")
            case _:
                pass

    def _retract(self) -> Iterator[Piece]:
        text = "".join(self._standing)
        self._standing.clear()
        if text:
            yield from self.end_line()
            yield Piece("✗ retracted: ", "warning")
            yield Piece(clipped(one_line(text), 300), "retracted")
            yield Piece("\n", "note")

    def _flow(self, text: str, style: Style) -> Iterator[Piece]:
        """Text that comes in bits, each going on where the last one of its style ended."""
        if self._flowing not in (None, style):
            yield from self.end_line()
        if text:
            yield Piece(visible(text), style)
            self._flowing = None if text.endswith("\n") else style

    def _line(self, text: str, style: Style) -> Iterator[Piece]:
        yield from self.end_line()
        yield Piece(text + "\n", style)

    def end_line(self) -> Iterator[Piece]:
        """What takes the terminal to the beginning of a line."""
        if self._flowing:
            yield Piece("\n", self._flowing)
            self._flowing = None


def last_line(outcome: Outcome | None, *, rounds: int, running: Sequence[str], asked: bool) -> Piece:
    """How a run ended, on one line: outcome, rounds, tokens, cost, time, and what is still running behind it.

    `outcome` None is a run that nobody waited for; `running` the names of the open work sections, () when drained;
    `asked` says that somebody cancelled. What was not reported is called unknown, and is not zero.
    """
    ending, style = _ending(outcome, asked)
    facts = (
        ending,
        f"{rounds} round{'' if rounds == 1 else 's'}",
        *spending(outcome.spent if outcome else None),
        f"still running: {', '.join(one_line(name) or 'unnamed' for name in running)}" if running else "drained",
    )
    return Piece(" · ".join(facts) + "\n", style)


def _ending(outcome: Outcome | None, asked: bool) -> tuple[str, Style]:
    if outcome is None:
        return "left by a second Ctrl-C, the run had not ended", "error"
    match outcome.outcome:
        case "completed":
            late = " before Ctrl-C took effect" if asked else ""
            waits = f", {len(outcome.interrupts)} waiting for an answer" if outcome.interrupts else ""
            return f"completed{late}{waits}", "warning" if waits else "good"
        case "cancelled":
            return "cancelled by Ctrl-C" if asked else "cancelled", "warning"
        case "failed":
            return f"failed ({outcome.reason})" if outcome.reason else "failed", "error"


def spending(spent: Spend | None) -> tuple[str, str, str]:
    """Tokens, cost and time in words; what was not reported is unknown, and not zero."""
    if spent is None:
        return "tokens unknown", "cost unknown", "time unknown"
    return _tokens(spent), "cost unknown" if spent.cost is None else f"cost {spent.cost:f}", f"{spent.wall_clock:.1f} s"


def _tokens(spent: Spend) -> str:
    """Tokens in and out; "at least", where an attempt did not report its own."""
    at_least = "" if spent.complete else "at least "
    if spent.prompt_tokens is not None and spent.completion_tokens is not None:
        return f"{at_least}{spent.prompt_tokens:,} tokens in, {spent.completion_tokens:,} out"
    if spent.total_tokens or spent.complete:
        return f"{at_least}{spent.total_tokens:,} tokens"
    return "tokens unknown"


def _failure(event: AttemptFailed) -> str:
    match event.disposition:
        case "retry-same":
            next_step = "; trying again" + (f" in {event.backoff:.1f} s" if event.backoff else "")
        case "advance":
            next_step = "; giving up on this model"
        case _:
            next_step = ""
    return f"  attempt {event.attempt} failed: {clipped(one_line(event.error), 300)}{next_step}"


def _content(content: Any) -> str:
    """A tool's result or a message on as many lines as it has; parts that are no text are named."""
    if not isinstance(content, str):
        content = "\n".join(getattr(part, "text", None) or f"[{part.type}]" for part in content)
    return clipped(visible(content), 1_000).replace("\n", "\n  ")
