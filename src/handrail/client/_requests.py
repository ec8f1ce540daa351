"""The one place that makes requests, for every call and every follow-up (S-52).

A request is judged before anything changes: what could not be sent (P-25) is refused here, while neither the screen nor
the history has seen the turn. Once it stands it is adopted, whether or not it reaches the agent (S-53).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ag_ui.core import ResumeEntry, RunAgentInput, Tool, ToolMessage, UserMessage

from handrail.agui._input import encode_input, outgoing_input
from handrail.agui._warnings import WarningSink
from handrail.client._ledger import Ledger
from handrail.client._params import RunParams
from handrail.tools import Tool as LocalTool

__all__ = ["Request", "build", "declared"]


@dataclass(frozen=True, slots=True)
class Request:
    """What it means for the books: `made` answers, `carried` entries, a `turn`; the `input` is the agent's own."""

    run_id: str
    input: RunAgentInput
    made: tuple[ToolMessage, ...]
    carried: tuple[ResumeEntry, ...]
    turn: UserMessage | None


def build(
    ledger: Ledger,
    tools: Sequence[LocalTool],
    params: RunParams,
    run_id: str,
    *,
    turn: UserMessage | None = None,
    carried: tuple[ResumeEntry, ...] = (),
    warn: WarningSink,
) -> Request:
    """A request on the history as it stands, with a turn behind it and answers to questions if there are any.

    Changes nothing. Raises `LocalProtocolError` for what cannot be sent.
    """
    messages, made = ledger.history()
    resume, forwarded_props = ledger.questions.carried(carried, params.forwarded_props)
    payload: dict[str, Any] = {
        "threadId": ledger.thread_id,
        "runId": run_id,
        "messages": [*messages, *([] if turn is None else [turn])],
        "tools": declared(params.tools, tools),
        "context": list(params.context),
        "forwardedProps": forwarded_props,
        "state": ledger.state,
        "resume": resume,
    }
    present = {name: value for name, value in payload.items() if value is not None}
    outgoing = outgoing_input(present, warn)
    encode_input(outgoing)
    given = RunAgentInput.model_validate(outgoing)
    return Request(run_id, given, made, carried, turn)


def declared(given: Sequence[Tool], tools: Sequence[LocalTool]) -> list[Tool]:
    """The caller's declarations, then those of the session's own tools, none twice (S-61)."""
    names = {tool.name for tool in given}
    own = [
        Tool(name=tool.name, description=tool.description, parameters=tool.parameters)
        for tool in tools
        if tool.name not in names
    ]
    return [*given, *own]
