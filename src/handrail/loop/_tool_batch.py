"""Step 10 of a round: the calls of one turn, group by group; and, before the first round, the calls that waited.

Every call ends in exactly one of these ways, and the conversation gets its answer at that moment:

| the call                                          | event                              | answer                     |
|---------------------------------------------------|------------------------------------|----------------------------|
| names no tool, or its arguments do not fit        | ToolResult, an error               | what is wrong              |
| belongs to the client, or waits for an approval   | none: it stays open                | none                       |
| was denied, or its question withdrawn             | ToolAbandoned, not dispatched      | not run                    |
| was seen to end                                   | ToolStarted, ToolResult            | what it gave, or the error |
| did not end in time                               | ToolStarted, ToolAbandoned         | unknown                    |
| stands behind a group that did not end in time    | ToolAbandoned, not dispatched      | not run                    |

Whatever else ends the run in the middle leaves the rest to the epilogue, which gives up what is still announced here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from ag_ui.core import Interrupt, ResumeEntry, TextPart, ToolCall, ToolMessage

from handrail.agui._approvals import Ask, Given, entry_from_person, entry_of, refusal
from handrail.agui._text import whole
from handrail.errors import AbortRun, first_of
from handrail.events import AbandonReason, CancelStage, ToolContent
from handrail.loop._conversation import Conversation
from handrail.loop._drafts import AskAnswered, AskPending, ToolAbandoned, ToolResult, ToolStarted
from handrail.loop._driver import LoopDriver
from handrail.loop._end import End
from handrail.loop._limits import Tally
from handrail.loop._plan import Catalogue, Denied, Plan, Ready, Refused, judge, plan_of
from handrail.loop._tool_run import ToolRun
from handrail.loop._words import abandoned
from handrail.run import Ended
from handrail.tools import error_message, error_text, groups

__all__ = ["ToolBatch"]

_logger = logging.getLogger("handrail.loop")


class ToolBatch:
    """The calls of one turn. `interrupts` and `pending_calls` are those that stay open, in call order.

    What an epilogue may find open here are calls that were announced and not answered, some of them dispatched, and the
    question that a person is being asked.
    """

    __slots__ = (
        "_announced",
        "_ask",
        "_asking",
        "_catalogue",
        "_conversation",
        "_dispatched",
        "_driver",
        "_is_ask_async",
        "_round",
        "_tally",
        "_timeout",
        "_tripped",
        "interrupts",
        "pending_calls",
    )

    def __init__(
        self,
        driver: LoopDriver,
        conversation: Conversation,
        catalogue: Catalogue,
        tally: Tally,
        *,
        ask: Ask | None,
        is_ask_async: bool,
        timeout: float | None,
        tripped: Callable[[], str | None],
    ) -> None:
        self._driver = driver
        self._conversation = conversation
        self._catalogue = catalogue
        self._tally = tally
        self._ask = ask
        self._is_ask_async = is_ask_async
        self._timeout = timeout
        self._tripped = tripped
        self._round = 0
        self._announced: dict[str, ToolCall] = {}
        self._dispatched: dict[str, None] = {}
        self._asking: Interrupt | None = None
        self.interrupts: tuple[Interrupt, ...] = ()
        self.pending_calls: tuple[str, ...] = ()

    async def run(self, calls: Sequence[ToolCall], round: int) -> End | None:
        """All calls of a turn, announced by the caller; None: go on, what could be answered is answered."""
        self._announced.update((call.id, call) for call in calls)
        return await self._run([plan_of(self._catalogue, call) for call in calls], round)

    async def resume(self, waiting: Sequence[ToolCall], answers: Mapping[str, Given]) -> End | None:
        """The calls that waited in the input: those with an answer as in a round, the others as before."""
        plans = [plan_of(self._catalogue, call, answers.get(call.id), is_waiting=True) for call in waiting]
        self._announced.update((plan.call.id, plan.call) for plan in plans if plan.answer is not None)
        return await self._run(plans, 0)

    async def _run(self, plans: Sequence[Plan], round: int) -> End | None:
        self._round = round
        self._leave_open(plans)
        behind = groups(plans, lambda plan: plan.tool is not None and plan.tool.parallel)
        while behind:
            group = [plan for plan in behind.pop(0) if not self._stays_open(plan)]
            if not group:
                continue
            if self._driver.is_called_off:
                return End.cancelled("tools")
            if cap := self._tripped():
                return End.failed(cap, "budget-exhausted")
            ready = await self._admit(group)
            if isinstance(ready, End):
                return ready
            overran = await self._execute(ready)
            if isinstance(overran, End):
                return overran
            if overran:
                self._give_up_those_behind(behind)
                return None
        return None

    # -- before: what is to be done ------------------------------------------------------------------------------

    def _stays_open(self, plan: Plan) -> bool:
        return plan.is_clients or (plan.interrupt is not None and plan.answer is None and self._ask is None)

    def _leave_open(self, plans: Sequence[Plan]) -> None:
        left = [plan for plan in plans if self._stays_open(plan)]
        self.interrupts = tuple(plan.interrupt for plan in left if plan.interrupt is not None)
        self.pending_calls = tuple(plan.call.id for plan in left if plan.interrupt is None)

    async def _admit(self, group: Sequence[Plan]) -> list[Ready] | End:
        """Answer the calls that are not to run, ask about those that need it, and give the rest."""
        admitted: list[Ready] = []
        for plan in group:
            entry = await self._decided(plan)
            if isinstance(entry, End):
                return entry
            match judge(plan, entry):
                case Ready() as ready:
                    admitted.append(ready)
                case Refused(text):
                    self._tally.refuse(plan.call)
                    self._result(plan.call, text, is_error=True)
                case Denied(reason, detail):
                    self._abandon(plan.call, reason, dispatched=False, detail=detail)
        return admitted

    async def _decided(self, plan: Plan) -> ResumeEntry | End | None:
        """The entry on which a call is run or not; None where nobody need be asked."""
        if plan.interrupt is None or (plan.refusal is not None and plan.answer is None):
            return None
        if plan.answer is not None:
            return entry_of(plan.answer, plan.interrupt)
        return await self._ask_person(plan.call, plan.interrupt)

    async def _ask_person(self, call: ToolCall, interrupt: Interrupt) -> ResumeEntry | End:
        ask, driver = self._ask, self._driver
        assert ask is not None
        self._asking = interrupt
        driver.emit(AskPending(ts=driver.now(), interrupt=interrupt))
        start = driver.start if self._is_ask_async else driver.start_in_thread
        child = start(lambda: ask(interrupt.model_copy(deep=True)), f"ask {interrupt.id}")
        await driver.wait(lambda: child.ended is not None)
        if driver.is_called_off or child.ended is None:
            child.give_up()
            return End.cancelled("asking")
        entry = self._entry_said(child.ended, interrupt)
        self._asking = None
        self._announced.setdefault(call.id, call)
        driver.emit(AskAnswered(ts=driver.now(), interrupt_id=interrupt.id, answer=entry))
        return entry

    def _entry_said(self, ended: Ended[Any], interrupt: Interrupt) -> ResumeEntry:
        if ended.error is None:
            return entry_from_person(ended.value, interrupt)
        _logger.error("asking about call %s raised", interrupt.id, exc_info=ended.error)
        told = error_text(ended.error)
        self._driver.log("error", f"asking about call {interrupt.id} raised {told}")
        return refusal(interrupt, f"asking a person ended with {told}")

    # -- during --------------------------------------------------------------------------------------------------

    async def _execute(self, group: Sequence[Ready]) -> End | bool:
        """Run a group to its end; True: one of it did not end in time."""
        for ready in group:
            self._announce_start(ready)
        runs: list[ToolRun] = []
        try:
            runs.extend(self._start(ready) for ready in group)
            return await self._settle(list(runs))
        finally:
            for run in runs:
                run.close()

    def _announce_start(self, ready: Ready) -> None:
        call = ready.call
        self._tally.dispatch(call)
        self._dispatched[call.id] = None
        self._driver.emit(
            ToolStarted(
                ts=self._driver.now(),
                id=call.id,
                name=call.function.name,
                arguments=deepcopy(dict(ready.arguments)),
                round=self._round,
            )
        )

    def _start(self, ready: Ready) -> ToolRun:
        tool = ready.tool
        timeout = self._timeout if tool.timeout is None else tool.timeout
        return ToolRun(
            self._driver,
            ready.call,
            tool,
            ready.arguments,
            round=self._round,
            timeout=timeout,
            preface=ready.preface,
        )

    async def _settle(self, running: list[ToolRun]) -> End | bool:
        """Wait until each has ended or is given up. What ended in the instant of a cancel or deadline has ended."""
        overran = False
        while running:
            await self._driver.wait(lambda: any(run.ended for run in running), self._until_deadline(running))
            stopped = [end for run in running if run.ended is not None and (end := self._ended(run)) is not None]
            if stopped:
                return stopped[0]
            running[:] = [run for run in running if run.ended is None]
            if running and self._driver.is_called_off:
                return End.cancelled("tools")
            for run in self._overdue(running):
                running.remove(run)
                overran = True
                run.close()
                self._abandon(run.call, "deadline", dispatched=True)
        return overran

    def _until_deadline(self, running: Sequence[ToolRun]) -> float | None:
        deadlines = [run.deadline for run in running if run.deadline is not None]
        return max(0.0, min(deadlines) - self._driver.monotonic()) if deadlines else None

    def _overdue(self, running: Sequence[ToolRun]) -> list[ToolRun]:
        now = self._driver.monotonic()
        return [run for run in running if run.deadline is not None and run.deadline <= now]

    # -- after: every call gets its answer -----------------------------------------------------------------------

    def _ended(self, run: ToolRun) -> End | None:
        run.close()
        ended = run.ended
        assert ended is not None
        duration = self._driver.monotonic() - run.started_at
        error = ended.error
        if error is None:
            self._result(run.call, _with_preface(run.preface, ended.unwrap()), False, duration)
            return None
        _logger.debug("tool %s raised", run.call.function.name, exc_info=error)
        self._result(run.call, _with_preface(run.preface, error_text(error)), True, duration)
        abort = first_of(error, AbortRun)
        return abort and End.failed(error_message(abort) or error_text(abort))

    def _result(self, call: ToolCall, content: ToolContent, is_error: bool, duration: float | None = None) -> None:
        message_id, content = self._driver.new_id(), _whole_content(content)
        error = content if is_error and isinstance(content, str) else None
        self._answer(ToolMessage(id=message_id, tool_call_id=call.id, content=content, error=error))
        self._driver.emit(
            ToolResult(
                ts=self._driver.now(),
                id=call.id,
                name=call.function.name,
                content=content,
                is_error=is_error,
                message_id=message_id,
                duration=duration,
                round=self._round,
            )
        )

    def _abandon(self, call: ToolCall, reason: AbandonReason, *, dispatched: bool, detail: str | None = None) -> None:
        message_id, content = self._driver.new_id(), whole(abandoned(reason, dispatched, detail))
        self._answer(ToolMessage(id=message_id, tool_call_id=call.id, content=content))
        self._driver.emit(
            ToolAbandoned(
                ts=self._driver.now(),
                id=call.id,
                name=call.function.name,
                reason=reason,
                dispatched=dispatched,
                content=content,
                message_id=message_id,
                round=self._round,
            )
        )

    def _answer(self, message: ToolMessage) -> None:
        self._conversation.answer(message)
        self._announced.pop(message.tool_call_id, None)

    def _give_up_those_behind(self, behind: Sequence[Sequence[Plan]]) -> None:
        for plan in (plan for group in behind for plan in group):
            if not self._stays_open(plan):
                self._abandon(plan.call, "deadline", dispatched=False)

    @property
    def stage(self) -> CancelStage | None:
        """Where a cancellation finds the run, if it finds it here."""
        if self._asking is not None:
            return "asking"
        return "tools" if self._announced else None

    def close(self, end: End) -> None:
        """Close what the end of the run finds open here: the question first, then the calls, in order."""
        if self._asking is not None:
            self._driver.emit(AskAnswered(ts=self._driver.now(), interrupt_id=self._asking.id))
            self._asking = None
        for call in list(self._announced.values()):
            if call.id not in end.left_open:
                self._abandon(call, end.abandons, dispatched=call.id in self._dispatched)


def _whole_content(content: ToolContent) -> ToolContent:
    """The content without halves of characters, which no provider takes: a file's name may have one."""
    if isinstance(content, str):
        return whole(content)
    return [
        part.model_copy(update={"text": whole(part.text)}) if isinstance(part, TextPart) else part for part in content
    ]


def _with_preface(preface: str, content: ToolContent) -> ToolContent:
    if not preface:
        return content
    return f"{preface}\n{content}" if isinstance(content, str) else [TextPart(text=preface), *content]
