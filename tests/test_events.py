"""The events of a loop run: values that say what they are."""

from __future__ import annotations

import dataclasses
import inspect
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from ag_ui.core import AssistantMessage, Interrupt, ReasoningMessage, ResumeEntry, SystemMessage, UserMessage

from handrail import Usage, events
from handrail.events import RunEvent
from handrail.loop import Attempt, _drafts

TIME = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)
QUESTION = Interrupt(id="c1", reason="tool_call", message="May it?")
ATTEMPT = Attempt(round=1, attempt=None, backend_index=0, model="m", result="skipped", error="too big")

# One of each, with what its payload must say in plain JSON data.
SAMPLES: dict[type[RunEvent], tuple[str, dict[str, Any], dict[str, Any]]] = {
    events.RunStarted: ("run-started", {"message_count": 2}, {"message_count": 2}),
    events.RoundStarted: ("round-started", {"round": 1}, {"round": 1}),
    events.AttemptStarted: (
        "attempt-started",
        {"round": 1, "attempt": 2, "backend_index": 0, "model": "m", "message_id": "a"},
        {"round": 1, "attempt": 2, "backend_index": 0, "model": "m", "message_id": "a"},
    ),
    events.Token: ("token", {"text": "", "round": 1, "attempt": 1}, {"text": "", "round": 1, "attempt": 1}),
    events.ReasoningToken: (
        "reasoning-token",
        {"text": "hm", "round": 1, "attempt": 1},
        {"text": "hm", "round": 1, "attempt": 1},
    ),
    events.AttemptFailed: (
        "attempt-failed",
        {
            "round": 1,
            "attempt": 1,
            "backend_index": 0,
            "model": "m",
            "error": "E",
            "error_class": "http",
            "disposition": "abort",
        },
        {
            "round": 1,
            "attempt": 1,
            "backend_index": 0,
            "model": "m",
            "error": "E",
            "error_class": "http",
            "disposition": "abort",
        },
    ),
    events.AttemptSucceeded: (
        "attempt-succeeded",
        {"round": 1, "attempt": 1, "backend_index": 0, "model": "m", "usage": Usage(), "latency": 0.5},
        {"round": 1, "attempt": 1, "backend_index": 0, "model": "m", "usage": {}, "latency": 0.5},
    ),
    events.AssistantMessage: (
        "assistant-message",
        {
            "message": AssistantMessage(id="a", content="x"),
            "reasoning": ReasoningMessage(id="r", content="hm", encrypted_value="k"),
            "round": 1,
        },
        {
            "message": {"id": "a", "role": "assistant", "content": "x"},
            "reasoning": {"id": "r", "role": "reasoning", "content": "hm", "encryptedValue": "k"},
            "round": 1,
        },
    ),
    events.TurnDiscarded: ("turn-discarded", {"reason": "limit", "round": 1}, {"reason": "limit", "round": 1}),
    events.ToolCall: (
        "tool-call",
        {"id": "c", "name": "f", "arguments": "", "parent_id": "a", "round": 1},
        {"id": "c", "name": "f", "arguments": "", "parent_id": "a", "round": 1},
    ),
    events.ToolStarted: (
        "tool-started",
        {"id": "c", "name": "f", "arguments": {}, "round": 1},
        {"id": "c", "name": "f", "arguments": {}, "round": 1},
    ),
    events.ToolProgress: ("tool-progress", {"id": "c", "progress": 0.0}, {"id": "c", "progress": 0.0}),
    events.ToolResult: (
        "tool-result",
        {"id": "c", "name": "f", "content": "", "is_error": False, "message_id": "t", "duration": 0.0, "round": 1},
        {"id": "c", "name": "f", "content": "", "is_error": False, "message_id": "t", "duration": 0.0, "round": 1},
    ),
    events.ToolAbandoned: (
        "tool-abandoned",
        {
            "id": "c",
            "name": "f",
            "reason": "deadline",
            "dispatched": True,
            "content": "unknown",
            "message_id": "t",
            "round": 1,
        },
        {
            "id": "c",
            "name": "f",
            "reason": "deadline",
            "dispatched": True,
            "content": "unknown",
            "message_id": "t",
            "round": 1,
        },
    ),
    events.AskPending: (
        "ask-pending",
        {"interrupt": QUESTION},
        {"interrupt": {"id": "c1", "reason": "tool_call", "message": "May it?"}},
    ),
    events.AskAnswered: (
        "ask-answered",
        {"interrupt_id": "c1", "answer": ResumeEntry(interrupt_id="c1", status="cancelled")},
        {"interrupt_id": "c1", "answer": {"interruptId": "c1", "status": "cancelled"}},
    ),
    events.Log: ("log", {"level": "info", "data": {"a": [1]}}, {"level": "info", "data": {"a": [1]}}),
    events.LimitReached: (
        "limit-reached",
        {"limit": "max-rounds", "count": 1, "max": 1, "notice": SystemMessage(id="s", content="no")},
        {"limit": "max-rounds", "count": 1, "max": 1, "notice": {"id": "s", "role": "system", "content": "no"}},
    ),
    events.Steered: (
        "steered",
        {"message": UserMessage(id="u", content="left")},
        {"message": {"id": "u", "role": "user", "content": "left"}},
    ),
    events.RunCompleted: (
        "run-completed",
        {"final": "", "rounds": 1, "message_count": 2},
        {"final": "", "rounds": 1, "message_count": 2},
    ),
    events.RunFailed: ("run-failed", {"error": "E", "attempts": ()}, {"error": "E", "attempts": []}),
    events.RunCancelled: ("run-cancelled", {"stage": "tools"}, {"stage": "tools"}),
}
CLASSES = list(SAMPLES)


def made(cls: type[RunEvent], **more: Any) -> RunEvent:
    return cls(**(SAMPLES[cls][1] | more))


def test_the_table_is_complete() -> None:
    """L-10: every event class of the module is in the table of this test."""
    classes = {value for name in events.__all__ if inspect.isclass(value := getattr(events, name))}
    assert classes == {RunEvent, *CLASSES}


@pytest.mark.parametrize("cls", CLASSES)
def test_kind_and_payload(cls: type[RunEvent]) -> None:
    """L-10, L-11: the kind, and the payload in plain JSON data; what is unknown is left out."""
    kind, _, plain = SAMPLES[cls]
    event = made(cls, ts=TIME)
    assert cls.kind == kind
    assert event.to_dict() == {"kind": kind, "ts": "2026-03-04T05:06:07.000089Z", **plain}
    assert json.loads(json.dumps(event.to_dict())) == event.to_dict()


@pytest.mark.parametrize("cls", CLASSES)
def test_frozen_slotted_keyword_only(cls: type[RunEvent]) -> None:
    """L-10: nobody changes an event, and there is nothing on it that its class does not name."""
    event = made(cls)
    field = next(iter(SAMPLES[cls][1]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, field, "other")
    assert not hasattr(event, "__dict__")
    with pytest.raises(TypeError):
        cls(*SAMPLES[cls][1].values())


@pytest.mark.parametrize("cls", CLASSES)
def test_stamping_places_a_copy(cls: type[RunEvent]) -> None:
    """L-10: run_id and seq are None until published; the maker's object does not change."""
    event = made(cls, ts=TIME)
    placed = event.stamped("r1", 7)
    assert (event.run_id, event.seq) == (None, None)
    assert (placed.run_id, placed.seq) == ("r1", 7)
    assert placed == made(cls, ts=TIME, run_id="r1", seq=7)
    assert placed.to_dict() == event.to_dict() | {"run_id": "r1", "seq": 7}


def test_terminal_events_say_how_they_end() -> None:
    """L-10: three classes are terminal."""
    ends = {cls.kind: cls.ends for cls in CLASSES if cls.is_terminal}
    assert ends == {"run-completed": "completed", "run-failed": "failed", "run-cancelled": "cancelled"}
    assert all(cls.ends is None for cls in CLASSES if not cls.is_terminal)


def test_time_is_taken_when_none_is_given() -> None:
    """L-10: ts is aware UTC."""
    before = datetime.now(UTC)
    event = made(events.RoundStarted)
    assert before <= event.ts <= datetime.now(UTC)
    assert event.ts.utcoffset() is not None


@pytest.mark.parametrize(
    ("cls", "field"),
    [
        (events.AttemptFailed, "disposition"),
        (events.TurnDiscarded, "reason"),
        (events.ToolAbandoned, "reason"),
        (events.Log, "level"),
        (events.LimitReached, "limit"),
        (events.RunFailed, "reason"),
        (events.RunCancelled, "stage"),
    ],
)
def test_closed_sets_are_checked(cls: type[RunEvent], field: str) -> None:
    """L-12: a value outside its set is refused when the event is made, and named."""
    with pytest.raises(ValueError, match="'perhaps'"):
        made(cls, **{field: "perhaps"})


def test_optional_keys_appear_when_known() -> None:
    """L-11: a key with a question mark is there when its value is known."""
    failed = made(events.AttemptFailed, status=503, backoff=0.0, usage=Usage(total_tokens=3, cost=Decimal("0.10")))
    assert {
        "status": 503,
        "backoff": 0.0,
        "usage": {"total_tokens": 3, "cost": "0.10"},
    }.items() <= failed.to_dict().items()
    completed = made(events.RunCompleted, interrupts=(QUESTION,), pending_calls=("c2",)).to_dict()
    assert completed["interrupts"][0]["id"] == "c1"
    assert completed["pending_calls"] == ["c2"]
    assert made(events.RunFailed, attempts=(ATTEMPT,), reason="budget-exhausted", round=2).to_dict()["attempts"] == [
        {"round": 1, "backend_index": 0, "model": "m", "result": "skipped", "error": "too big", "text": ""}
    ]


@pytest.mark.parametrize("cls", SAMPLES, ids=lambda cls: cls.__name__)
def test_a_draft_becomes_the_event(cls: type[RunEvent]) -> None:
    """L-10: the loop's way to an event ends in the same frozen value."""
    event = getattr(_drafts, cls.__name__)(ts=TIME, **SAMPLES[cls][1]).stamped("r", 0)
    assert type(event) is cls
    assert event == cls(ts=TIME, run_id="r", seq=0, **SAMPLES[cls][1])
    assert repr(event) == repr(cls(ts=TIME, run_id="r", seq=0, **SAMPLES[cls][1]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.ts = TIME  # type: ignore[misc]


def test_a_draft_is_checked_as_the_event_is() -> None:
    """L-10: a word outside its closed set is refused before there is an event."""
    with pytest.raises(ValueError, match="level is one of"):
        _drafts.Log(level="loud", data="x")  # type: ignore[arg-type]
