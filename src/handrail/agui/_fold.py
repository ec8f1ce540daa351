"""Events into messages and state (section 7 of the protocol rules).

The fold takes events that were checked for shape and order, and keeps the messages of a thread (`Thread`, with the
calls in it: `ToolCalls`) and the shared state, a `Document` that patches change in place. An event costs what it
brings: a delta is noted, not joined; nothing is searched, nothing copied. Whoever reads pays for what is read, once.

What does not fit is told to `warn` and changes nothing; no event fails here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    DeveloperMessage,
    Event,
    Message,
    MessagesSnapshotEvent,
    ReasoningEncryptedValueEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    SystemMessage,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)

from handrail.agui._calls import ToolCalls
from handrail.agui._entries import Entry
from handrail.agui._history import Repair, history, without_unfinished
from handrail.agui._models import made
from handrail.agui._patch import Document
from handrail.agui._thread import Thread
from handrail.agui._values import copy_json
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.errors import PatchError

__all__ = ["Fold"]

_TEXT_MESSAGES: dict[str, type[Any]] = {
    "assistant": AssistantMessage,
    "developer": DeveloperMessage,
    "system": SystemMessage,
    "user": UserMessage,
}
_BLANK: dict[str, Message] = {
    role: made(kind, id="", role=role, content="")
    for role, kind in (*_TEXT_MESSAGES.items(), ("reasoning", ReasoningMessage))
}
"""What a message that is streamed begins as, by role."""
_Streams = dict[str, Entry | None]
"""What is open, by message id; None where its text is dropped."""


class Fold:
    """The messages and the state of one thread, event by event.

    `messages` and `state` are what the thread starts from; no state reads as `{}`. `warn` gets a `WarningRecord`
    for what does not fit. What `messages`, `state` and `history` have given never changes later, unless whoever has it
    changes it: the models of messages are shared with the events that brought them, and are not for changing. It takes
    one caller at a time.
    """

    def __init__(
        self, messages: Iterable[Message] = (), state: Any = None, *, warn: WarningSink = lambda record: None
    ) -> None:

        def tell(code: str, message: str, path: str | None = None) -> None:
            warn(WarningRecord(code, message, path))

        self._warn = tell
        self._thread = Thread(messages)
        self._calls = ToolCalls(self._thread, tell)
        self._state = Document({} if state is None else state)
        self._texts: _Streams = {}
        self._thoughts: _Streams = {}
        self._read: tuple[Message, ...] | None = None

    # -- what it holds -----------------------------------------------------------------------------------------------

    @property
    def messages(self) -> tuple[Message, ...]:
        """Every message of the thread, activities included, unrepaired."""
        if self._read is None:
            self._read = tuple(entry.build() for entry in self._thread)
        return self._read

    @property
    def state(self) -> Any:
        """The shared state. Assigning replaces it."""
        return self._state.read()

    @state.setter
    def state(self, value: Any) -> None:
        self._state = Document(value)

    @property
    def final(self) -> str:
        """The last text of an assistant in this run, "" if there is none."""
        run = self._thread.run
        for entry in self._thread.newest_first():
            if entry.role == "assistant" and entry.has_text and run in (entry.made_in, entry.streamed_in):
                return str(getattr(entry.build(), "content", ""))
        return ""

    @property
    def pending_tool_calls(self) -> tuple[str, ...]:
        """The ids of this run's calls that wait for an answer, in call order (P-62)."""
        return self._calls.pending

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """The calls of the thread whose arguments have ended and that have no result, in order."""
        calls = (call for entry in self._thread for call in entry.calls)
        return tuple(call.build() for call in calls if call.complete and call.result is None)

    def takes(self, event: TextMessageStartEvent | ReasoningMessageStartEvent) -> bool:
        """Whether what was started by this event, the last one of its message, is of a kind that its message takes."""
        streams = self._texts if isinstance(event, TextMessageStartEvent) else self._thoughts
        return streams.get(event.message_id) is not None

    def was_answered(self, call_id: str) -> bool:
        """Whether the latest call with this id ever had a result, also where a snapshot has taken it back."""
        return call_id in self._thread.answered

    def remember_answered(self, call_ids: Iterable[str]) -> None:
        """Says of calls that they had a result, and have none any more."""
        self._thread.answered.update(call_ids)

    @property
    def taken_back(self) -> tuple[str, ...]:
        """The calls that had a result, and have none any more."""
        return self._thread.taken_back

    @property
    def kept(self) -> tuple[Message, ...]:
        """The messages as another fold may begin with them: without the calls whose arguments have not ended."""
        unfinished = self._unfinished
        left = (without_unfinished(message, unfinished) for message in self.messages)
        return tuple(message for message in left if message is not None)

    def history(self, repair: Repair = lambda call: None) -> tuple[Message, ...]:
        """The messages of the next request (P-61); `repair` makes the answers that are missing."""
        return history(self.messages, unfinished=self._unfinished, repair=repair)

    @property
    def _unfinished(self) -> frozenset[tuple[str, str]]:
        return frozenset((entry.id, call.id) for entry in self._thread for call in entry.calls if not call.complete)

    def add(self, message: Message) -> None:
        """Takes in a message that came by no event: a turn goes to the end, a result behind its call (S-56)."""
        self._read = None
        self._thread.add(message)

    # -- events ------------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Takes the next event in; when it returns, the event has been applied in full."""
        kind = type(event)
        if (rule := self._rules.get(kind)) is not None:
            self._read = None
            rule(self, event)
        elif (of_calls := _RULES_OF_CALLS.get(kind)) is not None:
            self._read = None
            of_calls(self._calls, event)

    def _run_started(self, event: RunStartedEvent) -> None:
        for message in event.input.messages if event.input is not None else ():
            if message.id not in self._thread.by_id:
                self._thread.add(message)
        self._texts, self._thoughts = {}, {}
        self._thread.run += 1  # only now, so that what the run was given is none of its own
        self._calls.begin_run()

    def _run_finished(self, event: RunFinishedEvent) -> None:
        self._calls.end_run()
        if isinstance(event.outcome, RunFinishedSuccessOutcome):
            self._calls.list_pending(event.outcome.pending_tool_call_ids or ())

    def _run_error(self, event: RunErrorEvent) -> None:
        self._texts, self._thoughts = {}, {}
        self._calls.end_run()

    def _text_start(self, event: TextMessageStartEvent) -> None:
        entry = self._thread.by_id.get(event.message_id)
        if entry is None:
            blank = _BLANK[event.role or "assistant"]
            entry = self._thread.begin(blank, event.message_id, event.subagent_run_id, event.name)
            entry.streamed_in = self._thread.run
        elif entry.role not in _TEXT_MESSAGES:
            entry = self._drop(event, entry)
        else:
            entry.open_text()
        self._open(self._texts, event, entry)

    def _text_content(self, event: TextMessageContentEvent) -> None:
        entry = self._texts.get(event.message_id)
        if entry is None:
            return
        if entry.streamed_in != self._thread.run and event.delta:
            if entry.has_text:
                self._warn("message-id-reused", f"text is appended to message {entry.id!r}, which is not of this run")
            entry.streamed_in = self._thread.run
        entry.append(event.delta)
        if event.metadata is not None:
            entry.merge(event.metadata)

    def _text_end(self, event: TextMessageEndEvent) -> None:
        self._close(self._texts, event)

    def _reasoning_start(self, event: ReasoningMessageStartEvent) -> None:
        entry = self._thread.by_id.get(event.message_id)
        if entry is None:
            entry = self._thread.begin(_BLANK["reasoning"], event.message_id, event.subagent_run_id)
        elif entry.role != "reasoning":
            entry = self._drop(event, entry)
        self._open(self._thoughts, event, entry)

    def _reasoning_content(self, event: ReasoningMessageContentEvent) -> None:
        entry = self._thoughts.get(event.message_id)
        if entry is not None:
            entry.append(event.delta)
            entry.merge(event.metadata)

    def _reasoning_end(self, event: ReasoningMessageEndEvent) -> None:
        self._close(self._thoughts, event)

    def _open(self, streams: _Streams, event: Any, entry: Entry | None) -> None:
        streams[event.message_id] = entry
        if entry is not None:
            entry.merge(event.metadata)

    def _close(self, streams: _Streams, event: Any) -> None:
        entry = streams.pop(event.message_id, None)
        if entry is not None:
            entry.merge(event.metadata)

    def _drop(self, event: Event, entry: Entry) -> None:
        text = f"{event.type.value} names {entry.id!r}, a message of role {entry.role}; what it brings is dropped"
        self._warn("message-kind", text, "/messageId")

    def _encrypted_value(self, event: ReasoningEncryptedValueEvent) -> None:
        name, value = event.entity_id, event.encrypted_value
        call = self._thread.calls.get(name) if event.subtype == "tool-call" else None
        entry = self._thread.by_id.get(name) if event.subtype == "message" else None
        if call is not None:
            call.encrypted_value = value
            call.entry.stale = True
        elif entry is not None and entry.role != "activity":
            entry.change("encrypted_value", value)
        else:
            self._warn(
                "encrypted-value", f"an encrypted value is for the {event.subtype} {name!r}, unknown here", "/entityId"
            )

    def _messages_snapshot(self, event: MessagesSnapshotEvent) -> None:
        dropped = self._thread.reconcile(event.messages)
        for entry in dropped:
            if entry.role == "user":
                self._warn("snapshot-dropped-turn", f"the snapshot leaves out the user's message {entry.id!r}")
        self._forget(self._texts, dropped, frozenset(_TEXT_MESSAGES))
        self._forget(self._thoughts, dropped, frozenset({"reasoning"}))
        self._calls.forget_dropped()

    def _forget(self, streams: _Streams, dropped: list[Entry], roles: frozenset[str]) -> None:
        """Skips what is still to come for a message that the snapshot left out, or made one of another role."""
        for name, entry in streams.items():
            if entry is None:
                continue
            if entry in dropped or entry.role not in roles:
                streams[name] = None
                self._warn("snapshot-dropped-open", f"the snapshot leaves out message {name!r}, which is still open")
            else:
                entry.open_text()

    def _activity_snapshot(self, event: ActivitySnapshotEvent) -> None:
        entry = self._thread.by_id.get(event.message_id)
        if entry is None or event.replace is not False:
            kept = entry.build().metadata if entry is not None else None
            message = made(
                ActivityMessage,
                id=event.message_id,
                role="activity",
                activity_type=event.activity_type,
                content=copy_json(event.content),
                subagent_run_id=event.subagent_run_id,
                metadata=kept,
            )
            entry = self._thread.append(message) if entry is None else self._thread.put(entry, message)
            self._silence(entry)
        entry.merge(event.metadata)

    def _silence(self, entry: Entry) -> None:
        """Skips what is still to come for a message that an activity has taken the place of."""
        for streams in (self._texts, self._thoughts):
            if streams.get(entry.id) is entry:
                streams[entry.id] = None

    def _activity_delta(self, event: ActivityDeltaEvent) -> None:
        entry = self._thread.by_id.get(event.message_id)
        if entry is None or entry.role != "activity":
            what = "unknown here" if entry is None else f"a message of role {entry.role}"
            self._warn("activity", f"an activity patch is for {event.message_id!r}, {what}; skipped", "/messageId")
            return
        entry.merge(event.metadata)
        try:
            entry.document().patch(event.patch, result=dict)
        except PatchError as error:
            text = f"Failed to apply activity patch to {event.message_id!r}: {error}"
            self._warn("activity", text, f"/patch/{error.index}")
        else:
            entry.change("activity_type", event.activity_type)

    def _state_snapshot(self, event: StateSnapshotEvent) -> None:
        self._state = Document(event.snapshot)

    def _state_delta(self, event: StateDeltaEvent) -> None:
        try:
            self._state.patch(event.delta)
        except PatchError as error:
            self._warn("state-delta", f"Failed to apply state patch: {error}", f"/delta/{error.index}")

    # Of the class and not of each instance: bound methods that an instance held would be circles.
    _rules: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        RunStartedEvent: _run_started,
        RunFinishedEvent: _run_finished,
        RunErrorEvent: _run_error,
        TextMessageStartEvent: _text_start,
        TextMessageContentEvent: _text_content,
        TextMessageEndEvent: _text_end,
        ReasoningMessageStartEvent: _reasoning_start,
        ReasoningMessageContentEvent: _reasoning_content,
        ReasoningMessageEndEvent: _reasoning_end,
        ReasoningEncryptedValueEvent: _encrypted_value,
        MessagesSnapshotEvent: _messages_snapshot,
        ActivitySnapshotEvent: _activity_snapshot,
        ActivityDeltaEvent: _activity_delta,
        StateSnapshotEvent: _state_snapshot,
        StateDeltaEvent: _state_delta,
    }


_RULES_OF_CALLS: dict[type, Callable[[ToolCalls, Any], None]] = {
    ToolCallStartEvent: ToolCalls.start,
    ToolCallArgsEvent: ToolCalls.args,
    ToolCallEndEvent: ToolCalls.end,
    ToolCallResultEvent: ToolCalls.result,
}
