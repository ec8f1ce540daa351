"""What a loop run says, in the order it happened.

Every event is a value: frozen, slotted, made with keyword arguments. The maker leaves `run_id` and `seq` empty; the
run publishes a stamped copy, so what a reader holds is placed and what the maker holds has not changed. `kind` strings
are never renamed and payloads only gain keys: a reader ignores what it does not know. A message, an interrupt or an
object in an event is a copy at each reading, so nothing that a reader does to it reaches the run.

    run-started, round-started,
    attempt-started, (token | reasoning-token)*, attempt-failed | attempt-succeeded,
    assistant-message | turn-discarded,
    tool-call*, (ask-pending, ask-answered, tool-started, tool-progress*, tool-result | tool-abandoned)*,
    run-completed | run-failed | run-cancelled

Tokens of an attempt that failed, or of a turn that was discarded, are not part of the answer: a reader that shows
text drops them at `attempt-failed` and `turn-discarded` and keeps them at `assistant-message`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from ag_ui import core as agui

from handrail.events._base import Plain, RunEvent, event, one_of
from handrail.events._handed_out import hands_out_copies

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


@event
class RunStarted(RunEvent):
    """The run exists. `message_count` counts the messages as they were handed in."""

    kind: ClassVar[str] = "run-started"
    message_count: int


@event
class RoundStarted(RunEvent):
    """A round begins: one model request and the tool calls it leads to. Rounds count from 1."""

    kind: ClassVar[str] = "round-started"
    round: int


@event
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


@event
class Token(RunEvent):
    """A fragment of the answer, exactly as sent; not part of the answer before its turn is committed."""

    kind: ClassVar[str] = "token"
    text: str
    round: int
    attempt: int


@event
class ReasoningToken(RunEvent):
    """A fragment of the model's reasoning, exactly as sent."""

    kind: ClassVar[str] = "reasoning-token"
    text: str
    round: int
    attempt: int


@event
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
        one_of(Disposition, "disposition", self.disposition)


@event
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


@hands_out_copies("message", "reasoning")
@event
class AssistantMessage(RunEvent):
    """The turn is committed: `message` is in the conversation, behind `reasoning` if the model gave any."""

    kind: ClassVar[str] = "assistant-message"
    message: agui.AssistantMessage
    reasoning: agui.ReasoningMessage | None = None
    round: int


@event
class TurnDiscarded(RunEvent):
    """What was streamed in this round is void."""

    kind: ClassVar[str] = "turn-discarded"
    reason: DiscardReason
    round: int

    def __post_init__(self) -> None:
        one_of(DiscardReason, "reason", self.reason)


@event
class ToolCall(RunEvent):
    """The model asks for a call; `arguments` is the text as it wrote it, `parent_id` the message it stands in."""

    kind: ClassVar[str] = "tool-call"
    id: str
    name: str
    arguments: str
    parent_id: str
    round: int


@hands_out_copies("arguments")
@event
class ToolStarted(RunEvent):
    """The tool is running, with the checked arguments."""

    kind: ClassVar[str] = "tool-started"
    id: str
    name: str
    arguments: Mapping[str, Any]
    round: int


@event
class ToolProgress(RunEvent):
    """What a running tool says about how far it is."""

    kind: ClassVar[str] = "tool-progress"
    id: str
    progress: float
    total: float | None = None
    message: str | None = None


@hands_out_copies("content")
@event
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


@event
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
        one_of(AbandonReason, "reason", self.reason)


@hands_out_copies("interrupt")
@event
class AskPending(RunEvent):
    """A person is being asked, in process."""

    kind: ClassVar[str] = "ask-pending"
    interrupt: agui.Interrupt


@hands_out_copies("answer")
@event
class AskAnswered(RunEvent):
    """The question is over; `answer` is absent when there is none."""

    kind: ClassVar[str] = "ask-answered"
    interrupt_id: str
    answer: agui.ResumeEntry | None = None


@hands_out_copies("data")
@event
class Log(RunEvent):
    """A remark of the loop or of a tool. It may hold secrets and is not for the wire."""

    kind: ClassVar[str] = "log"
    level: LogLevel
    data: str | Mapping[str, Any]
    logger: str | None = None

    def __post_init__(self) -> None:
        one_of(LogLevel, "level", self.level)


@hands_out_copies("notice")
@event
class LimitReached(RunEvent):
    """A limit was tripped; tools are off from here on. `notice` is the message that tells the model so."""

    kind: ClassVar[str] = "limit-reached"
    limit: LimitName
    count: int
    max: int
    name: str | None = None
    notice: agui.SystemMessage

    def __post_init__(self) -> None:
        one_of(LimitName, "limit", self.limit)


@hands_out_copies("message")
@event
class Steered(RunEvent):
    """A user turn that came while the run was going on; `round` is absent when no round took it."""

    kind: ClassVar[str] = "steered"
    message: agui.UserMessage
    round: int | None = None


@hands_out_copies("interrupts")
@event
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


@event
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
            one_of(FailReason, "reason", self.reason)


@event
class RunCancelled(RunEvent):
    """The run was stopped; `stage` says in the middle of what."""

    kind: ClassVar[str] = "run-cancelled"
    ends: ClassVar[Literal["completed", "failed", "cancelled"] | None] = "cancelled"
    is_terminal: ClassVar[bool] = True
    stage: CancelStage
    round: int | None = None

    def __post_init__(self) -> None:
        one_of(CancelStage, "stage", self.stage)
