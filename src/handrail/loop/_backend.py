"""What the loop asks of a model: the `Backend` protocol, what it is given and what it gives back.

A backend opens one stream per attempt, as an async context manager, and yields deltas. A stream is complete when a
`FinishDelta` came and the iterator ended; anything else is a cut. It fails by raising `BackendError`; any other
exception is an attempt failure as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from ag_ui.core import Message

__all__ = [
    "NO_USAGE",
    "Backend",
    "BackendRequest",
    "Delta",
    "FinishDelta",
    "FinishReason",
    "ReasoningDelta",
    "TextDelta",
    "ToolCallDelta",
    "ToolSpec",
    "Usage",
    "UsageDelta",
    "cap_of",
    "merged",
]

_NUMBERS = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_prompt_tokens", "cost")

FinishReason: TypeAlias = Literal["stop", "tool-calls", "length", "content-filter", "other"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What one attempt used, as far as the provider said. None means "not reported" and is never taken for zero.

    A number below 0, which is what some servers write for "not known", is no report and becomes None.
    `cached_prompt_tokens` is a part of `prompt_tokens`. `cost` may be given as an int, a float (read through its
    text) or a `Decimal`; it is kept as a `Decimal`.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_prompt_tokens: int | None = None
    cost: Decimal | float | None = None
    provider: str | None = None
    generation_id: str | None = None

    def __post_init__(self) -> None:
        if self.cost is not None and not isinstance(self.cost, Decimal):
            object.__setattr__(self, "cost", Decimal(str(self.cost)))
        for name in _NUMBERS:
            if _is_below_zero(getattr(self, name)):
                object.__setattr__(self, name, None)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: what was reported and nothing else; the cost as a decimal string, so nothing is rounded."""
        known = {name: getattr(self, name) for name in self.__slots__ if getattr(self, name) is not None}
        return known | {"cost": str(known["cost"])} if "cost" in known else known


def _is_below_zero(value: object) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite() and value < 0
    return isinstance(value, int) and value < 0


NO_USAGE = Usage()
"""Nothing was reported."""


def merged(earlier: Usage | None, later: Usage | None) -> Usage | None:
    """Two reports of one attempt: they are cumulative, so of each value the later one counts, if it says one."""
    if earlier is None or later is None:
        return later or earlier
    return replace(earlier, **{name: value for name in Usage.__slots__ if (value := getattr(later, name)) is not None})


@dataclass(slots=True)
class TextDelta:
    """A fragment of the answer's text."""

    text: str


@dataclass(slots=True)
class ReasoningDelta:
    """A fragment of the model's reasoning; `opaque` is a value of the provider that goes back unread."""

    text: str
    opaque: str | None = None


@dataclass(slots=True)
class ToolCallDelta:
    """A fragment of a tool call. The index decides whose it is; without one, an id not seen before opens a call."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


@dataclass(slots=True)
class UsageDelta:
    """A usage report. Reports are cumulative: the last one counts, once."""

    usage: Usage


@dataclass(slots=True)
class FinishDelta:
    """The model has finished, and why; `model` is the one that answered, where the provider says so.

    `reason` None is for a provider that completes an answer without saying why.
    """

    reason: FinishReason | None
    model: str | None = None


Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | UsageDelta | FinishDelta


class ToolSpec(Protocol):
    """A tool as a backend sees it. The `Tool`s of this package and of `ag_ui.core` both are one."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendRequest:
    """One request to one backend. Read-only: the same messages are shown to every attempt.

    `messages` begins with the system turn, if there is one; `tools` is empty when tools are off; `round` and
    `attempt` count from 1, the attempt across the backends of its round. A backend that waits does so with `sleep`,
    on the loop's clock; None outside a loop.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    run_id: str = ""
    round: int = 1
    attempt: int = 1
    sleep: Callable[[float], Awaitable[object]] | None = field(default=None, repr=False, compare=False)


@runtime_checkable
class Backend(Protocol):
    """A model that can be asked. `aclose()` is optional and called when the loop's `async with` is left.

    `max_tokens` is the cap on the completion that the backend sends, None if it sends none; the loop needs it to tell
    a clipped answer from a finished one.
    """

    @property
    def model(self) -> str: ...
    @property
    def max_tokens(self) -> int | None: ...

    def stream(self, request: BackendRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Open one stream. It is entered and left in one task, left exactly once, also when it is cancelled."""
        ...


def cap_of(backend: Backend) -> int | None:
    """The cap on a backend's completion; a backend that says nothing about it has none."""
    return getattr(backend, "max_tokens", None)
