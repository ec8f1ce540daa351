"""Where probes speak with an agent: sessions whose every byte is kept, and a limit on how long an answer may take.

What is wrong with an answer is judged from the bytes, as it is for a recording. Beside that stands what only who was
there can know: that nothing came in time, that the body was held open behind the end of the run, that a call of the
agent's stayed without a result.

Requests go one at a time, whatever thread they are of, so there is one tape, and a request is known by its number on
it. The next one is made when the connection of the last one is closed.
"""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

import anyio
import httpx
from ag_ui.core import Event, RunAgentInput, RunFinishedEvent, TextMessageStartEvent, ToolCallResultEvent

from handrail.agui._warnings import WarningRecord
from handrail.apps._advice import advice_for
from handrail.apps._findings import Apart, Finding, Level, Result
from handrail.apps._judge_take import judge_take
from handrail.apps._load import AnyTool
from handrail.apps._network import Network
from handrail.apps._remote import remote_agent, shown_url
from handrail.apps._tape import RecordingTransport, Take, begin_tape, takes_of
from handrail.client import AgentRun, AgentSession, HttpAgent
from handrail.errors import UsageError
from handrail.run import Run
from handrail.transcript import Failed, RunState, ToolCallPart

__all__ = ["Bench", "Talk"]

_MOST_ROUNDS = 3
_CONNECT_TIMEOUT = 10.0
_CLOSE_TIMEOUT = 5.0
_NOT_REACHED = ("ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol")
_OURS = ("local", "error")  # failures that are no matter of the agent
_BUSY = frozenset({409, 423, 429, 503})
_BUSY_PAUSE = 0.25  # seconds between two questions whether an agent is free again

_SESSIONS_OWN = frozenset({"interrupt-lost", "legacy-interrupt", "pending-id-unknown", "tool-rounds-exhausted"})
"""Warnings about the agent that are no matter of one stream; the others are found in the bytes."""
_PRELUDE = frozenset({"RUN_STARTED", "STEP_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "CUSTOM", "RAW"})
"""What agents send before they answer."""


@dataclass
class Talk:
    """One thread of the agent, and the ids of the messages that it streamed there, in order."""

    session: AgentSession
    streamed: list[str] = field(default_factory=list[str])

    def calls_of(self, names: Sequence[str]) -> Sequence[ToolCallPart]:
        """The calls of tools with these names."""
        return [part for part in self._calls() if part.name in names]

    def call_ids(self) -> Sequence[str]:
        """The ids of all calls."""
        return [part.tool_call_id for part in self._calls()]

    def unanswered(self) -> Sequence[ToolCallPart]:
        """The calls that have no result, and are of no tool of this client."""
        ours, pending = {tool.name for tool in self.session.tools}, self.session.pending_tool_calls
        return [part for part in self._calls() if part.tool_call_id in pending and part.name not in ours]

    def _calls(self) -> Sequence[ToolCallPart]:
        parts = (part for message in self.session.transcript.messages for part in message.parts)
        return [part for part in parts if isinstance(part, ToolCallPart)]


class Bench:
    """The agent at `url`, and what there is to say of it so far. To be entered, and left when the probes are over.

    `timeout` is how many seconds an answer may take, together with the follow-ups that deliver results of tools.
    """

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float) -> None:
        self._url = url
        self._headers = headers
        self.timeout = timeout
        self.talks: list[Talk] = []
        """Every thread so far, for a later probe to go on with."""
        self.has_finished = False
        """Whether any run has finished; then the others can, too."""
        self._tape = io.StringIO()
        begin_tape(self._tape)
        self._network = Network()
        client = httpx.AsyncClient(transport=RecordingTransport(self._tape, self._network), timeout=None)
        connect = min(_CONNECT_TIMEOUT, timeout / 2)
        agent = remote_agent(url, headers=headers, client=client, connect_timeout=connect, idle_timeout=None)
        self._agent = _OneAtATime(agent)
        self._findings: list[Finding] = []
        self._begin = 0
        self._left: set[str] = set()
        self._excused: set[str] = set()

    async def __aenter__(self) -> Bench:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with anyio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            await self._agent.is_free()
            await self._network.aclose()

    # -- speaking ----------------------------------------------------------------------------------------------------

    def talk(self, tools: Sequence[AnyTool] = ()) -> Talk:
        """A new thread."""
        session = AgentSession(self._agent, tools=tools, max_tool_rounds=_MOST_ROUNDS, on_warning=self._warned)
        talk = Talk(session)

        def listen(event: Event) -> None:
            if isinstance(event, TextMessageStartEvent | ToolCallResultEvent):
                talk.streamed.append(event.message_id)
            elif isinstance(event, RunFinishedEvent):
                self.has_finished = True

        session.subscribe_events(listen)
        self.talks.append(talk)
        return talk

    async def send(self, talk: Talk, text: str) -> RunState | None:
        """Say something; how the exchange ended, None if not in time."""
        return await self.have(talk, lambda: talk.session.send(text))

    async def have(self, talk: Talk, exchange: Callable[[], Awaitable[RunState]]) -> RunState | None:
        """Have an exchange; how it ended, None if not in time.

        Raises `UsageError` where there is nobody, and what kept the client from asking.
        """
        before = len(self._tape_so_far())
        state: RunState | None = None
        with anyio.move_on_after(self.timeout) as waiting:
            state = await exchange()
        await self._agent.is_free()
        is_asked = len(self._tape_so_far()) > before
        if isinstance(state, Failed) and state.cause is not None and (state.kind in _OURS or not is_asked):
            raise state.cause
        if waiting.cancelled_caught:
            self.find("error", "timeout", f"the agent did not come to an end within {self.timeout:g} s")
        for call in talk.unanswered():
            self.find("warning", "call-unanswered", f"call {call.tool_call_id} of {call.name} has no result")
        self._refuse_nobody()
        return state

    async def send_when_free(self, talk: Talk, text: str) -> float | None:
        """Say something, and if the agent is busy say it again, within the timeout.

        How many seconds passed until it began to answer; None if it did not.
        """
        began = asked = anyio.current_time()
        await self.send(talk, text)
        while (latest := self._latest()).status in _BUSY and anyio.current_time() - began < self.timeout:
            self._excused.add(latest.request.run_id)
            await anyio.sleep(_BUSY_PAUSE)
            asked = anyio.current_time()
            await self.have(talk, talk.session.run)
        if latest.status in _BUSY:
            self.find("error", "still-busy", f"the agent is still busy {self.timeout:g} s after its client has gone")
        return asked - began + latest.reads[0][0] if latest.status == 200 and latest.reads else None

    async def send_and_leave(self, talk: Talk, text: str) -> bool:
        """Say something, and close the connection as soon as the agent has begun to answer; whether that was in time.

        It was not when the end of the run was among what had come by then.
        """

        def leave(event: Event) -> None:
            if event.type.value not in _PRELUDE:
                talk.session.stop()

        stop_listening = talk.session.subscribe_events(leave)
        await self.send(talk, text)
        stop_listening()
        latest = self._latest()
        self._left.add(latest.request.run_id)
        return latest.was_left and (await judge_take(latest)).terminal is None

    async def post(self, content: bytes) -> tuple[int, str]:
        """Send a body as it is; the status and the content type of the answer.

        Raises `UsageError` where nobody has been reached yet, `httpx.TransportError`, and `TimeoutError`.
        """
        headers = httpx.Headers({**self._headers})
        headers["content-type"] = "application/json"
        client = httpx.AsyncClient(transport=self._network, timeout=None)
        request = client.build_request("POST", self._url, content=content, headers=headers)
        try:
            with anyio.fail_after(self.timeout):
                response = await client.send(request, stream=True)
                await response.aclose()
        except httpx.ConnectError as error:
            if not self._tape_so_far():
                raise _nobody_at(self._url, f"ConnectError: {error}") from error
            raise
        return response.status_code, response.headers.get("content-type", "")

    # -- judging -----------------------------------------------------------------------------------------------------

    def find(self, level: Level, code: str, message: str) -> None:
        """Add something about the latest request that its bytes do not show."""
        latest = len(self.takes()) - 1
        self._findings.append(Finding(level, code, message, advice_for(code), latest if latest >= 0 else None))

    def takes(self) -> Sequence[Take]:
        """What was asked and answered since the last result, but for what was excused."""
        return [take for take in self._tape_so_far()[self._begin :] if take.request.run_id not in self._excused]

    async def result(self, name: str, note: str = "", apart: Apart | None = None) -> Result:
        """What came of everything since the last result; `note` says it in a few words."""
        takes = self.takes()
        heard = [await judge_take(take, run) for run, take in enumerate(takes)]
        for run, (take, one) in enumerate(zip(takes, heard, strict=True)):
            is_ours = take.request.run_id in self._left
            if take.was_left and not is_ours and one.terminal is not None and not one.count("error"):
                words = "the body did not end when the run had ended"
                self._findings.append(Finding("warning", "stream-open", words, advice_for("stream-open"), run))
        found = [*(finding for one in heard for finding in one.findings), *self._findings]
        found.sort(key=lambda finding: len(takes) if finding.run is None else finding.run)
        self._findings = []
        self._begin = len(self._tape_so_far())
        return Result(name, heard, found, note, apart)

    def _tape_so_far(self) -> Sequence[Take]:
        return takes_of(self._tape.getvalue().encode())

    def _latest(self) -> Take:
        return self._tape_so_far()[-1]

    def _warned(self, record: WarningRecord) -> None:
        if record.code in _SESSIONS_OWN:
            self.find("warning", record.code, record.message)

    def _refuse_nobody(self) -> None:
        """Raises `UsageError` where the very first request reached nobody."""
        takes = self._tape_so_far()
        if len(takes) == 1 and (error := takes[0].error) is not None and error.startswith(_NOT_REACHED):
            raise _nobody_at(self._url, error)


class _OneAtATime:
    """An agent of which can be known when the connection of its last run is closed."""

    def __init__(self, agent: HttpAgent) -> None:
        self._agent = agent
        self._last: Run[Event] | None = None
        self.close_grace = agent.close_grace

    def start(self, input: RunAgentInput, /) -> AgentRun:
        self._last = run = self._agent.start(input)
        return run

    async def is_free(self) -> None:
        """Wait until it is, no longer than the agent takes to close a connection that will not close."""
        if self._last is not None:
            await self._last.drained


def _nobody_at(url: str, error: str) -> UsageError:
    """What is said when there is no agent at all."""
    return UsageError(
        f"No agent answers at {shown_url(url)}: {error.rstrip(' .:')}.\nCheck the address, and that it is running."
    )
