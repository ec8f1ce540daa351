"""The order of a stream: which event may come next.

Three tables decide, and one instance serves one stream, in whichever direction it flows:

- runs: a stream is fresh, running, finished or errored, and says which of RUN_STARTED, RUN_FINISHED, RUN_ERROR and
  everything else it takes there (`_RUN_TABLE`);
- brackets: texts, calls, reasoning, steps and subagents are opened, go on and are closed, each under a key of its own
  and free to interleave; most may be opened again (`_BRACKET_TABLE`, `_BRACKET_OF`);
- owners: what one subagent opened, another may not go on with (`_OWNERSHIP`). The owner of an item is the tag of its
  opener and is remembered after the item closed; an untagged continuation is always its opener's.

A refusal raises and changes nothing, so the sender's side may still say something else. RUN_STARTED forgets everything
about the run before. Chunks are expanded before they come here; a chunk itself opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, NoReturn

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    Event,
    Message,
    MessagesSnapshotEvent,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["RunPhase", "Verifier"]

RunPhase = Literal["fresh", "running", "finished", "errored"]
Owner = str | None
"""A `subagentRunId`; None is the parent agent."""

_RUN_EVENTS = frozenset({"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"})
_RUN_TABLE: dict[tuple[RunPhase, str], RunPhase | None] = {
    # What becomes of the run; None: the event is refused.
    ("fresh", "RUN_STARTED"): "running",
    ("fresh", "RUN_FINISHED"): None,
    ("fresh", "RUN_ERROR"): "errored",
    ("fresh", "other"): None,
    ("running", "RUN_STARTED"): None,
    ("running", "RUN_FINISHED"): "finished",
    ("running", "RUN_ERROR"): "errored",
    ("running", "other"): "running",
    ("finished", "RUN_STARTED"): "running",
    ("finished", "RUN_FINISHED"): None,
    ("finished", "RUN_ERROR"): "errored",
    ("finished", "other"): None,
    ("errored", "RUN_STARTED"): "running",
    ("errored", "RUN_FINISHED"): None,
    ("errored", "RUN_ERROR"): None,
    ("errored", "other"): None,
}
_RUN_REFUSALS: dict[RunPhase, str] = {
    "fresh": "First event must be 'RUN_STARTED', not {event}",
    "running": "Cannot send {event} while a run is still active",
    "finished": "Cannot send {event}: The run has already finished with 'RUN_FINISHED'",
    "errored": "Cannot send {event}: The run has already errored with 'RUN_ERROR'",
}

_Move = Literal["start", "go on", "end"]
_Standing = Literal["open", "ended", "closed"]


@dataclass(frozen=True, slots=True, eq=False)
class _Bracket:
    """What can be open: how it is called, what its events are keyed by, and how it may be used."""

    noun: str
    key: Callable[[Any], Any]
    owned: bool = True
    """Whether a continuation with the tag of another is refused; else the tag is the key or a part of it."""
    reopens: bool = True


_MESSAGE_ID: Callable[[Any], Any] = attrgetter("message_id")
_STEP = _Bracket("step", attrgetter("subagent_run_id", "step_name"), owned=False)
_TEXT = _Bracket("text message", _MESSAGE_ID)
_REASONING = _Bracket("reasoning message", _MESSAGE_ID)
_SPAN = _Bracket("reasoning span", _MESSAGE_ID)
_CALL = _Bracket("tool call", attrgetter("tool_call_id"))
_SUBAGENT = _Bracket("subagent", attrgetter("subagent_run_id"), owned=False, reopens=False)
_ACTIVITY = _Bracket("activity", _MESSAGE_ID)  # never open, but owned

_CLOSED_AT_THE_END = (_STEP, _TEXT, _REASONING, _SPAN, _CALL, _SUBAGENT)
"""In the order in which RUN_FINISHED asks for them."""

_BRACKET_OF: dict[type, tuple[_Bracket, _Move]] = {
    TextMessageStartEvent: (_TEXT, "start"),
    TextMessageContentEvent: (_TEXT, "go on"),
    TextMessageEndEvent: (_TEXT, "end"),
    ToolCallStartEvent: (_CALL, "start"),
    ToolCallArgsEvent: (_CALL, "go on"),
    ToolCallEndEvent: (_CALL, "end"),
    ReasoningStartEvent: (_SPAN, "start"),
    ReasoningEndEvent: (_SPAN, "end"),
    ReasoningMessageStartEvent: (_REASONING, "start"),
    ReasoningMessageContentEvent: (_REASONING, "go on"),
    ReasoningMessageEndEvent: (_REASONING, "end"),
    StepStartedEvent: (_STEP, "start"),
    StepFinishedEvent: (_STEP, "end"),
    SubagentStartedEvent: (_SUBAGENT, "start"),
    SubagentFinishedEvent: (_SUBAGENT, "end"),
    SubagentErrorEvent: (_SUBAGENT, "end"),
}

_NOT_OPEN = "No active {noun} found with ID {key}: it is one that was not started, or has ended"
_BRACKET_TABLE: dict[_Move, dict[_Standing, str | None]] = {
    # None: allowed; else why not. "ended" is what was open before in this run and is opened once only.
    "start": {
        "open": "A {noun} with ID {key} is already active; end it first",
        "ended": "The {noun} with ID {key} has ended in this run, and is not opened again",
        "closed": None,
    },
    "go on": {"open": None, "ended": _NOT_OPEN, "closed": _NOT_OPEN},
    "end": {"open": None, "ended": _NOT_OPEN, "closed": _NOT_OPEN},
}


@dataclass(slots=True)
class _Items:
    """What a run has opened of one kind: what is open now, and who owns what was ever opened."""

    open: dict[Any, None] = field(default_factory=dict[Any, None])
    owners: dict[Any, Owner] = field(default_factory=dict[Any, Owner])


class Verifier:
    """Judges the order of one stream, event by event; see the module for what it remembers.

    `thread_id` is the thread that was asked for; without one the first RUN_STARTED names it. `local=True` is the
    sender's side: the same rules, and `LocalProtocolError` instead of `RemoteProtocolError`. With `mismatch`, ids that
    do not agree are told to it instead of refused (P-27).
    """

    def __init__(
        self,
        *,
        thread_id: str | None = None,
        local: bool = False,
        mismatch: WarningSink | None = None,
    ) -> None:
        self._thread_id = thread_id
        self._local = local
        self._mismatch = mismatch
        self._phase: RunPhase = "fresh"
        self._started: RunStartedEvent | None = None
        self._items: dict[_Bracket, _Items] = {}
        self._forget()

    @property
    def phase(self) -> RunPhase:
        """Where the stream stands: fresh, running, finished or errored."""
        return self._phase

    def open_items(self) -> tuple[str, ...]:
        """What is open now, in words with ids, in the order in which RUN_FINISHED asks for it."""
        return tuple(f"{kind.noun} {_named(key)}" for kind in _CLOSED_AT_THE_END for key in self._items[kind].open)

    def owner_of(self, event: Event) -> Owner:
        """The owner of the item that an event without a tag opens again or goes on with; None for the parent agent."""
        kind, _ = _BRACKET_OF.get(type(event), (None, None))
        if kind is None or not kind.owned:
            return None
        if isinstance(event, ToolCallStartEvent) and event.parent_message_id in self._items[_TEXT].owners:
            return self._items[_TEXT].owners[event.parent_message_id]
        return self._items[kind].owners.get(kind.key(event))

    def accept(self, event: Event) -> None:
        """Takes the next event of the stream, or refuses it: raises a protocol error and changes nothing."""
        bracket = _BRACKET_OF.get(type(event))
        if bracket is not None and self._phase == "running":
            self._move(event, *bracket)
        elif self._phase == "running" and (rule := _OWNERSHIP.get(type(event))) is not None:
            rule(self, event)
        else:
            self._move_run(event)

    def _move_run(self, event: Event) -> None:
        name = event.type.value
        after = _RUN_TABLE[self._phase, name if name in _RUN_EVENTS else "other"]
        if after is None:
            run = f" (run {self._started.run_id!r})" if self._started is not None else ""
            self._refuse(event, "P-36", _RUN_REFUSALS[self._phase].format(event=_quoted(event)) + run)
        if isinstance(event, RunStartedEvent):
            self._check_thread(event)
            self._forget()
            self._started = event
            self._thread_id = event.thread_id if self._thread_id is None else self._thread_id
            self._own_messages(event.input.messages if event.input else ())
        elif isinstance(event, RunFinishedEvent):
            self._check_closed(event)
            self._check_interrupts(event)
            self._check_ids(event)
        elif isinstance(event, RunErrorEvent):
            self._forget()
        self._phase = after

    def _forget(self) -> None:
        self._items = {kind: _Items() for kind in (*_CLOSED_AT_THE_END, _ACTIVITY)}

    def _check_thread(self, event: RunStartedEvent) -> None:
        if self._thread_id not in (None, event.thread_id):
            words = "each 'RUN_STARTED' of a stream carries the input's threadId"
            self._disagree(event, "/threadId", f"{words} {self._thread_id!r}, not {event.thread_id!r}")

    def _check_closed(self, event: RunFinishedEvent) -> None:
        for kind in _CLOSED_AT_THE_END:
            if items := self._items[kind].open:
                named = ", ".join(map(_named, items))
                self._refuse(event, "P-37", f"Cannot send 'RUN_FINISHED' while {kind.noun}s are still active: {named}")

    def _check_interrupts(self, event: RunFinishedEvent) -> None:
        asked = event.outcome.interrupts if isinstance(event.outcome, RunFinishedInterruptOutcome) else ()
        seen = set[str]()
        for index, interrupt in enumerate(asked):
            if interrupt.id in seen:
                words = f"'RUN_FINISHED' has two interrupts carrying the id {interrupt.id!r}"
                self._refuse(event, "P-38", words, f"/outcome/interrupts/{index}/id")
            seen.add(interrupt.id)

    def _check_ids(self, event: RunFinishedEvent) -> None:
        started = self._started
        if started is not None and event.run_id != started.run_id:
            words = "'RUN_STARTED' and 'RUN_FINISHED' must agree on their runId"
            self._disagree(event, "/runId", f"{words}: {started.run_id!r} and {event.run_id!r}")
        if started is not None and event.thread_id != started.thread_id:
            words = "'RUN_FINISHED' must carry the input's threadId"
            self._disagree(event, "/threadId", f"{words} {started.thread_id!r}, not {event.thread_id!r}")

    def _disagree(self, event: Event, path: str, what: str) -> None:
        if self._mismatch is None:
            self._refuse(event, "P-38", what, path)
        self._mismatch(WarningRecord("run-id-mismatch", what, path))

    def _move(self, event: Any, kind: _Bracket, move: _Move) -> None:
        items, key = self._items[kind], kind.key(event)
        standing: _Standing = (
            "open" if key in items.open else "ended" if key in items.owners and not kind.reopens else "closed"
        )
        if (refusal := _BRACKET_TABLE[move][standing]) is not None:
            words = refusal.format(noun=kind.noun, key=_named(key))
            self._refuse(event, "P-39", f"Cannot send {_quoted(event)}: {words}")
        if kind.owned and event.subagent_run_id is not None:
            self._check_owner(event, kind, key)
        if move == "start":
            self._start(event, kind, key)
        elif move == "end":
            del items.open[key]

    def _start(self, event: Any, kind: _Bracket, key: Any) -> None:
        owner: Owner = event.subagent_run_id
        if kind is _CALL:
            owner = self._owner_of_call(event)
        elif kind is _SUBAGENT:
            self._check_parent(event)
        items = self._items[kind]
        items.open[key] = None
        items.owners.setdefault(key, owner)

    def _check_owner(self, event: Any, kind: _Bracket, key: Any) -> None:
        """Refuses a tag that is not the owner's; what nobody has opened yet is anybody's."""
        owners = self._items[kind].owners
        if key in owners and owners[key] != event.subagent_run_id:
            self._refuse_owner(event, f"the owner of {kind.noun} {key!r}", owners[key])

    def _refuse_owner(self, event: Any, whose: str, owner: Owner) -> NoReturn:
        words = f"subagentRunId {event.subagent_run_id!r} of {_quoted(event)} does not match {whose}, {_agent(owner)}"
        self._refuse(event, "P-41", words, "/subagentRunId")

    def _owner_of_call(self, event: ToolCallStartEvent) -> Owner:
        """A call belongs to the message that carries it: its tag, if any, is that of its parent message."""
        messages, calls, parent = self._items[_TEXT].owners, self._items[_CALL].owners, event.parent_message_id
        if parent is None or parent not in messages:
            return event.subagent_run_id
        owner = messages[parent]
        if event.subagent_run_id not in (None, owner):
            self._refuse_owner(event, f"the owner of its parent message {parent!r}", owner)
        if calls.get(event.tool_call_id, owner) != owner:
            words = f"tool call {event.tool_call_id!r} of {_agent(calls[event.tool_call_id])}"
            whose = f"{words} does not match the owner of its parent message {parent!r}, {_agent(owner)}"
            self._refuse(event, "P-41", f"{_quoted(event)}: {whose}", "/parentMessageId")
        return owner

    def _check_parent(self, event: SubagentStartedEvent) -> None:
        parent = event.parent_subagent_run_id
        if parent is not None and parent not in self._items[_SUBAGENT].owners:
            words = f"'SUBAGENT_STARTED': no subagent {parent!r} has been started in this run"
            self._refuse(event, "P-41", words, "/parentSubagentRunId")

    def _own_activity(self, event: ActivitySnapshotEvent) -> None:
        owners = self._items[_ACTIVITY].owners
        if event.replace is not False or event.message_id not in owners:
            owners[event.message_id] = event.subagent_run_id

    def _check_activity(self, event: ActivityDeltaEvent) -> None:
        if event.subagent_run_id is not None:
            self._check_owner(event, _ACTIVITY, event.message_id)

    def _own_result(self, event: ToolCallResultEvent) -> None:
        self._items[_TEXT].owners[event.message_id] = event.subagent_run_id

    def _check_encrypted(self, event: ReasoningEncryptedValueEvent) -> None:
        kinds = (_CALL,) if event.subtype == "tool-call" else (_TEXT, _REASONING)
        for kind in kinds:
            if event.subagent_run_id is not None and event.entity_id in self._items[kind].owners:
                self._check_owner(event, kind, event.entity_id)
                return

    def _own_snapshot(self, event: MessagesSnapshotEvent) -> None:
        self._own_messages(event.messages)

    def _own_messages(self, messages: Iterable[Message]) -> None:
        for message in messages:
            kind = _KIND_OF_MESSAGE.get(type(message), _TEXT)
            self._items[kind].owners[message.id] = message.subagent_run_id
            if isinstance(message, AssistantMessage):
                for call in message.tool_calls or ():
                    self._items[_CALL].owners[call.id] = message.subagent_run_id

    def _refuse(self, event: Event, rule: str, what: str, path: str | None = None) -> NoReturn:
        if self._local:
            raise LocalProtocolError(f"this end breaks the protocol: {what} ({rule})", rule=rule, path=path)
        text = f"the agent broke the protocol: {what} ({rule})"
        raise RemoteProtocolError(text, rule=rule, event_type=event.type.value, path=path)


_KIND_OF_MESSAGE: dict[type, _Bracket] = {ReasoningMessage: _REASONING, ActivityMessage: _ACTIVITY}

_OWNERSHIP: dict[type, Callable[[Verifier, Any], None]] = {
    # What has no bracket and still says or needs to know who owns what.
    ToolCallResultEvent: Verifier._own_result,  # pyright: ignore[reportPrivateUsage]  # the class's own table
    ActivitySnapshotEvent: Verifier._own_activity,  # pyright: ignore[reportPrivateUsage]
    ActivityDeltaEvent: Verifier._check_activity,  # pyright: ignore[reportPrivateUsage]
    ReasoningEncryptedValueEvent: Verifier._check_encrypted,  # pyright: ignore[reportPrivateUsage]
    MessagesSnapshotEvent: Verifier._own_snapshot,  # pyright: ignore[reportPrivateUsage]
}


def _quoted(event: Event) -> str:
    return f"'{event.type.value}'"


def _named(key: str | Sequence[str | None]) -> str:
    """The id of an item; of a step its name, and the subagent that it belongs to."""
    if isinstance(key, str):
        return repr(key)
    owner, name = key
    return repr(name) if owner is None else f"{name!r} (subagent {owner!r})"


def _agent(owner: Owner) -> str:
    return "the parent agent" if owner is None else repr(owner)
