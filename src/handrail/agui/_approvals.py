"""What a person is asked about a tool call, and what counts as an answer; for loops, and for a client's own tools.

The question's id is the call's: an answer finds its call without anyone remembering the question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, TypeAlias

from ag_ui.core import Interrupt, ResumeEntry, ToolCall

from handrail.agui._interrupts import Answer, entry_for, refuse_duplicates

__all__ = ["Ask", "Given", "as_answers", "entry_from_person", "entry_of", "question", "refusal"]

Given: TypeAlias = Answer | ResumeEntry
Ask: TypeAlias = Callable[[Interrupt], Any]

_RESPONSE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object"},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}


def question(call: ToolCall, arguments: Mapping[str, Any]) -> Interrupt:
    """What a person is asked about a call whose arguments have been checked."""
    name = call.function.name
    return Interrupt(
        id=call.id,
        reason="tool_call",
        tool_call_id=call.id,
        message=f"May the tool {name} be run with {call.function.arguments.strip() or '{}'}?",
        response_schema=deepcopy(_RESPONSE_SCHEMA),
        metadata={"toolName": name, "arguments": deepcopy(dict(arguments))},
    )


def as_answers(given: Iterable[object]) -> dict[str, Given]:
    """The answers that a caller passed in, by the id of their question.

    Raises `TypeError` for what is no answer and `ResumeError` (a `ValueError`) for two answers to one question.
    """
    answers: list[Given] = []
    for one in given:
        if not isinstance(one, Answer | ResumeEntry):
            raise TypeError(
                f"an answer is what approve, deny, edit, answer or abandon return, or a ResumeEntry, "
                f"not {type(one).__name__}"
            )
        answers.append(one.model_copy(deep=True) if isinstance(one, ResumeEntry) else one)
    refuse_duplicates(answers)
    return {one.interrupt_id: one for one in answers}


def entry_of(given: Given, interrupt: Interrupt) -> ResumeEntry:
    """An answer as the entry that is decided on; an entry is taken at its word."""
    return given if isinstance(given, ResumeEntry) else entry_for(given, interrupt)


def entry_from_person(said: object, interrupt: Interrupt) -> ResumeEntry:
    """What `ask` returned, as an entry. What is no answer to this question is a denial: silence approves nothing."""
    if said is True or said is False:
        return ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload={"approved": said})
    if isinstance(said, Answer | ResumeEntry) and said.interrupt_id == interrupt.id:
        return entry_of(said, interrupt)
    return refusal(interrupt, f"the answer was a {type(said).__name__}, which is neither yes nor no")


def refusal(interrupt: Interrupt, reason: str) -> ResumeEntry:
    """A denial in nobody's name, with the reason."""
    return ResumeEntry(interrupt_id=interrupt.id, status="resolved", payload={"approved": False, "reason": reason})
