"""One attempt's stream, read in a task of its own.

The stream is opened, read and closed in that one task. The loop looks on: when the stream has ended or failed it is
told at once, and the closing goes on beside it. When the loop has had enough (cancelled, silent for too long) it
abandons the stream: from then on nothing that still comes is published, and the task is cancelled and left to close.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from handrail.errors import BackendError
from handrail.loop._backend import (
    Backend,
    BackendRequest,
    Delta,
    FinishDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
    merged,
)
from handrail.loop._drafts import ReasoningToken, Token
from handrail.loop._driver import LoopDriver
from handrail.loop._sound import check_sound
from handrail.loop._turn import Turn, without_half
from handrail.run._loops import checkpoint

__all__ = ["Stream"]

_logger = logging.getLogger("handrail.loop")

CLOSE_GRACE = 5.0
"""Seconds that closing a stream may take behind a failure or a cancellation."""

_LOST = "\ufffd"
"""What is told of half a character whose other half never came."""

_NO_FINISH = "the stream ended without a finish"


class Stream:
    """What an attempt's stream has said so far (`turn`), and once it `is_over`, with which error it failed, if so."""

    __slots__ = ("_backend", "_child", "_driver", "_is_complete", "_request", "last_sign", "turn")

    def __init__(self, driver: LoopDriver, backend: Backend, request: BackendRequest) -> None:
        self._driver = driver
        self._backend = backend
        self._request = request
        self._is_complete = False
        self.turn = Turn()
        self.last_sign = driver.monotonic()
        self._child = driver.start(self._live, f"stream {backend.model}")

    def is_over(self) -> bool:
        """Whether all has been read, or nothing more will be."""
        return self._is_complete or self._child.ended is not None

    def take_error(self) -> BaseException | None:
        """Why the stream that is over did not come to its finish; None if it did.

        It is told once and kept no longer: its traceback leads back to all that it went through, this stream as well.
        """
        if self._is_complete:
            return None if self.turn.finish is not None else BackendError(_NO_FINISH, "response")
        error = self._child.take_error()
        return error or BackendError(_NO_FINISH, "response")

    def abandon(self) -> None:
        """Close it, and hear no more of it; returns at once."""
        self._child.give_up()

    async def _live(self) -> None:
        stream = self._backend.stream(self._request)
        if not hasattr(stream, "__aenter__"):  # of an async generator, which is what is easily written
            given = f"stream() of {self._backend.model} gives {type(stream).__name__}"
            raise BackendError(f"{given}, not a context manager; decorate it with @asynccontextmanager", "misuse")
        deltas = await stream.__aenter__()
        try:
            await self._read(deltas)
        except BaseException as error:
            if not self._driver.is_at_home:  # the event loop was closed: nothing here can run any more
                raise
            # Not `async with`: the closing must not be cut short by the cancellation that led to it.
            await self._driver.children.clean_up(CLOSE_GRACE, partial(self._close_behind, stream, error))
            raise
        try:
            await stream.__aexit__(None, None, None)
        except Exception:
            if not self._is_complete:
                raise
            _logger.debug("stream %s: an error while closing, behind its end", self._backend.model, exc_info=True)

    async def _close_behind(self, stream: AbstractAsyncContextManager[object], error: BaseException) -> None:
        """Close behind an error. A backend may say there what it means, but nothing else hides what it said."""
        try:
            await stream.__aexit__(type(error), error, error.__traceback__)
        except Exception as closing:
            if not isinstance(error, BackendError) or isinstance(closing, BackendError):
                raise
            _logger.debug("stream %s: an error while closing, behind a failure", self._backend.model, exc_info=True)

    async def _read(self, deltas: AsyncIterator[Delta]) -> None:
        """The path of every token: no call that is not needed."""
        turn, child, driver = self.turn, self._child, self._driver
        round, attempt = self._request.round, self._request.attempt
        emit, now, monotonic = driver.emit, driver.now, driver.monotonic
        keep_text = turn.text_fragments.append
        try:
            async for delta in deltas:
                if child.is_given_up or driver.is_called_off:
                    await checkpoint()  # where a stream that never waits is stopped
                    if child.is_given_up:
                        continue
                self.last_sign = monotonic()
                if isinstance(delta, TextDelta) and isinstance(delta.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # or not sound
                    text = delta.text
                    if turn.cut_text or not text.isascii():
                        text, turn.cut_text = without_half(turn.cut_text + text)
                    keep_text(text)
                    if text or not delta.text:
                        emit(Token(ts=now(), text=text, round=round, attempt=attempt))
                    continue
                check_sound(delta)
                if isinstance(delta, ReasoningDelta):
                    text = turn.add_reasoning(delta)
                    if text or not delta.text:
                        emit(ReasoningToken(ts=now(), text=text, round=round, attempt=attempt))
                elif not isinstance(delta, TextDelta):
                    _add(turn, delta)
            if turn.cut_text:
                keep_text(_LOST)
                emit(Token(ts=now(), text=_LOST, round=round, attempt=attempt))
            if turn.cut_reasoning:
                turn.reasoning_fragments.append(_LOST)
                emit(ReasoningToken(ts=now(), text=_LOST, round=round, attempt=attempt))
            self._is_complete = True
            driver.news.wake_all()
        finally:
            # A generator that was left in the middle would else be closed by the garbage collector, in no task at all.
            close: Any = None if self._is_complete else getattr(deltas, "aclose", None)
            if close is not None:
                await close()


def _add(turn: Turn, delta: ToolCallDelta | UsageDelta | FinishDelta) -> None:
    match delta:
        case ToolCallDelta():
            turn.add_call(delta)
        case UsageDelta():
            turn.usage = merged(turn.usage, delta.usage)
        case FinishDelta():
            turn.add_finish(delta)
