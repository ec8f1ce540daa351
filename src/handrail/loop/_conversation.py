"""The conversation of one run: the one place where messages are added to it.

A message that is in is never changed or removed. Next to the messages stands what a provider is shown of them, made of
what is new when there is a request, so that none costs a walk over the history. It is a copy: a backend that writes on
it changes no outcome. And it can be encoded: half of a surrogate pair, which a history may well have, would fail every
request from then on. Answers go between messages that no request has shown yet: a turn with calls is followed by no
request before all of them are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    Context,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

from handrail.agui._models import instance
from handrail.agui._text import whole

__all__ = ["Conversation", "preamble", "unanswered"]


def shown(part: Any) -> Any:
    """A message, or a part of one, as a provider is shown it: a copy of all of it that any encoding takes."""
    if isinstance(part, str):
        return whole(part)
    if isinstance(part, dict):
        return {key: shown(value) for key, value in cast("dict[Any, Any]", part).items()}
    if isinstance(part, list):
        return [shown(value) for value in cast("list[Any]", part)]
    if not hasattr(part, "__pydantic_fields_set__"):
        return part
    model: Any = part  # no `cast`: this is done for every message
    fields = dict(model.__dict__)
    for name, value in fields.items():
        if value is not None and not (isinstance(value, str) and value.isascii()):
            fields[name] = shown(value)
    further = model.__pydantic_extra__
    return instance(model.__class__, fields, set(model.__pydantic_fields_set__), shown(further) if further else {})


class Conversation:
    """`messages` is everything, `shown()` what goes to a model; `final` is read by `last_text` and `last_words`."""

    __slots__ = ("_calls", "_ids", "_is_shown", "_shown", "last_text", "last_words", "messages")

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages: list[Message] = []
        self._shown: list[Message] = []
        self._is_shown = 0
        """How many of the messages `_shown` was made of."""
        self.last_text = ""
        """The text of the turn committed last."""
        self.last_words = ""
        """The last committed text that is not empty."""
        self._calls: dict[str, int] = {}
        self._ids: set[str] = set()
        for message in messages:
            self._store(message)

    def append(self, message: Message) -> None:
        """Add a message at the end."""
        self._store(message)
        if isinstance(message, AssistantMessage):
            self.last_text = message.content or ""
            self.last_words = self.last_text or self.last_words

    def append_steer(self, message: UserMessage, new_id: Callable[[], str]) -> UserMessage:
        """Add a turn that somebody gave from outside, under an id of its own: theirs may be in use already."""
        if message.id in self._ids:
            message = message.model_copy(update={"id": new_id()})
        self.append(message)
        return message

    def _store(self, message: Message) -> None:
        self.messages.append(message)
        self._ids.add(message.id)
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls or ():
                self._calls[call.id] = len(self._calls)

    def shown(self) -> list[Message]:
        """What goes to a model; not to be changed, but for the messages in it."""
        new = self.messages[self._is_shown :]
        self._shown += [shown(message) for message in new if not isinstance(message, ActivityMessage)]
        self._is_shown += len(new)
        return self._shown

    def answer(self, answer: ToolMessage) -> None:
        """Add the answer to a call of the last turn with calls: among its tool messages, in call order."""
        messages, order = self.messages, self._calls
        place = len(messages)
        while not isinstance(messages[place - 1], (ToolMessage, AssistantMessage)):
            place -= 1
        while _is_behind(messages[place - 1], answer, order):
            place -= 1
        messages.insert(place, answer)

    def has_call(self, call_id: str) -> bool:
        """Whether the id of a call is taken."""
        return call_id in self._calls


def _is_behind(message: Message, answer: ToolMessage, order: dict[str, int]) -> bool:
    return isinstance(message, ToolMessage) and order[message.tool_call_id] > order[answer.tool_call_id]


def unanswered(messages: Sequence[Message]) -> list[ToolCall]:
    """The calls of the last assistant message that have no answer, in order."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, AssistantMessage):
            answered = {later.tool_call_id for later in messages[place:] if isinstance(later, ToolMessage)}
            return [call for call in message.tool_calls or () if call.id not in answered]
    return []


def preamble(system: str | None, context: Sequence[Context], new_id: Callable[[], str]) -> tuple[SystemMessage, ...]:
    """The one system turn that is on the wire only: the loop's own, then a block for each context item."""
    blocks = [f"{item.description}:\n{item.value}" for item in context]
    content = "\n\n".join([system, *blocks] if system else blocks)
    return (SystemMessage(id=new_id(), content=whole(content)),) if content else ()
