"""What the tests of a session stand on: an agent that plays streams, and short ways to look at what it was asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ag_ui.core import AssistantMessage, BaseEvent, Interrupt, Message, RunAgentInput, ToolMessage
from tests.transcript.events import THREAD, asks, call, rf, rs, text

from handrail import AgentSession, Failed, RunParams, ToolContext, Transcript
from handrail.agui._warnings import WarningRecord
from handrail.client import AgentRun
from handrail.testing import Line, ScriptedAgent

Stream = Iterable["Line | list[Line] | list[BaseEvent]"]

R = "*"
"""As the run id of an event: that of the request."""

DONE = [rs(R), rf(R)]
"""A run that says nothing."""

CANCELLED = Failed("Run cancelled", "CANCELLED")


def finished(*parts: Any) -> list[Any]:
    """A run that says this."""
    return [rs(R), *parts, rf(R)]


def asking(*questions: Interrupt) -> list[Any]:
    """A run that calls c1 and c2 under a1, and ends with these questions."""
    return [rs(R), text("a1", "May I?"), call("c1", parent="a1"), call("c2", parent="a1"), asks(R, *questions)]


def echo(x: int = 0) -> str:
    return f"got {x}"


def who(context: ToolContext, x: int) -> str:
    given = (context.name, context.call_id, context.arguments, context.thread_id, context.run_id, context.cancelled)
    return " ".join(map(str, given))


def flat(stream: Stream) -> list[Line]:
    """A stream whose parts may be lists."""
    lines: list[Line] = []
    for part in stream:
        lines.extend(part if isinstance(part, list) else [part])
    return lines


class Agent(ScriptedAgent):
    """A scripted agent whose events may run under the id that was asked for."""

    def __init__(self, *streams: Stream, close_grace: float = 0.0) -> None:
        super().__init__(*(flat(stream) for stream in streams), close_grace=close_grace)

    def push(self, stream: Stream) -> None:
        super().push(flat(stream))

    def start(self, input: RunAgentInput, /) -> AgentRun:
        if self._streams:
            self._streams[0] = tuple(
                line.model_copy(update={"run_id": input.run_id}) if getattr(line, "run_id", None) == R else line
                for line in self._streams[0]
            )
        return super().start(input)


class Session(AgentSession):
    """A session whose agent and warnings are at hand."""

    script: Agent
    told: list[WarningRecord]

    @property
    def codes(self) -> list[str]:
        """The codes of its warnings, in order."""
        return [warning.code for warning in self.told]


def session(*streams: Stream, grace: float = 0.0, thread_id: str | None = THREAD, **options: Any) -> Session:
    """A session with an agent that plays these streams."""
    agent = Agent(*streams, close_grace=grace)
    told: list[WarningRecord] = []
    made = Session(agent, thread_id=thread_id, on_warning=told.append, **options)
    made.script, made.told = agent, told
    return made


def loaded(data: Any, *streams: Stream, **options: Any) -> Session:
    """A session made of what another one dumped, with an agent of its own."""
    agent = Agent(*streams)
    told: list[WarningRecord] = []
    made = Session.load(agent, data, on_warning=told.append, **options)
    made.script, made.told = agent, told
    return made


def under(run_id: str) -> RunParams:
    return RunParams(run_id=run_id)


def ids(given: RunAgentInput) -> list[str]:
    """The ids of a request's messages, tool messages as tool(call id)."""
    return [f"tool({m.tool_call_id})" if m.role == "tool" else m.id for m in given.messages]


def answers(given: RunAgentInput) -> dict[str, Any]:
    """The tool messages of a request, by call id."""
    return {m.tool_call_id: m for m in given.messages if m.role == "tool"}


def roles(transcript: Transcript) -> list[str]:
    return [message.role for message in transcript.messages]


def texts(transcript: Transcript) -> list[str]:
    return [message.text for message in transcript.messages]


def violations(messages: Sequence[Message], open: Iterable[str] = ()) -> list[str]:
    """What is wrong with a request's messages: every call but the open ones has exactly one answer, directly behind its
    message (in any order there), ids are unique, and nothing answers a call that is not there."""
    found: list[str] = []
    due: set[str] = set()
    may_wait = set(open)
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in due:
                found.append(f"{message.id} answers {message.tool_call_id}, which is not due")
            due.discard(message.tool_call_id)
            continue
        found.extend(f"{call_id} has no answer" for call_id in due - may_wait)
        due = {call.id for call in (message.tool_calls or ())} if isinstance(message, AssistantMessage) else set()
    found.extend(f"{call_id} has no answer" for call_id in due - may_wait)
    ids_used = [message.id for message in messages]
    found.extend(f"{name} is used twice" for name in set(ids_used) if ids_used.count(name) > 1)
    return found
