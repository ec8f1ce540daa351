"""Whether a conversation is one that can be sent back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ag_ui.core import AssistantMessage, Message, ToolMessage, UserMessage

from handrail.messages import as_messages

__all__ = ["check_messages"]


def check_messages(messages: Iterable[Message | Mapping[str, Any]], open: Collection[str] = ()) -> list[str]:
    """What is wrong with a conversation: a sentence for each violation of L-141, none if it is right.

    Every call is followed, before the next user or assistant message, by exactly one tool message with its id, in call
    order; every id is there once. `open` are the ids of calls that must have no answer: those of `interrupts` and
    `pending_calls` of an outcome. Raises `ValueError` for a mapping that is no message.
    """
    given = list(messages)
    conversation = as_messages(given) if given else []
    return [f"L-141: {wrong}" for rule in (_ids, _answers) for wrong in rule(conversation, open)]


def _ids(messages: list[Message], open: Collection[str]) -> Iterator[str]:
    calls = [call.id for message in messages for call in _calls_of(message)]
    for what, ids in (("message id", [message.id for message in messages]), ("call id", calls)):
        yield from (f"{what} {id} is used {count} times" for id, count in Counter(ids).items() if count > 1)
    yield from (f"{id} is to be open, and is no call" for id in open if id not in calls)


def _answers(messages: list[Message], open: Collection[str]) -> Iterator[str]:
    due: list[str] = []  # calls of the last turn that have no answer yet, in order
    answered: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            yield from _judged(message.tool_call_id, index, due, answered, open)
        elif isinstance(message, (UserMessage, AssistantMessage)):
            yield from _left(due, open)
            due = [call.id for call in _calls_of(message)]
    yield from _left(due, open)


def _judged(id: str, index: int, due: list[str], answered: set[str], open: Collection[str]) -> Iterator[str]:
    expected = next((call for call in due if call not in open), None)
    if id in answered:
        yield f"message {index} answers call {id} again"
    elif id in open:
        yield f"message {index} answers call {id}, which is to be open"
    elif id not in due:
        yield f"message {index} answers {id}, which is no call of the turn before it"
    elif id != expected:
        yield f"message {index} answers call {id} before call {expected}"
    answered.add(id)
    if id in due:
        due.remove(id)


def _left(due: list[str], open: Collection[str]) -> Iterator[str]:
    yield from (f"call {id} has no answer before the turn that follows" for id in due if id not in open)


def _calls_of(message: Message) -> list[Any]:
    return (message.tool_calls or []) if isinstance(message, AssistantMessage) else []
