"""What a run may use and what it has used: caps, the ledger, and whether a request fits a model. No clock is read.

Unknown is not zero. A sum starts at None and becomes a number with the first report; `complete` says whether every
attempt reported its tokens. A cap trips when it is reached, and what nobody reported counts as nothing: a cap above 0
is never tripped by silence.

A model whose window nobody told us is never too small. For the others three terms stand against the window: the
estimate of the request, a margin for the estimate's error, and a reserve for the answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import cast

from ag_ui.core import AssistantMessage, Message, TextPart

from handrail.loop._backend import NO_USAGE, BackendRequest, ToolSpec, Usage
from handrail.run._outcome import Spend
from handrail.tools._settings import require_callable, require_number, require_whole

__all__ = ["NO_BUDGET", "Budget", "Estimate", "Ledger", "Window", "is_clip", "is_near_window", "misfit"]

DEFAULT_RESERVE = 1_024
_PER_ITEM = 8
_CHARACTERS_PER_TOKEN = 4
_ROUGHNESS = 1.25
"""How far an estimate without any usage may be off before an answer counts as cut by the window."""


@dataclass(frozen=True, slots=True)
class Window:
    """How much fits a model, in tokens. `reserve` is kept for the answer; None: the backend's `max_tokens`, else 1,024.

    `margin` is for the error of the estimate. Raises `ValueError` for sizes that leave no room for a request.
    """

    context: int
    reserve: int | None = None
    margin: int = 512

    def __post_init__(self) -> None:
        require_whole(self.context, "context", 1, "a window has at least 1 token")
        if self.reserve is not None:
            fix = f"it is 0 to context - 1 ({self.context - 1})"
            require_whole(self.reserve, "reserve", 0, fix)
            if self.reserve >= self.context:
                raise ValueError(f"reserve is {self.reserve}: {fix}")
        require_whole(self.margin, "margin", 0, "it is not below 0")

    def kept_for_answer(self, max_tokens: int | None) -> int:
        """The reserve for a backend with this cap on its completion."""
        if self.reserve is not None:
            return self.reserve
        return DEFAULT_RESERVE if max_tokens is None else max_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may use, and the windows of the models by name. With a budget, even an empty one, spending is counted.

    A cap trips when it is reached: it stops new work (a round, a retry, a group of tools) and never breaks what is
    under way, so the answer that reaches it stands. `max_wall_clock` is in seconds; `max_cost` in the currency that
    the providers report. `count(request)` estimates a request's tokens in place of the built-in rule.
    """

    max_cost: Decimal | float | None = None
    max_total_tokens: int | None = None
    max_wall_clock: float | None = None
    windows: Mapping[str, Window] = field(default_factory=dict[str, Window])
    count: Callable[[BackendRequest], int] | None = None

    def __post_init__(self) -> None:
        for name in ("max_cost", "max_total_tokens", "max_wall_clock"):
            cap = getattr(self, name)
            if cap is not None:
                require_number(cap, name, "a cap is not below 0; None means no cap")
        if self.max_cost is not None:
            object.__setattr__(self, "max_cost", Decimal(str(self.max_cost)))
        object.__setattr__(self, "windows", _checked_windows(self.windows))
        require_callable(self.count, "count", "a function of a request that gives its tokens", takes=1)


def _checked_windows(windows: object) -> Mapping[str, Window]:
    if not isinstance(windows, Mapping):
        raise TypeError(f"windows is a dict of Window by model, not {windows!r}")
    found = dict(cast("Mapping[str, Window]", windows))
    for model, window in cast("Mapping[object, object]", found).items():
        if not isinstance(window, Window):
            raise TypeError(f"the window of {model!r} is a Window(context=...), not {window!r}")
    return MappingProxyType(found)


NO_BUDGET = Budget()
"""No caps, and no window known."""


class Ledger:
    """What the attempts of one run have used."""

    __slots__ = ("cached_prompt_tokens", "complete", "completion_tokens", "cost", "prompt_tokens", "total_tokens")

    def __init__(self) -> None:
        self.total_tokens = 0
        self.complete = True
        self.cost: Decimal | None = None
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.cached_prompt_tokens: int | None = None

    def add(self, usage: Usage | None) -> None:
        """One attempt that started, whatever became of it; None: it reported nothing."""
        used = usage or NO_USAGE
        total = used.total_tokens
        if total is None and used.prompt_tokens is not None and used.completion_tokens is not None:
            total = used.prompt_tokens + used.completion_tokens
        self.complete = self.complete and total is not None
        self.total_tokens += total or 0
        for name in ("cost", "prompt_tokens", "completion_tokens", "cached_prompt_tokens"):
            if (part := getattr(used, name)) is not None:
                setattr(self, name, (getattr(self, name) or 0) + part)

    def spent(self, wall_clock: float) -> Spend:
        """The sums as the outcome states them; `wall_clock` in seconds."""
        return Spend(
            total_tokens=self.total_tokens,
            wall_clock=round(wall_clock, 3),
            complete=self.complete,
            cost=self.cost,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cached_prompt_tokens=self.cached_prompt_tokens,
        )

    def tripped(self, budget: Budget, wall_clock: float) -> str | None:
        """Which cap has been reached, in words that name the cap, what was spent and the maximum; else None."""
        for name, spent, cap in (
            ("max_cost", self.cost or 0, budget.max_cost),
            ("max_total_tokens", self.total_tokens, budget.max_total_tokens),
            ("max_wall_clock", round(wall_clock, 3), budget.max_wall_clock),
        ):
            if cap is not None and spent >= cap:
                return f"the budget is used up: {name} reached, {spent} of {cap} spent"
        return None


class Estimate:
    """How many tokens a request is likely to have; costs only what was added since the last look.

    Messages are never changed once they are in a conversation, so a sum over the first n of them stays right. When the
    last success of a backend reported its prompt tokens, only what was added to that request is estimated.
    """

    __slots__ = ("_count", "_measured", "_sums")

    def __init__(self, count: Callable[[BackendRequest], int] | None) -> None:
        self._count = count
        self._sums = [0]
        self._measured: dict[int, tuple[int, bool, int]] = {}

    def of(self, request: BackendRequest, backend_index: int) -> int:
        """The estimate for one backend, in tokens."""
        if self._count is not None:
            return self._count(request)
        length, with_tools = len(request.messages), bool(request.tools)
        measured = self._measured.get(backend_index)
        if measured is not None and measured[1] == with_tools:
            return measured[2] + self._sum(request, length) - self._sum(request, measured[0])
        return self._sum(request, length) + sum(map(_tokens_of_tool, request.tools))

    def learn(self, request: BackendRequest, backend_index: int, usage: Usage | None) -> None:
        """What a successful attempt reported about its request."""
        if usage is None or usage.prompt_tokens is None:
            self._measured.pop(backend_index, None)
        else:
            self._measured[backend_index] = (len(request.messages), bool(request.tools), usage.prompt_tokens)

    def _sum(self, request: BackendRequest, length: int) -> int:
        sums = self._sums
        for message in request.messages[len(sums) - 1 : length]:
            sums.append(sums[-1] + _tokens_of_message(message))
        return sums[length]


def _tokens_of_message(message: Message) -> int:
    content = message.content
    if isinstance(content, str):
        characters = len(content)
    elif isinstance(content, list):
        characters = sum(len(part.text) for part in content if isinstance(part, TextPart))
    else:
        characters = 0
    if isinstance(message, AssistantMessage):
        characters += sum(len(call.model_dump_json(by_alias=True)) for call in message.tool_calls or ())
    return _tokens_of(characters)


def _tokens_of_tool(tool: ToolSpec) -> int:
    return _tokens_of(len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters, default=str)))


def _tokens_of(characters: int) -> int:
    return _PER_ITEM + math.ceil(characters / _CHARACTERS_PER_TOKEN)


def misfit(window: Window, estimate: int, max_tokens: int | None) -> str | None:
    """Why a request does not fit, naming every term; None if it does."""
    reserve = window.kept_for_answer(max_tokens)
    need = estimate + window.margin + reserve
    if need <= window.context:
        return None
    return (
        f"the request does not fit: estimate {estimate} + margin {window.margin} + reserve {reserve} = {need} tokens, "
        f"and the window has {window.context}"
    )


def is_clip(usage: Usage | None, max_tokens: int | None) -> bool:
    """Whether the tokens billed reach the cap although the finish reason says otherwise."""
    billed = None if usage is None else usage.completion_tokens
    return billed is not None and max_tokens is not None and billed >= max_tokens


def is_near_window(window: Window, usage: Usage | None, estimate: Callable[[], int], max_tokens: int | None) -> bool:
    """Whether an answer that was cut may have been cut by the window and not by the cap on the completion."""
    reserve = window.kept_for_answer(max_tokens)
    if usage is None or usage.prompt_tokens is None:
        return _ROUGHNESS * estimate() + reserve > window.context
    used = usage.prompt_tokens + (usage.completion_tokens or 0)
    return used >= window.context or usage.prompt_tokens + reserve > window.context
