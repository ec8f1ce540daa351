"""One answer on the wire: what of it is open, and what was said so far (P-86, P-87).

Text and reasoning are two messages. Reasoning comes in stretches, each a span of its own round the same message, and
ends where text goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from ag_ui.core import (
    Event,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from handrail.agui._encode import Delta

__all__ = ["Answer"]


class Answer:
    """The answer with the id `message_id`; its events go to `emit`.

    `before_opening` is called before anything of it is opened, `new_id` names the spans.
    """

    __slots__ = (
        "_before_opening",
        "_emit",
        "_is_open",
        "_new_id",
        "_span",
        "has_reasoning",
        "has_text",
        "id",
        "reasoning",
        "reasoning_id",
        "text",
    )

    def __init__(
        self,
        message_id: str,
        *,
        emit: Callable[[Event], None],
        before_opening: Callable[[], None],
        new_id: Callable[[], str],
    ) -> None:
        self.id = message_id
        self.reasoning_id = f"{message_id}:reasoning"
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.has_text = self.has_reasoning = False
        self._is_open = False
        self._span: str | None = None
        self._emit = emit
        self._before_opening = before_opening
        self._new_id = new_id

    def say(self, text: str) -> Delta:
        """More text."""
        self.open_text()
        delta = TextMessageContentEvent(message_id=self.id, delta=text)
        self._emit(delta)
        self.text.append(text)
        return delta

    def think(self, text: str) -> Delta:
        """More reasoning."""
        self.open_reasoning()
        delta = ReasoningMessageContentEvent(message_id=self.reasoning_id, delta=text)
        self._emit(delta)
        self.reasoning.append(text)
        return delta

    def open_text(self) -> None:
        self.close_reasoning()
        if not self._is_open:
            self._before_opening()
            self._emit(TextMessageStartEvent(message_id=self.id, role="assistant"))
            self._is_open = self.has_text = True

    def open_reasoning(self) -> None:
        if self._span is None:
            self._before_opening()
            span = self._new_id()
            self._emit(ReasoningStartEvent(message_id=span))
            self._emit(ReasoningMessageStartEvent(message_id=self.reasoning_id, role="reasoning"))
            self._span, self.has_reasoning = span, True

    def close_reasoning(self) -> None:
        if self._span is not None:
            span, self._span = self._span, None
            self._emit(ReasoningMessageEndEvent(message_id=self.reasoning_id))
            self._emit(ReasoningEndEvent(message_id=span))

    def close(self) -> None:
        """Closes what is open, innermost first."""
        self.close_reasoning()
        if self._is_open:
            self._is_open = False
            self._emit(TextMessageEndEvent(message_id=self.id))
