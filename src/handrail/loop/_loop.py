"""One run of a loop, step by step.

| step | what                                                       | leaves to                                       |
|------|------------------------------------------------------------|-------------------------------------------------|
| A    | RunStarted; input repaired; answers to waiting calls       | calls still waiting: completed, with interrupts |
| 1    | cancelled?                                                 | cancelled (start)                               |
| 2    | round += 1; caps                                           | failed (budget-exhausted)                       |
| 3    | steers taken, appended                                     |                                                 |
| 4    | RoundStarted                                               |                                                 |
| 5    | attempts over the backends                                 | cancelled (streaming, backoff); failed          |
| 6    | calls and tools on: limits, before anything is committed   | tripped: discarded, notice, tools off, to 1     |
| 7    | commit                                                     |                                                 |
| 8    | no calls: a steer is waiting: to 1                         | else completed                                  |
| 9    | ToolCall for all calls, in order                           |                                                 |
| 10   | per group: cancel, caps, approvals, execution              | cancelled (tools, asking); failed               |
| 11   | calls left open: approval or client tool                   | completed, with interrupts or pending calls     |
| 12   | to 1                                                       |                                                 |

Every step that ends the run returns an `End`, and every `End`, also that of an exception anywhere in here, goes through
the one epilogue: what is open is closed (attempt, turn, question, calls), waiting steers are appended, the run ends.

The result never waits for what still stops: streams and tools are children, and where one is left the run is
finished before it is waited for. Where none is left, it is finished behind that, so that `drained` comes with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ag_ui import core as agui

from handrail.agui._approvals import Ask, Given
from handrail.agui._text import whole
from handrail.events import CancelStage, DiscardReason, RunEvent
from handrail.loop import _drafts as ev
from handrail.loop._attempts import RetryPolicy
from handrail.loop._backend import Backend, BackendRequest, ToolSpec
from handrail.loop._budget import NO_BUDGET, Budget, Ledger
from handrail.loop._chain import Answer, Chain
from handrail.loop._conversation import Conversation, preamble, unanswered
from handrail.loop._driver import LoopDriver
from handrail.loop._end import End
from handrail.loop._limits import Limits, Tally, Trip
from handrail.loop._plan import Catalogue
from handrail.loop._repair import repair
from handrail.loop._tool_batch import ToolBatch
from handrail.loop._turn import CallDraft
from handrail.run._loops import cancelled_class, children, is_cancelled_from_outside
from handrail.run._outcome import error_line

__all__ = ["Drive", "Setting"]

_logger = logging.getLogger("handrail.loop")

_NOT_BEGUN = End.cancelled("start")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The configuration of a loop, as its runs use it."""

    backends: tuple[Backend, ...]
    system: str | None
    budget: Budget | None
    limits: Limits
    retry: RetryPolicy
    tool_timeout: float | None
    idle_timeout: float | None
    ask: Ask | None
    is_ask_async: bool


class Drive:
    """The driving of one run."""

    __slots__ = (
        "_answers",
        "_batch",
        "_cap",
        "_catalogue",
        "_chain",
        "_conversation",
        "_driver",
        "_ledger",
        "_message_count",
        "_preamble",
        "_repaired",
        "_round",
        "_setting",
        "_specs",
        "_tally",
        "_tools_on",
        "_tripped",
    )

    def __init__(
        self,
        driver: LoopDriver,
        setting: Setting,
        catalogue: Catalogue,
        *,
        messages: Sequence[agui.Message],
        context: Sequence[agui.Context],
        answers: Mapping[str, Given],
    ) -> None:
        self._driver = driver
        self._setting = setting
        self._answers = answers
        self._catalogue = catalogue
        self._message_count = len(messages)
        self._repaired = repair(messages, catalogue.needs_approval, driver.new_id)
        self._conversation = Conversation(self._repaired.messages)
        self._preamble = preamble(setting.system, context, driver.new_id)
        self._ledger = Ledger()
        self._cap = _look_at(setting.budget, self._ledger, driver)
        self._tally = Tally()
        self._specs = catalogue.specs() if catalogue else ()
        self._tools_on = bool(catalogue)
        self._tripped: Trip | None = None
        self._round = 0
        self._chain = Chain(
            driver, setting.backends, setting.retry, setting.budget or NO_BUDGET, self._ledger, setting.idle_timeout
        )
        self._batch = ToolBatch(
            driver,
            self._conversation,
            catalogue,
            self._tally,
            ask=setting.ask,
            is_ask_async=setting.is_ask_async,
            timeout=setting.tool_timeout,
            tripped=self._cap,
        )
        driver.epilogue = self._epilogue

    def begin(self) -> None:
        """The first events, before anything waits: the run exists, and what was mended of its input."""
        driver = self._driver
        driver.emit(ev.RunStarted(ts=driver.now(), message_count=self._message_count))
        for remark in self._repaired.remarks:
            driver.log("warning", remark)
        for call, message in self._repaired.unrecorded:
            driver.emit(
                ev.ToolAbandoned(
                    ts=driver.now(),
                    id=call.id,
                    name=call.function.name,
                    reason="unrecorded",
                    dispatched=True,
                    content=str(message.content),
                    message_id=message.id,
                    round=0,
                )
            )

    async def main(self) -> None:
        """Everything else, to the end of the run and of all that it started."""
        end = _NOT_BEGUN
        async with children() as self._driver.children:
            try:
                end = await self._steps()
            except Exception as error:
                _logger.exception("run %s: the loop itself raised", self._driver.run.id)
                end = End.failed(error_line(error))
            except BaseException as error:
                self._epilogue(self._end_by(error))
                raise
            if self._driver.has_children:
                self._epilogue(end)
        self._epilogue(end)

    # -- the table -----------------------------------------------------------------------------------------------

    async def _steps(self) -> End:
        if end := await self._continue():  # A
            return end
        while True:
            if self._driver.is_called_off:  # 1
                return End.cancelled("start")
            self._round += 1  # 2
            if cap := self._cap():
                return End.failed(cap, "budget-exhausted")
            self._take_steers()  # 3, for a round that there will be
            self._driver.emit(ev.RoundStarted(ts=self._driver.now(), round=self._round))  # 4
            answer = await self._chain.ask(self._request(), self._cap)  # 5
            if isinstance(answer, End):
                return answer
            drafts = answer.turn.calls
            if drafts and not self._tools_on:
                self._leave_out(drafts)
                if self._tripped and not answer.turn.text:
                    return End.failed(f"{self._tripped}, and the last answer said nothing", "budget-exhausted")
                drafts = []
            calls = self._calls_of(drafts) if drafts else []
            if calls and (trip := self._tally.look(self._setting.limits, calls)):  # 6
                self._turn_tools_off(trip)
                continue
            self._commit(answer, calls)  # 7
            if not calls:  # 8
                if self._driver.steers.close_if_empty():
                    return End(how="completed")
                continue
            self._announce(calls, answer.message_id)  # 9
            if end := await self._batch.run(calls, self._round):  # 10
                return end
            if end := self._left_open():  # 11
                return end

    async def _continue(self) -> End | None:
        """Step A: the answers to calls that waited when an earlier run ended."""
        waiting = [call for call in unanswered(self._conversation.messages) if self._catalogue.needs_approval(call)]
        known = {call.id for call in waiting}
        for stray in (answer for answer in self._answers if answer not in known):
            self._driver.log("warning", f"the answer to {stray!r} names no waiting call; nothing was done about it")
        if not waiting:
            return None
        return await self._batch.resume(waiting, self._answers) or self._left_open()

    def _take_steers(self) -> None:
        for message in self._driver.steers.take():
            message = self._conversation.append_steer(message, self._driver.new_id)
            self._driver.emit(ev.Steered(ts=self._driver.now(), message=message, round=self._round))

    def _request(self) -> Callable[[int], BackendRequest]:
        messages = (*self._preamble, *self._conversation.shown())
        tools: tuple[ToolSpec, ...] = self._specs if self._tools_on else ()

        def request(attempt: int) -> BackendRequest:
            return BackendRequest(
                messages=messages,
                tools=tools,
                run_id=self._driver.run.id,
                round=self._round,
                attempt=attempt,
                sleep=self._driver.clock.sleep,
            )

        return request

    def _calls_of(self, drafts: Sequence[CallDraft]) -> list[agui.ToolCall]:
        """The calls of an answer, each with an id of its own."""
        taken: set[str] = set()
        calls: list[agui.ToolCall] = []
        for draft in drafts:
            call_id = whole(draft.id or "")
            if not call_id.strip() or call_id in taken or self._conversation.has_call(call_id):
                call_id = self._driver.new_id()
                self._driver.log("warning", f"the call id {draft.id!r} is blank or taken; the call is now {call_id!r}")
            taken.add(call_id)
            function = agui.FunctionCall(name=whole(draft.name or ""), arguments=draft.arguments)
            calls.append(agui.ToolCall(id=call_id, function=function))
        return calls

    def _leave_out(self, drafts: Sequence[CallDraft]) -> None:
        names = ", ".join(draft.name or "" for draft in drafts)
        self._driver.log("warning", f"the model asked for {names}, but there are no tools to call; left out")

    def _turn_tools_off(self, trip: Trip) -> None:
        self._tools_on, self._tripped = False, trip
        notice = agui.SystemMessage(id=self._driver.new_id(), content=trip.notice())
        self._driver.emit(
            ev.LimitReached(
                ts=self._driver.now(),
                limit=trip.limit,
                count=trip.count,
                max=trip.max,
                name=trip.name,
                notice=notice,
            )
        )
        self._discard("limit")
        self._conversation.append(notice)

    def _discard(self, reason: DiscardReason) -> None:
        self._chain.is_uncommitted = False
        self._driver.emit(ev.TurnDiscarded(ts=self._driver.now(), reason=reason, round=self._round))

    def _commit(self, answer: Answer, calls: Sequence[agui.ToolCall]) -> None:
        turn = answer.turn
        reasoning: agui.ReasoningMessage | None = None
        if turn.reasoning or turn.opaque:
            reasoning = agui.ReasoningMessage(
                id=f"{answer.message_id}:reasoning",
                content=turn.reasoning,
                encrypted_value=turn.opaque,
                metadata={"backend": answer.backend_index, "model": answer.model},
            )
            self._conversation.append(reasoning)
        message = agui.AssistantMessage(
            id=answer.message_id,
            content=None if calls and not turn.text else turn.text,
            tool_calls=list(calls) or None,
        )
        self._conversation.append(message)
        self._chain.is_uncommitted = False
        self._tally.turns += bool(calls)
        self._driver.emit(
            ev.AssistantMessage(ts=self._driver.now(), message=message, reasoning=reasoning, round=self._round)
        )

    def _announce(self, calls: Sequence[agui.ToolCall], parent_id: str) -> None:
        for call in calls:
            self._driver.emit(
                ev.ToolCall(
                    ts=self._driver.now(),
                    id=call.id,
                    name=call.function.name,
                    arguments=call.function.arguments,
                    parent_id=parent_id,
                    round=self._round,
                )
            )

    def _left_open(self) -> End | None:
        interrupts, pending = self._batch.interrupts, self._batch.pending_calls
        if not interrupts and not pending:
            return None
        return End(how="completed", interrupts=interrupts, pending_calls=pending)

    # -- the end -------------------------------------------------------------------------------------------------

    def _end_by(self, error: BaseException) -> End:
        """What an exception that is no `Exception` means: a cancellation, a closed loop, or the end of the program."""
        driver = self._driver
        if not driver.is_at_home:
            if driver.is_called_off:
                return End.cancelled(self._stage)
            return End.failed("the event loop closed before the run ended")
        if isinstance(error, cancelled_class()) and is_cancelled_from_outside():
            return End.cancelled(self._stage)
        return End.failed(error_line(error))

    @property
    def _stage(self) -> CancelStage:
        return self._chain.stage or self._batch.stage or "start"

    def _epilogue(self, end: End) -> None:
        """Close what is open, and finish the run; nothing if it has finished."""
        if self._driver.run.is_done:
            return
        try:
            self._close(end)
            self._finish(end, self._terminal(end))
        except Exception as error:  # a clock or an id that raises here as well; what was said is not lost for it
            _logger.exception("run %s: its epilogue raised", self._driver.run.id)
            self._finish(End.failed(error_line(error)), None)

    def _close(self, end: End) -> None:
        driver = self._driver
        self._chain.close(end)
        if self._chain.is_uncommitted:
            self._discard("cancelled" if end.how == "cancelled" else "failed")
        self._batch.close(end)
        for message in driver.steers.close():
            message = self._conversation.append_steer(message, driver.new_id)
            driver.emit(ev.Steered(ts=driver.now(), message=message))

    def _finish(self, end: End, terminal: RunEvent | None) -> None:
        self._driver.finish(
            terminal,
            outcome=None if terminal else end.how,
            final=self._final(end),
            messages=self._conversation.messages,
            error=end.error or None,
            attempts=self._chain.attempts,
            reason=end.reason,
            interrupts=end.interrupts,
            spent=None if self._setting.budget is None else self._ledger.spent(self._driver.wall_clock),
        )

    def _final(self, end: End) -> str:
        return self._conversation.last_text if end.how == "completed" else self._conversation.last_words

    def _terminal(self, end: End) -> RunEvent:
        now, round = self._driver.now(), self._round or None
        if end.how == "completed":
            return ev.RunCompleted(
                ts=now,
                final=self._final(end),
                rounds=self._round,
                message_count=len(self._conversation.messages),
                interrupts=end.interrupts,
                pending_calls=end.pending_calls,
            )
        if end.how == "cancelled":
            return ev.RunCancelled(ts=now, stage=end.stage, round=round)
        attempts = tuple(self._chain.attempts)
        return ev.RunFailed(ts=now, error=end.error, attempts=attempts, reason=end.reason, round=round)


def _no_cap() -> None:
    return None


def _look_at(budget: Budget | None, ledger: Ledger, driver: LoopDriver) -> Callable[[], str | None]:
    """What says which cap of the budget is reached, if one is."""
    return _no_cap if budget is None else lambda: ledger.tripped(budget, driver.wall_clock)
