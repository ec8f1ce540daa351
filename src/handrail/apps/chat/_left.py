"""What a loop in this process has left running: a tool that hears of no stop, behind a run that is over."""

from __future__ import annotations

from typing import Any

from handrail.agui._outbound import ErrorText
from handrail.client import Agent, AgentSession, LoopAgent
from handrail.run import Run

__all__ = ["LocalAgent", "still_at_work"]

_OF_A_TOOL = "tool "  # how the loop names the work of one


class LocalAgent(LoopAgent):
    """A loop as an agent that can be asked which tools it has left running."""

    def __init__(self, loop: Any, *, error_text: ErrorText | None = None) -> None:
        self._runs = _Runs(loop)
        super().__init__(self._runs, error_text=error_text)

    def left_running(self) -> tuple[str, ...]:
        """The names of what has not returned of the runs that are over."""
        return tuple(name.removeprefix(_OF_A_TOOL) for run in self._runs.kept if run.is_done for name in run.open_work)


class _Runs:
    """A loop that keeps its runs until they are drained."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self.kept: list[Run[Any]] = []

    def run(self, *arguments: Any, **options: Any) -> Run[Any]:
        run: Run[Any] = self._loop.run(*arguments, **options)
        self.kept = [*(one for one in self.kept if not one.drained.is_set), run]
        return run

    def __repr__(self) -> str:
        return repr(self._loop)


def still_at_work(session: AgentSession, agent: Agent) -> tuple[str, ...]:
    """The names of the tools that have not returned: of this side, and of a loop in this process."""
    return session.still_running() + (agent.left_running() if isinstance(agent, LocalAgent) else ())
