"""A verifier that has heard so much, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import Event, ToolCallStartEvent

from handrail.agui._verify import Verifier
from handrail.errors import RemoteProtocolError


def verified(*events: Event, **options: Any) -> Verifier:
    verifier = Verifier(**options)
    for event in events:
        verifier.accept(event)
    return verifier


def refused(verifier: Verifier, event: Event) -> RemoteProtocolError:
    """The refusal of an event, which leaves everything as it was."""
    before = (verifier.phase, verifier.open_items())
    with pytest.raises(RemoteProtocolError) as caught:
        verifier.accept(event)
    assert (verifier.phase, verifier.open_items()) == before
    assert caught.value.event_type == event.type.value
    assert event.type.value in str(caught.value)
    assert caught.value.rule in str(caught.value)
    return caught.value


def call(name: str = "c1", parent: str | None = None, tag: str | None = None) -> ToolCallStartEvent:
    return ToolCallStartEvent(tool_call_id=name, tool_call_name="f", parent_message_id=parent, subagent_run_id=tag)
