"""Questions of an agent and their answers: what an answer says on the wire, and when a set of answers is refused.

A run can end by asking: its outcome lists interrupts, and the next request carries a `ResumeEntry` for each. People
answer with `approve`, `deny`, `edit`, `answer` or `abandon`, which only record what was decided and about what. The
payload is built later, from the interrupt itself, because its `responseSchema` says what the asker wants to hear.

A set of answers must fit the open questions exactly (P-64). `entries_for` holds it against these, in this order, and
raises before anything is sent: an id twice, no question open, an id unknown, a question left out, a question expired,
a payload that the schema refuses. Omission is not abandonment; `abandon` is.

Both ends stand on this: a session builds what it sends, a loop reads what it was sent (`decide`, L-122).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from ag_ui.core import Interrupt, ResumeEntry

from handrail.agui._instants import aware, read_instant
from handrail.agui._schema import is_valid, type_names, violations
from handrail.errors import NotInterruptedError, ResumeError

__all__ = [
    "Answer",
    "Decision",
    "abandon",
    "answer",
    "approve",
    "decide",
    "deny",
    "edit",
    "entries_for",
    "entry_for",
    "is_expired",
    "refuse_duplicates",
    "unsent_reason",
]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was decided about one question. Made by `approve`, `deny`, `edit`, `answer` and `abandon`."""

    interrupt_id: str
    kind: Literal["approve", "deny", "edit", "answer", "abandon"]
    value: Any = None
    """Of deny the reason, of edit the arguments, of answer the value; else None."""


def approve(interrupt: Interrupt | str) -> Answer:
    """Says yes to a question; `interrupt` is the `Interrupt` or its id."""
    return Answer(_id_of(interrupt), "approve")


def deny(interrupt: Interrupt | str, reason: str | None = None) -> Answer:
    """Says no to a question. It is an answer: the agent goes on, and is told the reason where the question allows."""
    if reason is not None and not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
        raise TypeError(f"deny() takes a reason as text, not {type(reason).__name__}")
    return Answer(_id_of(interrupt), "deny", reason)


def edit(interrupt: Interrupt | str, args: Mapping[str, Any]) -> Answer:
    """Says yes with other arguments: `args` replaces those of the call as a whole. They are copied."""
    if not isinstance(args, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise TypeError(f"edit() takes the arguments as a mapping, not {type(args).__name__}")
    return Answer(_id_of(interrupt), "edit", deepcopy(dict(args)))


def answer(interrupt: Interrupt | str, value: Any) -> Answer:
    """Answers a question with any JSON value, as its response schema asks for. It is copied; None sends no payload."""
    return Answer(_id_of(interrupt), "answer", deepcopy(value))


def abandon(interrupt: Interrupt | str) -> Answer:
    """Gives a question up without answering it; the only thing an expired question still takes."""
    return Answer(_id_of(interrupt), "abandon")


def _id_of(interrupt: Interrupt | str) -> str:
    if isinstance(interrupt, Interrupt):
        return interrupt.id
    if isinstance(interrupt, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        return interrupt
    raise TypeError(f"an interrupt is named by the Interrupt or its id, not by {type(interrupt).__name__}")


def is_expired(interrupt: Interrupt, now: datetime) -> bool:
    """Whether a question can no longer be resolved at `now` (S-86): a naive time means UTC, no date never expires."""
    expires = read_instant(interrupt.expires_at or "")
    return expires is not None and expires <= aware(now)


def refuse_duplicates(answers: Iterable[Answer | ResumeEntry]) -> None:
    """Raises `ResumeError(.duplicate)` when two answers name one question; needs no knowledge of the thread."""
    counts = Counter(given.interrupt_id for given in answers)
    if duplicate := tuple(name for name, count in counts.items() if count > 1):
        raise ResumeError(f"answered more than once: {_listed(duplicate)}; give each one answer", duplicate=duplicate)


def entries_for(
    answers: Sequence[Answer | ResumeEntry], pending: Sequence[Interrupt], *, now: datetime, validate: bool = True
) -> tuple[ResumeEntry, ...]:
    """The entries of a resume request, in the order of `answers`; `validate=False` skips the response schemas.

    Raises `NotInterruptedError`, or `ResumeError` with all ids of the first kind of breach found (S-84); nothing was
    changed then, and nothing may be sent.
    """
    refuse_duplicates(answers)
    if not pending:
        raise NotInterruptedError("there is no open question to answer; use run() or send()")
    open_questions = {interrupt.id: interrupt for interrupt in pending}
    given = [one.interrupt_id for one in answers]
    if unknown := tuple(name for name in given if name not in open_questions):
        raise ResumeError(
            f"no such open question: {_listed(unknown)}; open: {_listed(open_questions)}", unknown=unknown
        )
    if uncovered := tuple(name for name in open_questions if name not in given):
        raise ResumeError(
            f"left without an answer: {_listed(uncovered)}; to give one up, abandon it", uncovered=uncovered
        )
    if expired := tuple(
        one.interrupt_id for one in answers if not _gives_up(one) and is_expired(open_questions[one.interrupt_id], now)
    ):
        raise ResumeError(f"expired: {_listed(expired)}; only abandon() is left", expired=expired)
    return _built(answers, open_questions, validate)


def _listed(ids: Iterable[str]) -> str:
    return ", ".join(map(repr, ids))


def _gives_up(given: Answer | ResumeEntry) -> bool:
    return given.kind == "abandon" if isinstance(given, Answer) else given.status == "cancelled"


def _built(
    answers: Sequence[Answer | ResumeEntry], open_questions: Mapping[str, Interrupt], validate: bool
) -> tuple[ResumeEntry, ...]:
    entries: list[ResumeEntry] = []
    invalid: list[tuple[str, str, str]] = []
    for given in answers:
        interrupt = open_questions[given.interrupt_id]
        try:
            entry = entry_for(given, interrupt)
        except ResumeError as refusal:
            invalid.extend(refusal.invalid)
            continue
        entries.append(entry)
        if validate and entry.status == "resolved" and interrupt.response_schema is not None:
            found = violations(entry.payload, interrupt.response_schema)
            invalid.extend((entry.interrupt_id, path, problem) for path, problem in found)
    if invalid:
        raise _invalid(invalid)
    return tuple(entries)


def _invalid(problems: Sequence[tuple[str, str, str]]) -> ResumeError:
    told = "; ".join(f"{name!r} at {path or 'the top'}: {problem}" for name, path, problem in problems)
    return ResumeError(f"answers that do not fit their questions: {told}", invalid=problems)


def entry_for(given: Answer | ResumeEntry, interrupt: Interrupt) -> ResumeEntry:
    """What an answer says on the wire, its payload shaped by the interrupt's response schema (S-87, S-89, S-90).

    A `ResumeEntry` is taken as it is. Neither expiry nor schema is judged here. Raises `ResumeError(.invalid)` where
    the schema has no place for what was decided, or a cancelled entry carries a payload.
    """
    if isinstance(given, ResumeEntry):
        if given.status == "cancelled" and given.payload is not None:
            raise _invalid([(given.interrupt_id, "", "a cancelled entry carries no payload")])
        return given.model_copy(deep=True)
    if given.kind == "abandon":
        return ResumeEntry(interrupt_id=given.interrupt_id, status="cancelled")
    payload = _payload(given, interrupt)
    if payload is None:
        return ResumeEntry(interrupt_id=given.interrupt_id, status="resolved")
    return ResumeEntry(interrupt_id=given.interrupt_id, status="resolved", payload=payload)


def _payload(given: Answer, interrupt: Interrupt) -> Any:
    schema = interrupt.response_schema
    if given.kind == "answer":
        return given.value
    if given.kind == "edit":
        if "editedArgs" not in _properties(schema):
            raise _invalid(
                [(given.interrupt_id, "/editedArgs", "the question takes no edited arguments; use answer()")]
            )
        return {"approved": True, "editedArgs": given.value}
    approved = given.kind == "approve"
    if schema is not None and type_names(schema) == ("boolean",):
        return approved
    payload: dict[str, Any] = {_approval_name(given, schema): approved}
    if given.kind == "deny" and given.value is not None and _allows_reason(schema, given.value):
        payload["reason"] = given.value
    return payload


def _approval_name(given: Answer, schema: Mapping[str, Any] | None) -> str:
    """The property that carries yes or no: `approved`, else the only boolean one that is required."""
    if schema is None:
        return "approved"
    required = schema.get("required")
    names = [name for name, rules in _properties(schema).items() if "boolean" in type_names(rules)]
    if "approved" in names:
        return "approved"
    needed = [name for name in names if isinstance(required, list) and name in required]
    if len(needed) == 1:
        return needed[0]
    raise _invalid([(given.interrupt_id, "", "the question is not one of yes or no; use answer()")])


def _properties(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The properties of an object schema, {} of any other."""
    if schema is None or type_names(schema) not in ((), ("object",)):
        return {}
    return _object(schema.get("properties"))


def _allows_reason(schema: Mapping[str, Any] | None, reason: str) -> bool:
    if schema is None or "reason" in _properties(schema):
        return True
    return is_valid(reason, schema.get("additionalProperties"))


def unsent_reason(given: Answer | ResumeEntry, entry: ResumeEntry) -> str | None:
    """The reason of a denial that its entry has no place for (S-89), else None."""
    if not isinstance(given, Answer) or given.kind != "deny" or given.value is None:
        return None
    return None if "reason" in _object(entry.payload) else given.value


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Decision:
    """What an entry decides about a tool call that needs an approval."""

    kind: Literal["approved", "denied", "withdrawn"]
    edited: bool = False
    """Whether `arguments` replaces those of the call as a whole; it is not checked here."""
    arguments: Any = None
    reason: str | None = None


def decide(entry: ResumeEntry) -> Decision:
    """Reads an entry for a tool call (L-122). Only a `resolved` one whose `payload.approved` is exactly True approves;
    everything that is neither that nor `cancelled` is a denial."""
    if entry.status == "cancelled":
        return Decision("withdrawn")
    payload = _object(entry.payload)
    if payload.get("approved") is True:
        return Decision("approved", "editedArgs" in payload, payload.get("editedArgs"))
    reason = payload.get("reason")
    return Decision("denied", reason=reason if isinstance(reason, str) else None)
