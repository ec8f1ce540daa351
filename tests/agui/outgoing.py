"""One run on its way out, and what a loop says in it, short to write."""

from __future__ import annotations

from typing import Any

from ag_ui.core import AssistantMessage, Event, FunctionCall, ReasoningMessage, RunAgentInput, ToolCall, UserMessage

from handrail import events
from handrail.agui._fold import Fold
from handrail.agui._outbound import Outbound
from handrail.agui._verify import Verifier
from handrail.agui._warnings import WarningRecord
from handrail.loop import Usage
from handrail.run import Outcome

USER = UserMessage(id="u1", role="user", content="hi")
INPUT = RunAgentInput(thread_id="t1", run_id="r1", messages=[USER])
DONE = Outcome("completed")


class Wire:
    """One run on its way out, and what came out of it."""

    def __init__(self, given: RunAgentInput = INPUT, **options: Any) -> None:
        numbers = iter(range(1, 1000))
        self.told: list[WarningRecord] = []
        self.out = Outbound(given, new_id=lambda: f"n{next(numbers)}", warn=self.told.append, **options)
        self.given = given
        self.events: list[Event] = []

    def feed(self, *said: events.RunEvent) -> Wire:
        for event in said:
            self.events.extend(self.out.feed(event))
        return self

    def finish(self, outcome: Outcome = DONE, **options: Any) -> Wire:
        self.events.extend(self.out.finish(outcome, **options))
        return self

    @property
    def said(self) -> list[tuple[Any, ...]]:
        """The events in short: the type, then the values in their order."""
        return [short(event) for event in self.events]

    def folded(self) -> Fold:
        """What a client makes of it, the order checked once more."""
        verifier, fold = Verifier(thread_id=self.given.thread_id), Fold(self.given.messages)
        for event in self.events:
            verifier.accept(event)
            fold.apply(event)
        return fold


def short(event: Event) -> tuple[Any, ...]:
    values = event.model_dump(by_alias=True)
    return (values.pop("type").value, *values.values())


started = events.RunStarted(message_count=1)


def attempt(message_id: str = "a1") -> events.AttemptStarted:
    return events.AttemptStarted(round=1, attempt=1, backend_index=0, model="m", message_id=message_id)


def token(said: str) -> events.Token:
    return events.Token(text=said, round=1, attempt=1)


def thought(said: str) -> events.ReasoningToken:
    return events.ReasoningToken(text=said, round=1, attempt=1)


failed = events.AttemptFailed(
    round=1, attempt=1, backend_index=0, model="m", error="e", error_class="connection", disposition="retry-same"
)
succeeded = events.AttemptSucceeded(round=1, attempt=1, backend_index=0, model="m", usage=Usage(), latency=0.1)


def committed(
    name: str = "a1", content: str | None = None, *calls: ToolCall, thoughts: str | None = None, **fields: Any
) -> events.AssistantMessage:
    message = AssistantMessage(id=name, role="assistant", content=content, tool_calls=list(calls) or None, **fields)
    before = None if thoughts is None else ReasoningMessage(id=f"{name}:reasoning", role="reasoning", content=thoughts)
    return events.AssistantMessage(message=message, reasoning=before, round=1)


def tool_call(name: str = "c1", arguments: str = "{}", parent: str = "a1") -> events.ToolCall:
    return events.ToolCall(id=name, name="f", arguments=arguments, parent_id=parent, round=1)


def model_call(name: str = "c1", arguments: str = "{}", **fields: Any) -> ToolCall:
    return ToolCall(id=name, type="function", function=FunctionCall(name="f", arguments=arguments), **fields)


def result(name: str = "c1", content: Any = "done", message: str = "t1", is_error: bool = False) -> events.ToolResult:
    return events.ToolResult(id=name, name="f", content=content, is_error=is_error, message_id=message, round=1)
