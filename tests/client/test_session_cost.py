"""What an event costs a session, counted in Python calls."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from tests.transcript.events import rf, rs, said, sd, ss, tc, te, text, ts

from handrail.agui._warnings import WarningRecord
from handrail.client._ledger import Ledger
from handrail.client._requests import Request
from handrail.client._stream import AgentStream


class Counted:
    """Counts the Python functions called while it is entered."""

    calls = 0

    def __enter__(self) -> Counted:
        self.calls = 0
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(self._before)

    def _note(self, frame: Any, event: str, arg: Any) -> None:
        self.calls += event == "call"


def stream_of(messages: int) -> AgentStream:
    """A stream in a thread with so many messages before it."""
    warned: list[WarningRecord] = []
    before = [said(f"u{number}", "hi") for number in range(messages)]
    ledger = Ledger("t", before, {str(key): key for key in range(messages)}, warn=warned.append, new_id=lambda: "id")
    asked = RunAgentInput(thread_id="t", run_id="r1", messages=[])
    stream = AgentStream(ledger, Request(asked.run_id, asked, (), (), None), fails_late=False)
    stream.take(rs("r1"))
    return stream


def cost(stream: AgentStream, event: Any) -> int:
    with Counted() as counted:
        stream.take(event)
    return counted.calls


@pytest.mark.parametrize("messages", [10, 2_000])
def test_a_delta_costs_the_same_in_any_thread(messages: int) -> None:
    """S-158, F-3, F-4: wire and screen together."""
    stream = stream_of(messages)
    for event in [ts("m"), tc("m", "a"), tc("m", "b")]:
        stream.take(event)
    assert cost(stream, tc("m", "c")) <= 20


def test_ten_thousand_deltas_into_one_text() -> None:
    """S-158: the last costs what the second does, and so does a patch beside it."""
    stream = stream_of(10)
    for event in [ts("m"), tc("m", "a"), tc("m", "b"), ss({str(key): key for key in range(1_000)})]:
        stream.take(event)
    patch = sd({"op": "replace", "path": "/7", "value": 1})
    first = [cost(stream, event) for event in (tc("m", "c"), tc("m", "d"), patch)]
    for _ in range(10_000):
        stream.take(tc("m", "x"))
    last = [cost(stream, event) for event in (tc("m", "c"), tc("m", "d"), patch)]
    assert all(now <= then for now, then in zip(last, first, strict=True))


def test_the_end_of_a_run_costs_what_is_open_on_screen() -> None:
    """S-158, S-117"""
    costs: list[int] = []
    for parts in (5, 500):
        stream = stream_of(10)
        for number in range(parts):
            for event in text(f"m{number}", "x"):
                stream.take(event)
        stream.take(ts("open"))
        stream.take(te("open"))
        with Counted() as counted:
            stream._ledger.screen.accept(rf("r1"))
        costs.append(counted.calls)
    assert costs[1] - costs[0] <= 4
