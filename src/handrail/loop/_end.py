"""How a run is going to end: the one value that every step of the loop hands to the one epilogue."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ag_ui.core import Interrupt

from handrail.events import AbandonReason, CancelStage, FailReason

__all__ = ["End"]


class End(NamedTuple):
    """`how` says which terminal event it is; the rest is what that one needs."""

    how: Literal["completed", "failed", "cancelled"]
    error: str = ""
    reason: FailReason | None = None
    stage: CancelStage = "start"
    interrupts: tuple[Interrupt, ...] = ()
    pending_calls: tuple[str, ...] = ()

    @classmethod
    def cancelled(cls, stage: CancelStage) -> End:
        """Somebody asked for the end, in the middle of `stage`."""
        return cls(how="cancelled", stage=stage)

    @classmethod
    def failed(cls, error: str, reason: FailReason | None = None) -> End:
        """The run cannot go on."""
        return cls(how="failed", error=error, reason=reason)

    @property
    def left_open(self) -> frozenset[str]:
        """The calls that nobody is to answer here."""
        return frozenset((*(i.tool_call_id or i.id for i in self.interrupts), *self.pending_calls))

    @property
    def abandons(self) -> AbandonReason:
        """Why the calls are given up that are open at this end."""
        if self.how == "cancelled":
            return "cancelled"
        return "budget-exhausted" if self.reason == "budget-exhausted" else "aborted"
