"""Events and messages as the wire has them, short to write, and a fold that keeps what it told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_ui.core import Event, Message
from pydantic import TypeAdapter

from handrail.agui._fold import Fold
from handrail.agui._warnings import WarningRecord

EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


def ev(kind: str, **fields: Any) -> Event:
    return EVENTS.validate_python({"type": kind, **fields})


def rs(run_id: str = "r1", **fields: Any) -> Event:
    return ev("RUN_STARTED", threadId="t1", runId=run_id, **fields)


def rf(run_id: str = "r1", **fields: Any) -> Event:
    return ev("RUN_FINISHED", threadId="t1", runId=run_id, **fields)


def re_() -> Event:
    return ev("RUN_ERROR", message="boom")


def ts(name: str, /, **fields: Any) -> Event:
    return ev("TEXT_MESSAGE_START", messageId=name, **fields)


def tc(name: str, delta: str, /, **fields: Any) -> Event:
    return ev("TEXT_MESSAGE_CONTENT", messageId=name, delta=delta, **fields)


def te(name: str, /, **fields: Any) -> Event:
    return ev("TEXT_MESSAGE_END", messageId=name, **fields)


def text(name: str, /, *deltas: str, **fields: Any) -> list[Event]:
    return [ts(name, **fields), *(tc(name, delta) for delta in deltas), te(name)]


def cs(name: str, parent: str | None = None, function: str = "f", **fields: Any) -> Event:
    if parent is not None:
        fields["parentMessageId"] = parent
    return ev("TOOL_CALL_START", toolCallId=name, toolCallName=function, **fields)


def ca(name: str, delta: str, **fields: Any) -> Event:
    return ev("TOOL_CALL_ARGS", toolCallId=name, delta=delta, **fields)


def ce(name: str, **fields: Any) -> Event:
    return ev("TOOL_CALL_END", toolCallId=name, **fields)


def call(name: str, *deltas: str, parent: str | None = None, function: str = "f") -> list[Event]:
    return [cs(name, parent, function), *(ca(name, delta) for delta in deltas), ce(name)]


def cr(name: str, message: str = "t1", content: Any = "done", **fields: Any) -> Event:
    return ev("TOOL_CALL_RESULT", messageId=message, toolCallId=name, content=content, **fields)


def thought(name: str, *deltas: str, **fields: Any) -> list[Event]:
    return [
        ev("REASONING_MESSAGE_START", messageId=name, role="reasoning", **fields),
        *(ev("REASONING_MESSAGE_CONTENT", messageId=name, delta=delta) for delta in deltas),
        ev("REASONING_MESSAGE_END", messageId=name),
    ]


def ms(*messages: dict[str, Any]) -> Event:
    return ev("MESSAGES_SNAPSHOT", messages=list(messages))


def user(name: str = "u1", content: Any = "hi", **fields: Any) -> dict[str, Any]:
    return {"id": name, "role": "user", "content": content, **fields}


def assistant(name: str, content: str | None = None, *calls: tuple[str, str], **fields: Any) -> dict[str, Any]:
    made = [
        {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}
        for call_id, arguments in calls
    ]
    return {
        "id": name,
        "role": "assistant",
        **({"content": content} if content is not None else {}),
        **({"toolCalls": made} if made else {}),
        **fields,
    }


def tool(name: str, call_id: str, content: Any = "done", **fields: Any) -> dict[str, Any]:
    return {"id": name, "role": "tool", "toolCallId": call_id, "content": content, **fields}


class Folded:
    """A fold, with what it told on the way; `messages` in the wire's shape, nothing made up."""

    def __init__(self, *events: Event | list[Event], start: list[dict[str, Any]] | None = None, state: Any = None):
        self.told: list[WarningRecord] = []
        self.fold = Fold(MESSAGES.validate_python(start or []), state, warn=self.told.append)
        self.go(*events)

    def go(self, *events: Event | list[Event]) -> Folded:
        for event in events:
            for one in event if isinstance(event, list) else [event]:
                self.fold.apply(one)
        return self

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [wire(message) for message in self.fold.messages]

    @property
    def ids(self) -> list[str]:
        return [message.id for message in self.fold.messages]

    @property
    def codes(self) -> list[str]:
        return [record.code for record in self.told]


def wire(message: Message) -> dict[str, Any]:
    return message.model_dump(by_alias=True, exclude_unset=True, mode="json")


def delta(*operations: dict[str, Any], **fields: Any) -> Event:
    return ev("STATE_DELTA", delta=list(operations), **fields)


def activity(name: str = "x1", content: Any = None, **fields: Any) -> Event:
    return ev("ACTIVITY_SNAPSHOT", messageId=name, content=content or {}, **{"activityType": "plan", **fields})


def change(name: str, *operations: dict[str, Any], **fields: Any) -> Event:
    return ev("ACTIVITY_DELTA", messageId=name, patch=list(operations), **{"activityType": "plan", **fields})


def numbered() -> Callable[[], str]:
    numbers = iter(range(1, 100))
    return lambda: f"n{next(numbers)}"
