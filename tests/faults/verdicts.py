"""What a session may make of an answer that came to harm, judged by what came of it.

What is provable is asked, and no more: a byte that was changed into another valid text is a fault nobody can see. So

- no run has finished whose RUN_FINISHED did not come whole, and none has failed whose RUN_FINISHED did;
- where only the end is missing, or the time is another, every event that came whole was taken, in order, and no other;
- where bytes were changed, the events are those of another reader of the same bytes (`tests.agui.wires`);
- the failure is of the kind that this reader found, or that the connection showed.
"""

from __future__ import annotations

from typing import Any

from ag_ui.core import RunAgentInput, RunErrorEvent, RunFinishedEvent
from tests.agui.wires import Reading, read
from tests.faults.proxy import CHANGES, Fault
from tests.faults.received import Received
from tests.live.kit import Heard

from handrail import Failed, Finished, RunState
from handrail.errors import RemoteDecodeError, RemoteProtocolError

LOSES_WHAT_IS_UNREAD = frozenset({"reset"})
"""Faults behind which less may have come to the client than was passed on."""


def read_by_another(given: RunAgentInput, answer: Received) -> Reading:
    """The same bytes, read by somebody who was asked the same."""
    return read(
        [answer.body] if answer.is_stream else [],
        ends=answer.end == "whole",
        thread_id=given.thread_id,
        run_id=given.run_id,
        messages=given.messages,
        state=given.state,
    )


def judge(given: RunAgentInput, heard: Heard, answer: Received, fault: Fault) -> None:
    """The events that were taken of the answer are those they have to be."""
    took = heard.events
    reading = read_by_another(given, answer)
    assert took == reading.events[: len(took)]
    assert len(took) == len(reading.events) or fault.how in LOSES_WHAT_IS_UNREAD
    if fault.how not in CHANGES:
        came = answer.types if answer.is_stream else []
        assert [event.type.value for event in took] == came[: len(took)]
        assert len(took) == len(came) or fault.how in LOSES_WHAT_IS_UNREAD
    assert answer.body.count(b"RUN_FINISHED") >= sum(isinstance(event, RunFinishedEvent) for event in took)


def judge_end(given: RunAgentInput, heard: Heard, answer: Received, state: RunState) -> None:
    """The state in which this answer left the session, if it was the last one."""
    last: Any = heard.events[-1] if heard.events else None
    if isinstance(last, RunFinishedEvent):
        assert isinstance(state, Finished), state
        return
    assert isinstance(state, Failed), state
    if isinstance(last, RunErrorEvent):
        assert state.kind == "agent"
        return
    assert state.code == "CLIENT_ERROR"
    assert state.kind in _kinds(read_by_another(given, answer), answer), (state, answer)


def _kinds(reading: Reading, answer: Received) -> set[str]:
    cause = reading.verdict.cause if reading.inbound.is_over else None
    if isinstance(cause, RemoteDecodeError):
        return {"decode"}
    if isinstance(cause, RemoteProtocolError):
        return {"protocol"}
    if answer.status is not None and not answer.is_stream:
        return {"http"}
    return {"truncated"} if answer.end == "whole" else {"transport"}
