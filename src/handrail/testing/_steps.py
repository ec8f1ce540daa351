"""What a scripted model does: small values, made by small functions, played in order.

A step is one answer of the model: one of these, or a sequence of them. `deltas` says what a move sends; a move that has
to wait or to fail does that first. Indices of calls are given when the step is played.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, TypeAlias, cast, get_args
from uuid import uuid4

import anyio

from handrail.errors import BackendError
from handrail.loop._attempts import ERROR_KINDS
from handrail.loop._backend import (
    Delta,
    FinishDelta,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageDelta,
)
from handrail.run import Settled
from handrail.run._settled import settle
from handrail.tools._settings import require_number

__all__ = [
    "Gate",
    "Move",
    "Pause",
    "Step",
    "call",
    "cut",
    "delay",
    "fail",
    "finish",
    "gate",
    "gates_made",
    "moves_of",
    "reasoning",
    "stall",
    "text",
    "usage",
]

Sleep: TypeAlias = Callable[[float], Awaitable[object]]


class Pause(ABC):
    """A move that sends nothing: it waits, or raises."""

    __slots__ = ()

    @abstractmethod
    async def pause(self, sleep: Sleep) -> None:
        """Do so; `sleep` is on the loop's clock."""


@dataclass(frozen=True, slots=True)
class Says:
    """A move that sends deltas."""

    deltas: tuple[Delta, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of the stream, with no finish reason."""


@dataclass(frozen=True, slots=True)
class _Failure(Pause):
    error: BaseException

    async def pause(self, sleep: Sleep) -> None:
        raise self.error


@dataclass(frozen=True, slots=True)
class _Delay(Pause):
    seconds: float

    async def pause(self, sleep: Sleep) -> None:
        await sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class _Stall(Pause):
    async def pause(self, sleep: Sleep) -> None:
        await anyio.sleep_forever()


class Gate(Pause):
    """Silence until `open()`. `reached` is set when somebody came here, `opened` when they may go on.

    A place to hold tools as well as scripts: `await gate` in a task, `gate.wait()` in a thread. Opening is for any
    thread, and for good.
    """

    def __init__(self) -> None:
        self.reached: Settled[None] = Settled()
        self.opened: Settled[None] = Settled()

    def open(self) -> None:
        """Let everybody go on."""
        settle(self.opened, None)

    def wait(self, timeout: float | None = None) -> None:
        """Arrive, and block this thread until it is open; `TimeoutError` after `timeout` seconds."""
        settle(self.reached, None)
        self.opened.wait(timeout)

    def __await__(self) -> Generator[Any, Any, None]:
        settle(self.reached, None)
        return self.opened.__await__()

    async def pause(self, sleep: Sleep) -> None:
        """Arrive, and wait until it is open."""
        await self

    def __repr__(self) -> str:
        return f"<Gate {'open' if self.opened.is_set else 'reached' if self.reached.is_set else 'not reached'}>"


Move: TypeAlias = Says | Cut | Pause
Step: TypeAlias = Move | Sequence[Move]

gates_made: ContextVar[list[Gate] | None] = ContextVar("handrail_gates_made", default=None)
"""Where `gate()` writes down what it made, for whoever has to open them all; None: nowhere."""


def text(*fragments: str) -> Move:
    """The model says this, fragment by fragment."""
    _require_texts("text()", fragments)
    return Says(tuple(TextDelta(fragment) for fragment in fragments))


def reasoning(*fragments: str) -> Move:
    """The model thinks this aloud, fragment by fragment."""
    _require_texts("reasoning()", fragments)
    return Says(tuple(ReasoningDelta(fragment) for fragment in fragments))


def call(
    name: str,
    arguments: Mapping[str, Any] | str | None = {},  # read, never kept
    id: str | None = None,
    fragments: int | Sequence[str] | None = None,
) -> Move:
    """The model calls a tool. A dict goes out as JSON, a str verbatim, None as no arguments; `id` is a fresh one.

    `fragments` sends the argument text in so many pieces, or in exactly these (then `arguments` is not used).
    """
    _require_texts("the name of call()", (name,))
    _require_texts("the id of call()", () if id is None else (id,))
    if not isinstance(arguments, (str, Mapping, NoneType)):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise TypeError(f"the arguments of call() are a dict, JSON text or None, not {arguments!r}")
    first = ToolCallDelta(index=0, id=f"call-{uuid4().hex[:12]}" if id is None else id, name=name)
    written = json.dumps(arguments) if isinstance(arguments, Mapping) else arguments
    if fragments is None:
        return Says((replace(first, arguments=written),))
    pieces = _pieces(written or "", fragments) if isinstance(fragments, int) else fragments
    _require_texts("the fragments of call()", pieces)
    return Says((first, *(ToolCallDelta(index=0, arguments=piece) for piece in pieces)))


def usage(
    prompt: int | None = None,
    completion: int | None = None,
    total: int | None = None,
    cached: int | None = None,
    cost: Any = None,
) -> Move:
    """The provider reports what the answer used so far; what is not given is not reported."""
    found = Usage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=total, cached_prompt_tokens=cached, cost=cost
    )
    return Says((UsageDelta(found),))


def finish(reason: FinishReason, model: str | None = None) -> Move:
    """The finish reason; without one a step ends with "tool-calls" if there was a call, else "stop"."""
    if reason not in get_args(FinishReason):
        raise ValueError(f"a finish reason is one of {', '.join(get_args(FinishReason))}, not {reason!r}")
    return Says((FinishDelta(reason, model),))


def cut() -> Move:
    """The stream ends here without a finish reason."""
    return Cut()


def fail(
    failure: str | BaseException = "other",
    status: int | None = None,
    message: str | None = None,
    retry_after: float | None = None,
) -> Move:
    """The stream fails here: with the exception given, or with a `BackendError` of this kind."""
    if isinstance(failure, BaseException):
        return _Failure(failure)
    if not isinstance(failure, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a class is easily taken for its exception
        raise TypeError(f"fail() takes an exception that was made, or a kind of BackendError, not {failure!r}")
    if failure not in ERROR_KINDS:
        raise ValueError(f"fail() takes a kind of BackendError, {', '.join(ERROR_KINDS)}, not {failure!r}")
    said = f"scripted failure: {failure}" if message is None else message
    return _Failure(BackendError(said, failure, status=status, retry_after=retry_after))


def delay(seconds: float) -> Move:
    """Silence for so long on the loop's clock."""
    require_number(seconds, "delay()", "it is a number of seconds, not below 0")
    return _Delay(seconds)


def stall() -> Move:
    """Silence until the stream is closed."""
    return _Stall()


def gate() -> Gate:
    """Silence until somebody opens it: keep it, `await gate.reached`, and call `gate.open()`."""
    made = Gate()
    listening = gates_made.get()
    if listening is not None:
        listening.append(made)
    return made


def moves_of(step: object, number: int) -> tuple[Move, ...]:
    """A step as its moves; `TypeError` for anything that no maker made, naming the step."""
    moves: tuple[object, ...] = tuple(cast("Sequence[object]", step)) if isinstance(step, (list, tuple)) else (step,)
    for move in moves:
        if not isinstance(move, (Says, Cut, Pause)):
            raise TypeError(f"step {number} holds {move!r}: steps are made with text(), call(), fail() and their like")
    return cast("tuple[Move, ...]", moves)


def played(moves: Iterable[Move]) -> list[Delta | Pause]:
    """The deltas and pauses of one answer: calls numbered in order, the finish that was left out put in."""
    out: list[Delta | Pause] = []
    calls = 0
    finished = False
    for move in moves:
        if isinstance(move, Cut):
            return out
        if isinstance(move, Says):
            out.extend(replace(d, index=calls) if isinstance(d, ToolCallDelta) else d for d in move.deltas)
            calls += any(isinstance(d, ToolCallDelta) for d in move.deltas)
            finished = finished or any(isinstance(d, FinishDelta) for d in move.deltas)
        else:
            out.append(move)
    return out if finished else [*out, FinishDelta("tool-calls" if calls else "stop")]


def _require_texts(what: str, texts: Iterable[object]) -> None:
    for said in texts:
        if not isinstance(said, str):
            raise TypeError(f"{what} is made of strings, not {said!r}")


def _pieces(written: str, count: int) -> list[str]:
    size = max(1, -(-len(written) // max(1, count)))
    return [written[start : start + size] for start in range(0, len(written), size)]
