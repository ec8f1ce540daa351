"""How the last run on a stream ended, and what it left behind.

A verdict is a latch. RUN_FINISHED and RUN_ERROR close it, only RUN_STARTED opens it again, and while it is closed
nothing else touches it: what comes is a warning, and is kept beside the verdict where something was refused.

                            while a run is active, or none was      once the verdict stands
    RUN_STARTED             a new run                               a new run, a new verdict
    RUN_FINISHED            the verdict                             (refused by the verifier)
    RUN_ERROR               the verdict                             after RUN_FINISHED: `late_error`, the verdict stands
    a refused event         the client's failure                    `rejected`, and a warning
    a bad payload           the client's failure                    a warning
    transport, cancel       the client's failure, cancelled         a warning, nothing
    the body ends           the client's failure: truncated         nothing
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ag_ui.core import (
    Interrupt,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    TokenUsage,
)

from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.errors import RemoteDecodeError, TruncatedError, WireError

__all__ = ["CANCELLED_CODE", "CLIENT_ERROR_CODE", "Verdict", "VerdictLatch"]

CLIENT_ERROR_CODE = "CLIENT_ERROR"
"""The code of a run that failed on this side of the wire."""
CANCELLED_CODE = "CANCELLED"
"""The code of a run that its caller stopped."""

_REASONS = frozenset({"context-exhausted", "budget-exhausted", "completion-truncated"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended, in the agent's own words where it said so and in ours where it did not.

    `said` is None, "success", "interrupt", "cancelled" or "error"; `failure` is None, "agent" (its RUN_ERROR), "client"
    (`cause` says what) or "cancelled" (the caller stopped it).
    """

    thread_id: str | None
    run_id: str | None
    said: Literal["success", "interrupt", "cancelled", "error"] | None = None
    failure: Literal["agent", "client", "cancelled"] | None = None
    message: str | None = None
    """The text of the failure; None where there is none, or where the caller stopped the run."""
    code: str | None = None
    cause: WireError | None = None
    result: Any = None
    interrupts: tuple[Interrupt, ...] = ()
    usage: tuple[TokenUsage, ...] = ()
    late_error: tuple[str, str | None] | None = None
    """Message and code of a RUN_ERROR that came after RUN_FINISHED."""
    rejected: WireError | None = None
    """What came after the verdict and was refused."""

    @property
    def outcome(self) -> Literal["completed", "failed", "cancelled"]:
        """The verdict in the words of an outcome: an interrupt completes, as a success does."""
        if self.failure == "cancelled" or self.said == "cancelled":
            return "cancelled"
        return "completed" if self.failure is None else "failed"

    @property
    def reason(self) -> str | None:
        """The agent's code, where it is one of the reasons that runs of this package fail for."""
        return self.code if self.failure == "agent" and self.code in _REASONS else None


@dataclass(slots=True)
class VerdictLatch:
    """Keeps the verdict of the last run on a stream; `thread_id` and `run_id` are what was asked for."""

    thread_id: str | None
    run_id: str | None
    warn: WarningSink
    _run_ids: dict[str, None] = field(default_factory=dict[str, None])
    _started: RunStartedEvent | None = None
    _terminal: RunFinishedEvent | RunErrorEvent | None = None
    _failure: WireError | Literal["cancelled"] | None = None
    _late: RunErrorEvent | None = None
    _rejected: WireError | None = None

    @property
    def stands(self) -> bool:
        """Whether the agent has said how its last run ended."""
        return self._terminal is not None

    def note(self, event: RunStartedEvent | RunFinishedEvent | RunErrorEvent) -> None:
        """Takes an event of a run's life, once it has been applied."""
        if isinstance(event, RunStartedEvent):
            self._run_ids[event.run_id] = None
            self._started = event
            self._terminal = self._failure = self._late = self._rejected = None
        elif isinstance(event, RunErrorEvent) and self._terminal is not None:
            self._late = event
        else:
            self._terminal = event

    def refuse(self, error: WireError) -> None:
        """Takes what was refused: the failure of the run, or a warning where its verdict stands."""
        if not self.stands:
            self._failure = self._failure or error
            return
        self.warn(WarningRecord("event-after-end", f"after the end of the run: {error}"))
        if not isinstance(error, RemoteDecodeError):
            self._rejected = error

    def fail(self, error: WireError) -> None:
        """Takes a failure of the connection: that of the run, or a warning where its verdict stands."""
        if self.stands:
            self.warn(WarningRecord("transport-after-end", f"after the end of the run: {error}"))
        else:
            self._failure = self._failure or error

    def cancel(self) -> None:
        """The caller stopped the run, unless its verdict stands."""
        if not self.stands:
            self._failure = self._failure or "cancelled"

    def end(self, open_items: Sequence[str]) -> None:
        """The body ended: a run without a verdict is truncated."""
        if not self.stands and self._failure is None:
            self._failure = TruncatedError(run_started=self._started is not None, open_items=open_items)

    def stop(self) -> None:
        """Nothing more will be read: says so if no run on the stream was the one that was asked for."""
        if self._run_ids and self.run_id is not None and self.run_id not in self._run_ids:
            named = ", ".join(map(repr, self._run_ids))
            words = f"no run on the stream is {self.run_id!r}, which was asked for, but {named}"
            self.warn(WarningRecord("run-id-mismatch", words))

    def verdict(self) -> Verdict:
        """The verdict on the last run, were the stream to end now."""
        if isinstance(self._terminal, RunFinishedEvent):
            return self._as_finished(self._terminal)
        if self._terminal is not None:
            end = self._terminal
            return self._verdict(
                said="error", failure="agent", message=end.message, code=end.code, usage=tuple(end.usage or ())
            )
        if self._failure == "cancelled":
            return self._verdict(failure="cancelled", code=CANCELLED_CODE)
        cause = self._failure or TruncatedError(run_started=self._started is not None)
        return self._verdict(failure="client", message=str(cause), code=CLIENT_ERROR_CODE, cause=cause)

    def _as_finished(self, end: RunFinishedEvent) -> Verdict:
        outcome = end.outcome
        return self._verdict(
            said=outcome.type if outcome else "success",
            result=end.result,
            interrupts=tuple(outcome.interrupts) if isinstance(outcome, RunFinishedInterruptOutcome) else (),
            usage=tuple(end.usage or ()),
            late_error=(self._late.message, self._late.code) if self._late else None,
        )

    def _verdict(self, **said: Any) -> Verdict:
        run = self._started
        ids = (run.thread_id, run.run_id) if run else (self.thread_id, self.run_id)
        return Verdict(*ids, rejected=self._rejected, **said)
