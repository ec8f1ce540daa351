"""The way out of our own events: what is unknown is removed, what is wrong is refused with its place."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import (
    Event,
    EventType,
    Interrupt,
    ReasoningEncryptedValueEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
)

from handrail.agui._gate import Gate
from handrail.agui._warnings import WarningRecord
from handrail.errors import LocalProtocolError


def opened() -> tuple[Gate, list[WarningRecord]]:
    told: list[WarningRecord] = []
    gate = Gate("t1", told.append)
    assert gate.phase == "fresh"
    gate.passed(RunStartedEvent(thread_id="t1", run_id="r1"))
    return gate, told


UNREASONABLE = Interrupt.model_construct(id=5, reason="x")
STRANGE = {"subtype": "tool", "entity_id": "e", "encrypted_value": "v", "timestamp": 1}


@pytest.mark.parametrize(
    ("event", "path", "name"),
    [
        (
            RunFinishedEvent(
                thread_id="t1",
                run_id="r1",
                outcome=RunFinishedInterruptOutcome.model_construct(type="interrupt", interrupts=[UNREASONABLE]),
            ),
            "/outcome/interrupts/0/id",
            "RUN_FINISHED",
        ),
        (StepStartedEvent.model_construct(type=EventType.STEP_STARTED, metadata={}), "/stepName", "STEP_STARTED"),
        (
            TextMessageContentEvent.model_construct(
                type=EventType.TEXT_MESSAGE_CONTENT, message_id="m", delta="x", timestamp="now"
            ),
            "/timestamp",
            "TEXT_MESSAGE_CONTENT",
        ),
        (
            ReasoningEncryptedValueEvent.model_construct(type=EventType.REASONING_ENCRYPTED_VALUE, **STRANGE),
            None,
            "REASONING_ENCRYPTED_VALUE",
        ),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(event: Event, path: str | None, name: str) -> None:
    """P-85, P-25: before it is sent, as this end's own mistake, without a remark of pydantic's; the run goes on."""
    gate, told = opened()
    with pytest.raises(LocalProtocolError, match="this end breaks the protocol") as caught:
        gate.passed(event)
    assert (caught.value.rule, caught.value.path) == ("P-85", path)
    assert name in str(caught.value)
    assert path is None or path in str(caught.value)
    assert (gate.phase, told) == ("running", [])
    gate.passed(RunFinishedEvent(thread_id="t1", run_id="r1"))
    assert gate.phase == "finished"


def test_what_is_unknown_is_not_sent() -> None:
    """P-85, P-25: keys and members of a newer protocol go with a warning that has their place."""
    gate, told = opened()
    later = TextMessageStartEvent.model_validate({"messageId": "m", "role": "user", "later": 1})
    later.__dict__["role"] = "critic"
    sent: Any = gate.passed(later)
    assert (sent.message_id, sent.role, sent.model_extra) == ("m", None, {})
    assert sorted((record.code, str(record.path)) for record in told) == [("outgoing", "/later"), ("outgoing", "/role")]
    assert all(record.message.startswith("not sent: ") for record in told)


def test_what_is_right_is_sent_as_it_is() -> None:
    """P-85: an event of texts is the very same."""
    gate, told = opened()
    for event in (
        TextMessageStartEvent(message_id="m", role="assistant"),
        TextMessageContentEvent(message_id="m", delta="x"),
    ):
        assert gate.passed(event) is event
    assert told == []
