"""A session against a server that fails as it pleases.

The server draws how every run goes: what it says, which tools it calls, whether it asks, and how it ends, badly more
often than not. It is also the judge: each request must be one that a careful client may send. The model beside it knows
which turns were said, which answers were given, and how often each tool ran.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest
from ag_ui.core import BaseEvent, Interrupt, RunAgentInput, ToolCallStartEvent, ToolMessage
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.client.kit import flat, violations
from tests.client.suspensions import At
from tests.transcript.events import (
    acs,
    asks,
    call,
    ce,
    cr,
    cs,
    error,
    ms,
    rf,
    rfx,
    rs,
    said,
    sd,
    tc,
    te,
    text,
    thought,
    ts,
)

from handrail import AgentSession, Finished, Running, Tool, ToolContext, abandon, approve, deny, tool
from handrail.client import AgentRun
from handrail.testing import ScriptedAgent

PIECES = [
    "text",
    "thought",
    "activity",
    "state",
    "client call",
    "parallel calls",
    "server call",
    "unknown call",
    "reopened call",
    "restate",
]
BAD_ENDS = ["cancelled", "error", "error at once", "cut", "break", "violate", "late error", "reset"]
ENDS = ["finish"] * 6 + ["ask", "ask for all", *BAD_ENDS]

Plan = tuple[list[str], str]
plan = st.tuples(st.lists(st.sampled_from(PIECES), max_size=4), st.sampled_from(ENDS))
plans = st.lists(plan, min_size=1, max_size=4)


class Server(ScriptedAgent):
    """Plays plans; judges requests. Behind the last plan its runs are plain."""

    def __init__(self) -> None:
        super().__init__(close_grace=0.0)
        self.plans: list[Plan] = []
        self.count = 0
        self.judge: Any = None

    def start(self, input: RunAgentInput, /) -> AgentRun:
        self.judge(input)
        pieces, end = self.plans.pop(0) if self.plans else ([], "finish")
        self.push(flat(self._stream(input, pieces, end)))
        return super().start(input)

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def _stream(self, input: RunAgentInput, pieces: list[str], end: str) -> list[Any]:
        run = input.run_id
        if end == "error at once":
            return [error("busy", "BUSY")]
        stream: list[Any] = [rs(run)]
        said = [self._piece(input, piece) for piece in pieces]
        stream += said
        called = [event.tool_call_id for part in said for event in part if isinstance(event, ToolCallStartEvent)]
        match end:
            case "ask":
                questions = [Interrupt(id=self._name("i"), reason="tool_call", tool_call_id=one) for one in called[:2]]
                stream.append(asks(run, *(questions or [Interrupt(id=self._name("i"), reason="confirmation")])))
            case "ask for all":
                stream.append(asks(run, Interrupt(id=self._name("i"), reason="confirmation")))
            case "cancelled":
                stream.append(rfx(run))
            case "error":
                stream.append(error("failed", "FAILED"))
            case "break":
                stream.append(OSError("gone"))
            case "violate":
                stream.append(te("nobody"))
            case "late error":
                stream += [rf(run), error("late")]
            case "reset":
                stream += [ts(self._name("a")), OSError("reset")]
            case "finish":
                stream.append(rf(run))
            case _:  # the stream is just cut
                pass
        return stream

    def _piece(self, input: RunAgentInput, piece: str) -> list[BaseEvent]:
        name = self._name("a")
        match piece:
            case "text":
                return text(name, "Hel", "lo")
            case "thought":
                return thought(self._name("q"), "hm")
            case "activity":
                return [acs(self._name("x"), {"n": 1})]
            case "state":
                return [sd({"op": "add", "path": f"/{name}", "value": 1})]
            case "client call":
                return call(self._name("c"), "{}", self._choice(), name)
            case "parallel calls":
                return [event for _ in range(2) for event in call(self._name("c"), "{}", "later", name)]
            case "server call":
                made = self._name("c")
                return [*call(made, "{}", "server side", name), cr(made, "theirs", self._name("t"))]
            case "unknown call":
                return call(self._name("c"), "{}", "nobody's", name)
            case "reopened call":
                made = self._name("c")
                return [*call(made, "{}", "quick", name), cs(made, "quick"), ce(made)]
            case _:
                return [ms(*input.messages), ts(name), tc(name, "again"), te(name)]

    def _choice(self) -> str:
        return ["quick", "later", "fails", "gated"][self.count % 4]


class Conversation(RuleBasedStateMachine):
    """What an application does with a session, in any order."""

    backend = "asyncio"

    def __init__(self) -> None:
        super().__init__()
        self.ran: Counter[str] = Counter()
        self.turns: list[str] = []
        self.told: dict[str, Any] = {}
        self.owed: list[Any] = []
        self.server = Server()
        self.server.judge = self.judge
        self.tools = self._tools()
        self.session = AgentSession(
            self.server, thread_id="t", tools=self.tools, ask=lambda interrupt: True, on_warning=lambda record: None
        )

    def _tools(self) -> list[Any]:
        def quick(context: ToolContext) -> str:
            self.ran[context.call_id] += 1
            return f"quick {context.call_id}"

        @tool(parallel=True)
        async def later(context: ToolContext) -> str:
            self.ran[context.call_id] += 1
            await anyio.lowlevel.checkpoint()
            return f"later {context.call_id}"

        def fails(context: ToolContext) -> str:
            self.ran[context.call_id] += 1
            raise ValueError(context.call_id)

        def gated(context: ToolContext) -> str:
            self.ran[context.call_id] += 1
            return f"gated {context.call_id}"

        return [quick, later, fails, Tool(gated, needs_approval=True)]

    # -- the judge -------------------------------------------------------------------------------------------------

    def judge(self, input: RunAgentInput) -> None:
        """What the server holds against every request."""
        session = self.session
        held = session._ledger.questions.held if input.resume else ()
        assert violations(input.messages, held) == []
        assert [m.id for m in input.messages if m.role == "user"] == self.turns
        pending = {interrupt.id for interrupt in session.pending_interrupts}
        if input.resume or pending:
            assert {entry.interrupt_id for entry in input.resume or ()} == pending
            assert input.resume == self.owed
        for message in input.messages:
            if isinstance(message, ToolMessage):
                assert self.told.setdefault(message.tool_call_id, message.content) == message.content
                if message.error is None and isinstance(message.content, str) and message.content != "theirs":
                    assert self.ran[message.tool_call_id] == 1

    # -- what an application does ----------------------------------------------------------------------------------

    def go(self, what: Any, plans: list[Plan], interfere: tuple[str, int] | None = None) -> None:
        """One call, perhaps stopped or cancelled at a suspension; it returns a state, or raises nothing but that."""
        self.server.plans = list(plans)

        async def main() -> None:
            by, at = interfere or ("stop", 10**9)
            with anyio.fail_after(20), anyio.CancelScope() as scope:
                state = await At(what(), at, scope.cancel if by == "cancel" else self.session.stop)
                assert state is self.session.transcript.run
            for run in self.server.runs:
                await run.drained

        anyio.run(main, backend=self.backend)
        first = next((run for run in self.server.runs), None)
        finished = first is not None and first.report.verdict in ("success", "interrupt", "cancelled")
        self.server.runs.clear()
        if self.session.owed_answers == ():
            assert self.owed == [] or finished, "answers vanished without a finished run"
            self.owed = []
        else:
            assert list(self.session.owed_answers) == self.owed

    interferences = st.one_of(st.none(), st.tuples(st.sampled_from(["stop", "cancel"]), st.integers(1, 25)))

    @property
    def is_free(self) -> bool:
        return not self.session.pending_interrupts or bool(self.session.owed_answers)

    @precondition(lambda self: self.is_free)
    @rule(plans=plans, interfere=interferences)
    def send(self, plans: list[Plan], interfere: Any) -> None:
        turn = f"u{len(self.turns)}"
        self.turns.append(turn)
        self.go(lambda: self.session.send(said(turn, turn)), plans, interfere)

    @precondition(lambda self: self.is_free)
    @rule(plans=plans, interfere=interferences)
    def run(self, plans: list[Plan], interfere: Any) -> None:
        self.go(self.session.run, plans, interfere)

    @precondition(lambda self: bool(self.session.pending_interrupts))
    @rule(
        plans=plans,
        interfere=interferences,
        choices=st.lists(st.sampled_from([approve, deny, abandon]), min_size=2, max_size=2),
    )
    def resume(self, plans: list[Plan], interfere: Any, choices: Any) -> None:
        pending = self.session.pending_interrupts
        given = [choice(interrupt) for choice, interrupt in zip(choices, pending, strict=False)]
        self.owed = list(self.session._ledger.questions.entries(given, self.session._now(), True))
        self.go(lambda: self.session.resume(given), plans, interfere)

    @precondition(lambda self: bool(self.session.pending_interrupts))
    @rule()
    def give_up(self) -> None:
        self.session.abandon_interrupts()
        self.owed = []

    @precondition(lambda self: bool(self.session.pending_tool_calls))
    @rule()
    def answer(self) -> None:
        call_id = self.session.pending_tool_calls[0]
        self.session.answer_tool_call(call_id, f"by hand {call_id}")
        self.ran[call_id] += 1

    @rule()
    def restart(self) -> None:
        """The process ends, and another one loads what was saved."""
        data = self.session.dump()
        self.session = AgentSession.load(
            self.server, data, tools=self.tools, ask=lambda interrupt: True, on_warning=lambda record: None
        )
        assert self.session.dump() == data

    # -- what is always true ---------------------------------------------------------------------------------------

    @invariant()
    def nothing_runs_or_streams(self) -> None:
        session = self.session
        assert not session.busy
        assert not isinstance(session.transcript.run, Running)
        assert not any(message.is_streaming for message in session.transcript.messages)
        ids = [part.id for message in session.transcript.messages for part in message.parts]
        assert len(ids) == len(set(ids))

    @invariant()
    def no_tool_ran_twice(self) -> None:
        assert not [call_id for call_id, times in self.ran.items() if times > 1]

    @invariant()
    def every_turn_is_on_screen_once(self) -> None:
        shown = [m.parts[0].message_id for m in self.session.transcript.messages if m.role == "user"]
        assert shown == self.turns

    def teardown(self) -> None:
        """The session is usable to the end."""
        self.session.abandon_interrupts()
        self.owed = []
        self.turns.append("last")
        self.go(lambda: self.session.send(said("last", "last")), [])
        assert isinstance(self.session.transcript.run, Finished)


class UnderTrio(Conversation):
    backend = "trio"


TestConversation = pytest.mark.slow(Conversation.TestCase)
TestConversation.settings = settings(max_examples=60, stateful_step_count=15, deadline=None, derandomize=True)
TestUnderTrio = pytest.mark.slow(UnderTrio.TestCase)
TestUnderTrio.settings = settings(max_examples=20, stateful_step_count=12, deadline=None, derandomize=True)
