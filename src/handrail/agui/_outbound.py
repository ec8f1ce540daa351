"""What a loop says, as AG-UI events (section 9 of the protocol rules): one table from one event to the others.

A client sees text while it is made, and a loop may take it back: an attempt fails in mid-sentence, a turn is discarded.
On the wire a message cannot be taken back by itself. So what was streamed and is void is closed and *owed*; when the
next attempt has something to show, a MESSAGES_SNAPSHOT states the thread without it first. If the run ends before that,
the client keeps what it saw. With `stream="committed"` nothing is shown before it stands, and nothing is ever owed.

Ids on the wire are those of the messages in the outcome: the loop says the id of an answer before its first token, and
its reasoning is the same id with `:reasoning` behind it.

Everything passes the table of shapes and the verifier before it leaves. The time is not needed; ids for spans come from
`new_id`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from ag_ui.core import (
    AssistantMessage,
    CustomEvent,
    Event,
    Message,
    MessagesSnapshotEvent,
    ReasoningEncryptedValueEvent,
    ReasoningMessage,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from handrail import events as loop
from handrail.agui._answer import Answer
from handrail.agui._compat import PROTOCOL_VERSION
from handrail.agui._encode import Delta
from handrail.agui._ending import Ended, ending, internal_error
from handrail.agui._gate import Gate
from handrail.agui._text import join, mend
from handrail.agui._thread import Thread
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.errors import LocalProtocolError

__all__ = ["ErrorText", "Outbound", "Streaming"]

Streaming = Literal["live", "committed"]
ErrorText = Callable[[Any], str]
"""Makes the text of a failure from its outcome, in place of the fixed one."""
_ERROR = {"handrail.error": True}


class Outbound:
    """One run going out: feed it the loop's events in order, then say how it ended.

    `given` is the input of the run; what it says of the thread is believed. `stream` is "live" or "committed". `warn`
    is told of what was removed because the protocol does not know it. Every method returns events that passed shapes
    and order. One that raises `LocalProtocolError` leaves the run to `fail`.
    """

    def __init__(
        self,
        given: RunAgentInput,
        *,
        new_id: Callable[[], str],
        stream: Streaming = "live",
        warn: WarningSink = lambda record: None,
    ) -> None:
        if stream not in ("live", "committed"):
            raise ValueError(f"stream is 'live' or 'committed', not {stream!r}")
        self._given = given
        self._new_id = new_id
        self._warn = warn
        self._is_live = stream == "live"
        self._gate = Gate(given.thread_id, warn)
        self._thread = Thread(message for message in given.messages if message.role != "activity")
        self._made: list[Event] = []
        self._answer: Answer | None = None
        self._going_on: tuple[type[loop.RunEvent], list[str], Delta] | None = None
        """What more of the same would be: events of that class, a text for the list, a delta like this one."""
        self._owed: list[Answer] = []
        self._secrets: dict[str, ReasoningEncryptedValueEvent] = {}
        self._unanswered: dict[str, None] = {}
        self.is_over = False
        """Whether the terminal event has gone out."""

    def feed(self, event: loop.RunEvent) -> Sequence[Event]:
        """The AG-UI events that an event of the loop becomes; none for what is the loop's own business."""
        rule = self._RULES.get(type(event))
        if rule is None or self.is_over:
            return ()
        self._going_on = None
        rule(self, event)
        return self._taken()

    def next_delta(self, event: loop.RunEvent) -> tuple[Delta, str] | None:
        """The short way for nearly all events of a run: a delta that passed, and the text that goes on from there.

        For an event that goes on where the one fed before it has left off: what it becomes is that delta with another
        text, and in order as long as nothing comes between, since the order of a stream does not change by a delta.
        The event counts as fed. None for any other event, which is to be fed.
        """
        if (going_on := self._going_on) is None:
            return None
        kind, said, before = going_on
        token: Any = event
        if type(event) is not kind or not token.text:
            return None
        said.append(token.text)
        return before, token.text

    def finish(self, ended: Ended, error_text: ErrorText | None = None) -> Sequence[Event]:
        """What is left to say when the run has a result, its terminal event last; nothing the second time.

        Closes what is open, sends the results that the outcome has and the wire has not. Where the verifier refuses
        RUN_FINISHED all the same, RUN_ERROR goes instead. An `error_text` that raises is told to `warn`.
        """
        if self.is_over:
            return ()
        try:
            self._start()
            self._close()
            self._send_missing_results(ended.messages)
            self._end(ending(self._given, ended, self._error_text(ended, error_text)))
        except (LocalProtocolError, ValueError) as error:
            self._warn(WarningRecord("outgoing", f"the run could not be brought to its end: {error}"))
            self._end(internal_error())
        return self._taken()

    def _error_text(self, ended: Ended, make: ErrorText | None) -> str | None:
        if make is None or ended.outcome != "failed":
            return None
        try:
            text: Any = make(ended)
        except Exception as error:
            self._warn(WarningRecord("outgoing", f"error_text raised {error!r}; the fixed text is sent"))
            return None
        return text if isinstance(text, str) else None

    def fail(self) -> Sequence[Event]:
        """What is left to say when the run cannot be carried on here: RUN_ERROR, unless the run is over."""
        if self.is_over:
            return ()
        self._close()
        self._end(internal_error())
        return self._taken()

    def _close(self) -> None:
        self._going_on = None
        if self._answer is not None:
            self._answer.close()

    def _taken(self) -> Sequence[Event]:
        made, self._made = self._made, []
        return made

    def _emit(self, event: Event) -> None:
        self._made.append(self._gate.passed(event))

    def _end(self, event: RunFinishedEvent | RunErrorEvent) -> None:
        self._emit(event)
        self.is_over = True

    def _start(self, event: loop.RunEvent | None = None) -> None:
        if self._gate.phase == "fresh":
            given = self._given
            started = RunStartedEvent(
                thread_id=given.thread_id,
                run_id=given.run_id,
                parent_run_id=given.parent_run_id,
                protocol_version=PROTOCOL_VERSION,
            )
            self._emit(started)

    # -- what is streamed, and what of it is void --------------------------------------------------------------------

    def _attempt_started(self, event: loop.AttemptStarted) -> None:
        self._answer = self._new_answer(event.message_id)

    def _new_answer(self, message_id: str) -> Answer:
        return Answer(message_id, emit=self._emit, before_opening=self._retract, new_id=self._new_id)

    def _token(self, event: loop.Token) -> None:
        if self._is_live and event.text:
            answer = self._answer or self._unannounced()
            self._going_on = (loop.Token, answer.text, answer.say(event.text))

    def _reasoning_token(self, event: loop.ReasoningToken) -> None:
        if self._is_live and event.text:
            answer = self._answer or self._unannounced()
            self._going_on = (loop.ReasoningToken, answer.reasoning, answer.think(event.text))

    def _unannounced(self) -> Answer:
        """The answer of a loop that did not say its id before it spoke."""
        self._answer = self._new_answer(self._new_id())
        return self._answer

    def _attempt_succeeded(self, event: loop.AttemptSucceeded) -> None:
        if self._answer is not None:
            self._answer.close_reasoning()

    def _attempt_is_void(self, event: loop.RunEvent) -> None:
        """A failed attempt, a discarded turn: what it showed is closed, and owed."""
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()
            if answer.has_text or answer.has_reasoning:
                self._owed.append(answer)

    def _retract(self) -> None:
        """Takes back what is owed, if anything is."""
        if self._owed:
            self._state_thread()

    def _state_thread(self) -> None:
        """A snapshot of the thread as it stands, without what is owed.

        Reasoning survives a snapshot that has none, so then it is stated as empty.
        """
        owed, self._owed = self._owed, []
        messages: list[Message] = [entry.build() for entry in self._thread]
        if not any(message.role == "reasoning" for message in messages):
            names = [answer.reasoning_id for answer in owed if answer.has_reasoning]
            messages += [ReasoningMessage(id=name, role="reasoning", content="") for name in names]
        self._emit(MessagesSnapshotEvent(messages=messages))

    def _assistant_message(self, event: loop.AssistantMessage) -> None:
        """The turn stands: the wire gets what it has not had of it, and what it had otherwise is retracted."""
        message = event.message
        if self._answer is not None and not self._is_beginning_of(self._answer, message):
            self._attempt_is_void(event)
        answer, self._answer = self._answer or self._new_answer(message.id), None
        self._retract()
        if event.reasoning is not None:
            self._complete_reasoning(answer, event.reasoning)
        rest = mend(message.content or "")[len(join(answer.text)) :]
        if rest:
            answer.say(rest)
        elif not message.content and not message.tool_calls:
            answer.open_text()
        answer.close()
        self._keep_secrets(answer, message)
        for part in (event.reasoning, message):
            if part is not None:
                self._thread.add(part)

    def _is_beginning_of(self, answer: Answer, message: AssistantMessage) -> bool:
        return answer.id == message.id and mend(message.content or "").startswith(join(answer.text))

    def _complete_reasoning(self, answer: Answer, message: ReasoningMessage) -> None:
        said, content = join(answer.reasoning), mend(message.content)
        rest = content[len(said) :] if content.startswith(said) else ""
        if rest:
            answer.think(rest)
        elif not answer.has_reasoning:
            answer.open_reasoning()
        answer.close_reasoning()
        if message.encrypted_value is not None:
            self._emit(_secret("message", answer.reasoning_id, message.encrypted_value))

    def _keep_secrets(self, answer: Answer, message: AssistantMessage) -> None:
        """Encrypted values go out as soon as the client knows what they belong to."""
        if message.encrypted_value is not None:
            self._secrets[message.id] = _secret("message", message.id, message.encrypted_value)
        for call in message.tool_calls or ():
            if call.encrypted_value is not None:
                self._secrets[call.id] = _secret("tool-call", call.id, call.encrypted_value)
        if answer.has_text:
            self._tell_secret(message.id)

    def _tell_secret(self, name: str) -> None:
        if (secret := self._secrets.pop(name, None)) is not None:
            self._emit(secret)

    # -- calls, results, and the rest --------------------------------------------------------------------------------

    def _tool_call(self, event: loop.ToolCall) -> None:
        self._unanswered[event.id] = None
        start = ToolCallStartEvent(tool_call_id=event.id, tool_call_name=event.name, parent_message_id=event.parent_id)
        self._emit(start)
        if event.arguments:
            self._emit(ToolCallArgsEvent(tool_call_id=event.id, delta=event.arguments))
        self._emit(ToolCallEndEvent(tool_call_id=event.id))
        self._tell_secret(event.parent_id)
        self._tell_secret(event.id)

    def _tool_result(self, event: loop.ToolResult) -> None:
        self._send_result(event.message_id, event.id, event.content, is_error=event.is_error)

    def _tool_abandoned(self, event: loop.ToolAbandoned) -> None:
        self._send_result(event.message_id, event.id, event.content, is_error=True)

    def _send_result(self, message_id: str, call_id: str, content: loop.ToolContent, *, is_error: bool) -> None:
        self._unanswered.pop(call_id, None)
        fields: dict[str, Any] = {"tool_call_id": call_id, "content": content}
        if is_error:
            fields["metadata"] = _ERROR
        self._emit(ToolCallResultEvent(message_id=message_id, **fields))
        self._thread.add(ToolMessage(id=message_id, role="tool", **fields))

    def _send_missing_results(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if isinstance(message, ToolMessage) and message.tool_call_id in self._unanswered:
                is_error = message.error is not None
                self._send_result(message.id, message.tool_call_id, message.content, is_error=is_error)

    def _tool_progress(self, event: loop.ToolProgress) -> None:
        value = {"toolCallId": event.id, "progress": event.progress, "total": event.total, "message": event.message}
        self._emit_custom("tool-progress", value)

    def _limit_reached(self, event: loop.LimitReached) -> None:
        self._emit_custom("limit-reached", {"limit": event.limit, "count": event.count, "max": event.max})

    def _emit_custom(self, name: str, value: dict[str, Any]) -> None:
        known = {key: item for key, item in value.items() if item is not None}
        self._emit(CustomEvent(name=f"handrail.{name}", value=known))

    def _steered(self, event: loop.Steered) -> None:
        """A turn of the user. One that is made of parts cannot be streamed, and is stated."""
        message = event.message
        self._thread.add(message)
        if not isinstance(message.content, str):
            self._state_thread()
            return
        self._emit(TextMessageStartEvent(message_id=message.id, role="user", name=message.name))
        if message.content:
            self._emit(TextMessageContentEvent(message_id=message.id, delta=message.content))
        self._emit(TextMessageEndEvent(message_id=message.id))

    _RULES: ClassVar[dict[type[loop.RunEvent], Callable[[Outbound, Any], None]]] = {
        # Rounds, logs, questions in process and the start of a tool are the loop's own business;
        # how a run ended is said by `finish`, which knows its outcome.
        loop.RunStarted: _start,
        loop.AttemptStarted: _attempt_started,
        loop.Token: _token,
        loop.ReasoningToken: _reasoning_token,
        loop.AttemptFailed: _attempt_is_void,
        loop.AttemptSucceeded: _attempt_succeeded,
        loop.TurnDiscarded: _attempt_is_void,
        loop.AssistantMessage: _assistant_message,
        loop.ToolCall: _tool_call,
        loop.ToolProgress: _tool_progress,
        loop.ToolResult: _tool_result,
        loop.ToolAbandoned: _tool_abandoned,
        loop.LimitReached: _limit_reached,
        loop.Steered: _steered,
    }


def _secret(subtype: Literal["message", "tool-call"], name: str, value: str) -> ReasoningEncryptedValueEvent:
    return ReasoningEncryptedValueEvent(subtype=subtype, entity_id=name, encrypted_value=value)
