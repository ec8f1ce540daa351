"""One message to an agent without a screen: the answer as it comes, the verdict behind it.

With `as_json` every checked AG-UI event is a line, then one object says how it ended. The exit code is that of a run:
0 finished, 1 failed, 130 stopped or cancelled.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Set
from typing import Protocol, TypeAlias

from ag_ui.core import (
    Event,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from handrail.agui._warnings import WarningRecord
from handrail.apps._advice import advice_on
from handrail.apps._visible import clipped, one_line, spelled, visible
from handrail.apps.chat._leaves import UNFINISHED
from handrail.apps.chat._status import Meter, still_running, verdict
from handrail.client import Agent, AgentSession
from handrail.errors import HttpError
from handrail.transcript import Failed, Finished, RunState

__all__ = ["once", "say"]

_SHOWN = 500

Exchange: TypeAlias = Callable[[AgentSession, Callable[[str], None]], RunState]
"""What is done with a session, and how it ended; the function it gets is to be told what the person says meanwhile."""


def say(text: str) -> Exchange:
    """The exchange that says `text`."""
    return lambda session, said: session.send_sync(text)


def once(
    agent: Agent, exchange: Exchange, *, as_json: bool, new_session: Callable[..., AgentSession] = AgentSession
) -> int:
    """Have one exchange with `agent`, show it, and return the exit code. Ctrl-C stops it."""
    meter = Meter()
    session = new_session(agent, on_warning=_kept)
    report: _Report = _JsonLines() if as_json else _Text()
    began = time.monotonic()

    def heard(event: Event) -> None:
        meter.note(event)
        try:
            report.event(event)
        except BrokenPipeError:  # nobody reads on: there is nobody to go on for
            session.stop()

    session.subscribe_events(heard)
    try:
        state = exchange(session, report.said)
    except KeyboardInterrupt:
        state = session.transcript.run
    facts = [
        verdict(state, session.pending_interrupts).text,
        meter.read(time.monotonic() - began),
        still_running(session.still_running()),
    ]
    report.ended(state, session, " · ".join(filter(None, facts)))
    return _exit_code(state)


def _kept(record: WarningRecord) -> None:
    """The session keeps its warnings; what was tolerated is no part of the answer."""


def _exit_code(state: RunState) -> int:
    match state:
        case Finished(outcome="cancelled") | Failed(kind="cancelled"):
            return 130
        case Finished():
            return 0
        case _:
            return 1


class _Report(Protocol):
    """What is told of an exchange: each event, then how it ended."""

    def event(self, event: Event) -> None: ...

    def said(self, text: str) -> None: ...

    def ended(self, state: RunState, session: AgentSession, line: str) -> None: ...


class _JsonLines:
    """Pure ASCII, so nothing in it is obeyed by a terminal."""

    def event(self, event: Event) -> None:
        _print(json.dumps(event.model_dump(mode="json", by_alias=True, exclude_none=True)) + "\n")

    def said(self, text: str) -> None:
        _print(json.dumps({"kind": "turn", "text": text}) + "\n")

    def ended(self, state: RunState, session: AgentSession, line: str) -> None:
        match state:
            case Finished(outcome=outcome, result=result):
                said = {"outcome": outcome, "result": result, "interrupts": [one.id for one in state.interrupts]}
            case Failed(message=message, code=code):
                said = {"outcome": "failed", "error": message, "code": code}
            case _:
                said = {"outcome": "failed", "error": line}
        known = {key: value for key, value in said.items() if value not in (None, [])}
        _print(json.dumps({"kind": "verdict", "ok": state.ok, **known}) + "\n")


class _Text:
    """The answer as it flows, a line for each call of a tool, and what was retracted said again as such."""

    def __init__(self) -> None:
        self._held = ""  # the end of a text that is half a line end or half a character
        self._is_within_line = False
        self._calls: dict[str, tuple[str, str]] = {}
        self._standing: dict[str, str] = {}  # the beginning of each text, by the id of its message

    def event(self, event: Event) -> None:
        match event:
            case TextMessageContentEvent(message_id=name, delta=delta):
                self._flow(delta)
                self._standing[name] = _longer(self._standing.get(name, ""), delta)
            case MessagesSnapshotEvent(messages=messages):
                self._retract(self._standing.keys() - {message.id for message in messages})
            case ToolCallStartEvent():
                self._calls[event.tool_call_id] = (event.tool_call_name, "")
            case ToolCallArgsEvent():
                name, arguments = self._calls.get(event.tool_call_id, ("", ""))
                self._calls[event.tool_call_id] = (name, _longer(arguments, event.delta))
            case ToolCallEndEvent():
                name, arguments = self._calls.get(event.tool_call_id, ("", ""))
                self._line(f"→ {_short(name)} {_short(spelled(arguments))}")
            case ToolCallResultEvent():
                name, _ = self._calls.pop(event.tool_call_id, ("", ""))
                self._line(f"← {_short(name)} {_short(event.content if isinstance(event.content, str) else '[parts]')}")
            case TextMessageEndEvent() | RunFinishedEvent() | RunErrorEvent():
                self._end_line()
            case _:
                pass

    def said(self, text: str) -> None:
        self._line(f"you: {visible(text)}")

    def ended(self, state: RunState, session: AgentSession, line: str) -> None:
        for interrupt in session.pending_interrupts:
            self._line(f"? {_short(interrupt.message or interrupt.reason)}")
        if session.pending_interrupts:
            self._line("Questions are answered in the chat.")
        if isinstance(state, Failed) and isinstance(state.cause, HttpError):
            self._line(advice_on(state.cause))
        self._line(line)

    def _retract(self, names: Set[str]) -> None:
        """A snapshot has left these messages out: they are no part of the answer."""
        for name in [name for name in self._standing if name in names]:
            self._line(f"✗ retracted: {_short(self._standing.pop(name))}")

    def _flow(self, text: str) -> None:
        text = self._held + text
        unfinished = UNFINISHED.search(text)
        self._held = text[unfinished.start() :] if unfinished else ""
        if text := visible(text.removesuffix(self._held)):
            _print(text)
            self._is_within_line = not text.endswith("\n")

    def _end_line(self) -> None:
        if self._held or self._is_within_line:
            _print(visible(self._held) + "\n")
        self._held, self._is_within_line = "", False

    def _line(self, text: str) -> None:
        self._end_line()
        _print(f"{text}\n")


def _longer(text: str, more: str) -> str:
    """A text that goes on, as far as it will be shown."""
    return text if len(text) > _SHOWN else text + more


def _short(text: str) -> str:
    return one_line(clipped(text, _SHOWN))


def _print(text: str) -> None:
    print(text, end="", file=sys.stdout, flush=True)
