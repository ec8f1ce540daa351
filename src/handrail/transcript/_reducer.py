"""Events into transcripts.

The reducer takes checked, expanded AG-UI events, and facts that only a session knows: a turn was added, a tool started,
an answer was made, questions hold calls, a run ended on this side. After each it has the next transcript, an immutable
value; making it costs what changed. It reads no clock, mints no id and never refuses: what the protocol forbids was
refused before, and what it allows but nobody needs (a delta for a message that a snapshot dropped) changes nothing.

*Turns.* What the assistant makes (text, reasoning, calls) goes to the open turn, in order of arrival; the first part
opens one. A turn of the user, a streamed text in another role and a new activity detach it: what streams goes on in its
place, what comes next begins a new message. A run's start and end close it (S-114 to S-119).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    BaseEvent,
    Message,
    MessagesSnapshotEvent,
    ReasoningEncryptedValueEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from handrail.agui._copies import copied
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.errors import PatchError
from handrail.transcript._calls import Calls
from handrail.transcript._document import Document
from handrail.transcript._model import (
    ActivityPart,
    ReasoningPart,
    Role,
    TextPart,
    Transcript,
    changed,
    published,
)
from handrail.transcript._page import Page
from handrail.transcript._restore import parts_of
from handrail.transcript._run_state import Failed, Finished, Idle, Running, RunState
from handrail.transcript._snapshot import Here, Reconciled, add, reconcile, without
from handrail.transcript._streams import Streams

__all__ = ["TranscriptReducer", "verdict_of"]


def verdict_of(event: RunFinishedEvent | RunErrorEvent) -> Finished | Failed:
    """What a terminal event says about its run."""
    if isinstance(event, RunErrorEvent):
        return Failed(event.message, event.code)
    outcome = event.outcome
    kind = "success" if outcome is None else outcome.type
    interrupts = tuple(outcome.interrupts) if isinstance(outcome, RunFinishedInterruptOutcome) else ()
    result = event.result if kind == "success" else None
    return Finished(event.thread_id, event.run_id, kind, copied(result), copied(interrupts))


class TranscriptReducer:
    """Reduces one thread to what a screen shows. `accept(event)` gives the next transcript; it starts empty.

    `on_warning` is told of state that cannot be patched (`state-delta`) and of what only a screen can see
    (`message-restated`); the rest is for the fold of the messages to tell.
    """

    def __init__(self, *, on_warning: WarningSink | None = None) -> None:
        self._on_warning = on_warning
        self._page = Page()
        self._calls = Calls(self._page, self._place_for_call)
        self._texts = Streams(self._page, self._page.texts)
        self._thoughts = Streams(self._page, self._page.thoughts)
        self._state = Document({})
        self._contents: dict[str, Document] = {}
        self._run: RunState = Idle()
        self._steps: tuple[str, ...] = ()
        self._turn: int | None = None
        self._run_id: str | None = None
        self._exchange = 0
        self._transcript = published(Transcript(version=-1), self._page.screen, self._run, self._state.version, ())
        self._acts: dict[type[BaseEvent], Callable[[Any], None]] = {
            RunStartedEvent: self._run_started,
            RunFinishedEvent: self._run_over,
            RunErrorEvent: self._run_over,
            StepStartedEvent: self._step_started,
            StepFinishedEvent: self._step_finished,
            TextMessageStartEvent: self._text_started,
            TextMessageContentEvent: self._texts.grow,
            TextMessageEndEvent: self._text_ended,
            ReasoningMessageStartEvent: self._thought_started,
            ReasoningMessageContentEvent: self._thoughts.grow,
            ReasoningMessageEndEvent: self._thought_ended,
            ReasoningEncryptedValueEvent: self._value_encrypted,
            ToolCallStartEvent: self._calls.start,
            ToolCallArgsEvent: self._calls.grow,
            ToolCallEndEvent: self._calls.end,
            ToolCallResultEvent: self._call_answered,
            ActivitySnapshotEvent: self._activity_set,
            ActivityDeltaEvent: self._activity_patched,
            StateSnapshotEvent: self._state_set,
            StateDeltaEvent: self._state_patched,
            MessagesSnapshotEvent: self._messages_set,
        }

    @property
    def transcript(self) -> Transcript:
        """The screen as it is now: the same object until something changes."""
        self._transcript = published(self._transcript, self._page.screen, self._run, self._state.version, self._steps)
        return self._transcript

    @property
    def state(self) -> Any:
        """The shared state as it is now: a copy, whatever became of those that were read before."""
        return self._state.version.read()

    def accept(self, event: BaseEvent) -> Transcript:
        """Apply one event; an event that draws nothing gives the same transcript again."""
        act = self._acts.get(type(event))
        if act is not None:
            act(event)
        return self.transcript

    # -- what only a session knows ---------------------------------------------------------------------------------

    def restore(self, messages: Iterable[Message], state: Any = None) -> None:
        """Begin with a history and a shared state."""
        self._rewrite(list(messages))
        self._state.replace({} if state is None else state)

    def load(self, transcript: Transcript) -> None:
        """Begin with a transcript that was kept; nothing in it streams any more."""
        self._page.rewrite(transcript.messages)
        self._calls.recount()
        self._state.replace(transcript.state)
        self._run, self._steps = transcript.run, transcript.steps

    def begin_exchange(self, number: int) -> None:
        """What is drawn from here on belongs to exchange `number`."""
        self._exchange = number

    def add_turn(self, message: UserMessage) -> str:
        """Draw what the user says, behind everything; returns the id on screen, which is another if it was taken."""
        self._turn = None
        at = self._page.begin("user", message.id, name=message.name, run_id=None, exchange=self._exchange)
        for part in parts_of(message):
            self._page.add(at, part)
        return self._page.messages[at].id

    def run_tool(self, call_id: str) -> None:
        """The tool of a call was started on this side."""
        self._calls.run_tool(call_id)

    def answer(self, message: ToolMessage, *, denied: bool = False) -> None:
        """Draw an answer that was made on this side; `denied` where the user refused the call."""
        self._calls.answer(message, message.error, local=True, denied=denied)

    def hold(self, held: Iterable[str], denied: Mapping[str, str]) -> None:
        """Say which calls wait for an open question, and which the user refused, with what is written there then."""
        self._calls.hold(held, denied)

    def waits(self, call_id: str) -> bool:
        """Whether a call is complete and may still be answered: its run was not given up."""
        return self._calls.waits(call_id)

    def has_result(self, call_id: str) -> bool:
        """Whether the latest call with this id has an answer."""
        part = self._page.call(call_id)
        return part is not None and part.result is not None

    def set_state(self, state: Any) -> None:
        """Replace the shared state."""
        self._state.replace(state)

    def end(self, state: Finished | Failed) -> None:
        """The run is over: settle what is open, close the turn. Text and reasoning stay as far as they came."""
        self._settle(state.message if isinstance(state, Failed) else None)
        if isinstance(state, Failed) or state.outcome == "cancelled":
            self._calls.give_up(state.message if isinstance(state, Failed) else None)
        self._run = state

    # -- runs and steps --------------------------------------------------------------------------------------------

    def _run_started(self, event: RunStartedEvent) -> None:
        self._settle(None)
        for part in (self._texts, self._thoughts, self._calls):
            part.begin_run()
        self._run_id, self._steps = event.run_id, ()
        self._run = Running(event.thread_id, event.run_id)
        if event.input is not None:
            self._add_unknown(event.input.messages)

    def _run_over(self, event: RunFinishedEvent | RunErrorEvent) -> None:
        state = verdict_of(event)
        self.end(state)
        if isinstance(state, Finished) and state.interrupts:
            self.hold(self._calls.held_by(state.interrupts), {})

    def _settle(self, error: str | None) -> None:
        self._texts.settle()
        self._thoughts.settle()
        self._calls.settle(error)
        self._turn = self._run_id = None

    def _step_started(self, event: StepStartedEvent) -> None:
        self._steps = (*self._steps, event.step_name)

    def _step_finished(self, event: StepFinishedEvent) -> None:
        if event.step_name in self._steps:
            at = self._steps.index(event.step_name)
            self._steps = self._steps[:at] + self._steps[at + 1 :]

    # -- text and reasoning ----------------------------------------------------------------------------------------

    def _text_started(self, event: TextMessageStartEvent) -> None:
        page, wire_id = self._page, event.message_id
        if wire_id in page.thoughts or wire_id in page.activities:
            return  # the message is of a kind that takes no text
        if self._texts.goes_on(wire_id):
            return
        role: Role = page.role_of_message(wire_id) or event.role or "assistant"
        if role == "assistant":
            at = self._open_turn(wire_id, event.name)
        else:
            self._turn = None
            at = self._begin(role, wire_id, event.name)
        part = TextPart(f"text:{wire_id}", wire_id, streaming=True, subagent_run_id=event.subagent_run_id)
        self._texts.begin(wire_id, page.add(at, part).id)

    def _text_ended(self, event: TextMessageEndEvent) -> None:
        if self._texts.end(event.message_id):
            self._warn("message-restated", f"message {event.message_id} repeats the text that a snapshot had given it")

    def _thought_started(self, event: ReasoningMessageStartEvent) -> None:
        page, wire_id = self._page, event.message_id
        if wire_id in page.texts or wire_id in page.activities or wire_id in page.assistants:
            return
        if self._thoughts.goes_on(wire_id):
            return
        part = ReasoningPart(f"reasoning:{wire_id}", wire_id, streaming=True, subagent_run_id=event.subagent_run_id)
        self._thoughts.begin(wire_id, page.add(self._open_turn(wire_id), part).id)

    def _thought_ended(self, event: ReasoningMessageEndEvent) -> None:
        if self._thoughts.end(event.message_id):
            self._warn("message-restated", f"reasoning {event.message_id} repeats what a snapshot had given it")

    def _value_encrypted(self, event: ReasoningEncryptedValueEvent) -> None:
        page = self._page
        if event.subtype == "tool-call":
            part = page.call(event.entity_id)
        else:
            known = page.thoughts.get(event.entity_id)
            part = page.part(known[-1]) if known else None
        if part is not None and part.encrypted_value != event.encrypted_value:
            page.change(part.id, encrypted_value=event.encrypted_value)

    # -- calls -----------------------------------------------------------------------------------------------------

    def _call_answered(self, event: ToolCallResultEvent) -> None:
        failed = event.metadata is not None and event.metadata.get("handrail.error") is True
        error = (event.content if isinstance(event.content, str) else "The tool failed") if failed else None
        self._calls.answer(event, error, local=False, denied=False)

    # -- activities and state --------------------------------------------------------------------------------------

    def _activity_set(self, event: ActivitySnapshotEvent) -> None:
        page, wire_id = self._page, event.message_id
        if event.replace is False and page.owns(wire_id):
            return
        if wire_id not in page.activities:
            if page.owns(wire_id):  # a message of another kind, which it takes the place of
                self._take(without(page.messages, wire_id, Here()))
            self._turn = None
            document = self._contents[wire_id] = Document(event.content)
            part = ActivityPart(f"activity:{wire_id}", wire_id, event.activity_type, {}, event.subagent_run_id)
            page.add(self._begin("activity", wire_id), changed(part, content=document.version))
            return
        self._write_activity(event, lambda document: document.replace(event.content), event.subagent_run_id)

    def _activity_patched(self, event: ActivityDeltaEvent) -> None:
        known = self._page.activities.get(event.message_id)
        if known is not None:
            owner = self._page.part(known).subagent_run_id
            self._write_activity(event, lambda document: document.patch(event.patch, result=dict), owner)

    def _write_activity(
        self, event: ActivitySnapshotEvent | ActivityDeltaEvent, write: Callable[[Document], None], owner: str | None
    ) -> None:
        """Change an activity that is here; what makes no difference leaves the part as it is."""
        part: ActivityPart = self._page.part(self._page.activities[event.message_id])
        document = self._contents.get(event.message_id)
        if document is None:
            document = self._contents[event.message_id] = Document(part.content)
        before = document.version
        try:
            write(document)
        except PatchError:  # the fold of the messages says so
            return
        if document.version is before and (part.activity_type, part.subagent_run_id) == (event.activity_type, owner):
            return
        self._page.change(part.id, content=document.version, activity_type=event.activity_type, subagent_run_id=owner)

    def _state_set(self, event: StateSnapshotEvent) -> None:
        self._state.replace(event.snapshot)

    def _state_patched(self, event: StateDeltaEvent) -> None:
        try:
            self._state.patch(event.delta)
        except PatchError as error:
            self._warn("state-delta", f"Failed to apply state patch: {error}", f"/delta/{error.index}")

    # -- snapshots of messages -------------------------------------------------------------------------------------

    def _messages_set(self, event: MessagesSnapshotEvent) -> None:
        self._rewrite(event.messages)

    def _rewrite(self, snapshot: list[Message]) -> None:
        here = Here(self._turn, self._run_id, self._exchange)
        self._take(reconcile(self._page.messages, snapshot, here))

    def _add_unknown(self, messages: list[Message]) -> None:
        page = self._page
        unknown = [message for message in messages if not page.knows(message)]
        if unknown:
            self._take(add(page.messages, unknown, Here(None, None, self._exchange)))

    def _take(self, after: Reconciled) -> None:
        before = self._page.messages
        if len(after.messages) != len(before) or any(a is not b for a, b in zip(after.messages, before, strict=True)):
            self._page.rewrite(after.messages)
            self._contents.clear()
        self._turn = after.turn
        self._texts.recount(after.written)
        self._thoughts.recount(after.written)
        self._calls.recount()

    # -- turns -----------------------------------------------------------------------------------------------------

    def _open_turn(self, wire_id: str, name: str | None = None) -> int:
        if self._turn is None:
            self._turn = self._begin("assistant", wire_id, name)
        return self._turn

    def _begin(self, role: Role, wire_id: str, name: str | None = None) -> int:
        return self._page.begin(role, wire_id, name=name, run_id=self._run_id, exchange=self._exchange)

    def _place_for_call(self, call_id: str, parent: str | None) -> tuple[int, str]:
        """Where a new call is drawn, and the message of the wire that owns it (S-118, S-119)."""
        home = None if parent is None else self._page.assistants.get(parent)
        if parent is not None and home is not None:
            return home, parent
        return self._open_turn(call_id), self._page.owner_of_call(call_id, parent)

    def _warn(self, code: str, message: str, path: str | None = None) -> None:
        if self._on_warning is not None:
            self._on_warning(WarningRecord(code, message, path))
