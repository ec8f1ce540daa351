"""`AgentSession`: one thread of one agent, call by call.

A call is judged first: what is wrong with its arguments, and, where nothing is running or queued, what the state of the
thread does not allow. Then it waits for its turn, is judged again by the thread as it is then, and has the turn until
its last follow-up is over. What a call changes it changes between these two points and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import anyio
from ag_ui.core import Event, Interrupt, Message, ResumeEntry, ToolMessage, UserMessage

from handrail.agui._approvals import Ask, Given, as_answers
from handrail.agui._copies import copied
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.client._agent_run import LateRunError, check_late_run_error
from handrail.client._blocking import block
from handrail.client._dump import dumped, read_dump
from handrail.client._exchange import Exchange, Setting
from handrail.client._ledger import Ledger
from handrail.client._observe import Changes, Observers, Warnings
from handrail.client._params import RunParams
from handrail.client._port import Agent
from handrail.client._turns import Turns, closed
from handrail.client._wish import Wish, own_params, own_state
from handrail.client._workshop import TOOL, marks
from handrail.errors import ReentrantCallError, SessionBusyError
from handrail.run import RunScope
from handrail.run._loops import closed_with_loop, current_home
from handrail.tools import Tool, as_content, catalogue
from handrail.tools._settings import require_callable
from handrail.transcript import RunState, Transcript

__all__ = ["AgentSession"]


class AgentSession:
    """One conversation with one agent that speaks AG-UI.

        session = AgentSession(HttpAgent("https://example.org/agent"), tools=[get_weather])
        state = await session.send("How is the weather in Rome?")
        print(session.transcript.text)

    Every call of `send`, `run` and `resume` ends with a `RunState` that says how the run ended; a failed run is a
    value, and only a cancelled caller and a wrong call raise. Calls take their turn, whatever task, event loop or
    thread they come from. Tools are executed when a run is over that called them, and a follow-up delivers the results.

    `messages` and `state` are what the thread begins with; `ask` answers tools that need an approval; `on_warning` is
    told of what was tolerated (else the logger `handrail` is); `late_run_error` is what an error means that the agent
    reports behind a finished run. `now` and `new_id` are for tests. Raises `ValueError` for two tools with one name and
    for options out of range, `TypeError` for what is no agent, message or tool. The session never closes the agent.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        thread_id: str | None = None,
        messages: Iterable[Message] = (),
        state: Any = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        ask: Ask | None = None,
        on_warning: WarningSink | None = None,
        max_tool_rounds: int = 25,
        late_run_error: LateRunError = "stand",
        now: Callable[[], datetime] | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        if not callable(getattr(agent, "start", None)):
            raise TypeError(f"{type(agent).__name__} is no agent: HttpAgent(url) is one, and LoopAgent(loop)")
        require_callable(ask, "ask", "a function of an interrupt", takes=1)
        require_callable(on_warning, "on_warning", "a function of a WarningRecord", takes=1)
        if isinstance(max_tool_rounds, bool) or not isinstance(max_tool_rounds, int) or max_tool_rounds < 0:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise ValueError(f"max_tool_rounds is a whole number from 0, not {max_tool_rounds!r}")
        self._warn = Warnings(on_warning)
        self._now = now or (lambda: datetime.now(UTC))
        new_id = new_id or (lambda: str(uuid4()))
        ledger = Ledger(thread_id or new_id(), messages, own_state(state), warn=self._warn, new_id=new_id)
        self._observers = Observers(ledger.transcript, self._warn)
        self._ledger = ledger
        self._setting = Setting(
            agent=agent,
            ledger=ledger,
            observers=self._observers,
            registry=catalogue(tools),
            ask=ask,
            max_tool_rounds=max_tool_rounds,
            fails_late=check_late_run_error(late_run_error) == "fail",
            warn=self._warn,
            new_id=new_id,
        )
        self._turns = Turns()
        self._exchange: Exchange | None = None
        self._scope: RunScope | None = None

    def __repr__(self) -> str:
        return f"<AgentSession {self.thread_id}, {len(self.messages)} messages, {'busy' if self.busy else 'at rest'}>"

    # -- calls -----------------------------------------------------------------------------------------------------

    async def send(self, message: str | UserMessage, params: RunParams | None = None) -> RunState:
        """Say something, have the agent answer it, and return how the last run of the exchange ended.

        The turn is drawn, and history, before the agent is asked; a failed run leaves it there, and `run()` asks again.
        Raises `InterruptedThreadError` where questions are open, `RunIdReusedError`, `LocalProtocolError` for what
        cannot be sent, `ReentrantCallError` in a tool of this very exchange, `SessionClosedError`, `TypeError`. A call
        that raises has changed nothing, unless it was cancelled.
        """
        return await self._call(Wish(own_params(params), turn=self._turn_of(message)))

    async def run(self, params: RunParams | None = None) -> RunState:
        """Have the agent answer the history as it stands: the retry of a failed `send`. Raises as `send` does."""
        return await self._call(Wish(own_params(params)))

    async def resume(
        self, entries: Iterable[Given], params: RunParams | None = None, *, validate: bool = True
    ) -> RunState:
        """Answer every open question, each once: by `approve`, `deny`, `edit`, `answer`, `abandon` or a `ResumeEntry`.

        Raises `NotInterruptedError` with nothing to answer, `ResumeError` for answers that do not fit; else as `send`.
        `validate=False` skips the response schemas. Answers are owed until a finished run has carried them.
        """
        answers = tuple(as_answers(entries).values())
        return await self._call(Wish(own_params(params), answers=answers, validate=validate))

    def send_sync(self, message: str | UserMessage, params: RunParams | None = None) -> RunState:
        """`send` for a thread without an event loop. Raises `UsageError` where one is running."""
        return block("send", lambda: self.send(message, params))

    def run_sync(self, params: RunParams | None = None) -> RunState:
        """`run` for a thread without an event loop. Raises `UsageError` where one is running."""
        return block("run", lambda: self.run(params))

    def resume_sync(
        self, entries: Iterable[Given], params: RunParams | None = None, *, validate: bool = True
    ) -> RunState:
        """`resume` for a thread without an event loop. Raises `UsageError` where one is running."""
        return block("resume", lambda: self.resume(entries, params, validate=validate))

    def stop(self) -> None:
        """End the exchange in flight; its call returns. Any thread, never waits, never raises; nothing without one.

        A verdict that the agent has given stands. Calls that wait for their turn are not touched.
        """
        exchange = self._exchange
        if exchange is not None:
            exchange.stop()

    def abandon_interrupts(self) -> tuple[Interrupt, ...]:
        """Give all open questions up on this side: the way out when the server has forgotten them. Sends nothing.

        Returns what was dropped. The calls they held are answered by the next request. Raises `SessionBusyError` during
        an exchange.
        """
        with self._between_exchanges("abandon_interrupts()"):
            with self._ledger.lock:
                dropped = self._ledger.questions.abandon()
                self._ledger.hold()
            if dropped:
                named = ", ".join(interrupt.id for interrupt in dropped)
                self._ledger.note(WarningRecord("interrupts-abandoned", f"given up on this side only: {named}"))
                self._setting.publish()
            return dropped

    def answer_tool_call(self, call_id: str, value: Any, *, error: str | None = None) -> None:
        """Answer a pending call on the application's behalf; `run()` delivers it. Sends nothing.

        `value` becomes content as a tool's would. Raises `ValueError` for a call that is not pending and for a value
        that cannot be expressed, `SessionBusyError` during an exchange.
        """
        with self._between_exchanges("answer_tool_call()"):
            if call_id not in self._ledger.pending_calls:
                pending = ", ".join(self._ledger.pending_calls) or "none"
                raise ValueError(f"call {call_id!r} is not pending; pending are: {pending}")
            content = as_content(error if value is None else value)
            message = ToolMessage(id=self._setting.new_id(), tool_call_id=call_id, content=content, error=error)
            self._ledger.show_answer(message)
            self._ledger.place_answers([call_id])
            self._setting.publish()

    # -- values ----------------------------------------------------------------------------------------------------

    @property
    def thread_id(self) -> str:
        """The id of the thread; a uuid4 unless one was given."""
        return self._ledger.thread_id

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The session's own tools, in order."""
        return tuple(self._setting.registry.values())

    @property
    def transcript(self) -> Transcript:
        """What a screen shows now."""
        return self._observers.current

    @property
    def messages(self) -> tuple[Message, ...]:
        """The wire's messages: what the thread began with, what was sent, what the runs produced, unrepaired.

        They are copies; nothing that is done to them reaches the history.
        """
        return copied(self._ledger.messages)

    @property
    def state(self) -> Any:
        """The shared state, as the next request carries it, as a copy. Assigning replaces it, between exchanges.

        Assigning what JSON cannot hold raises `ValueError`.
        """
        return self._ledger.state

    @state.setter
    def state(self, value: Any) -> None:
        with self._between_exchanges("assigning `state`"):
            self._ledger.set_state(own_state(value))
            self._setting.publish()

    @property
    def pending_interrupts(self) -> tuple[Interrupt, ...]:
        """The questions that are open. Gate a composer on these, never on the run state."""
        return copied(tuple(self._ledger.questions.pending))

    @property
    def owed_answers(self) -> tuple[ResumeEntry, ...]:
        """Answers that a request carried and no finished run has consumed: the next request carries them again."""
        return copied(tuple(self._ledger.questions.owed))

    @property
    def pending_tool_calls(self) -> tuple[str, ...]:
        """The ids of complete calls that nobody has answered and nothing holds, in order."""
        return self._ledger.pending_calls

    @property
    def warnings(self) -> tuple[WarningRecord, ...]:
        """The last 1,000 warnings."""
        return self._warn.records

    @property
    def busy(self) -> bool:
        """Whether an exchange has its turn: a tool may run and a follow-up be due although the run is finished."""
        return self._exchange is not None

    def still_running(self) -> tuple[str, ...]:
        """The names of tools that have not returned, of ended exchanges too: its own and those of a loop in process."""
        at_work = [name for run in self._setting.kept for name in run.open_work]
        return tuple(name.removeprefix(TOOL) for name in at_work if name.startswith(TOOL))

    # -- watching --------------------------------------------------------------------------------------------------

    def changes(self) -> Changes:
        """The current transcript, then the latest whenever it has changed; a slow reader skips. Ends at `aclose`."""
        return self._observers.changes()

    def subscribe(self, callback: Callable[[Transcript], object]) -> Callable[[], None]:
        """Have every published transcript told to a plain function, in order; returns what ends that.

        It is called in the exchange's task, so its time is the exchange's. One that raises loses its own call.
        """
        return self._observers.subscribe(callback)

    def subscribe_events(self, callback: Callable[[Event], object]) -> Callable[[], None]:
        """Have every checked AG-UI event told to a plain function, behind its folding; returns what ends that."""
        return self._observers.subscribe_events(callback)

    # -- keeping ---------------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """The session as plain JSON data, for `load`; consistent at any time. Agent, tools and callbacks are not in it.

        A run in flight is kept as failed, with the answers that it carried still owed.
        """
        with self._ledger.lock:
            exchange = self._exchange
            return dumped(self._ledger, is_running=exchange is not None and exchange.is_running)

    @classmethod
    def load(
        cls,
        agent: Agent,
        data: Mapping[str, Any],
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        ask: Ask | None = None,
        on_warning: WarningSink | None = None,
        max_tool_rounds: int = 25,
        late_run_error: LateRunError = "stand",
        now: Callable[[], datetime] | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> Self:
        """A session equal to the one that was dumped: same history, screen, questions, answers and next request.

        Raises `ValueError` for data of another format or a newer version, and, with the path, for data that is wrong.
        """
        kept = read_dump(data)
        session = cls(
            agent,
            thread_id=kept.thread_id,
            tools=tools,
            ask=ask,
            on_warning=on_warning,
            max_tool_rounds=max_tool_rounds,
            late_run_error=late_run_error,
            now=now,
            new_id=new_id,
        )
        kept.restore(session._ledger)
        session._observers.current = session._ledger.transcript
        return session

    # -- the end ---------------------------------------------------------------------------------------------------

    async def aclose(self, timeout: float | None = None) -> None:
        """Stop the exchange, refuse what waits, and return when nothing of this session is running any more.

        Raises `TimeoutError` after `timeout` seconds; the session is closed all the same. Values stay readable.
        """
        self._refuse_a_tool_of_this_exchange("aclose")
        self._turns.close()
        self.stop()
        try:
            with anyio.fail_after(timeout):
                await self._turns.over
                for run in self._setting.kept:
                    await run.drained
        finally:
            self._observers.close()

    async def __aenter__(self) -> Self:
        home = current_home()
        if home is not None and home.name == "trio":
            self._scope = RunScope()
            await self._scope.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.aclose()
        finally:
            if self._scope is not None:
                await self._scope.__aexit__(kind, error, traceback)
                self._scope = None

    # -- one call --------------------------------------------------------------------------------------------------

    async def _call(self, wish: Wish) -> RunState:
        self._refuse_a_tool_of_this_exchange("send, run or resume")
        if self._turns.is_closed:
            raise closed()
        wish.refuse_used_id(self._setting)
        if self._turns.is_free:
            wish.carried(self._setting, self._now())
        return await closed_with_loop(self._in_turn(wish))

    async def _in_turn(self, wish: Wish) -> RunState:
        await self._turns.take()
        exchange = self._exchange = Exchange(self._setting, wish.params)
        try:
            if self._turns.is_closed:  # `aclose` may have looked when there was no exchange to stop yet
                raise closed()
            return await exchange.go(wish.begin(exchange, self._setting, self._now()))
        finally:
            self._exchange = None
            self._turns.give()
            exchange.close()

    def _turn_of(self, message: object) -> UserMessage:
        if isinstance(message, str):
            return UserMessage(id=self._setting.new_id(), content=message)
        if isinstance(message, UserMessage):
            return message.model_copy(deep=True)
        raise TypeError(f"send() takes a text or a UserMessage, not {type(message).__name__}")

    def _refuse_a_tool_of_this_exchange(self, called: str) -> None:
        exchange = self._exchange
        if exchange is not None and exchange in marks():
            words = f"a tool called {called} on the session that is executing it, and would wait for itself"
            raise ReentrantCallError(words)

    @contextmanager
    def _between_exchanges(self, what: str) -> Generator[None]:
        if self._turns.is_closed:
            raise closed()
        if not self._turns.try_take():
            raise SessionBusyError(f"{what} has to wait until the exchange is over")
        try:
            yield
        finally:
            self._turns.give()
