"""An agent in the same process: a loop, behind the same interface and the same checks as a remote one.

It does what the endpoint of a server and a client do to each other, without the bytes: the input goes out through the
client's table and in through the server's, the loop's events become AG-UI events by the server's mapping, and those
come in through the client's pipeline. So a conversation does not depend on which of the two it is held with.
"""

from __future__ import annotations

import inspect
import logging
import math
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from ag_ui.core import ActivityMessage, Context, Event, Message, ResumeEntry, RunAgentInput, Tool

from handrail.agui._input import read_input
from handrail.agui._outbound import ErrorText, Outbound
from handrail.agui._warnings import WarningRecord
from handrail.client._agent_run import AgentDriver, AgentRun, LateRunError, check_late_run_error
from handrail.errors import LocalProtocolError
from handrail.events import RunEvent
from handrail.run import Run, RunDriver
from handrail.run._outcome import error_line
from handrail.tools._settings import require_callable

__all__ = ["LoopAgent"]

_logger = logging.getLogger("handrail.agui")


class _Loop(Protocol):
    """What can be run: a `Loop`, or anything like it; its `run` may have to be awaited."""

    def run(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool],
        context: Sequence[Context],
        answers: Sequence[ResumeEntry],
        run_id: str,
    ) -> Run[RunEvent] | Awaitable[Run[RunEvent]]: ...


class LoopAgent:
    """A `Loop` as an agent, so that a session can drive it in process: `AgentSession(LoopAgent(loop))`.

    It maps and checks what a server and a client would. Tools of the input are declared to the model and not executed,
    approvals end a run as an interrupt, answers come in through `resume`. A failure shows its code and a fixed text, as
    on the wire, or `error_text(outcome)`, as in `agui_app`. `run.cancel()` ends the run and the loop's run, and
    `run.drained` waits for the loop's. `late_run_error` is as in `HttpAgent`. Raises `TypeError` for what has no `run`.
    """

    def __init__(
        self, loop: _Loop, *, late_run_error: LateRunError = "stand", error_text: ErrorText | None = None
    ) -> None:
        if not callable(getattr(loop, "run", None)):
            raise TypeError(f"LoopAgent takes a Loop, or anything with a method run(), not {type(loop).__name__}")
        require_callable(error_text, "error_text", "a function of an outcome", takes=1)
        self._loop = loop
        self._error_text = error_text
        self._late_run_error: LateRunError = check_late_run_error(late_run_error)

    def start(self, input: RunAgentInput | Mapping[str, Any]) -> AgentRun:
        """Run the loop on the input, and return the run of its answer at once.

        Raises `LocalProtocolError` for an input that breaks the protocol, and `UsageError` under trio without a
        `RunScope` or `async with loop:`; no model has been asked then. Everything later is in result and report.
        """
        driver = AgentDriver(input, close_grace=math.inf, late_run_error=self._late_run_error)
        return driver.start(lambda: self._play(driver))

    async def _play(self, driver: AgentDriver) -> None:
        given = read_input(driver.request, _not_for_the_client)
        if all(isinstance(message, ActivityMessage) for message in given.messages):
            driver.inbound.fail(LocalProtocolError("the input has no message that could be answered", rule="P-77"))
            return
        run = await self._started(given)
        driver.wait_for(run)
        try:
            await self._pass_on(run, given, driver)
        finally:
            run.cancel()  # does nothing where the run is over

    async def _started(self, given: RunAgentInput) -> Run[RunEvent]:
        """The loop's run; one that could not be started is a failed one, as it is behind a server."""
        try:
            run = self._loop.run(
                given.messages,
                tools=given.tools or (),
                context=given.context or (),
                answers=given.resume or (),
                run_id=given.run_id,
            )
            return await run if inspect.isawaitable(run) else run
        except Exception as error:
            _logger.exception("run %s could not be started", given.run_id)
            driver: RunDriver[RunEvent] = RunDriver(run_id=given.run_id)
            driver.finish(None, outcome="failed", error=error_line(error), messages=given.messages)
            return driver.run

    async def _pass_on(self, run: Run[RunEvent], given: RunAgentInput, driver: AgentDriver) -> None:
        """Everything the loop says, to its end; what breaks the protocol on the way ends it as an error."""
        outbound = Outbound(given, new_id=lambda: str(uuid.uuid4()), warn=_not_for_the_client)

        def send(events: Sequence[Event]) -> None:
            for event in events:
                driver.publish(driver.inbound.feed_payload(event.model_dump(by_alias=True)))

        try:
            async for event in run.events:
                send(outbound.feed(event))
            send(outbound.finish(await run.result, self._error_text))
        except Exception:
            _logger.exception("run %s: what the loop says cannot be sent", given.run_id)
            send(outbound.fail())
        driver.publish(driver.inbound.end())

    def __repr__(self) -> str:
        return f"<LoopAgent {self._loop!r}>"


def _not_for_the_client(record: WarningRecord) -> None:
    """A warning that a server would keep to itself."""
    _logger.warning("%s: %s", record.code, record.message)
