"""Recorded streams of other people's servers, and hostile ones: each folds without a crash, in every cut.

What the client of upstream made of the same bytes is a second opinion, taken where it is worth something: not where it
failed, and not in the few places where it is known to read otherwise, which are listed with the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.agui.recordings import NAMES, recorded
from tests.agui.wires import Reading, read, read_every_cut

from handrail.agui._values import json_equal

READ_OTHERWISE = {
    "hostile/dup-tool-result": "a second result for a call replaces the first, there it is added",
    "hostile/wrong-ids": "a foreign thread is refused, there ids are not compared",
}
ANSWERED_BY_SNAPSHOT = {
    "llamaindex/state": "the result is in the snapshot alone, there it counts as pending",
    "llamaindex/tool": "the result is in the snapshot alone, there it counts as pending",
}
WARNED_BY_US_ALONE = {"snapshot-dropped-turn", "second-result", "unfinished-frame"}


def compare(name: str, reading: Reading, opinion: dict[str, Any]) -> None:
    fold, verdict = reading.inbound.fold, reading.verdict
    assert {"error": "RUN_ERROR"}.get(verdict.said, verdict.said) == opinion["outcome"]
    assert reading.types == opinion["eventsSeen"]
    assert json_equal(reading.messages, opinion["messages"])
    assert json_equal(fold.state, opinion["state"])
    told = [record for record in reading.warnings if record.code not in WARNED_BY_US_ALONE]
    assert bool(told) is bool(opinion["warnings"])
    if opinion.get("pendingToolCallIds") is not None and name not in ANSWERED_BY_SNAPSHOT:
        assert list(fold.pending_tool_calls) == opinion["pendingToolCallIds"]


@pytest.mark.parametrize("name", NAMES)
def test_recording(name: str) -> None:
    """P-13, P-43 to P-62: the same in every cut; agrees with the client of upstream where that is to be trusted."""
    body, options, opinion = recorded(name)
    reading = read_every_cut(body, **options)
    assert reading.inbound.is_over
    assert (reading.verdict.failure is None) is (reading.verdict.said in ("success", "interrupt", "cancelled"))
    if opinion is not None and opinion["error"] is None and name not in READ_OTHERWISE:
        compare(name, reading, opinion)


@pytest.mark.parametrize("name", NAMES)
def test_recording_with_leniency(name: str) -> None:
    """P-27: leniency refuses nothing that was accepted without it, and changes nothing about it."""
    body, options, _ = recorded(name)
    strict, lenient = read([body], **options), read([body], **options, lenient=True)
    if strict.verdict.failure != "client" and strict.verdict.rejected is None:
        assert lenient.told() == strict.told()


def test_how_many_ran(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P-97: a run that judged nothing is seen."""
    opinions = [recorded(name)[2] for name in NAMES]
    trusted = [name for name, opinion in zip(NAMES, opinions, strict=True) if opinion and opinion["error"] is None]
    with capsys.disabled():
        print(f"\n{len(NAMES)} recordings ran, {len(trusted) - len(READ_OTHERWISE)} of them with a second opinion")
    assert len(NAMES) >= 123
    assert len(trusted) >= 90
