"""Streams made after public reports, each with what is right: run, texts, calls, state, warnings and history."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from pydantic import TypeAdapter
from tests.agui.cases import CASES, STREAMED, body_of, calls_of, in_order, judge_run, load, matches, texts_of
from tests.agui.wires import Reading, every_cut, pieces, read, whole

from handrail.agui._history import stopped_answer
from handrail.agui._values import json_equal
from handrail.errors import TransportError


def history_of(reading: Reading) -> list[dict[str, Any]]:
    numbers = count(1)
    fold = reading.inbound.fold
    failed = reading.verdict.failure is not None
    repair = {"repair": stopped_answer(lambda: f"made-{next(numbers)}")} if failed else {}
    return [message.model_dump(by_alias=True, exclude_none=True) for message in fold.history(**repair)]


def read_case(case: Path, reads: list[bytes], request: dict[str, Any]) -> Reading:
    asked = TypeAdapter(RunAgentInput).validate_python(request)
    close = load(case, "http.json", {"close": "clean"})["close"]
    reading = read(
        reads,
        ends=close == "clean",
        thread_id=asked.thread_id,
        run_id=asked.run_id,
        messages=asked.messages,
        state=asked.state,
    )
    if close == "reset":
        reading.inbound.fail(TransportError("the connection was reset", phase="read"))
    return reading


@pytest.mark.parametrize("name", STREAMED)
def test_case(name: str) -> None:
    """P-13, P-43 to P-62: whole, byte by byte and in random pieces, as its page says what is right."""
    case = CASES / name
    if load(case, "http.json", {"status": 200})["status"] != 200:
        pytest.skip("not a stream: judged with the client, which reads the status")
    expected, request, body = load(case, "expected.json"), load(case, "request.json"), body_of(case)
    known = {message["id"] for message in request["messages"]}
    for reads in every_cut(body) if len(body) < 100_000 else (whole(body), pieces(body, 1, longest=65_536)):
        reading = read_case(case, reads, request)
        judge_run(expected["run"], reading)
        assert matches(expected["transcript"], texts_of(reading, known))
        assert matches(expected["tool_calls"], calls_of(reading))
        assert json_equal(expected["state"], reading.inbound.fold.state)
        assert {"no": not reading.warnings, "yes": bool(reading.warnings), "any": True}[expected["warnings"]]
        if "history" in expected:
            assert matches(in_order(expected["history"]), in_order(history_of(reading)))
        if "pending_tool_calls" in expected:
            assert list(reading.inbound.fold.pending_tool_calls) == expected["pending_tool_calls"]


def test_how_many_ran(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P-97: a run that judged nothing is seen."""
    with capsys.disabled():
        print(f"\n{len(STREAMED)} streams of cases ran")
    assert len(STREAMED) >= 44
