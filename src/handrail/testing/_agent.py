"""An agent that says what a script says, through all the checks of a client."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
from ag_ui.core import BaseEvent, RunAgentInput

from handrail.client._agent_run import AgentDriver, AgentRun
from handrail.errors import TransportError, WireError
from handrail.testing._steps import Pause

__all__ = ["Line", "ScriptedAgent"]

Line: TypeAlias = BaseEvent | Mapping[str, Any] | Pause | BaseException
"""An event or its wire form; a gate, a stall or a delay; or an exception, which is the connection breaking there."""


class ScriptedAgent:
    """An agent that plays one stream for each `start`, whatever it was asked.

        agent = ScriptedAgent([RunStartedEvent(...), *text, RunFinishedEvent(...)], [..., gate(), ...])
        session = AgentSession(agent)

    What it plays passes the same checks as what comes over HTTP; the end of a stream is the end of its body. `inputs`
    is what each start was given, `push(stream)` adds a stream, also during a run. A start behind the last stream
    raises `RuntimeError`.
    """

    def __init__(self, *streams: Iterable[Line], close_grace: float = 0.0) -> None:
        self.close_grace = close_grace
        self.inputs: list[RunAgentInput] = []
        self.runs: list[AgentRun] = []
        self._streams = deque(tuple(stream) for stream in streams)

    def push(self, stream: Iterable[Line]) -> None:
        """One more stream, behind those that are left."""
        self._streams.append(tuple(stream))

    def start(self, input: RunAgentInput | Mapping[str, Any], /) -> AgentRun:
        """Play the next stream. Raises `LocalProtocolError` for an input that could not be sent."""
        if not self._streams:
            number = len(self.inputs) + 1
            raise RuntimeError(f"start {number} finds no stream: give ScriptedAgent one more, or push() it")
        driver = AgentDriver(input, close_grace=self.close_grace)
        self.inputs.append(RunAgentInput.model_validate(driver.request))
        stream = self._streams.popleft()

        async def read() -> None:
            try:
                for line in stream:
                    await _play(driver, line)
                    if driver.inbound.is_over:
                        return
                driver.publish(driver.inbound.end())
            except WireError as error:
                driver.inbound.fail(error)

        run = driver.start(read)
        self.runs.append(run)
        return run

    def __repr__(self) -> str:
        return f"<ScriptedAgent {len(self.inputs)} runs started, {len(self._streams)} streams left>"


async def _play(driver: AgentDriver, line: Line) -> None:
    if isinstance(line, Pause):
        await line.pause(anyio.sleep)
        return
    if not driver.inbound.has_verdict:  # what follows a verdict comes in the same piece of the body
        await anyio.lowlevel.checkpoint()
    if isinstance(line, WireError):
        raise line
    if isinstance(line, BaseException):
        raise TransportError(str(line) or type(line).__name__, phase="read") from line
    payload = line.model_dump(by_alias=True, mode="json") if isinstance(line, BaseEvent) else dict(line)
    driver.publish(driver.inbound.feed_payload(payload))
