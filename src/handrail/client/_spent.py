"""What an agent says it used up, as the spending of a run (P-4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ag_ui.core import TokenUsage

from handrail.run import Spend

__all__ = ["spent"]

_COUNTS = tuple(name for name in TokenUsage.model_fields if name.endswith("_tokens"))


def spent(usage: Sequence[TokenUsage], seconds: float) -> Spend | None:
    """The sums of what was counted, None where nothing was: unknown is not zero.

    An entry that gives one half only counts for that much, and the sum is not complete then. `seconds` is what the run
    took here.
    """
    if all(getattr(entry, name) is None for entry in usage for name in _COUNTS):
        return None
    return Spend(
        total_tokens=_sum(usage, _total) or 0,
        wall_clock=seconds,
        complete=all(entry.total_tokens is not None or len(_halves(entry)) == 2 for entry in usage),
        prompt_tokens=_sum(usage, lambda entry: entry.input_tokens),
        completion_tokens=_sum(usage, lambda entry: entry.output_tokens),
        cached_prompt_tokens=_sum(usage, lambda entry: entry.cached_input_tokens),
    )


def _sum(usage: Sequence[TokenUsage], count: Callable[[TokenUsage], int | None]) -> int | None:
    counts = [found for entry in usage if (found := count(entry)) is not None]
    return sum(counts) if counts else None


def _total(entry: TokenUsage) -> int | None:
    if entry.total_tokens is not None:
        return entry.total_tokens
    return sum(halves) if (halves := _halves(entry)) else None


def _halves(entry: TokenUsage) -> list[int]:
    return [count for count in (entry.input_tokens, entry.output_tokens) if count is not None]
