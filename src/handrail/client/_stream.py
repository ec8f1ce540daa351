"""One stream of an agent, and the verdict on its last run (S-10 to S-24, the corner matrix).

                        no terminal event yet     after RUN_FINISHED          after RUN_ERROR
    RUN_STARTED         the run                   a new run, a new verdict    a new run, a new verdict
    RUN_FINISHED        the verdict               dropped                     dropped
    RUN_ERROR           the verdict               a late error                dropped
    any other event     folded                    dropped                     dropped
    the client fails    the verdict               nothing                     nothing
    cancel, stop        the verdict               nothing                     nothing

The agent's own word is final: once it has finished a run or given it up, only a further run on the stream has another
verdict. Questions and answers are settled in the moment in which RUN_FINISHED is folded, so nothing behind it can touch
them (S-24). A run that this thread has seen finish before is a replay: it is folded, and changes nothing else (S-98).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ag_ui.core import (
    CustomEvent,
    Event,
    Interrupt,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    ToolCall,
    ToolCallStartEvent,
)

from handrail.agui._warnings import WarningRecord
from handrail.client._ledger import Ledger
from handrail.client._questions import LOST_CODES, legacy_questions
from handrail.client._requests import Request
from handrail.errors import RemoteProtocolError
from handrail.transcript import CANCELLED_CODE, CLIENT_ERROR_CODE, Failed, Finished
from handrail.transcript._reducer import verdict_of
from handrail.transcript._run_state import CANCELLED_MESSAGE

__all__ = ["AgentStream", "cancelled", "failed_with"]

LEGACY_QUESTION = "on_interrupt"


def cancelled() -> Failed:
    """The state of a run that was cancelled or stopped on this side; the text is fixed (S-41)."""
    return Failed(CANCELLED_MESSAGE, CANCELLED_CODE)


def failed_with(cause: BaseException) -> Failed:
    """The state of a run that failed by something the client found (S-12)."""
    return Failed(str(cause) or type(cause).__name__ or "Run failed", CLIENT_ERROR_CODE, cause)


class AgentStream:
    """What an agent says in answer to one request. `verdict` is that on the last run, None while there is none.

    `hears_warnings` is whether the agent's own run tells what happens behind the end of a run.
    """

    def __init__(self, ledger: Ledger, request: Request, *, fails_late: bool) -> None:
        self._ledger = ledger
        self._request = request
        self._fails_late = fails_late
        self._run_id: str | None = None
        self._calls: dict[str, None] = {}
        self._legacy: list[Any] = []
        self._listed: Sequence[str] = ()
        self._saw_the_asked_run = False
        self._settles_at_end: Finished | Failed | None = None
        self._is_replay = False
        self.hears_warnings = False
        self.verdict: Finished | Failed | None = None

    @property
    def waits_for_more(self) -> bool:
        """Whether the last run is over, and only a late error or a further run can follow."""
        return self.verdict is not None and not self._is_replay

    def take(self, event: Event) -> bool:
        """Fold one event, as one step; False if it was dropped."""
        with self._ledger.lock:
            return self._take(event)

    def fail(self, state: Failed) -> None:
        """The client found a failure, or somebody cancelled; nothing where the agent has had its say (S-18)."""
        if self.verdict is None:
            self._conclude(state)

    def close(self) -> tuple[ToolCall, ...]:
        """Nothing more will come: settle what had to wait for that, and give the calls that are now to be answered."""
        with self._ledger.lock:
            return self._close()

    # -- events ----------------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> bool:
        if isinstance(event, RunStartedEvent | RunFinishedEvent) and self._is_of_others(event):
            return self._refused(event)
        if isinstance(event, RunStartedEvent):
            self._started(event)
        elif isinstance(event, RunErrorEvent):
            return self._failed(event)
        elif self.verdict is not None:
            return self._dropped(event)
        elif isinstance(event, RunFinishedEvent):
            self._finished(event)
        else:
            if isinstance(event, ToolCallStartEvent):
                self._calls[event.tool_call_id] = None
                self._ledger.led_to.setdefault(event.tool_call_id, self._request.run_id)
            elif isinstance(event, CustomEvent) and event.name == LEGACY_QUESTION:
                self._legacy.append(event.value)
            self._ledger.apply(event)
        return True

    def _close(self) -> tuple[ToolCall, ...]:
        ledger = self._ledger
        if self._settles_at_end is not None and self.verdict is not None:
            ledger.questions.retire(unless_asked=_asked_by(self._settles_at_end))
            ledger.hold()
            self._conclude(self.verdict)
        if not self._saw_the_asked_run and self._run_id is not None and not self.hears_warnings:
            self._warn(
                "run-id-mismatch", f"the run asked for is {self._request.run_id}, and the agent's {self._run_id}"
            )
        return self._answerable()

    def _started(self, event: RunStartedEvent) -> None:
        ledger = self._ledger
        self._run_id = event.run_id
        self._is_replay = ledger.run_ids.get(event.run_id, False)
        if event.run_id == self._request.run_id:
            self._saw_the_asked_run = True
        self._calls, self._legacy, self._listed = {}, [], ()
        self._settles_at_end = None
        self.verdict = None
        ledger.pending_calls = ()
        if self._request.carried:
            ledger.questions.reached_the_agent = True
        ledger.apply(event)

    def _finished(self, event: RunFinishedEvent) -> None:
        ledger = self._ledger
        ledger.fold_only(event)
        state = verdict_of(event)
        if isinstance(state, Finished) and event.outcome is None and self._legacy:
            asked = legacy_questions(event.run_id, self._legacy)
            state = replace(state, outcome="interrupt", result=None, interrupts=asked)
            self._warn("legacy-interrupt", f"run {event.run_id} asks by CUSTOM events, as servers did before outcomes")
        if isinstance(event.outcome, RunFinishedSuccessOutcome):
            self._list(event.outcome.pending_tool_call_ids or ())
        if not self._is_replay:
            self._settle_questions(event.run_id, state)
            ledger.run_ids[event.run_id] = True
        self._conclude(state)

    def _settle_questions(self, run_id: str, state: Finished | Failed) -> None:
        """What was owed is consumed by the run that carried it, and what this run asks takes the place of the rest."""
        questions = self._ledger.questions
        if self._request.carried and run_id == self._request.run_id:
            questions.retire()
        elif self._request.carried and not self._saw_the_asked_run:
            self._settles_at_end = state
        if _asked_by(state):
            own = tuple(call.id for call in self._ledger.fold.unanswered if call.id in self._calls)
            questions.ask(_asked_by(state), own)
        self._ledger.hold()

    def _failed(self, event: RunErrorEvent) -> bool:
        state = Failed(event.message, event.code)
        if isinstance(self.verdict, Failed):
            return self._dropped(event)
        if self.verdict is None:
            self._ledger.fold_only(event)
            self._conclude(state)
            if self._request.carried and event.code in LOST_CODES:
                words = (
                    f"the agent does not know the questions that were answered ({event.code}); nothing was released:"
                )
                self._warn("interrupt-lost", f"{words} abandon_interrupts() gives them up")
            return True
        if not self.hears_warnings:
            self._warn("late-run-error", f"the agent reported an error after its run had finished: {event.message}")
        self._conclude(state if self._fails_late else replace(self.verdict, late_error=state))
        return True

    def _dropped(self, event: Event) -> bool:
        self._warn("event-after-end", f"{event.type.value} came after the end of the run, and was dropped")
        return False

    def _conclude(self, state: Finished | Failed) -> None:
        self.verdict = state
        self._ledger.end(state)
        self._ledger.pending_calls = tuple(call.id for call in self._answerable())

    def _is_of_others(self, event: RunStartedEvent | RunFinishedEvent) -> bool:
        """Whether the ids are not ours (S-23); an agent that tells warnings has judged that itself."""
        if self.hears_warnings:
            return False
        is_of_another_run = isinstance(event, RunFinishedEvent) and event.run_id != self._run_id
        return is_of_another_run or event.thread_id != self._ledger.thread_id

    def _refused(self, event: RunStartedEvent | RunFinishedEvent) -> bool:
        if self.verdict is not None:
            return self._dropped(event)
        words = f"{event.type.value} is of run {event.run_id!r} in thread {event.thread_id!r}"
        here = f"run {self._run_id or self._request.run_id!r} in thread {self._ledger.thread_id!r}"
        raise RemoteProtocolError(f"the agent broke the protocol: {words}, and this is {here}", rule="S-23")

    # -- calls -----------------------------------------------------------------------------------------------------

    def _answerable(self) -> tuple[ToolCall, ...]:
        """The calls that are for this side to answer: the agent may have listed which of this run's are (S-63)."""
        if self._is_replay or not isinstance(self.verdict, Finished) or self.verdict.outcome == "cancelled":
            return ()
        calls = self._ledger.unanswered
        if not self._listed:
            return calls
        return tuple(call for call in calls if call.id in self._listed or call.id not in self._calls)

    def _list(self, call_ids: Sequence[str]) -> None:
        self._listed = tuple(call_ids)
        known = {call.id for call in self._ledger.fold.unanswered} if call_ids and not self._is_replay else call_ids
        for call_id in call_ids:
            if call_id not in known:
                words = f"the agent lists call {call_id} as pending, which is unknown or answered"
                self._warn("pending-id-unknown", words)

    def _warn(self, code: str, message: str) -> None:
        self._ledger.note(WarningRecord(code, message))


def _asked_by(state: Finished | Failed) -> Sequence[Interrupt]:
    """The questions that a run ended with."""
    return state.interrupts if isinstance(state, Finished) else ()
