"""What is said between the ends while one of them comes to harm, and how it is gone on with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.live.kit import HELLO, answer_of

from handrail import AgentSession, Finished, RunParams, RunState, ToolContext, approve

SCENARIOS = ("text", "tool", "reasoning", "client-tool", "interrupt")
"""A plain answer; a tool of the server's; reasoning; a tool of the client's and its follow-up; an approval."""


class Compass:
    """A tool of the client's that tells of each call."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell

    async def get_location(self, accuracy: str, context: ToolContext) -> str:
        """Where the user is."""
        self._tell(context.call_id)
        return "here"


def ignored(record: object) -> None:
    """A warning: it changes no verdict, and what it is is for other tests."""


async def talk(session: AgentSession, scenario: str, hold: int | None = None) -> RunState:
    """The scenario from its first turn to its end, or to where that is not reached."""
    params = RunParams(forwarded_props={} if hold is None else {"hold": hold})
    state = await session.send(scenario, params)
    if isinstance(state, Finished) and session.pending_interrupts:
        state = await session.resume([approve(one) for one in session.pending_interrupts], params)
    return state


async def go_on(session: AgentSession) -> None:
    """What a person would do next, with nothing in the way: answer what is open, and say something else."""
    if session.pending_interrupts and not session.owed_answers:
        await agree(session)
    state: Any = await session.send("text")
    while isinstance(state, Finished) and session.pending_interrupts:
        state = await agree(session)
    assert state.ok, state
    if session.transcript.messages[-1].text != HELLO:  # that was the end of what had been agreed to
        state = await session.send("text")
        assert state.ok, state
    assert answer_of(session) == HELLO


async def agree(session: AgentSession) -> RunState:
    return await session.resume([approve(one) for one in session.pending_interrupts])
