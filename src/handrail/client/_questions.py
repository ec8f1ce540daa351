"""The questions of a thread and what became of their answers (S-81 to S-109).

    a run ends by asking       pending, and the calls a question stands before are held
    a request carries answers  owed as well: sent, and nobody knows yet whether they arrived
    its run finishes           neither: the answers were consumed, the calls are released
    its run fails              both stay: the next request carries the same answers again

Only a finished run retires answers, and only the one that carried them. Approval is read off this list, never off the
order of events, so no failure in between can lose it or make it stick.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from ag_ui.core import Interrupt, ResumeEntry

from handrail.agui._copies import copied
from handrail.agui._interrupts import Answer, decide, entries_for
from handrail.errors import InterruptedThreadError, ResumeError

__all__ = ["ABANDONED", "DENIED", "LOST_CODES", "Questions", "is_legacy", "legacy_questions"]

DENIED = "Denied by the user"
ABANDONED = "Abandoned by the user"

LOST_CODES = frozenset(
    {
        "UNKNOWN_INTERRUPT_ID",
        "INTERRUPT_EXPIRED",
        "INTERRUPT_RESUME_ERROR",
        "INTERRUPT_SESSION_REQUIRED",
        "INTERRUPT_RECONCILIATION_ERROR",
    }
)
"""Codes by which a server says that it knows nothing of the questions that were answered."""


class Questions:
    """What is pending, what is owed, which calls are held, and which ones the user refused (with the text for it).

    A refusal is remembered for as long as the call can come back: a snapshot may leave out the answer that it had.
    """

    def __init__(self) -> None:
        self.pending: tuple[Interrupt, ...] = ()
        self.owed: tuple[ResumeEntry, ...] = ()
        self.holds: dict[str, tuple[str, ...]] = {}
        self.refused: dict[str, str] = {}
        self.reached_the_agent = False
        """Whether a run that carried what is owed had started, so that the answers may have been consumed."""

    @property
    def held(self) -> frozenset[str]:
        """The calls that a pending question stands before."""
        return frozenset(call for calls in self.holds.values() for call in calls)

    def refuse_if_unanswered(self) -> None:
        """Raises `InterruptedThreadError` while questions are open and no answer to them is owed."""
        if self.pending and not self.owed:
            listed = ", ".join(repr(interrupt.id) for interrupt in self.pending)
            raise InterruptedThreadError(
                f"the thread waits for an answer to {listed}; use resume(), or abandon_interrupts() to give up",
                self.pending,
            )

    def entries(self, given: Sequence[Answer | ResumeEntry], now: datetime, validate: bool) -> tuple[ResumeEntry, ...]:
        """The entries that answer every pending question; raises as `entries_for` does, and changes nothing."""
        entries = copied(entries_for(given, self.pending, now=now, validate=validate))
        if any(map(is_legacy, self.pending)):
            _refuse_what_a_command_cannot_say(entries)
        return entries

    def owe(self, given: Iterable[Answer | ResumeEntry], entries: tuple[ResumeEntry, ...]) -> None:
        """A request carries these entries; what was owed before is forgotten."""
        self.owed, self.reached_the_agent = entries, False
        for call_id in self.held:
            self.refused.pop(call_id, None)
        for answer, entry in zip(given, entries, strict=True):
            if text := _refusal(answer, entry):
                self.refused.update(dict.fromkeys(self.holds.get(entry.interrupt_id, ()), text))

    def retire(self, *, unless_asked: Iterable[Interrupt] = ()) -> None:
        """The answers that are owed were consumed, and with them their questions, but for those asked again since."""
        answered = {entry.interrupt_id for entry in self.owed} - {interrupt.id for interrupt in unless_asked}
        self.pending = tuple(interrupt for interrupt in self.pending if interrupt.id not in answered)
        self.holds = {name: calls for name, calls in self.holds.items() if name not in answered}
        self.owed, self.reached_the_agent = (), False

    def ask(self, interrupts: Iterable[Interrupt], unanswered: Sequence[str]) -> None:
        """A run ended by asking: its questions take the place of all others. `unanswered` are the calls of the run."""
        self.pending = tuple(interrupt.model_copy(deep=True) for interrupt in interrupts)
        self.holds = {
            interrupt.id: tuple(unanswered) if interrupt.tool_call_id is None else (interrupt.tool_call_id,)
            for interrupt in self.pending
        }
        if {entry.interrupt_id for entry in self.owed} != set(self.holds):
            self.owed, self.reached_the_agent = (), False

    def abandon(self) -> tuple[Interrupt, ...]:
        """Give all questions up on this side; the calls they held count as refused."""
        dropped = self.pending
        self.refused.update(dict.fromkeys(self.held, ABANDONED))
        self.pending, self.owed, self.holds, self.reached_the_agent = (), (), {}, False
        return dropped

    def carried(self, entries: Sequence[ResumeEntry], forwarded_props: Any) -> tuple[list[ResumeEntry] | None, Any]:
        """How a request says these entries: as `resume`, or, to an older server, as a command in forwarded props."""
        if not entries:
            return None, forwarded_props
        if not any(map(is_legacy, self.pending)):
            return list(entries), forwarded_props
        props = dict(cast("Mapping[str, Any]", forwarded_props)) if isinstance(forwarded_props, Mapping) else {}
        command: Any = props.get("command")
        before = dict(cast("Mapping[str, Any]", command)) if isinstance(command, Mapping) else {}
        return None, {**props, "command": {**before, "resume": entries[0].payload}}


def _refusal(answer: Answer | ResumeEntry, entry: ResumeEntry) -> str | None:
    """What is written at the calls of a question that was answered with no, or not at all; None for any other."""
    if entry.status == "cancelled":
        return ABANDONED
    if isinstance(answer, Answer):
        reason = answer.value if answer.kind == "deny" else None
        return None if answer.kind != "deny" else DENIED if reason is None else f"{DENIED}: {reason}"
    payload = entry.payload
    says_no = payload is False or (
        isinstance(payload, Mapping) and cast("Mapping[str, Any]", payload).get("approved") is False
    )
    if not says_no:
        return None
    reason = decide(entry).reason
    return DENIED if reason is None else f"{DENIED}: {reason}"


# -- questions of servers older than outcomes --------------------------------------------------------------------------


def is_legacy(interrupt: Interrupt) -> bool:
    """Whether a question came by a CUSTOM event, and its answer goes by a command (S-106)."""
    return interrupt.metadata is not None and interrupt.metadata.get("legacy") is True


def legacy_questions(run_id: str, values: Sequence[Any]) -> tuple[Interrupt, ...]:
    """The questions that CUSTOM events named `on_interrupt` ask in a run that finished without an outcome."""
    return tuple(_legacy_question(f"legacy:{run_id}:{number}", value) for number, value in enumerate(values))


def _legacy_question(name: str, value: Any) -> Interrupt:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):  # then it is text, and not JSON text
            value = json.loads(value)
    said: Any = cast("dict[str, Any]", value).get("message") if isinstance(value, dict) else value
    return Interrupt(
        id=name,
        reason="langgraph:interrupt",
        message=said if isinstance(said, str) else None,
        metadata={"legacy": True, "value": value},
    )


def _refuse_what_a_command_cannot_say(entries: Sequence[ResumeEntry]) -> None:
    way_out = "use abandon_interrupts(), or have the server send interrupt outcomes"
    if len(entries) > 1:
        problem = f"several questions of this kind cannot be answered at once; {way_out}"
    elif entries[0].status == "cancelled":
        problem = f"a question of this kind cannot be given up on the wire; {way_out}"
    elif entries[0].payload is None:
        problem = f"an answer to a question of this kind cannot be null; {way_out}"
    else:
        return
    raise ResumeError(problem, invalid=[(entry.interrupt_id, "", problem) for entry in entries])
