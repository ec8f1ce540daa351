"""What a session asks of an agent: any agent that does this much can be driven."""

from __future__ import annotations

from typing import Protocol

from ag_ui.core import Event, RunAgentInput

from handrail.run import Run

__all__ = ["Agent"]


class Agent(Protocol):
    """An agent that speaks AG-UI.

    `start` returns at once, in the places where `drive` does, with a run whose events are checked and in order.
    RUN_FINISHED and RUN_ERROR are among them; the run is over when the stream is. `run.cancel()` ends it from any
    thread. An optional `close_grace` is how many seconds a session goes on reading after a terminal event (2.0 where
    there is none); an optional `run.on_warning(callback)` tells it what was tolerated, an optional `run.report` why a
    stream without a terminal event failed.
    """

    def start(self, input: RunAgentInput, /) -> Run[Event]: ...
