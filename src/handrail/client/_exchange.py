"""One exchange: a request, and the follow-ups that deliver what client tools gave.

It lives in the caller's task, inside a cancel scope of its own. `stop()` cancels that scope, a cancelled caller the
task; in both cases the exchange is recorded where it stands, in plain code that waits for nothing, and only the second
goes on to the caller. An event loop that is closed under it closes it in the same way, and so the session can go on
elsewhere (R-100). The agent's run is cancelled on every way out (S-155).

Under trio a run needs a task group to live in. Where the caller has none the exchange makes one, and leaves it by an
exception: that cancels what is left instead of waiting for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from ag_ui.core import (
    Event,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCall,
    ToolMessage,
)

from handrail.agui._approvals import Ask
from handrail.agui._copies import copied
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.client._agent_run import AgentRun
from handrail.client._client_tools import ToolRound
from handrail.client._ledger import Ledger
from handrail.client._observe import Observers
from handrail.client._params import RunParams
from handrail.client._port import Agent
from handrail.client._requests import Request, build
from handrail.client._stream import AgentStream, cancelled, failed_with
from handrail.client._workshop import Workshop
from handrail.errors import TruncatedError
from handrail.run import Outcome, Run, RunScope, Settled
from handrail.run._hosting import LOOP_CLOSED
from handrail.run._loops import Home, cancelled_class, current_home, is_cancelled_from_outside
from handrail.run._run import log_of
from handrail.run._scope import current_scope
from handrail.run._settled import settle
from handrail.tools import Tool
from handrail.transcript import CLIENT_ERROR_CODE, Failed, Finished, RunState

__all__ = ["Exchange", "Setting"]

DEFAULT_GRACE = 2.0
"""Seconds in which something may follow a terminal event, where the agent does not say."""

_THREAD_CODES = frozenset(
    {
        "activity",
        "call-id-reused",
        "call-renamed",
        "encrypted-value",
        "message-id-reused",
        "message-kind",
        "result-before-end",
        "result-without-call",
        "second-result",
        "snapshot-dropped-open",
        "snapshot-dropped-turn",
        "state-delta",
        "tool-call-reopened",
    }
)
"""Warnings that the session's own fold gives: it alone knows activities and earlier runs. The agent's are dropped."""


@dataclass(slots=True)
class Setting:
    """What all exchanges of a session share. `kept` is what may still work when the exchange that began it is over."""

    agent: Agent
    ledger: Ledger
    observers: Observers
    registry: Mapping[str, Tool]
    ask: Ask | None
    max_tool_rounds: int
    fails_late: bool
    warn: WarningSink
    new_id: Callable[[], str]
    kept: list[Run[Any]] = field(default_factory=list[Run[Any]])

    def keep(self, run: Run[Any]) -> None:
        """Remember a run until it is drained."""
        self.kept = [*(one for one in self.kept if not one.drained.is_set), run]

    def publish(self) -> None:
        """A step is over: tell what it warned of, and what the screen shows now."""
        self.ledger.tell()
        self.observers.publish(self.ledger.transcript)


class Exchange:
    """One call of `send`, `run` or `resume` while it has its turn."""

    def __init__(self, setting: Setting, params: RunParams) -> None:
        self._setting = setting
        self._params = params
        self._ledger = setting.ledger
        self._scope: anyio.CancelScope | None = None
        self._home: Home | None = None
        self._rounds = 0
        self._owes_a_round = False
        self.over: Settled[None] = Settled()
        self.is_stopped = False
        self._is_asking = False
        self._stream: AgentStream | None = None

    @property
    def is_running(self) -> bool:
        """Whether a run of the agent is going on that has no verdict yet; to be asked under the ledger's lock."""
        return self._is_asking and (self._stream is None or self._stream.verdict is None)

    def stop(self) -> None:
        """End the exchange where it stands; from any thread, never waits, never raises."""
        self.is_stopped = True
        scope, home = self._scope, self._home
        if scope is not None and home is not None:
            home.call(scope.cancel)

    def close(self) -> None:
        """The turn was given back: what carries this exchange's mark may call the session again."""
        settle(self.over, None)

    async def go(self, request: Request) -> RunState:
        """Carry the request out, and its follow-ups; returns the state in which the last run ended."""
        try:
            await _hosting(lambda: self._stoppable(request))
        finally:
            if self._owes_a_round:
                self._warn("tool-loop-stopped", "the exchange was stopped before its tool results were delivered")
        return self._ledger.transcript.run

    async def _stoppable(self, request: Request) -> None:
        self._home = current_home()
        with anyio.CancelScope() as self._scope:
            if self.is_stopped:
                self._scope.cancel()
            await self._runs(request)

    async def _runs(self, request: Request) -> None:
        while True:
            calls = await self._run(request)
            verdict = self._ledger.transcript.run
            followed = await self._round(calls) if calls and isinstance(verdict, Finished) else False
            if not followed or not isinstance(verdict, Finished) or verdict.outcome != "success":
                self._owes_a_round = False
                return
            if self.is_stopped:
                return
            following = self._follow_up()
            if following is None:
                return
            request = following

    def _follow_up(self) -> Request | None:
        """The request that delivers the results; one that cannot be made is a failure of the run."""
        self._rounds += 1
        setting = self._setting
        try:
            tools = tuple(setting.registry.values())
            request = build(self._ledger, tools, self._params, setting.new_id(), warn=setting.warn)
        except Exception as error:
            self._owes_a_round = False
            self._ledger.end(failed_with(error))
            self._publish()
            return None
        self.adopt(request)
        self._publish()
        return request

    def adopt(self, request: Request) -> None:
        """The request stands: it is history, whether or not it reaches the agent."""
        with self._ledger.lock:
            self._ledger.run_ids[request.run_id] = False
            self._ledger.adopt(request.made, request.turn)
            self._is_asking, self._stream = True, None

    # -- one run ---------------------------------------------------------------------------------------------------

    async def _run(self, request: Request) -> tuple[ToolCall, ...]:
        """Have the agent answer one request; gives the calls that are now for this side to answer."""
        setting = self._setting
        run: Run[Event] | None = None
        stream = self._stream = AgentStream(self._ledger, request, fails_late=setting.fails_late)
        self._owes_a_round = False
        try:
            if self.is_stopped:
                stream.fail(cancelled())
            else:
                run = setting.agent.start(request.input)
                setting.keep(run)
                await self._read(run, stream)
        except BaseException as error:
            state, is_for_the_caller = self._ended_by(error)
            stream.fail(state)
            if is_for_the_caller:
                raise
        finally:
            self._is_asking = False
            if run is not None:
                run.cancel()
            calls = stream.close()
            self._owes_a_round = isinstance(stream.verdict, Finished) and bool(self._executable(calls))
            self._publish()
        return calls

    def _ended_by(self, error: BaseException) -> tuple[Failed, bool]:
        """How a run ended that raised `error`, and whether it goes on to the caller.

        On an event loop that was closed nothing may follow, whatever the scopes that were left have made of the error.
        """
        if self._home is None or not self._home.is_here():
            return cancelled() if self.is_stopped else Failed(LOOP_CLOSED, CLIENT_ERROR_CODE), True
        if not isinstance(error, cancelled_class()):
            return failed_with(error), not isinstance(error, Exception)
        was_cancelled = self.is_stopped or is_cancelled_from_outside()
        return cancelled() if was_cancelled else failed_with(error), was_cancelled

    async def _read(self, run: Run[Event], stream: AgentStream) -> None:
        """Take in what the agent says, to the end of the stream or of the grace behind a terminal event.

        A run that begins in the very moment in which the grace is over is read on, in a scope that is not cancelled.
        """
        grace = getattr(self._setting.agent, "close_grace", DEFAULT_GRACE)
        hear: Callable[[WarningSink], object] | None = getattr(run, "on_warning", None)
        if hear is not None:
            stream.hears_warnings = True
            hear(self._pass_on)
        events = aiter(_events_of(run))
        while stream.verdict is None:
            with anyio.CancelScope() as reading:
                async for event in events:
                    self._take(event, stream)
                    if self.is_stopped:  # by a callback, and what comes next may be here already
                        stream.fail(cancelled())
                        return
                    if isinstance(event, RunStartedEvent | RunFinishedEvent | RunErrorEvent):
                        ends = anyio.current_time() + grace if stream.waits_for_more else float("inf")
                        reading.deadline = ends
                outcome = await run.result
                if stream.verdict is None:
                    stream.fail(_failure(outcome, run))
                elif hear is None and outcome.outcome == "failed":
                    self._warn("transport-after-end", f"after the end of the run: {outcome.error}")

    def _take(self, event: Event, stream: AgentStream) -> None:
        is_folded = stream.take(event)
        self._publish()
        if is_folded:
            self._setting.observers.tell(event)

    def _pass_on(self, record: WarningRecord) -> None:
        if record.code not in _THREAD_CODES:
            self._setting.warn(record)

    # -- one round of tools ----------------------------------------------------------------------------------------

    def _executable(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """The calls that a tool of the session can answer.

        One that needs an approval nobody can give is not among them, nor one that has been answered before: what the
        agent did is not done once more, even if a snapshot of its own has left the result out (S-64).
        """
        setting, fold = self._setting, self._ledger.fold

        def can(call: ToolCall) -> bool:
            tool = setting.registry.get(call.function.name)
            may = tool is not None and (setting.ask is not None or not tool.needs_approval)
            return may and not fold.was_answered(call.id)

        return tuple(call for call in calls if can(call))

    async def _round(self, calls: Sequence[ToolCall]) -> bool:
        """Execute what can be executed; whether that answered all calls, so that a follow-up is due."""
        setting, limit = self._setting, self._setting.max_tool_rounds
        mine = self._executable(calls)
        if not mine:
            return False
        if self._rounds >= limit:
            self._ledger.leave_unanswered(
                {call.id: f"Not executed: limit of {limit} tool rounds reached" for call in mine}
            )
            names = ", ".join(call.id for call in mine)
            self._warn("tool-rounds-exhausted", f"calls {names} are left: the limit of {limit} tool rounds is reached")
            return False
        workshop = Workshop(self)
        setting.keep(workshop.run)
        tools = ToolRound(
            mine,
            setting.registry,
            setting.ask,
            thread_id=self._ledger.thread_id,
            workshop=workshop,
            desk=self,
            new_id=setting.new_id,
        )
        try:
            await tools.run()
        finally:
            tools.stop()
            workshop.close()
        return len(mine) == len(calls)

    def tool_started(self, call_id: str) -> None:
        self._ledger.start_tool(call_id)
        self._publish()

    def tool_answered(self, message: ToolMessage, *, denied: bool = False) -> None:
        self._ledger.show_answer(message, denied=denied)
        self._publish()

    def tools_settled(self, calls: Sequence[str]) -> None:
        self._ledger.place_answers(calls)

    def run_id_of(self, call_id: str) -> str:
        return self._ledger.run_id_of(call_id)

    # -- telling ---------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        self._setting.publish()

    def _warn(self, code: str, message: str) -> None:
        self._setting.warn(WarningRecord(code, message))


def _events_of(run: Run[Event]) -> AsyncIterable[Event]:
    """The events of a run as the books may keep them: nobody else may hold what they stand on.

    A run of ours gives everybody else copies. What another agent's run publishes is anybody's.
    """
    return log_of(run) if isinstance(run, AgentRun) else _Copies(aiter(run.events))


class _Copies(AsyncIterator[Event]):
    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events

    async def __anext__(self) -> Event:
        return copied(await anext(self._events))


def _failure(outcome: Outcome, run: Run[Event]) -> Failed:
    """Why a stream ended without the agent's verdict, as its run tells it."""
    if outcome.outcome == "cancelled":
        return cancelled()
    report: Any = getattr(run, "report", None)
    cause: BaseException | None = getattr(report, "cause", None)
    if cause is None and outcome.outcome == "completed":
        cause = TruncatedError()
    if cause is not None:
        return failed_with(cause)
    return Failed(outcome.error or "Run failed", CLIENT_ERROR_CODE)


class _Left(Exception):
    """Raised in a scope of ours, so that it cancels what is left instead of waiting for it."""


async def _hosting(work: Callable[[], Awaitable[None]]) -> None:
    """Do the work where runs can be started."""
    home = current_home()
    if home is None or home.name != "trio" or current_scope() is not None:
        await work()
        return
    failure: BaseException | None = None
    try:
        async with RunScope():
            try:
                await work()
            except cancelled_class():
                raise
            except BaseException as error:  # by itself, not in a group of one
                failure = error
            raise _Left
    except _Left:
        if failure is not None:
            raise failure from None
