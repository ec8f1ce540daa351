"""`handrail record` and `handrail replay`: a session whose bytes are kept, and the same session once more."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from functools import partial

from ag_ui.core import Message, RunAgentInput, UserMessage

from handrail.apps._once import once, say
from handrail.apps._remote import headers_of, is_url, loop_meant, remote_agent, shown_url, url_meant
from handrail.apps.chat._command import chat, require_terminal
from handrail.client import AgentSession, RunParams
from handrail.errors import UsageError
from handrail.transcript import RunState

try:
    import httpx

    from handrail.apps._network import Network
    from handrail.apps._tape import RecordingTransport, ReplayTransport, Take, new_tape, read_tape
    from handrail.client import HttpAgent
except ModuleNotFoundError as missing:
    raise UsageError(f"handrail record and replay need {missing.name}: pip install 'handrail[client]'.") from missing

__all__ = ["play", "record", "replay"]


def record(url: str, file: str, *, headers: Sequence[str] = (), text: str | None, as_json: bool) -> int:
    """Chat with the agent at `url`, or say `text` to it, and keep every byte of it in `file`. Returns the exit code."""
    if not is_url(url):
        meant = url_meant(url) or loop_meant(url)
        raise UsageError(f"{url!r} is no URL; what is recorded is what an agent says over HTTP.{meant}")
    if text is None and as_json:
        raise UsageError("--json goes with --once.")
    if text is None:
        require_terminal()
    shared = headers_of(headers)
    remote_agent(url)  # before there is a file
    network = Network()
    with new_tape(file) as tape:
        transport = RecordingTransport(tape, network)
        agent = remote_agent(url, headers=shared, client=httpx.AsyncClient(transport=transport, timeout=None))
        if text is not None:
            return once(agent, say(text), as_json=as_json)
        return chat(agent, title=f"{shown_url(url)} (recording)")


def replay(file: str, *, speed: float, as_text: bool, as_json: bool) -> int:
    """Play a recording: in the chat, or as text where that is wanted or there is no terminal. Returns the exit code."""
    if not 0 <= speed < float("inf"):
        raise UsageError(f"--speed is {speed}: it is a number from 0, and 0 is at once.")
    takes = read_tape(file)
    client = httpx.AsyncClient(transport=ReplayTransport(takes, speed), timeout=None)
    agent = HttpAgent("http://the-recorded-agent.invalid", client=client, idle_timeout=None)
    first = takes[0].request
    session = partial(
        AgentSession, thread_id=first.thread_id, messages=_before(first), state=first.state, max_tool_rounds=0
    )
    if as_text or as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):

        def exchange(session: AgentSession, said: Callable[[str], None]) -> RunState:
            return asyncio.run(play(takes, session, said))

        return once(agent, exchange, as_json=as_json, new_session=session)
    return chat(agent, title=f"{file} (replay)", opening=partial(play, takes), new_session=session)


async def play(
    takes: Sequence[Take], session: AgentSession, said: Callable[[str], None] = lambda text: None
) -> RunState:
    """Have `session` do what led to each take, in order; `said` is told what the person said."""
    state: RunState = session.transcript.run
    for take in takes:
        asked = take.request
        params = RunParams(asked.run_id, asked.tools or (), asked.context or (), asked.forwarded_props)
        turn = _turn(asked, session)
        if session.pending_interrupts and not asked.resume:
            session.abandon_interrupts()
        _answer_calls(asked, session)
        if turn is not None:
            said(turn.content if isinstance(turn.content, str) else "[parts]")
            state = await session.send(turn, params)
        elif asked.resume and session.pending_interrupts and not session.owed_answers:
            state = await session.resume(asked.resume, params, validate=False)
        else:
            state = await session.run(params)
    return state


def _before(first: RunAgentInput) -> Sequence[Message]:
    """What the thread held before the recording: all that was sent, but for the turn that it begins with."""
    messages = list(first.messages)
    return messages[:-1] if messages and isinstance(messages[-1], UserMessage) else messages


def _turn(asked: RunAgentInput, session: AgentSession) -> UserMessage | None:
    """What the person said that the session does not know yet."""
    last = asked.messages[-1] if asked.messages else None
    known = {message.id for message in session.messages}
    return last if isinstance(last, UserMessage) and last.id not in known else None


def _answer_calls(asked: RunAgentInput, session: AgentSession) -> None:
    """What the tools of the recorded side answered."""
    for message in asked.messages:
        if message.role == "tool" and message.tool_call_id in session.pending_tool_calls:
            session.answer_tool_call(message.tool_call_id, message.content, error=message.error)
