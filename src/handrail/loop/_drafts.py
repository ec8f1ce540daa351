"""Tokens while they are still in the hands of their maker."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from handrail.events import ReasoningToken, RunEvent, Token

__all__ = ["ReasoningTokenDraft", "TokenDraft"]


class TokenDraft(RunEvent):
    """A token in the hands of its maker, who gives it away: stamping does not copy it but makes it the event.

    Tokens are by far the most frequent events, and a frozen one costs several times what an open one does. So a token
    is filled while it is open, and frozen by becoming what it stands for. Not for anybody who keeps what they emit.
    """

    __slots__ = ("attempt", "round", "text")
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__
    _becomes: ClassVar[type[RunEvent]] = Token

    def __init__(self, ts: datetime, text: str, round: int, attempt: int) -> None:
        self.ts = ts  # pyright: ignore[reportAttributeAccessIssue]  # open, unlike its base
        self.text = text
        self.round = round
        self.attempt = attempt

    def stamped(self, run_id: str, seq: int) -> RunEvent:
        self.run_id = run_id  # pyright: ignore[reportAttributeAccessIssue]
        self.seq = seq  # pyright: ignore[reportAttributeAccessIssue]
        self.__class__ = self._becomes  # pyright: ignore[reportAttributeAccessIssue]  # the same slots
        return self


class ReasoningTokenDraft(TokenDraft):
    """The same for reasoning."""

    __slots__ = ()
    _becomes: ClassVar[type[RunEvent]] = ReasoningToken
