"""A session as plain JSON data, and back (S-150 to S-153).

Messages, questions and answers have the wire's shape; what is on the screen has Python's names. Agent, tools and
callbacks are not kept, and neither is the exception behind a failure. A session that is saved in the middle of an
exchange is kept as it would be if the process ended there: a run in flight has failed, a tool was stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, cast, get_type_hints

from ag_ui.core import ContentPart, Interrupt, Message, ResumeEntry, ToolMessage
from pydantic import TypeAdapter, ValidationError

from handrail.agui._fold import Fold
from handrail.agui._values import copy_json
from handrail.client._ledger import STOPPED, Ledger
from handrail.transcript import (
    CLIENT_ERROR_CODE,
    ActivityPart,
    Failed,
    FilePart,
    Finished,
    Idle,
    Part,
    ReasoningPart,
    Running,
    RunState,
    TextPart,
    ToolCallPart,
    Transcript,
    TranscriptMessage,
)
from handrail.transcript._model import changed

__all__ = ["Kept", "dumped", "read_dump"]

FORMAT = "handrail.session"
VERSION = 1

IN_FLIGHT = Failed("Session was saved while a run was in flight", CLIENT_ERROR_CODE)

_PARTS: dict[str, type[Any]] = {
    "text": TextPart,
    "reasoning": ReasoningPart,
    "tool": ToolCallPart,
    "activity": ActivityPart,
    "file": FilePart,
}
_STATES: dict[str, type[Any]] = {"idle": Idle, "running": Running, "finished": Finished, "failed": Failed}

_messages: TypeAdapter[list[Message]] = TypeAdapter(list[Message])
_interrupts: TypeAdapter[list[Interrupt]] = TypeAdapter(list[Interrupt])
_entries: TypeAdapter[list[ResumeEntry]] = TypeAdapter(list[ResumeEntry])
_tool_messages: TypeAdapter[list[ToolMessage]] = TypeAdapter(list[ToolMessage])
_content: TypeAdapter[list[ContentPart]] = TypeAdapter(list[ContentPart])


# -- to data -----------------------------------------------------------------------------------------------------------


def dumped(ledger: Ledger, *, is_running: bool) -> dict[str, Any]:
    """All that `load` needs; consistent, whatever the exchange is doing."""
    with ledger.lock:
        questions = ledger.questions
        transcript = _as_saved(ledger.transcript, is_running)
        stopped = [part.tool_call_id for part in _calls(ledger.transcript) if part.status == "running"]
        return {
            "format": FORMAT,
            "version": VERSION,
            "thread_id": ledger.thread_id,
            "state": ledger.state,
            "messages": _wire(_messages, _placed(ledger)),
            "transcript": _transcript_data(transcript),
            "pending_interrupts": _wire(_interrupts, questions.pending),
            "held": {name: list(calls) for name, calls in questions.holds.items()},
            "owed": _wire(_entries, questions.owed),
            "owed_may_be_used": questions.reached_the_agent,
            "unsent": _wire(_tool_messages, ledger.unsent.values()),
            "denied": list(questions.refused),
            "taken_back": list(ledger.fold.taken_back),
            "reasons": {**ledger.reasons, **questions.refused, **dict.fromkeys(stopped, STOPPED)},
            "pending_calls": [call for call in ledger.pending_calls if call not in stopped],
            "run_ids": [{"id": name, "finished": finished} for name, finished in ledger.run_ids.items()],
            "exchange": ledger.exchange,
        }


def _placed(ledger: Ledger) -> tuple[Message, ...]:
    """The messages without the calls that were cut off, and with the answers that are shown and not yet among them."""
    messages = ledger.fold.kept
    there = {message.id for message in messages}
    waiting = [message for message in ledger.unsent.values() if message.id not in there]
    if not waiting:
        return messages
    fold = Fold(messages)
    for message in waiting:
        fold.add(message)
    return fold.messages


def _as_saved(transcript: Transcript, is_running: bool) -> Transcript:
    """The transcript as if the process ended here."""
    run: RunState = IN_FLIGHT if is_running else transcript.run
    messages = tuple(
        TranscriptMessage(
            message.id,
            message.role,
            tuple(_part_as_saved(part, is_running) for part in message.parts),
            message.name,
            message.run_id,
            message.exchange,
        )
        for message in transcript.messages
    )
    return Transcript(messages, run, transcript.state, transcript.steps)


def _part_as_saved(part: Part, is_running: bool) -> Part:
    if isinstance(part, TextPart | ReasoningPart) and part.streaming:
        return changed(part, streaming=False)
    if not isinstance(part, ToolCallPart):
        return part
    if part.status == "running":
        return changed(part, status="failed", error=STOPPED)
    if is_running and part.status in ("streaming_arguments", "awaiting_result"):
        return changed(part, status="failed", error=IN_FLIGHT.message)
    return part


def _fields_of(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value) if field.init}


def _calls(transcript: Transcript) -> list[ToolCallPart]:
    return [part for message in transcript.messages for part in message.parts if isinstance(part, ToolCallPart)]


def _wire(adapter: TypeAdapter[Any], values: Any) -> list[Any]:
    return adapter.dump_python(list(values), mode="json", by_alias=True)


def _transcript_data(transcript: Transcript) -> dict[str, Any]:
    return {
        "messages": [
            {
                **{name: value for name, value in _fields_of(message).items() if name != "parts"},
                "parts": [_part_data(part) for part in message.parts],
            }
            for message in transcript.messages
        ],
        "run": _state_data(transcript.run),
        "steps": list(transcript.steps),
    }


def _part_data(part: Part) -> dict[str, Any]:
    kind = next(name for name, made in _PARTS.items() if isinstance(part, made))
    data = {"type": kind, **_fields_of(part)}
    if isinstance(data.get("result"), tuple):
        data["result"] = _wire(_content, data["result"])
    return copy_json(data)


def _state_data(state: RunState) -> dict[str, Any]:
    kind = next(name for name, made in _STATES.items() if isinstance(state, made))
    data = {"type": kind, **{name: value for name, value in _fields_of(state).items() if name != "cause"}}
    if isinstance(state, Finished):
        data["interrupts"] = _wire(_interrupts, state.interrupts)
        data["late_error"] = None if state.late_error is None else _state_data(state.late_error)
    return copy_json(data)


# -- and back ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kept:
    """A dump that was read and found good."""

    thread_id: str
    messages: list[Message]
    transcript: Transcript
    pending: list[Interrupt]
    holds: dict[str, tuple[str, ...]]
    owed: list[ResumeEntry]
    owed_may_be_used: bool
    unsent: list[ToolMessage]
    refused: dict[str, str]
    taken_back: list[str]
    reasons: dict[str, str]
    pending_calls: tuple[str, ...]
    run_ids: dict[str, bool]
    exchange: int

    def restore(self, ledger: Ledger) -> None:
        """Put everything into the books of a session that has just been made."""
        made_here = {part.tool_call_id for part in _calls(self.transcript) if part.local}
        ledger.restore(
            messages=self.messages, transcript=self.transcript, made_here=made_here, taken_back=self.taken_back
        )
        ledger.unsent = {message.tool_call_id: message for message in self.unsent}
        ledger.pending_calls = self.pending_calls
        ledger.run_ids = dict(self.run_ids)
        ledger.exchange = self.exchange
        ledger.leave_unanswered(self.reasons)
        questions = ledger.questions
        questions.pending, questions.owed = tuple(self.pending), tuple(self.owed)
        questions.holds, questions.refused = dict(self.holds), dict(self.refused)
        questions.reached_the_agent = self.owed_may_be_used
        ledger.hold()


def read_dump(data: Mapping[str, Any]) -> Kept:
    """Check a dump as a whole. Raises `ValueError` naming the format and version, or the path, that is wrong."""
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise ValueError(f"a dumped session is a mapping, not {type(data).__name__}")
    found, version = data.get("format"), data.get("version")
    if found != FORMAT or type(version) is not int or not 1 <= version <= VERSION:
        words = f"this reads {FORMAT!r} up to version {VERSION}"
        raise ValueError(f"{words}, and the data is {found!r}, version {version!r}")
    read = _Reader(copy_json(dict(data)))
    denied = read.get("denied", list[str])
    reasons = read.get("reasons", dict[str, str], {})
    return Kept(
        thread_id=read.get("thread_id", str),
        messages=read.get("messages", list[Message]),
        transcript=_transcript_of(read),
        pending=read.get("pending_interrupts", list[Interrupt]),
        holds={name: tuple(calls) for name, calls in read.get("held", dict[str, list[str]], {}).items()},
        owed=read.get("owed", list[ResumeEntry]),
        owed_may_be_used=read.get("owed_may_be_used", bool, False),
        unsent=read.get("unsent", list[ToolMessage]),
        refused={call_id: reasons.get(call_id, "Denied by the user") for call_id in denied},
        taken_back=read.get("taken_back", list[str], []),
        reasons={call_id: why for call_id, why in reasons.items() if call_id not in denied},
        pending_calls=tuple(read.get("pending_calls", list[str])),
        run_ids={one.get("id", str): one.get("finished", bool) for one in read.each("run_ids")},
        exchange=read.get("exchange", int),
    )


class _Reader:
    """Takes values out of data and says where one is wrong."""

    def __init__(self, data: Mapping[str, Any], path: str = "") -> None:
        self._data = data
        self._path = path

    def get(self, name: str, kind: Any, default: Any = None) -> Any:
        value = self._data.get(name, default)
        try:
            return _adapter(kind).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            path = "".join(f"/{step}" for step in (name, *first["loc"]))
            raise ValueError(f"the dumped session is wrong at {self._path}{path}: {first['msg']}") from None

    def inner(self, name: str) -> _Reader:
        return _Reader(self.get(name, dict[str, Any]), f"{self._path}/{name}")

    def each(self, name: str) -> list[_Reader]:
        items = self.get(name, list[dict[str, Any]])
        return [_Reader(item, f"{self._path}/{name}/{at}") for at, item in enumerate(items)]

    def make(self, kinds: Mapping[str, type[Any]], **made: Callable[[_Reader], Any]) -> Any:
        """The value of one of several dataclasses, told by `type`; unknown keys are ignored."""
        named = self.get("type", str)
        kind = kinds.get(named)
        if kind is None:
            raise ValueError(f"the dumped session is wrong at {self._path}/type: {named!r} is unknown here")
        return self.fill(kind, **made)

    def fill(self, kind: type[Any], **made: Callable[[_Reader], Any]) -> Any:
        """A dataclass whose fields are these; some of them made, the others as they are, but for their type."""
        given: dict[str, Any] = {}
        hints = _hints(kind)
        for field in fields(kind):
            if field.init and field.name in made:
                given[field.name] = made[field.name](self)
            elif field.init and field.name in self._data:
                given[field.name] = self.get(field.name, hints[field.name])
        try:
            return kind(**given)
        except TypeError as error:
            raise ValueError(f"the dumped session is wrong at {self._path}: {error}") from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _transcript_of(read: _Reader) -> Transcript:
    data = read.inner("transcript")
    return Transcript(
        messages=tuple(
            message.fill(TranscriptMessage, parts=lambda m: tuple(_part_of(part) for part in m.each("parts")))
            for message in data.each("messages")
        ),
        run=_state_of(data.inner("run")),
        state=read.get("state", Any),
        steps=tuple(data.get("steps", list[str])),
    )


def _part_of(read: _Reader) -> Part:
    return cast("Part", read.make(_PARTS, result=_result_of) if read.get("type", str) == "tool" else read.make(_PARTS))


def _result_of(read: _Reader) -> Any:
    value = read.get("result", Any)
    return read.get("result", tuple[ContentPart, ...]) if isinstance(value, list) else value


def _state_of(read: _Reader) -> RunState:
    if read.get("type", str) != "finished":
        return cast("RunState", read.make(_STATES))
    return cast(
        "RunState",
        read.make(
            _STATES,
            interrupts=lambda r: tuple(r.get("interrupts", list[Interrupt])),
            late_error=lambda r: None if r.get("late_error", Any) is None else _state_of(r.inner("late_error")),
        ),
    )
