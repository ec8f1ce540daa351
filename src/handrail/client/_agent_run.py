"""A run of a remote agent: the handle, what it reports, and the driver that every agent of this package stands on.

RUN_FINISHED and RUN_ERROR are ordinary events of such a run, since a stream may carry several runs and a late error.
So it ends by `finish(None, outcome=...)`, and how the agent's last run ended stands in the report.

Once a run on the stream is over, reading goes on for what may follow, no longer than the grace; a further run calls
that clock off. Grace over, refused, cancelled or at its end: reading stops, and the verdict that stands is the run's.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import anyio
from ag_ui.core import Event, Message, RunAgentInput, RunErrorEvent, RunFinishedEvent, RunStartedEvent, TokenUsage

from handrail.agui._copies import copied
from handrail.agui._history import stopped_answer
from handrail.agui._inbound import DEFAULT_MAX_EVENT_BYTES, Inbound
from handrail.agui._input import encode_input, outgoing_input
from handrail.agui._verdict import Verdict
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.client._spent import spent
from handrail.client._warning_log import WarningLog
from handrail.errors import NotSettled, TransportError, WireError
from handrail.events._handed_out import hands_out_copies
from handrail.run import EventStream, Run, RunDriver
from handrail.run import Verdict as RunVerdict
from handrail.run._hosting import host
from handrail.run._settled import when_set

__all__ = ["AgentDriver", "AgentReport", "AgentRun", "LateRunError", "check_late_run_error"]

LateRunError = Literal["stand", "fail"]

_logger = logging.getLogger("handrail.agui")
_LIFE_OF_A_RUN = frozenset[type]({RunStartedEvent, RunFinishedEvent, RunErrorEvent})


@hands_out_copies("result", "state", "messages", "usage", read=copied)
@dataclass(frozen=True, slots=True)
class AgentReport:
    """How the last run on an agent's stream ended, in the agent's words and in ours (P-3).

    `verdict` is what the agent said, None if it never did; `failure` is who failed: the "agent" (its RUN_ERROR), the
    "client" (`cause` says what it found) or "cancelled" (the caller stopped it). `rejected` is what came after the
    verdict and was refused.
    """

    thread_id: str | None
    run_id: str | None
    verdict: Literal["success", "interrupt", "cancelled", "error"] | None
    failure: Literal["agent", "client", "cancelled"] | None
    code: str | None
    cause: WireError | None
    result: Any
    state: Any
    messages: tuple[Message, ...]
    usage: tuple[TokenUsage, ...]
    pending_tool_calls: tuple[str, ...]
    late_error: tuple[str, str | None] | None
    rejected: WireError | None
    warnings: tuple[WarningRecord, ...]


class AgentRun(Run[Event]):
    """The handle on a run of an agent: a `Run` of checked AG-UI events in order, chunks expanded, with a report."""

    __slots__ = ("_behind", "_report", "_warnings")

    _behind: Run[Any] | None
    _report: AgentReport | None
    _warnings: WarningLog

    @property
    def events(self) -> EventStream[Event]:
        """Everything the agent said, in one order, for any number of readers; each gets copies of the events."""
        core = self._core
        return EventStream(core.log, core.place, shown=copied)

    @property
    def report(self) -> AgentReport:
        """How the agent's run ended; set just before `result`. Raises `NotSettled` before that."""
        if self._report is None:
            raise NotSettled("this run has no report yet; await its `result` first")
        return self._report

    @property
    def open_work(self) -> tuple[str, ...]:
        """Names of the work sections that keep `drained` open: its own, and those of the run behind it in process."""
        behind = self._behind
        return super().open_work if behind is None else super().open_work + behind.open_work

    def on_warning(self, callback: WarningSink) -> Callable[[], None]:
        """Have every warning of the run told to `callback`, the earlier ones first; returns what ends that.

        Without a callback warnings go to the logger `handrail.agui`.
        """
        return self._warnings.subscribe(callback)


class AgentDriver(RunDriver[Event]):
    """Drives a run of an agent: what comes in passes the checks of `inbound`, and what passed is published.

    `given` is the input of the run; raises `LocalProtocolError` (P-25) if it is malformed, before anything exists.
    `request` is what goes out, `body` the same in bytes. `close_grace` is in seconds.
    """

    __slots__ = ("_grace", "_late_run_error", "_reading", "_started_at", "_warnings", "body", "inbound", "request")

    handle: ClassVar[type[Run[Any]]] = AgentRun
    run: AgentRun  # pyright: ignore[reportIncompatibleVariableOverride]  # `handle` makes it one

    def __init__(
        self,
        given: RunAgentInput | Mapping[str, Any],
        *,
        close_grace: float,
        lenient: bool = False,
        late_run_error: LateRunError = "stand",
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
    ) -> None:
        if not isinstance(given, RunAgentInput | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"start() takes a RunAgentInput or a dict of its wire's shape, not {type(given).__name__}")
        self._warnings = WarningLog()
        self.request = outgoing_input(given, self._warnings.keep, lenient=lenient)
        self.body = encode_input(self.request)
        super().__init__(run_id=self.request["runId"], on_cancel=self._on_cancel, verdict=_ends_no_run)
        self.run._warnings = self._warnings  # pyright: ignore[reportPrivateUsage]  # the other face of the same run
        self.run._report = None  # pyright: ignore[reportPrivateUsage]
        self.run._behind = None  # pyright: ignore[reportPrivateUsage]  # the other face of the same run
        self._late_run_error = late_run_error
        self._grace = close_grace
        self._started_at = time.monotonic()
        self._reading: anyio.CancelScope | None = None
        asked = RunAgentInput.model_validate(self.request)
        self.inbound = Inbound(
            warn=self._warnings,
            new_id=_new_id,
            thread_id=asked.thread_id,
            run_id=asked.run_id,
            messages=asked.messages,
            state=asked.state,
            lenient=lenient,
            max_event_bytes=max_event_bytes,
        )

    def start(self, read: Callable[[], Awaitable[object]]) -> AgentRun:
        """Host the run and return its handle. `read` feeds `inbound` and publishes what that gives.

        It need not look after grace and cancel: it is cancelled where it awaits. Raises `UsageError` where there is
        no host.
        """

        async def main() -> None:
            try:
                with anyio.CancelScope() as self._reading:
                    if not self.run.is_cancelled:  # before there was a scope to cancel
                        await read()
            except Exception:
                if (
                    self.home is not None and self.home.is_here()
                ):  # else its event loop was closed, and nothing is wrong
                    _logger.exception("run %s: the reader itself raised", self.run.id)
                raise
            if not self.run.is_cancelled and not self.inbound.has_verdict:
                self.publish(self.inbound.end())  # the grace was over in the moment in which a further run began
            self.finish(None, outcome="cancelled")

        host(self, main)
        return self.run

    def wait_for(self, behind: Run[Any]) -> None:
        """Keep the run from being drained before `behind` is, of which it tells."""
        section, run = self.work("loop"), self.run

        def let_go() -> None:
            run._behind = None  # pyright: ignore[reportPrivateUsage]  # the other face of the same run
            section.__exit__(None, None, None)

        section.__enter__()
        run._behind = behind  # pyright: ignore[reportPrivateUsage]  # the other face of the same run
        when_set(behind.drained, let_go)

    def warn(self, record: WarningRecord) -> None:
        """Tell a warning that is not of the pipeline."""
        self._warnings(record)

    def _on_cancel(self) -> None:
        if self.home is not None:
            self.home.call(self.stop_reading)

    def stop_reading(self) -> None:
        """Cancel `read` where it awaits next; on its own event loop."""
        if self._reading is not None:
            self._reading.cancel()

    @property
    def is_reading(self) -> bool:
        """Whether there is anything left to read for; to be asked after each wait."""
        if self.run.is_cancelled or self.inbound.is_over:
            return False
        return self._reading is not None and not self._reading.cancel_called

    def publish(self, events: Iterable[Event]) -> None:
        """Emit what the inbound checks let through; to be called with what `inbound` gives, at once."""
        for event in events:
            self.emit(event)
            if type(event) in _LIFE_OF_A_RUN:
                self._set_clock(event)
                if not self.is_reading:
                    break

    def _set_clock(self, event: Event) -> None:
        """A terminal event starts the grace, unless it is the late error of a run in its grace; a new run ends it."""
        assert self._reading is not None
        if isinstance(event, RunStartedEvent):
            self._reading.deadline = math.inf
            return
        if isinstance(event, RunErrorEvent) and self.inbound.verdict.late_error is not None:
            words = f"the agent reported an error after its run had finished: {event.message}"
            self._warnings(WarningRecord("late-run-error", words))
        elif self._grace > 0:
            self._reading.deadline = anyio.current_time() + self._grace
        else:
            self._reading.cancel()

    def finish(
        self, terminal: Event | None, *, outcome: RunVerdict | None = None, error: str | None = None, **parts: Any
    ) -> bool:
        """End the run as its stream has it, whoever ends it: only where no verdict stands `outcome` is looked at.

        So a host that has to end the run itself (its event loop was closed, the reader raised) leaves a report, too.
        """
        if self.run.is_done:
            return False
        if outcome == "failed" and not self.run.is_cancelled:
            self.inbound.fail(TransportError(f"reading the agent's answer failed here: {error}", phase="read"))
        else:
            self.inbound.cancel()
        self._warnings.tell()
        verdict, fold = self._verdict(), self.inbound.fold
        repair = () if verdict.outcome == "completed" else (stopped_answer(_new_id),)
        self.run._report = self._report(verdict)  # pyright: ignore[reportPrivateUsage]
        return super().finish(
            None,
            outcome=verdict.outcome,
            final=fold.final,
            messages=copied(fold.history(*repair)),
            error=verdict.message,
            reason=verdict.reason,
            interrupts=copied(verdict.interrupts),
            spent=spent(verdict.usage, time.monotonic() - self._started_at),
        )

    def _verdict(self) -> Verdict:
        verdict = self.inbound.verdict
        if verdict.late_error is None or self._late_run_error == "stand":
            return verdict
        message, code = verdict.late_error
        return replace(verdict, said="error", failure="agent", message=message, code=code, interrupts=())

    def _report(self, verdict: Verdict) -> AgentReport:
        fold = self.inbound.fold
        return AgentReport(
            thread_id=verdict.thread_id,
            run_id=verdict.run_id,
            verdict=verdict.said,
            failure=verdict.failure,
            code=verdict.code,
            cause=verdict.cause,
            result=verdict.result,
            state=fold.state,
            messages=fold.messages,
            usage=verdict.usage,
            pending_tool_calls=fold.pending_tool_calls,
            late_error=verdict.late_error,
            rejected=verdict.rejected,
            warnings=self._warnings.records,
        )


def _ends_no_run(event: Event) -> None:
    """AG-UI's terminal events end a run on the stream; the handle ends with the stream."""


def _new_id() -> str:
    return str(uuid.uuid4())


def check_late_run_error(value: LateRunError) -> LateRunError:
    """The value, or `ValueError` where it is none."""
    if value not in get_args(LateRunError):
        raise ValueError(f'late_run_error is "stand" or "fail", not {value!r}')
    return value
