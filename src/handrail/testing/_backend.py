"""A model that says what a script says: the whole loop runs, and nothing leaves the process."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType

import anyio
import anyio.lowlevel

from handrail.errors import BackendError
from handrail.loop._backend import BackendRequest, Delta
from handrail.testing._steps import Move, Pause, Sleep, Step, moves_of, played

__all__ = ["ScriptedBackend"]


class ScriptedBackend:
    """A `Backend` that plays one step for each request it gets, whatever was asked.

        backend = ScriptedBackend([[text("Let me look."), call("weather", {"city": "Rome"})], text("It is ", "warm.")])
        run = Loop(backends=[backend], tools=[weather]).run("How is Rome?")

    `requests` is what each request was, `opened` and `closed` count its streams; `push(step)` adds a step, also during
    a run. A request behind the last step fails with a `BackendError` of kind "misuse", never with an empty answer.
    Raises `TypeError` for a step that no maker made.
    """

    def __init__(self, steps: Iterable[Step] = (), model: str = "scripted", max_tokens: int | None = None) -> None:
        self.model = model
        self.max_tokens = max_tokens
        self.requests: list[BackendRequest] = []
        self.opened = 0
        self.closed = 0
        self._pushed = 0
        self._steps: deque[tuple[Move, ...]] = deque()
        for step in steps:
            self.push(step)

    def push(self, step: Step) -> None:
        """One more step, behind those that are left."""
        self._pushed += 1
        self._steps.append(moves_of(step, self._pushed))

    def stream(self, request: BackendRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Play the next step. What was asked is kept in `requests`."""
        self.requests.append(replace(request, messages=tuple(request.messages)))
        try:
            moves = self._steps.popleft()
        except IndexError:
            raise BackendError(
                f"request {len(self.requests)} finds no step: {self._pushed} were scripted for model {self.model!r}; "
                "give ScriptedBackend one more, or push() it",
                "misuse",
            ) from None
        return _Playback(self, moves, request.sleep or anyio.sleep)

    def __repr__(self) -> str:
        return f"<ScriptedBackend {self.model} {len(self._steps)} of {self._pushed} steps left>"


class _Playback:
    """One stream: the deltas of a step, with its silences and its failure."""

    def __init__(self, backend: ScriptedBackend, moves: Iterable[Move], sleep: Sleep) -> None:
        self._backend = backend
        self._left = iter(played(moves))
        self._sleep = sleep

    async def __aenter__(self) -> AsyncIterator[Delta]:
        self._backend.opened += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._backend.closed += 1

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        for move in self._left:
            if not isinstance(move, Pause):
                await anyio.lowlevel.checkpoint()
                return move
            await move.pause(self._sleep)
        raise StopAsyncIteration
