"""Agents that are not ours: a session reads the verdict from what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from tests.client.kit import under
from tests.transcript.events import THREAD, error, raw, rf, rs, text

from handrail import AgentSession, Failed, Finished
from handrail.run import Run, RunDriver, drive


class Foreign:
    """An agent made with `drive`, without checks, warnings or a report."""

    close_grace = 0.02

    def __init__(self, body: Callable[[RunDriver[Any]], Any]) -> None:
        self._body = body

    def start(self, input: RunAgentInput) -> Run[Any]:
        return drive(self._body)


async def test_a_foreign_agent_is_driven_by_its_events() -> None:
    """S-154: the verdict is read from the events, and only without one from the outcome."""

    async def says(driver: RunDriver[Any]) -> None:
        for event in [rs("r1"), *text("m1", "hi"), rf("r1"), raw(1), error("late")]:
            driver.emit(event)
        driver.finish(None, outcome="failed", error="gone")

    told: list[Any] = []
    made = AgentSession(Foreign(says), thread_id=THREAD, on_warning=told.append)
    state = await made.run(under("asked"))
    assert state == Finished(THREAD, "r1", late_error=Failed("late"))
    assert [w.code for w in told] == ["event-after-end", "late-run-error", "transport-after-end", "run-id-mismatch"]


@pytest.mark.parametrize(
    ("finish", "kind", "words"),
    [
        ({"outcome": "completed"}, "truncated", "Stream ended before RUN_FINISHED"),
        ({"outcome": "failed", "error": "it broke"}, "error", "it broke"),
        ({"outcome": "failed"}, "error", "Run failed"),
        ({"outcome": "cancelled"}, "cancelled", "Run cancelled"),
    ],
)
async def test_a_foreign_agent_that_never_said(finish: dict[str, Any], kind: str, words: str) -> None:
    """S-12, S-13, S-16, S-154"""

    async def says(driver: RunDriver[Any]) -> None:
        driver.emit(rs("r1"))
        driver.finish(None, **finish)

    state = await AgentSession(Foreign(says), thread_id=THREAD).run(under("r1"))
    assert isinstance(state, Failed)
    assert state.kind == kind
    assert state.message.startswith(words)
