"""What a screen shows, as frozen values.

A transcript is published after every event, so making one must not cost what it holds. What is dear (the text of a
part, the parts of a message, the messages) is therefore made when it is read for the first time, from a source that
successive values share (`_vector`, `_text`). In memory such a field is a slot that was left empty: Python asks
`__getattr__` for it, which fills it. To a reader these are ordinary dataclasses with ordinary fields; the functions at
the end, which make the next value of one, are the only ones that know of the sources.

What can be changed although the value that holds it is frozen (JSON, and models of the wire) is given as a copy, at
each reading: nobody who looks at a screen writes on it. For the state, and what an activity shows, the field holds a
version of a document (`_document`), which is read then.
"""

# pyright: reportPrivateUsage=false
# The sources are hidden from readers, not from this module.

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar

from ag_ui.core import ContentPart

from handrail.agui._copies import copied
from handrail.events._handed_out import hands_out_copies
from handrail.transcript._document import Version
from handrail.transcript._run_state import Idle, RunState
from handrail.transcript._text import GrowingText
from handrail.transcript._vector import Vector

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
    "growing",
    "grown",
    "part_at",
    "part_count",
    "published",
    "with_part",
    "with_parts",
    "with_version",
]

Role = Literal["user", "assistant", "system", "developer", "activity"]
CallStatus = Literal[
    "streaming_arguments", "awaiting_result", "awaiting_approval", "running", "complete", "failed", "denied"
]

V = TypeVar("V")
G = TypeVar("G", bound="TextPart | ReasoningPart | ToolCallPart")


# -- fields that are made when they are read ---------------------------------------------------------------------------

_set = object.__setattr__


class _MadeWhenRead:
    """A frozen value with fields that are made when they are read; `_makes` says how, each from a hidden source."""

    __slots__ = ()
    _makes: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    if not TYPE_CHECKING:  # a checker would take it for a promise that every attribute exists

        def __getattr__(self, name: str) -> Any:
            make = self._makes.get(name)
            if make is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            value = make(self)
            _set(self, name, value)
            return value


def changed(value: V, **changes: Any) -> V:
    """A copy of a frozen value with some fields changed; fields not made yet stay unmade.

    To change the hidden source of a field is to have the field made anew.
    """
    kind = type(value)
    new = object.__new__(kind)
    copiers, made_when_read = _COPIERS[kind]
    for put, get in copiers:
        put(new, get(value))
    for source, put, get in made_when_read:
        if source not in changes:
            try:
                put(new, get(value))
            except AttributeError:  # nobody has read it yet
                continue
    for name, change in changes.items():
        _set(new, name, change)
    return new


def _read(kept: Any) -> Any:
    return kept.read() if isinstance(kept, Version) else copied(kept)


# -- parts and messages ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextPart(_MadeWhenRead):
    """Text of a message; several parts may belong to one message of the wire, which is `message_id`."""

    id: str
    message_id: str
    text: str = ""
    streaming: bool = False
    subagent_run_id: str | None = None
    _growing: Any = field(default=None, init=False, repr=False, compare=False)
    _makes: ClassVar = {"text": lambda part: str(part._growing)}


@dataclass(frozen=True, slots=True)
class ReasoningPart(_MadeWhenRead):
    """Reasoning of a model, as far as it is shown; `encrypted_value` is the provider's own, opaque."""

    id: str
    message_id: str
    text: str = ""
    streaming: bool = False
    encrypted_value: str | None = None
    subagent_run_id: str | None = None
    _growing: Any = field(default=None, init=False, repr=False, compare=False)
    _makes: ClassVar = {"text": lambda part: str(part._growing)}


@hands_out_copies("parsed_arguments", "result", read=copied)
@dataclass(frozen=True, slots=True)
class ToolCallPart(_MadeWhenRead):
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
    _growing: Any = field(default=None, init=False, repr=False, compare=False)
    _makes: ClassVar = {"arguments": lambda part: str(part._growing)}

    @property
    def streaming(self) -> bool:
        """Whether arguments still arrive; waiting for a result is not streaming."""
        return self.status == "streaming_arguments"


@hands_out_copies("content", read=_read)
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


@dataclass(frozen=True, slots=True)
class TranscriptMessage(_MadeWhenRead):
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
    _vector: Any = field(default=None, init=False, repr=False, compare=False)
    _makes: ClassVar = {"parts": lambda message: tuple(message._vector)}

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def is_streaming(self) -> bool:
        """Whether text, reasoning or arguments still arrive."""
        return any(part.streaming for part in self.parts)


@hands_out_copies("state", read=_read)
@dataclass(frozen=True, slots=True)
class Transcript(_MadeWhenRead):
    """All that a screen shows of one thread, at one moment.

    `run` is how the last run stands, `state` the shared state, `steps` the names of open steps, oldest first. `version`
    grows with every value published and is not compared.
    """

    messages: tuple[TranscriptMessage, ...] = ()
    run: RunState = field(default_factory=Idle)
    state: Any = field(default_factory=dict[str, Any])
    steps: tuple[str, ...] = ()
    version: int = field(default=0, compare=False)
    _vector: Any = field(default=None, init=False, repr=False, compare=False)
    _makes: ClassVar = {"messages": lambda transcript: tuple(transcript._vector)}

    @property
    def text(self) -> str:
        """What the user and the assistant said, as plain text, a blank line between messages."""
        spoken = (message.text for message in self.messages if message.role in ("user", "assistant"))
        return "\n\n".join(filter(None, spoken))


_SOURCES: dict[type, dict[str, str]] = {
    TextPart: {"text": "_growing"},
    ReasoningPart: {"text": "_growing"},
    ToolCallPart: {"arguments": "_growing"},
    ActivityPart: {},
    FilePart: {},
    TranscriptMessage: {"parts": "_vector"},
}


def _copier(kind: Any, name: str) -> tuple[Callable[[Any, Any], None], Callable[[Any], Any]]:
    slot = getattr(kind, name)
    slot = getattr(slot, "slot", slot)  # behind what hands out copies
    return slot.__set__, slot.__get__


_COPIERS: dict[type, tuple[Any, Any]] = {
    # How to copy an instance slot by slot: what it always has, and what is made when it is read, behind its source.
    kind: (
        tuple(_copier(kind, name) for name in kind.__slots__ if name not in sources),  # pyright: ignore  # slots=True
        tuple((source, *_copier(kind, name)) for name, source in sources.items()),
    )
    for kind, sources in _SOURCES.items()
}


_, _state_of = _copier(Transcript, "state")


# -- the next value, made from what the last one shares ----------------------------------------------------------------


def growing(part: TextPart | ReasoningPart | ToolCallPart) -> GrowingText:
    """The text of a part, or the arguments of a call, to grow from."""
    shared: GrowingText | None = part._growing
    return GrowingText(part.arguments if isinstance(part, ToolCallPart) else part.text) if shared is None else shared


def grown(part: G, text: GrowingText) -> G:
    """The part with another text, or the call with other arguments."""
    return changed(part, _growing=text)


def _parts(message: TranscriptMessage) -> Vector[Part]:
    return Vector(message.parts) if message._vector is None else message._vector


def part_count(message: TranscriptMessage) -> int:
    """How many parts a message has."""
    return len(_parts(message))


def part_at(message: TranscriptMessage, index: int) -> Part:
    """One part of a message, by its place."""
    return _parts(message)[index]


def with_part(message: TranscriptMessage, index: int, part: Part) -> TranscriptMessage:
    """The message with `part` at `index`, which may be the first free place."""
    parts = _parts(message)
    return changed(message, _vector=parts.appended(part) if index == len(parts) else parts.replaced(index, part))


def with_parts(message: TranscriptMessage, parts: Iterable[Part]) -> TranscriptMessage:
    """The message with other parts."""
    return changed(message, _vector=Vector(parts))


def with_version(part: ActivityPart, version: Version, activity_type: str) -> ActivityPart:
    """The activity with other content, to be read when somebody asks."""
    return changed(part, content=version, activity_type=activity_type)


def published(
    last: Transcript, messages: Iterable[TranscriptMessage], run: RunState, state: Version, steps: tuple[str, ...]
) -> Transcript:
    """The transcript that follows `last`, or `last` itself if nothing changed."""
    same = last._vector is messages and _state_of(last) is state
    if same and last.run is run and last.steps == steps:
        return last
    new = object.__new__(Transcript)
    _set(new, "run", run)
    _set(new, "steps", steps)
    _set(new, "version", last.version + 1)
    _set(new, "_vector", messages)
    _set(new, "state", state)
    return new
