"""What a loop run says, in the order it happened.

Every event is a value: frozen, slotted, made with keyword arguments. The maker leaves `run_id` and `seq` empty; the
run publishes a stamped copy, so what a reader holds is placed and what the maker holds has not changed. `kind` strings
are never renamed and payloads only gain keys: a reader ignores what it does not know.

    run-started, round-started,
    attempt-started, (token | reasoning-token)*, attempt-failed | attempt-succeeded,
    assistant-message | turn-discarded,
    tool-call*, (ask-pending, ask-answered, tool-started, tool-progress*, tool-result | tool-abandoned)*,
    run-completed | run-failed | run-cancelled

Tokens of an attempt that failed, or of a turn that was discarded, are not part of the answer: a reader that shows
text drops them at `attempt-failed` and `turn-discarded` and keeps them at `assistant-message`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar, cast, dataclass_transform, get_args

from ag_ui import core as agui
from pydantic import BaseModel

__all__ = [
    "AbandonReason",
    "AskAnswered",
    "AskPending",
    "AssistantMessage",
    "AttemptFailed",
    "AttemptStarted",
    "AttemptSucceeded",
    "CancelStage",
    "DiscardReason",
    "Disposition",
    "FailReason",
    "LimitName",
    "LimitReached",
    "Log",
    "LogLevel",
    "ReasoningToken",
    "RoundStarted",
    "RunCancelled",
    "RunCompleted",
    "RunEvent",
    "RunFailed",
    "RunStarted",
    "Steered",
    "Token",
    "ToolAbandoned",
    "ToolCall",
    "ToolContent",
    "ToolProgress",
    "ToolResult",
    "ToolStarted",
    "TurnDiscarded",
]

Disposition: TypeAlias = Literal["retry-same", "advance", "abort"]
DiscardReason: TypeAlias = Literal["limit", "failed", "cancelled"]
AbandonReason: TypeAlias = Literal[
    "cancelled", "deadline", "budget-exhausted", "denied", "withdrawn", "aborted", "unrecorded"
]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LimitName: TypeAlias = Literal["max-rounds", "max-tool-calls", "max-identical-calls"]
FailReason: TypeAlias = Literal["context-exhausted", "budget-exhausted", "completion-truncated"]
CancelStage: TypeAlias = Literal["start", "streaming", "backoff", "asking", "tools"]
ToolContent: TypeAlias = str | list[agui.ContentPart]

_now: Callable[[], datetime] = partial(datetime.now, UTC)
_new = object.__new__
_T = TypeVar("_T", bound="type[RunEvent]")


class Plain(Protocol):
    """What can say itself as plain JSON data: a `Usage`, an `Attempt`."""

    def to_dict(self) -> dict[str, Any]: ...


def plain(value: Any) -> Any:
    """The value as plain JSON data: models by their wire names, decimals as strings, times in ISO 8601."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in cast("Sequence[Any]", value)]
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """The base of all events.

    `ts` is an aware UTC time: the maker's, else the moment the event was made; it need not rise with `seq`. `run_id`
    and `seq` are None until the event is published. `ends` is set on the three terminal events and says how they end.
    """

    kind: ClassVar[str] = "event"
    ends: ClassVar[Literal["completed", "failed", "cancelled"] | None] = None
    is_terminal: ClassVar[bool] = False

    ts: datetime = field(default_factory=_now)
    run_id: str | None = None
    seq: int | None = None

    # Of each class: how to copy one instance slot by slot (the hot path), which payload keys there are in order, which
    # of them may be left out, and the values of closed sets.
    _copiers: ClassVar[tuple[tuple[Callable[[Any, Any], None], Callable[[Any], Any]], ...]] = ()
    _payload: ClassVar[tuple[str, ...]] = ()
    _optional: ClassVar[frozenset[str]] = frozenset()

    def stamped(self, run_id: str, seq: int) -> RunEvent:
        """A copy placed in a run. This one does not change; the values are shared, not copied."""
        copy = _new(type(self))
        for put, get in self._copiers:
            put(copy, get(self))
        _put_run_id(copy, run_id)
        _put_seq(copy, seq)
        return copy

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: `kind`, `ts`, the place once published, the payload. What is unknown is left out."""
        data: dict[str, Any] = {"kind": self.kind, "ts": plain(self.ts)}
        if self.seq is not None:
            data |= {"run_id": self.run_id, "seq": self.seq}
        for name in self._payload:
            value = plain(getattr(self, name))
            if name not in self._optional or not (value is None or value in ({}, [])):
                data[name] = value
        return data


_put_run_id: Callable[[Any, Any], None] = RunEvent.__dict__["run_id"].__set__
_put_seq: Callable[[Any, Any], None] = RunEvent.__dict__["seq"].__set__


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _event(cls: _T) -> _T:
    """Make an event class: a frozen, slotted, keyword-only dataclass that knows its own payload."""
    made: Any = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    payload = [f for f in fields(made) if f.name not in ("ts", "run_id", "seq")]
    slots = [getattr(made, name) for name in ("ts", *(f.name for f in payload))]
    made._payload = tuple(f.name for f in payload)
    made._optional = frozenset(f.name for f in payload if f.default is not MISSING)
    made._copiers = tuple((slot.__set__, slot.__get__) for slot in slots)
    return made


def _one_of(allowed: Any, name: str, value: object) -> None:
    if value not in get_args(allowed):
        raise ValueError(f"{name} is one of {', '.join(get_args(allowed))}; got {value!r}")


@_event
class RunStarted(RunEvent):
    """The run exists. `message_count` counts the messages as they were handed in."""

    kind: ClassVar[str] = "run-started"
    message_count: int


@_event
class RoundStarted(RunEvent):
    """A round begins: one model request and the tool calls it leads to. Rounds count from 1."""

    kind: ClassVar[str] = "round-started"
    round: int


@_event
class AttemptStarted(RunEvent):
    """One call to one backend begins. `attempt` counts from 1 in the round, across the backends.

    `message_id` is the id the turn gets if this attempt is committed.
    """

    kind: ClassVar[str] = "attempt-started"
    round: int
    attempt: int
    backend_index: int
    model: str
    message_id: str


@_event
class Token(RunEvent):
    """A fragment of the answer, exactly as sent; not part of the answer before its turn is committed."""

    kind: ClassVar[str] = "token"
    text: str
    round: int
    attempt: int


@_event
class ReasoningToken(RunEvent):
    """A fragment of the model's reasoning, exactly as sent."""

    kind: ClassVar[str] = "reasoning-token"
    text: str
    round: int
    attempt: int


class TokenDraft(RunEvent):
    """A token in the hands of its maker, who gives it away: stamping does not copy it but makes it the event.

    Tokens are by far the most frequent events, and a frozen one costs several times what an open one does. So a token
    is filled while it is open, and frozen by becoming what it stands for. Not for anybody who keeps what they emit.
    """

    __slots__ = ("attempt", "round", "text")
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__
    _becomes: ClassVar[type[RunEvent]] = Token

    def __init__(self, ts: datetime, text: str, round: int, attempt: int) -> None:
        self.ts = ts  # pyright: ignore[reportAttributeAccessIssue]  # open, unlike its base
        self.text = text
        self.round = round
        self.attempt = attempt

    def stamped(self, run_id: str, seq: int) -> RunEvent:
        self.run_id = run_id  # pyright: ignore[reportAttributeAccessIssue]
        self.seq = seq  # pyright: ignore[reportAttributeAccessIssue]
        self.__class__ = self._becomes  # pyright: ignore[reportAttributeAccessIssue]  # the same slots
        return self


class ReasoningTokenDraft(TokenDraft):
    """The same for reasoning."""

    __slots__ = ()
    _becomes: ClassVar[type[RunEvent]] = ReasoningToken


@_event
class AttemptFailed(RunEvent):
    """The attempt is over and its tokens are void. `disposition` is what the loop does next, `backoff` in seconds."""

    kind: ClassVar[str] = "attempt-failed"
    round: int
    attempt: int
    backend_index: int
    model: str
    error: str
    error_class: str
    status: int | None = None
    disposition: Disposition
    backoff: float | None = None
    usage: Plain | None = None

    def __post_init__(self) -> None:
        _one_of(Disposition, "disposition", self.disposition)


@_event
class AttemptSucceeded(RunEvent):
    """The attempt is over and its tokens stand, unless the turn is discarded. `latency` in seconds."""

    kind: ClassVar[str] = "attempt-succeeded"
    round: int
    attempt: int
    backend_index: int
    model: str
    model_used: str | None = None
    finish_reason: str | None = None
    usage: Plain
    latency: float


@_event
class AssistantMessage(RunEvent):
    """The turn is committed: `message` is in the conversation, behind `reasoning` if the model gave any."""

    kind: ClassVar[str] = "assistant-message"
    message: agui.AssistantMessage
    reasoning: agui.ReasoningMessage | None = None
    round: int


@_event
class TurnDiscarded(RunEvent):
    """What was streamed in this round is void."""

    kind: ClassVar[str] = "turn-discarded"
    reason: DiscardReason
    round: int

    def __post_init__(self) -> None:
        _one_of(DiscardReason, "reason", self.reason)


@_event
class ToolCall(RunEvent):
    """The model asks for a call; `arguments` is the text as it wrote it, `parent_id` the message it stands in."""

    kind: ClassVar[str] = "tool-call"
    id: str
    name: str
    arguments: str
    parent_id: str
    round: int


@_event
class ToolStarted(RunEvent):
    """The tool is running, with the checked arguments."""

    kind: ClassVar[str] = "tool-started"
    id: str
    name: str
    arguments: Mapping[str, Any]
    round: int


@_event
class ToolProgress(RunEvent):
    """What a running tool says about how far it is."""

    kind: ClassVar[str] = "tool-progress"
    id: str
    progress: float
    total: float | None = None
    message: str | None = None


@_event
class ToolResult(RunEvent):
    """The call was seen to end. `content` is what the model sees, `duration` in seconds."""

    kind: ClassVar[str] = "tool-result"
    id: str
    name: str
    content: ToolContent
    is_error: bool
    message_id: str
    duration: float | None = None
    round: int


@_event
class ToolAbandoned(RunEvent):
    """The call was not seen to end. `dispatched` False: it was not run. True: it was, and its outcome is unknown."""

    kind: ClassVar[str] = "tool-abandoned"
    id: str
    name: str
    reason: AbandonReason
    dispatched: bool
    content: str
    message_id: str
    round: int

    def __post_init__(self) -> None:
        _one_of(AbandonReason, "reason", self.reason)


@_event
class AskPending(RunEvent):
    """A person is being asked, in process."""

    kind: ClassVar[str] = "ask-pending"
    interrupt: agui.Interrupt


@_event
class AskAnswered(RunEvent):
    """The question is over; `answer` is absent when there is none."""

    kind: ClassVar[str] = "ask-answered"
    interrupt_id: str
    answer: agui.ResumeEntry | None = None


@_event
class Log(RunEvent):
    """A remark of the loop or of a tool. It may hold secrets and is not for the wire."""

    kind: ClassVar[str] = "log"
    level: LogLevel
    data: str | Mapping[str, Any]
    logger: str | None = None

    def __post_init__(self) -> None:
        _one_of(LogLevel, "level", self.level)


@_event
class LimitReached(RunEvent):
    """A limit was tripped; tools are off from here on. `notice` is the message that tells the model so."""

    kind: ClassVar[str] = "limit-reached"
    limit: LimitName
    count: int
    max: int
    name: str | None = None
    notice: agui.SystemMessage

    def __post_init__(self) -> None:
        _one_of(LimitName, "limit", self.limit)


@_event
class Steered(RunEvent):
    """A user turn that came while the run was going on; `round` is absent when no round took it."""

    kind: ClassVar[str] = "steered"
    message: agui.UserMessage
    round: int | None = None


@_event
class RunCompleted(RunEvent):
    """The run ended by itself. With `interrupts` or `pending_calls` it has something left to ask."""

    kind: ClassVar[str] = "run-completed"
    ends: ClassVar[Literal["completed", "failed", "cancelled"] | None] = "completed"
    is_terminal: ClassVar[bool] = True
    final: str
    rounds: int
    message_count: int
    interrupts: tuple[agui.Interrupt, ...] = ()
    pending_calls: tuple[str, ...] = ()


@_event
class RunFailed(RunEvent):
    """The run could not go on; `attempts` is the whole list of the outcome."""

    kind: ClassVar[str] = "run-failed"
    ends: ClassVar[Literal["completed", "failed", "cancelled"] | None] = "failed"
    is_terminal: ClassVar[bool] = True
    error: str
    attempts: tuple[Plain, ...]
    reason: FailReason | None = None
    round: int | None = None

    def __post_init__(self) -> None:
        if self.reason is not None:
            _one_of(FailReason, "reason", self.reason)


@_event
class RunCancelled(RunEvent):
    """The run was stopped; `stage` says in the middle of what."""

    kind: ClassVar[str] = "run-cancelled"
    ends: ClassVar[Literal["completed", "failed", "cancelled"] | None] = "cancelled"
    is_terminal: ClassVar[bool] = True
    stage: CancelStage
    round: int | None = None

    def __post_init__(self) -> None:
        _one_of(CancelStage, "stage", self.stage)
