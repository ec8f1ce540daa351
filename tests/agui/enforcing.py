"""Payloads held against the table of shapes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from handrail.agui._enforce import read_event
from handrail.agui._warnings import WarningRecord
from handrail.errors import RemoteProtocolError

TEXT = {"type": "text", "text": "x"}


def enforced(payload: dict[str, Any], **options: Any) -> tuple[Any, list[tuple[str, str | None]]]:
    """The event as the wire has it, or None, and the codes and paths of the warnings."""
    before = json.dumps(payload)
    warnings: list[WarningRecord] = []
    event = read_event(payload, warnings.append, **options)
    assert json.dumps(payload) == before
    dumped = None if event is None else event.model_dump(by_alias=True, exclude_unset=True, mode="json")
    return dumped, [(record.code, record.path) for record in warnings]


def refused(payload: dict[str, Any], **options: Any) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        enforced(payload, **options)
    assert caught.value.event_type == payload["type"]
    assert payload["type"] in str(caught.value)
    assert caught.value.path is not None
    assert caught.value.path in str(caught.value)
    return caught.value


def started(**fields: Any) -> dict[str, Any]:
    return {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1", **fields}


def finished(**fields: Any) -> dict[str, Any]:
    return {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1", **fields}


def text(**fields: Any) -> dict[str, Any]:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "x", **fields}


def snapshot(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "MESSAGES_SNAPSHOT", "messages": list(messages), **fields}


def said(*parts: Any) -> dict[str, Any]:
    return {"id": "u1", "role": "user", "content": list(parts)}
