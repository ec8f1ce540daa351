"""`ScriptedAgent`: streams played through the checks of a client."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from ag_ui.core import RunAgentInput, RunFinishedEvent, RunStartedEvent

from handrail.errors import LocalProtocolError
from handrail.run import RunScope
from handrail.testing import ScriptedAgent, gate, stall

PATIENCE = 20.0


def asked(run_id: str = "r1", **more: Any) -> RunAgentInput:
    fields = {"state": None, "messages": [], "tools": [], "context": [], "forwarded_props": {}, **more}
    return RunAgentInput(thread_id="t1", run_id=run_id, **fields)


def started(run_id: str = "r1") -> RunStartedEvent:
    return RunStartedEvent(thread_id="t1", run_id=run_id)


def finished(run_id: str = "r1") -> RunFinishedEvent:
    return RunFinishedEvent(thread_id="t1", run_id=run_id)


async def test_one_stream_a_start_of_events_or_of_what_is_on_the_wire() -> None:
    """L-166: in order, and `inputs` is what each start was given."""
    wire = [{"type": "RUN_STARTED", "threadId": "t1", "runId": "r2"}, {"type": "RUN_ERROR", "message": "no"}]
    agent = ScriptedAgent([started(), finished()], wire)
    async with RunScope():
        first, second = agent.start(asked()), agent.start(asked("r2"))
        assert [(await run.result).outcome for run in (first, second)] == ["completed", "failed"]
    assert [event.type.value for event in second.events.so_far()] == ["RUN_STARTED", "RUN_ERROR"]
    assert [given.run_id for given in agent.inputs] == ["r1", "r2"]


@pytest.mark.parametrize(
    ("stream", "kind"),
    [
        ([started()], "truncated"),
        ([started(), OSError("the line is down")], "transport"),
        ([finished()], "protocol"),
        ([started(), {"type": "TEXT_MESSAGE_START"}], "protocol"),
    ],
    ids=["its end is the end of the body", "an exception is the connection breaking", "order", "shape"],
)
async def test_a_stream_is_judged_as_one_from_a_server(stream: list[Any], kind: str) -> None:
    """L-166: through the client's inbound checks."""
    async with RunScope():
        run = ScriptedAgent(stream).start(asked())
        assert (await run.result).outcome == "failed"
    assert run.report.failure == "client"
    assert getattr(run.report.cause, "kind", None) == kind


async def test_a_gate_waits_to_be_opened() -> None:
    """L-166: and says when it was reached."""
    hold = gate()
    agent = ScriptedAgent([started(), hold, finished()])
    async with RunScope():
        with anyio.fail_after(PATIENCE):
            run = agent.start(asked())
            await hold.reached
            assert not run.is_done
            hold.open()
            assert (await run.result).ok


async def test_a_stall_says_nothing_until_it_is_given_up() -> None:
    """L-166: a cancel ends it."""
    agent = ScriptedAgent([started(), stall()])
    async with RunScope():
        with anyio.fail_after(PATIENCE):
            run = agent.start(asked())
            async for _ in run.events:
                run.cancel()
            assert (await run.result).outcome == "cancelled"
            await run.drained


async def test_what_could_not_be_sent_and_a_start_too_many_are_refused() -> None:
    """L-166, P-25: at once, and nothing is counted as asked."""
    agent = ScriptedAgent([started(), finished()])
    async with RunScope():
        with pytest.raises(LocalProtocolError):
            agent.start({"threadId": "t1"})
        assert agent.inputs == []
        await agent.start(asked()).result
        with pytest.raises(RuntimeError, match="push"):
            agent.start(asked("r2"))
        agent.push([started("r2"), finished("r2")])
        assert (await agent.start(asked("r2")).result).ok
