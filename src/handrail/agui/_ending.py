"""The terminal event of a run, from its outcome (P-87, P-91, P-92).

What a client is told of a failure is a code and a fixed text: exceptions, paths and keys stay here. What nobody
reported is left out and is never a zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ag_ui.core import (
    Interrupt,
    Message,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    TokenUsage,
)

__all__ = ["ERROR_TEXTS", "INTERNAL_ERROR", "RUN_FAILED", "Ended", "ending", "internal_error"]

RUN_FAILED = "run-failed"
INTERNAL_ERROR = "internal-error"
ERROR_TEXTS = {
    "context-exhausted": "The conversation is too long for the model.",
    "budget-exhausted": "The budget of this run is used up.",
    "completion-truncated": "The answer was cut off at the length limit.",
    RUN_FAILED: "The run failed.",
    INTERNAL_ERROR: "Internal error.",
}


class Ended(Protocol):
    """What is read of an `Outcome`; the handle's own class is a floor above."""

    @property
    def outcome(self) -> str: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def messages(self) -> tuple[Message, ...]: ...
    @property
    def interrupts(self) -> tuple[Interrupt, ...]: ...
    @property
    def pending_calls(self) -> tuple[str, ...]: ...
    @property
    def attempts(self) -> tuple[Any, ...]: ...
    @property
    def spent(self) -> Any: ...


def ending(given: RunAgentInput, ended: Ended, error_text: str | None = None) -> RunFinishedEvent | RunErrorEvent:
    """The event that says how a run ended; `error_text` takes the place of the fixed text of a failure."""
    accounts = _accounts(ended)
    if ended.outcome == "failed":
        code = ended.reason if ended.reason in ERROR_TEXTS else RUN_FAILED
        return RunErrorEvent(message=ERROR_TEXTS[code] if error_text is None else error_text, code=code, **accounts)
    return RunFinishedEvent(thread_id=given.thread_id, run_id=given.run_id, outcome=_verdict(ended), **accounts)


def internal_error() -> RunErrorEvent:
    """The event that ends a run which we could not carry to its end."""
    return RunErrorEvent(message=ERROR_TEXTS[INTERNAL_ERROR], code=INTERNAL_ERROR)


def _verdict(
    ended: Ended,
) -> RunFinishedSuccessOutcome | RunFinishedInterruptOutcome | RunFinishedCancelledOutcome:
    if ended.outcome == "cancelled":
        return RunFinishedCancelledOutcome(type="cancelled")
    if ended.interrupts:
        return RunFinishedInterruptOutcome(type="interrupt", interrupts=list(ended.interrupts))
    if ended.pending_calls:
        return RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=list(ended.pending_calls))
    return RunFinishedSuccessOutcome(type="success")


def _accounts(ended: Ended) -> dict[str, Any]:
    """The `usage` of the terminal event, and the remark that it is not the whole of it."""
    spent = ended.spent
    if spent is None:
        return {}
    accounts: dict[str, Any] = {} if spent.complete else {"metadata": {"handrail.usageComplete": False}}
    if _was_reported(ended):
        accounts["usage"] = [_usage(spent, {attempt.model for attempt in _started(ended.attempts)})]
    return accounts


def _started(attempts: Iterable[Any]) -> Iterable[Any]:
    """The attempts without the backends that were skipped, which used nothing."""
    return (attempt for attempt in attempts if attempt.attempt is not None)


def _was_reported(ended: Ended) -> bool:
    """Whether anybody said a number; 0 may be one."""
    spent = ended.spent
    counts = (spent.prompt_tokens, spent.completion_tokens, spent.cached_prompt_tokens)
    if spent.total_tokens or any(count is not None for count in counts):
        return True
    return spent.complete and any(True for _ in _started(ended.attempts))


def _usage(spent: Any, models: set[str]) -> TokenUsage:
    counts: dict[str, Any] = {"total_tokens": spent.total_tokens}
    given, made = spent.prompt_tokens, spent.completion_tokens
    if given is not None and made is not None and given + made == spent.total_tokens:
        counts |= {"input_tokens": given, "output_tokens": made}
        if spent.cached_prompt_tokens is not None:
            counts["cached_input_tokens"] = spent.cached_prompt_tokens
    if len(models) == 1:
        counts["model"] = models.pop()
    return TokenUsage(**counts)
