"""What a failed attempt means, and what is done next. Tables and nothing else.

A failure is first *classified*, from its structure alone (kind, status, code; the text only where a 400 may mean an
overflow). The class says what the failure asks for: the same backend again, the next one, or the end. `next_step` then
turns that wish into what the loop really does, which depends on how many attempts are left and on who comes next:

| asked for  | attempts left | another backend | done and reported                                              |
|------------|---------------|-----------------|----------------------------------------------------------------|
| retry-same | yes           | any             | retry-same, after a backoff                                    |
| retry-same | no            | any             | advance                                                        |
| advance    | yes           | no              | retry-same, after a backoff, unless the failure never degrades |
| advance    | any           | any             | advance                                                        |
| abort      | any           | any             | abort                                                          |

A provider that asks for a longer pause than the cap is not waited for: that is an advance which never degrades.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from handrail.errors import BackendError, first_of, words_of
from handrail.events import Disposition, FailReason
from handrail.loop._backend import Usage, merged
from handrail.loop._sound import check_sound
from handrail.tools._settings import require_callable, require_number, require_whole

__all__ = [
    "ERROR_KINDS",
    "Attempt",
    "Failure",
    "RetryPolicy",
    "Step",
    "classify",
    "cut_text",
    "next_step",
    "with_usage",
]

MAX_ERROR_TEXT = 2_000

AttemptResult: TypeAlias = Literal["ok", "failed", "skipped", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of a run as its outcome remembers it, or a backend that was skipped because the request was too big.

    `attempt` is None for a skip; `text` is what a failed or cancelled attempt had streamed.
    """

    round: int
    attempt: int | None
    backend_index: int
    model: str
    result: AttemptResult
    error: str | None = None
    error_class: str | None = None
    status: int | None = None
    disposition: Disposition | None = None
    usage: Usage | None = None
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data; what is unknown is left out."""
        data = {name: getattr(self, name) for name in self.__slots__ if getattr(self, name) is not None}
        if self.usage is not None:
            data["usage"] = self.usage.to_dict()
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how patiently a failed attempt is repeated.

    A backend gets at most `max_attempts` in a round. Before its retry n the loop waits `min(2**(n-1) + u, backoff_cap)`
    seconds, `u` uniform in `[0, jitter)`. `classify(error)` may answer "retry-same", "advance" or "abort" for a
    `BackendError`; None leaves it to the table.
    """

    max_attempts: int = 3
    backoff_cap: float = 30.0
    jitter: float = 0.5
    classify: Callable[[BackendError], Disposition | None] | None = None

    def __post_init__(self) -> None:
        require_whole(self.max_attempts, "max_attempts", 1, "a backend needs at least 1 attempt")
        for name in ("backoff_cap", "jitter"):
            require_number(getattr(self, name), name, "it is a number of seconds and not below 0")
        require_callable(self.classify, "classify", "a function of a BackendError that gives a disposition", takes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed attempt, classified.

    `degrades` False: an advance stays one even on the last backend. `ends_as` is the reason of a run that it aborts.
    """

    error: str
    error_class: str
    asks_for: Disposition = "abort"
    ends_as: FailReason | None = None
    degrades: bool = True
    size_refusal: bool = False
    status: int | None = None
    retry_after: float | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What is done about a failure; `backoff` in seconds if the same backend is asked again."""

    disposition: Disposition
    backoff: float | None = None


# There is no common code for it: these are the words of OpenAI, Anthropic, Google, Mistral, xAI, Bedrock, Copilot,
# DashScope, vLLM and llama.cpp.
_OVERFLOW_TEXT = re.compile(
    r"context_length_exceeded|context.{0,20}(length|size|window)|maximum context"
    r"|too many tokens|maximum number of tokens|token count.{0,30}exceeds"
    r"|(prompt|input).{0,30}(too long|longer)|too long.{0,20}prompt|(prompt|input|model) length",
    re.IGNORECASE | re.DOTALL,
)
# Providers quote the key they refuse.
_SECRET = re.compile(r"\b(bearer\s+|sk-|api[-_ ]?key['\"]?\s*[:=]\s*['\"]?)[^\s'\",;}]+", re.IGNORECASE)

_STATUSES: dict[int, Disposition] = {
    **dict.fromkeys((400, 401, 402, 403, 404, 422), "abort"),
    429: "advance",
    **dict.fromkeys((408, 425), "retry-same"),
}
# kind of a BackendError: what it asks for, and whether an advance may degrade to a retry
_KINDS: dict[str, tuple[Disposition, bool]] = {
    "overflow": ("advance", False),
    "content-filter": ("advance", False),
    "unsupported": ("advance", False),
    "timeout": ("advance", True),
    "connection": ("retry-same", True),
    "response": ("advance", True),
    "misuse": ("abort", True),
}
ERROR_KINDS = ("http", *_KINDS, "other")
"""What the `kind` of a BackendError may be; any other counts as "other"."""


def classify(error: BaseException, policy: RetryPolicy) -> Failure:
    """What an attempt failed with, read by the table of section 5 of the rules for the loop."""
    error = first_of(error, BackendError) or error
    if not isinstance(error, BackendError):
        return Failure(error=cut_text(error), error_class="other", asks_for="retry-same")
    try:
        check_sound(error)
    except BackendError as malformed:
        error = malformed
    error_class, asks_for, degrades = _read(error)
    answer = None if policy.classify is None else policy.classify(error)
    if answer is not None and answer not in get_args(Disposition):
        raise ValueError(f"RetryPolicy.classify answered {answer!r}; it is one of {', '.join(get_args(Disposition))}")
    return Failure(
        error=cut_text(error),
        error_class=error_class,
        asks_for=answer or asks_for,
        degrades=degrades,
        size_refusal=error_class == "overflow",
        status=error.status,
        retry_after=error.retry_after,
        usage=error.usage,
    )


def _read(error: BackendError) -> tuple[str, Disposition, bool]:
    kind, status = error.kind, error.status
    if kind == "http" and (status == 413 or (status == 400 and _OVERFLOW_TEXT.search(str(error)))):
        kind = "overflow"
    if kind == "http":
        return "http", _by_status(status), True
    if kind in _KINDS:
        return kind, *_KINDS[kind]
    return "other", "retry-same", True


def _by_status(status: int | None) -> Disposition:
    if status is not None and 500 <= status <= 599:
        return "retry-same"
    return _STATUSES.get(status or 0, "advance")


def next_step(failure: Failure, policy: RetryPolicy, *, tried: int, is_last: bool, draw: float) -> Step:
    """What the loop does. `tried` counts this backend's attempts in the round, `draw` is uniform in [0, 1)."""
    wish = failure.asks_for
    may_repeat = tried < policy.max_attempts and (failure.retry_after or 0) <= policy.backoff_cap
    if wish == "advance" and is_last and may_repeat and failure.degrades:
        wish = "retry-same"
    if wish != "retry-same":
        return Step(wish)
    if not may_repeat:
        return Step("advance")
    return Step("retry-same", max(_backoff(policy, tried, draw), failure.retry_after or 0))


def _backoff(policy: RetryPolicy, retry: int, draw: float) -> float:
    # Capped before it is raised to the power: an endless number of retries must not overflow a float.
    doubled = math.ldexp(1.0, min(retry - 1, 64))
    return min(doubled + draw * policy.jitter, policy.backoff_cap)


def cut_text(error: BaseException) -> str:
    """An exception as text for people: class, status and message, without keys, cut to 2,000 characters."""
    name = type(error).__name__
    status = getattr(error, "status", None) if isinstance(error, BackendError) else None
    head = f"{name} ({status})" if status is not None else name
    message = words_of(error)
    text = f"{head}: {message}" if message else head
    return _SECRET.sub(r"\1...", text)[:MAX_ERROR_TEXT]


def with_usage(failure: Failure, seen: Usage | None) -> Failure:
    """The failure with the usage that its stream had reported; what the failure itself reports comes later."""
    return replace(failure, usage=merged(seen, failure.usage))
