"""What a screen shows, as frozen values.

To a reader these are ordinary dataclasses. A field may hold a source (`_source`) in place of its value, which is made
when the field is read; the functions at the end, which make the next value of one, take what is kept as it is.

What can be changed although the value that holds it is frozen (JSON, and models of the wire) is given as a copy, at
each reading: nobody who looks at a screen writes on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from ag_ui.core import ContentPart

from handrail.agui._copies import copied
from handrail.events._handed_out import hands_out_copies
from handrail.transcript._document import Version
from handrail.transcript._run_state import Idle, RunState
from handrail.transcript._source import Source

__all__ = [
    "ActivityPart",
    "CallStatus",
    "FilePart",
    "Part",
    "ReasoningPart",
    "Role",
    "TextPart",
    "ToolCallPart",
    "Transcript",
    "TranscriptMessage",
    "changed",
    "kept",
    "published",
    "with_fields",
]

Role = Literal["user", "assistant", "system", "developer", "activity"]
CallStatus = Literal[
    "streaming_arguments", "awaiting_result", "awaiting_approval", "running", "complete", "failed", "denied"
]

C = TypeVar("C", bound=type[Any])
V = TypeVar("V")


# -- how fields are read -----------------------------------------------------------------------------------------------


def _made(held: Any) -> Any:
    return held.read() if isinstance(held, Source) else held


def _copy(held: Any) -> Any:
    return held.read() if isinstance(held, Source) else copied(held)


def made_when_read(*names: str) -> Callable[[C], C]:
    """Have these fields read what their sources make; text and tuples are nothing to write on, and need no copy."""
    return hands_out_copies(*names, read=_made)


# -- parts and messages ------------------------------------------------------------------------------------------------


@made_when_read("text")
@dataclass(frozen=True, slots=True)
class TextPart:
    """Text of a message; several parts may belong to one message of the wire, which is `message_id`."""

    id: str
    message_id: str
    text: str = ""
    streaming: bool = False
    subagent_run_id: str | None = None


@made_when_read("text")
@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """Reasoning of a model, as far as it is shown; `encrypted_value` is the provider's own, opaque."""

    id: str
    message_id: str
    text: str = ""
    streaming: bool = False
    encrypted_value: str | None = None
    subagent_run_id: str | None = None


@made_when_read("arguments")
@hands_out_copies("parsed_arguments", "result", read=_copy)
@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A tool call, its arguments as they arrive, and its result.

    `parsed_arguments` is None until `arguments_complete`, and also then if the text is not JSON. `result` is text, or
    the content parts that the tool gave. `error` is set where the call failed or was refused. `local` says that this
    session or its application made the answer.
    """

    id: str
    message_id: str
    tool_call_id: str
    name: str
    arguments: str = ""
    parsed_arguments: Any = None
    arguments_complete: bool = False
    status: CallStatus = "streaming_arguments"
    result: str | tuple[ContentPart, ...] | None = None
    error: str | None = None
    local: bool = False
    encrypted_value: str | None = None
    subagent_run_id: str | None = None

    @property
    def streaming(self) -> bool:
        """Whether arguments still arrive; waiting for a result is not streaming."""
        return self.status == "streaming_arguments"


@hands_out_copies("content", read=_copy)
@dataclass(frozen=True, slots=True)
class ActivityPart:
    """Something the agent shows beside the conversation; its content is opaque and never goes back to it."""

    id: str
    message_id: str
    activity_type: str
    content: dict[str, Any] = field(default_factory=dict[str, Any])
    subagent_run_id: str | None = None
    streaming: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class FilePart:
    """An image, a piece of audio or video, or a document: at a `url`, inline as `data`, or kept by its provider."""

    id: str
    message_id: str
    kind: Literal["image", "audio", "video", "document"]
    mime_type: str | None = None
    url: str | None = None
    data: str | None = None
    file_id: str | None = None
    provider: str | None = None
    subagent_run_id: str | None = None
    streaming: ClassVar[bool] = False


Part: TypeAlias = TextPart | ReasoningPart | ToolCallPart | ActivityPart | FilePart


@made_when_read("parts")
@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """One turn on the screen: its parts in the order in which they arrived.

    `run_id` is None for what did not come from a run. Messages of one `exchange` (one call of `send`, `run` or
    `resume`) belong together; 0 is what the session began with.
    """

    id: str
    role: Role
    parts: tuple[Part, ...] = ()
    name: str | None = None
    run_id: str | None = None
    exchange: int = 0

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def is_streaming(self) -> bool:
        """Whether text, reasoning or arguments still arrive."""
        return any(part.streaming for part in self.parts)


@made_when_read("messages")
@hands_out_copies("state", read=_copy)
@dataclass(frozen=True, slots=True)
class Transcript:
    """All that a screen shows of one thread, at one moment.

    `run` is how the last run stands, `state` the shared state, `steps` the names of open steps, oldest first. `version`
    grows with every value published and is not compared.
    """

    messages: tuple[TranscriptMessage, ...] = ()
    run: RunState = field(default_factory=Idle)
    state: Any = field(default_factory=dict[str, Any])
    steps: tuple[str, ...] = ()
    version: int = field(default=0, compare=False)

    @property
    def text(self) -> str:
        """What the user and the assistant said, as plain text, a blank line between messages."""
        spoken = (message.text for message in self.messages if message.role in ("user", "assistant"))
        return "\n\n".join(filter(None, spoken))


# -- the next value, made from what is kept in the last one ------------------------------------------------------------

_Put: TypeAlias = Callable[[Any, Any], None]
_Get: TypeAlias = Callable[[Any], Any]


def _slot(kind: Any, name: str) -> tuple[_Put, _Get]:
    field = getattr(kind, name)
    slot = getattr(field, "slot", field)  # behind what makes a value of it
    return slot.__set__, slot.__get__


_SLOTS: dict[type, dict[str, tuple[_Put, _Get]]] = {
    kind: {field.name: _slot(kind, field.name) for field in fields(kind)}
    for kind in (TextPart, ReasoningPart, ToolCallPart, ActivityPart, FilePart, TranscriptMessage, Transcript)
}
_new = object.__new__


def changed(value: V, **changes: Any) -> V:
    """A copy of a frozen value with some fields changed; nothing is read for it."""
    return with_fields(value, changes)


def with_fields(value: V, changes: Mapping[str, Any]) -> V:
    """The same, with the changes by name."""
    kind = type(value)
    new = _new(kind)
    slots = _SLOTS[kind]
    for put, get in slots.values():
        put(new, get(value))
    for name, change in changes.items():
        slots[name][0](new, change)
    return new


def kept(value: Any, name: str) -> Any:
    """What a field holds: its value, or the source that it is read from."""
    return _SLOTS[type(value)][name][1](value)


(_put_messages, _messages_of), (_put_run, _), (_put_state, _state_of), (_put_steps, _), (_put_version, _) = (
    _SLOTS[Transcript][name] for name in ("messages", "run", "state", "steps", "version")
)


def published(last: Transcript, messages: Source, run: RunState, state: Version, steps: tuple[str, ...]) -> Transcript:
    """The transcript that follows `last`, or `last` itself if nothing changed."""
    same = _messages_of(last) is messages and _state_of(last) is state
    if same and last.run is run and last.steps == steps:
        return last
    new = _new(Transcript)
    _put_messages(new, messages)
    _put_run(new, run)
    _put_state(new, state)
    _put_steps(new, steps)
    _put_version(new, last.version + 1)
    return new
