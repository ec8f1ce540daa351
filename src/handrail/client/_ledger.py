"""What a session knows of its thread: the wire's messages, the screen, the questions, and what it did itself.

Only whoever has the turn writes here; anybody may read at any time. Every step is one section under `lock`, so a reader
in another thread sees the books between two steps and never in the middle of one. Nothing of the application's is
called inside: warnings are noted, and told when the step is over.

The shared state has one owner here, the reducer: the fold is given every event but those of the state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ag_ui.core import (
    BaseEvent,
    Event,
    Message,
    MessagesSnapshotEvent,
    ReasoningMessageStartEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallEndEvent,
    ToolMessage,
    UserMessage,
)

from handrail.agui._fold import Fold
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.client._questions import Questions
from handrail.messages import as_messages
from handrail.transcript import Failed, Finished, Transcript, TranscriptReducer

__all__ = ["NO_RESULT", "RUN_ENDED", "STOPPED", "Ledger"]

RUN_ENDED = "Not executed: the run ended before this call was answered"
NO_RESULT = "Not executed: no result was given for this call"
STOPPED = "Stopped before the tool finished"

_STATE_EVENTS = (StateSnapshotEvent, StateDeltaEvent)
_STARTS = (TextMessageStartEvent, ReasoningMessageStartEvent)


class Ledger:
    """The books of one thread. `pending_calls` are those the application, or a tool of the session, has to answer."""

    def __init__(
        self,
        thread_id: str,
        messages: Iterable[Message],
        state: Any,
        *,
        warn: WarningSink,
        new_id: Callable[[], str],
    ) -> None:
        begun = tuple(messages)
        given = [message.model_copy(deep=True) for message in as_messages(begun)] if begun else []
        self.thread_id = thread_id
        self.lock = threading.RLock()
        self._warn = warn
        self._noted: list[WarningRecord] = []
        self.fold = Fold(given, warn=self.note)
        self.screen = TranscriptReducer(on_warning=self.note)
        self.screen.restore(given, state)
        self.questions = Questions()
        self.run_ids: dict[str, bool] = {}
        self.pending_calls: tuple[str, ...] = ()
        self.unsent: dict[str, ToolMessage] = {}
        self.led_to: dict[str, str] = {}
        """The run ids of the requests that led to the calls which may still be executed."""
        self.exchange = 0
        self._new_id = new_id
        self._made_here: dict[str, ToolMessage] = {}
        self._reasons: dict[str, str] = {}

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def transcript(self) -> Transcript:
        with self.lock:
            return self.screen.transcript

    @property
    def state(self) -> Any:
        with self.lock:
            return self.screen.state

    @property
    def messages(self) -> tuple[Message, ...]:
        with self.lock:
            return self.fold.messages

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """The complete calls that wait for an answer and nothing else, in order; of two with one id the latest.

        Those that a question holds, that the user refused, or whose run did not succeed are not among them.
        """
        barred = self.questions.held | self.questions.refused.keys()
        with self.lock:
            waiting = {call.id: call for call in self.fold.unanswered if self.screen.waits(call.id)}
            return tuple(call for call in waiting.values() if call.id not in barred)

    def run_id_of(self, call_id: str) -> str:
        """The run id of the request that led to a call; where that is not known any more, the last that was used."""
        return self.led_to.get(call_id) or next(reversed(self.run_ids))

    def history(self) -> tuple[tuple[Message, ...], tuple[ToolMessage, ...]]:
        """The messages of the next request, and the answers among them that had to be made for it (S-57)."""
        held = self.questions.held
        made: list[ToolMessage] = []

        def repair(call: ToolCall) -> ToolMessage | None:
            if call.id in held:
                return None
            text = self._reason_for(call.id)
            made.append(ToolMessage(id=self._new_id(), tool_call_id=call.id, content=text, error=text))
            return made[-1]

        with self.lock:
            return self.fold.history(repair), tuple(made)

    def _reason_for(self, call_id: str) -> str:
        told = self.questions.refused.get(call_id) or self._reasons.get(call_id)
        return told or (NO_RESULT if call_id in self.pending_calls else RUN_ENDED)

    # -- warnings --------------------------------------------------------------------------------------------------

    def note(self, record: WarningRecord) -> None:
        """Keep a warning until the step is over."""
        self._noted.append(record)

    def tell(self) -> None:
        """The step is over: tell what it warned of. Not to be called under the lock."""
        while self._noted:
            self._warn(self._noted.pop(0))

    # -- events ----------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Take the next event in, on the wire and on the screen."""
        with self.lock:
            if not isinstance(event, _STATE_EVENTS):
                self.fold.apply(event)
            if isinstance(event, _STARTS) and not self.fold.takes(event):
                return  # the wire has dropped it, and told so
            self.screen.accept(event)
            if isinstance(event, MessagesSnapshotEvent):
                self._answer_again()
            elif isinstance(event, ToolCallEndEvent):
                self._forget_namesake(event.tool_call_id)

    def fold_only(self, event: BaseEvent) -> None:
        """Take a terminal event in on the wire; what the screen says of it is for `end`."""
        with self.lock:
            self.fold.apply(event)  # pyright: ignore[reportArgumentType]  # a member of the union `Event`

    def end(self, state: Finished | Failed) -> None:
        """The run is over: what it left open is settled."""
        with self.lock:
            self.screen.end(state)

    def hold(self) -> None:
        """The questions have changed: show which calls wait for them."""
        with self.lock:
            self.screen.hold(self.questions.held, self.questions.refused)

    def _answer_again(self) -> None:
        """A snapshot knows nothing of answers made here that it was not told: they stay where their call stays.

        They are kept where it goes, too: it may come back, and nothing is executed twice.
        """
        unanswered = {call.id for call in self.fold.unanswered}
        results: dict[str, list[ToolMessage]] = {}
        for message in self.fold.messages:
            if isinstance(message, ToolMessage):
                results.setdefault(message.tool_call_id, []).append(message)
        for call_id, made in tuple(self._made_here.items()):
            told = results.get(call_id, ())
            if any(made.id == message.id or made.content == message.content for message in told):
                continue  # what is unanswered is another call under its id, if anything is
            if call_id in unanswered:
                self.fold.add(made)
                self.screen.answer(made, denied=call_id in self.questions.refused)
            elif not told and self.unsent.pop(call_id, None) is not None:
                words = f"the snapshot leaves out call {call_id}; its result {made.id} has nowhere to go"
                self.note(WarningRecord("result-without-call", words))

    def _forget_namesake(self, call_id: str) -> None:
        """A call that has no answer, under the id of one that had: what was said to that one is not about this."""
        if call_id not in self.questions.held and not self.screen.has_result(call_id):
            self._made_here.pop(call_id, None)
            self.questions.refused.pop(call_id, None)

    # -- what this side does ---------------------------------------------------------------------------------------

    def begin_exchange(self) -> None:
        self.exchange += 1
        self.screen.begin_exchange(self.exchange)

    def adopt(self, made: Iterable[ToolMessage], turn: UserMessage | None) -> None:
        """A request was built: the answers made for it, and its turn, are history from now on (S-53)."""
        with self.lock:
            for message in made:
                refused = message.tool_call_id in self.questions.refused
                self._put(message)
                self.screen.answer(message, denied=refused)
                words = f"call {message.tool_call_id} had no answer; the request says: {message.content}"
                self.note(WarningRecord("call-repaired", words))
            if turn is not None:
                self.fold.add(turn)
                if self.screen.add_turn(turn) != turn.id:
                    words = f"the id {turn.id} of the turn is taken on screen; on the wire it stays"
                    self.note(WarningRecord("message-id-taken", words))
            self.unsent.clear()
            self._reasons.clear()
            self.pending_calls = ()
            self.led_to = {call: run_id for call, run_id in self.led_to.items() if call in self.questions.held}

    def start_tool(self, call_id: str) -> None:
        """A tool of this side is being run for a call."""
        with self.lock:
            self.screen.run_tool(call_id)

    def show_answer(self, message: ToolMessage, *, denied: bool = False) -> None:
        """Show an answer made here; it goes into the history by `place_answers`."""
        with self.lock:
            self.unsent[message.tool_call_id] = message
            self.screen.answer(message, denied=denied)

    def place_answers(self, calls: Collection[str]) -> None:
        """Put the answers that were shown for `calls` into the history, in the order of the calls (S-68)."""
        with self.lock:
            for call_id in calls:
                message = self.unsent.get(call_id)
                if message is not None and self._made_here.get(call_id) is not message:
                    self._put(message)
            self.pending_calls = tuple(call_id for call_id in self.pending_calls if call_id not in self.unsent)

    def leave_unanswered(self, reasons: Mapping[str, str]) -> None:
        """Nobody will execute these calls: the next request says why, unless the application answers them."""
        self._reasons.update(reasons)

    def set_state(self, value: Any) -> None:
        with self.lock:
            self.screen.set_state(value)

    def _put(self, message: ToolMessage) -> None:
        self._made_here[message.tool_call_id] = message
        self.fold.add(message)

    # -- kept and restored -----------------------------------------------------------------------------------------

    @property
    def reasons(self) -> dict[str, str]:
        """Why calls that nobody answered were not executed, where that is not the usual."""
        return dict(self._reasons)

    def restore(
        self,
        *,
        messages: Sequence[Message],
        transcript: Transcript,
        made_here: Collection[str],
        taken_back: Collection[str],
    ) -> None:
        """Take over what was kept of a thread.

        `made_here` are the calls that this side has answered, `taken_back` those whose result a snapshot left out.
        """
        with self.lock:
            self.fold = Fold(messages, warn=self.note)
            self.fold.remember_answered(taken_back)
            self.screen.load(transcript)
            self._made_here = {
                message.tool_call_id: message
                for message in messages
                if isinstance(message, ToolMessage) and message.tool_call_id in made_here
            }
