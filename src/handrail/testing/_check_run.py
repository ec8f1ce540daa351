"""Whether a run kept what every run promises, told from its events and its outcome alone.

One function for each promise, in the table at the end. Each walks the log by itself and says in a sentence what is
wrong; it knows nothing of how the run was driven, so it works on a stored log as well as on a live one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from handrail import events as ev
from handrail.run import Outcome
from handrail.testing._collect import folded_text

__all__ = ["check_run"]

Log: TypeAlias = tuple[Any, ...]

_REASONS = {"context-exhausted", "budget-exhausted", "completion-truncated", None}
_RESULTS = {ev.AttemptSucceeded: {"ok"}, ev.AttemptFailed: {"failed", "cancelled"}, type(None): set[str]()}


def check_run(events: Iterable[Any], outcome: Outcome) -> list[str]:
    """What is wrong with a finished run: a sentence for each violation, none if it is right.

    Each sentence begins with the promise that was broken: places in the log (R-40), the terminal event (R-42) and what
    it makes of the outcome (R-22, R-27), attempts (L-13), tokens (L-14), turns (L-15), the folded text (L-16), calls
    and questions (L-17), the list of attempts (L-46). Events of other libraries are passed over.

    Raises `TypeError` for events of ours that were made plain data: read from those, every run would be right.
    """
    log = tuple(events)
    for event in log:
        if isinstance(event, Mapping) and {"kind", "ts"} <= cast("Mapping[str, Any]", event).keys():
            raise TypeError(f"check_run() takes the events themselves, not what to_dict() gives: {event!r}"[:200])
    if no_texts := [f"L-14: {wrong}" for wrong in _texts(log)]:
        return no_texts  # what the other rules read is not there
    return [f"{rule}: {wrong}" for rule, violations in _RULES for wrong in violations(log, outcome)]


def _texts(log: Log) -> Iterator[str]:
    for event in log:
        if isinstance(event, (ev.Token, ev.ReasoningToken)) and not isinstance(event.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a log may come from anywhere
            yield f"{event.kind} of {_named(event)} has a text that is no string: {event.text!r}"


def _ends(event: Any) -> str | None:
    return getattr(event, "ends", None)


def _terminal(log: Log) -> Any:
    return next((event for event in reversed(log) if _ends(event) is not None), None)


def _places(log: Log, outcome: Outcome) -> Iterator[str]:
    placed = [(index, event) for index, event in enumerate(log) if hasattr(event, "seq")]
    for index, event in placed:
        if event.seq != index:
            yield f"event {index} ({event.kind}) has seq {event.seq}"
    runs = sorted({str(event.run_id) for _, event in placed})
    if len(runs) > 1:
        yield f"events of more than one run: {', '.join(runs)}"


def _one_terminal_and_last(log: Log, outcome: Outcome) -> Iterator[str]:
    ends = [index for index, event in enumerate(log) if _ends(event) is not None]
    if not ends and any(isinstance(event, ev.RunStarted) for event in log):
        yield "the run started and has no terminal event"
    if len(ends) > 1:
        yield f"{len(ends)} terminal events, at {', '.join(map(str, ends))}"
    elif ends and ends[0] != len(log) - 1:
        yield f"{len(log) - 1 - ends[0]} events behind the terminal event"


def _verdict(log: Log, outcome: Outcome) -> Iterator[str]:
    terminal = _terminal(log)
    if terminal is not None and _ends(terminal) != outcome.outcome:
        yield f"the outcome is {outcome.outcome}, and the terminal event says {_ends(terminal)}"


def _reason(log: Log, outcome: Outcome) -> Iterator[str]:
    terminal = _terminal(log)
    if outcome.reason not in _REASONS:
        yield f"{outcome.reason!r} is no reason"
    if terminal is not None and getattr(terminal, "reason", None) != outcome.reason:
        yield f"the outcome's reason is {outcome.reason}, the terminal event's {getattr(terminal, 'reason', None)}"


def _attempts_closed(log: Log, outcome: Outcome) -> Iterator[str]:
    open: ev.AttemptStarted | None = None
    for event in log:
        match event:
            case ev.AttemptStarted():
                if open is not None:
                    yield f"{_named(event)} starts while {_named(open)} is open"
                open = event
            case ev.AttemptFailed() | ev.AttemptSucceeded():
                if open is None or _key(open) != _key(event):
                    yield f"{event.kind} of {_named(event)}, which is not open"
                open = None
                if (
                    getattr(event, "error_class", None) == "cancelled"
                    and getattr(event, "disposition", None) != "abort"
                ):
                    yield f"{_named(event)} was cancelled, and its disposition is not abort"
            case _:
                if _ends(event) is not None and open is not None:
                    yield f"{_named(open)} is open at the end"
                    open = None
    if open is not None:
        yield f"{_named(open)} is never closed"


def _cancelled_attempts_abort(log: Log, outcome: Outcome) -> Iterator[str]:
    for event in log:
        if isinstance(event, ev.AttemptFailed) and event.error_class == "cancelled" and event.disposition != "abort":
            yield f"{_named(event)} was cancelled, and its disposition is {event.disposition}"


def _tokens_in_place(log: Log, outcome: Outcome) -> Iterator[str]:
    open: Any = None
    streamed = ""
    for event in log:
        match event:
            case ev.AttemptStarted():
                open, streamed = event, ""
            case ev.AttemptFailed() | ev.AttemptSucceeded():
                open = None
            case ev.Token() | ev.ReasoningToken():
                if open is None or _key(open) != _key(event):
                    yield f"{event.kind} {event.text!r} of {_named(event)}, which is not open"
                elif isinstance(event, ev.Token):
                    streamed += event.text
            case ev.AssistantMessage():
                if streamed != (event.message.content or ""):
                    yield f"round {event.round}: streamed {streamed!r}, committed {event.message.content!r}"
            case _:
                pass


def _turns_settled(log: Log, outcome: Outcome) -> Iterator[str]:
    pending: int | None = None
    settled: set[int] = set()
    for event in log:
        match event:
            case ev.AttemptStarted() if event.round in settled:
                yield f"{_named(event)} starts in a round whose turn was committed or discarded"
            case ev.AttemptSucceeded():
                pending = event.round
            case ev.AssistantMessage() | ev.TurnDiscarded():
                if event.round in settled:
                    yield f"{event.kind} in round {event.round}, whose turn was committed or discarded before"
                elif event.kind == "assistant-message" and pending != event.round:
                    yield f"assistant-message in round {event.round}, where no attempt succeeded"
                settled.add(event.round)
                pending = None
            case ev.RoundStarted() | ev.RunCompleted() | ev.RunFailed() | ev.RunCancelled():
                if pending is not None:
                    yield f"the turn of round {pending} is neither committed nor discarded"
                pending = None
            case _:
                pass


def _folds(log: Log, outcome: Outcome) -> Iterator[str]:
    if outcome.outcome == "completed" and any(isinstance(event, ev.AssistantMessage) for event in log):
        text = folded_text(log)
        if text != outcome.final:
            yield f"the tokens fold to {text!r}, and final is {outcome.final!r}"


def _calls_answered(log: Log, outcome: Outcome) -> Iterator[str]:
    open: set[str] = set()
    answered: set[str] = set()
    for event in log:
        match event:
            case ev.ToolCall():
                if event.id in open or event.id in answered:
                    yield f"call {event.id} is announced twice"
                open.add(event.id)
            case ev.ToolStarted():
                if event.id not in open and event.round != 0:
                    yield f"{event.kind} for call {event.id}, which is not open"
            case ev.ToolResult() | ev.ToolAbandoned():
                if event.id in answered:
                    yield f"{event.kind} for call {event.id}, which has its end"
                elif event.id not in open and event.round != 0:  # round 0 answers calls of the input
                    yield f"{event.kind} for call {event.id}, which nobody announced"
                open.discard(event.id)
                answered.add(event.id)
            case _:
                pass
    terminal = _terminal(log)
    excused = {question.tool_call_id or question.id for question in getattr(terminal, "interrupts", ())}
    excused |= set(getattr(terminal, "pending_calls", ()))
    for id in sorted(open - excused):
        yield f"call {id} has neither tool-result nor tool-abandoned"
    for id in sorted(answered & excused):
        yield f"call {id} has its end, and the run says that it is open"


def _questions_closed(log: Log, outcome: Outcome) -> Iterator[str]:
    open: list[str] = []
    for event in log:
        match event:
            case ev.AskPending():
                open.append(event.interrupt.id)
            case ev.AskAnswered():
                if event.interrupt_id in open:
                    open.remove(event.interrupt_id)
                else:
                    yield f"ask-answered for {event.interrupt_id}, which nobody asked"
            case _:
                pass
    for id in open:
        yield f"question {id} has no ask-answered"


def _attempts_recorded(log: Log, outcome: Outcome) -> Iterator[str]:
    terminal = _terminal(log)
    if isinstance(terminal, ev.RunFailed) and terminal.attempts != outcome.attempts:
        yield "the attempts of run-failed are not those of the outcome"
    records = [record for record in outcome.attempts if record.result != "skipped"]
    for record in outcome.attempts:
        if (record.attempt is None) != (record.result == "skipped"):
            yield f"a record of round {record.round} is {record.result!r} with attempt {record.attempt}"
    seen = list(_attempts_seen(log))
    if len(seen) != len(records):
        yield f"{len(seen)} attempts in the events, {len(records)} in the outcome"
    for (started, closed, streamed), record in zip(seen, records, strict=False):
        yield from _differences(started, closed, streamed, record)


def _differences(started: ev.AttemptStarted, closed: Any, streamed: str, record: Any) -> Iterator[str]:
    name = _named(started)
    for field in ("round", "attempt", "backend_index", "model"):
        if getattr(record, field) != getattr(started, field):
            yield f"{name}: {field} is {getattr(record, field)!r} in the outcome"
    if closed is not None and record.result not in _RESULTS[type(closed)]:
        yield f"{name}: ended by {closed.kind}, {record.result!r} in the outcome"
    if isinstance(closed, ev.AttemptFailed):
        for field in ("error", "error_class", "status", "disposition"):
            if getattr(record, field) != getattr(closed, field):
                yield f"{name}: {field} is {getattr(closed, field)!r}, in the outcome {getattr(record, field)!r}"
        if record.text != streamed:
            yield f"{name}: streamed {streamed!r}, in the outcome {record.text!r}"


def _attempts_seen(log: Log) -> Iterable[tuple[ev.AttemptStarted, Any, str]]:
    """Each attempt that started, with the event that closed it (None: none) and the text it streamed."""
    seen: dict[tuple[Any, Any], tuple[ev.AttemptStarted, Any, str]] = {}
    for event in log:
        key = _key(event)
        if isinstance(event, ev.AttemptStarted):
            seen[key] = (event, None, "")
        elif key in seen:
            started, closed, streamed = seen[key]
            if isinstance(event, ev.Token):
                seen[key] = (started, closed, streamed + event.text)
            elif isinstance(event, (ev.AttemptFailed, ev.AttemptSucceeded)):
                seen[key] = (started, event, streamed)
    return seen.values()


def _key(event: Any) -> tuple[int | None, int | None]:
    return getattr(event, "round", None), getattr(event, "attempt", None)


def _named(event: Any) -> str:
    return f"attempt {event.attempt} of round {event.round}"


_RULES: tuple[tuple[str, Callable[[Log, Outcome], Iterator[str]]], ...] = (
    ("R-40", _places),
    ("R-42", _one_terminal_and_last),
    ("R-22", _verdict),
    ("R-27", _reason),
    ("L-13", _attempts_closed),
    ("L-13", _cancelled_attempts_abort),
    ("L-14", _tokens_in_place),
    ("L-15", _turns_settled),
    ("L-16", _folds),
    ("L-17", _calls_answered),
    ("L-17", _questions_closed),
    ("L-46", _attempts_recorded),
)
