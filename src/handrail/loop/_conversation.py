"""The conversation of one run: the one place where messages are added to it.

A message that is in is never changed or removed. Next to the messages stands what a provider is shown of them, kept
along so that a request costs no walk over the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ag_ui.core import ActivityMessage, AssistantMessage, Message, ToolCall, ToolMessage

__all__ = ["Conversation", "unanswered"]


class Conversation:
    """`messages` is everything, `shown` what goes to a model; `final` is read by `last_text` and `last_words`."""

    __slots__ = ("_calls", "last_text", "last_words", "messages", "shown")

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages: list[Message] = []
        self.shown: list[Message] = []
        self.last_text = ""
        """The text of the turn committed last."""
        self.last_words = ""
        """The last committed text that is not empty."""
        self._calls: dict[str, int] = {}
        for message in messages:
            self._store(message)

    def append(self, message: Message) -> None:
        """Add a message at the end."""
        self._store(message)
        if isinstance(message, AssistantMessage):
            self.last_text = message.content or ""
            self.last_words = self.last_text or self.last_words

    def _store(self, message: Message) -> None:
        self.messages.append(message)
        if not isinstance(message, ActivityMessage):
            self.shown.append(message)
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls or ():
                self._calls[call.id] = len(self._calls)

    def answer(self, answer: ToolMessage) -> None:
        """Add the answer to a call of the last turn with calls: among its tool messages, in call order."""
        order = self._calls
        for listed in (self.messages, self.shown):
            place = len(listed)
            while not isinstance(listed[place - 1], (ToolMessage, AssistantMessage)):
                place -= 1
            while _is_behind(listed[place - 1], answer, order):
                place -= 1
            listed.insert(place, answer)

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
