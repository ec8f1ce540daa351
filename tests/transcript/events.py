"""Makers of AG-UI events, as short as the notation of the specification: rs, ts, tc, te, cs, ca, ce, cr, rf, ..."""

from __future__ import annotations

from typing import Any

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    FunctionCall,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

THREAD = "t"


def rs(run_id: str = "r1", **fields: Any) -> BaseEvent:
    return RunStartedEvent(thread_id=fields.pop("thread_id", THREAD), run_id=run_id, **fields)


def rf(run_id: str = "r1", *, pending: list[str] | None = None, **fields: Any) -> BaseEvent:
    outcome = None if pending is None else RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=pending)
    return RunFinishedEvent(thread_id=fields.pop("thread_id", THREAD), run_id=run_id, outcome=outcome, **fields)


def question(id: str, call_id: str | None = None, **fields: Any) -> Interrupt:
    return Interrupt(id=id, reason=fields.pop("reason", "tool_call"), tool_call_id=call_id, **fields)


def asks(run_id: str = "r1", *interrupts: Interrupt) -> BaseEvent:
    outcome = RunFinishedInterruptOutcome(type="interrupt", interrupts=list(interrupts))
    return RunFinishedEvent(thread_id=THREAD, run_id=run_id, outcome=outcome)


def rfx(run_id: str = "r1") -> BaseEvent:
    outcome = RunFinishedCancelledOutcome(type="cancelled")
    return RunFinishedEvent(thread_id=THREAD, run_id=run_id, outcome=outcome)


def error(message: str = "no", code: str | None = None) -> BaseEvent:
    return RunErrorEvent(message=message, code=code)


def ts(id: str, **fields: Any) -> BaseEvent:
    return TextMessageStartEvent(message_id=id, **fields)


def tc(id: str, delta: str) -> BaseEvent:
    return TextMessageContentEvent(message_id=id, delta=delta)


def te(id: str) -> BaseEvent:
    return TextMessageEndEvent(message_id=id)


def text(id: str, *deltas: str, **fields: Any) -> list[BaseEvent]:
    return [ts(id, **fields), *(tc(id, delta) for delta in deltas), te(id)]


def cs(id: str, name: str = "look", parent: str | None = None, **fields: Any) -> BaseEvent:
    return ToolCallStartEvent(tool_call_id=id, tool_call_name=name, parent_message_id=parent, **fields)


def ca(id: str, delta: str) -> BaseEvent:
    return ToolCallArgsEvent(tool_call_id=id, delta=delta)


def ce(id: str) -> BaseEvent:
    return ToolCallEndEvent(tool_call_id=id)


def call(id: str, arguments: str = "{}", name: str = "look", parent: str | None = None) -> list[BaseEvent]:
    return [cs(id, name, parent), ca(id, arguments), ce(id)]


def cr(call_id: str, content: Any = "found", id: str | None = None, **fields: Any) -> BaseEvent:
    return ToolCallResultEvent(message_id=id or f"t-{call_id}", tool_call_id=call_id, content=content, **fields)


def qs(id: str) -> BaseEvent:
    return ReasoningMessageStartEvent(message_id=id, role="reasoning")


def qc(id: str, delta: str) -> BaseEvent:
    return ReasoningMessageContentEvent(message_id=id, delta=delta)


def qe(id: str) -> BaseEvent:
    return ReasoningMessageEndEvent(message_id=id)


def thought(id: str, *deltas: str) -> list[BaseEvent]:
    return [qs(id), *(qc(id, delta) for delta in deltas), qe(id)]


def span(id: str) -> tuple[BaseEvent, BaseEvent]:
    return ReasoningStartEvent(message_id=id), ReasoningEndEvent(message_id=id)


def encrypted(kind: str, id: str, value: str) -> BaseEvent:
    return ReasoningEncryptedValueEvent(subtype=kind, entity_id=id, encrypted_value=value)  # type: ignore[arg-type]


def ss(value: Any) -> BaseEvent:
    return StateSnapshotEvent(snapshot=value)


def sd(*operations: dict[str, Any]) -> BaseEvent:
    return StateDeltaEvent(delta=list(operations))  # type: ignore[arg-type]


def acs(id: str, content: dict[str, Any], type: str = "PLAN", **fields: Any) -> BaseEvent:
    return ActivitySnapshotEvent(message_id=id, activity_type=type, content=content, **fields)


def acd(id: str, *operations: dict[str, Any], type: str = "PLAN") -> BaseEvent:
    return ActivityDeltaEvent(message_id=id, activity_type=type, patch=list(operations))  # type: ignore[arg-type]


def step(name: str) -> tuple[BaseEvent, BaseEvent]:
    return StepStartedEvent(step_name=name), StepFinishedEvent(step_name=name)


def custom(name: str, value: Any) -> BaseEvent:
    return CustomEvent(name=name, value=value)


def raw(value: Any) -> BaseEvent:
    return RawEvent(event=value)


def ms(*messages: Message) -> BaseEvent:
    return MessagesSnapshotEvent(messages=list(messages))


def said(id: str, content: Any) -> UserMessage:
    return UserMessage(id=id, content=content)


def answered(id: str, content: str | None = None, *calls: tuple[str, str]) -> AssistantMessage:
    made = [
        ToolCall(id=call_id, type="function", function=FunctionCall(name="look", arguments=arguments))
        for call_id, arguments in calls
    ]
    return AssistantMessage(id=id, content=content, tool_calls=made or None)


def result(id: str, call_id: str, content: Any = "found", error: str | None = None) -> ToolMessage:
    return ToolMessage(id=id, tool_call_id=call_id, content=content, error=error)


def reasoned(id: str, content: str, encrypted_value: str | None = None) -> ReasoningMessage:
    return ReasoningMessage(id=id, content=content, encrypted_value=encrypted_value)


def activity(id: str, content: dict[str, Any], type: str = "PLAN") -> ActivityMessage:
    return ActivityMessage(id=id, activity_type=type, content=content)
