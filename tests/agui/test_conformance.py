"""The conformance streams of upstream, against the pipeline: whole, byte by byte and in random pieces."""

from __future__ import annotations

from pathlib import Path

import pytest
from ag_ui.core import RunAgentInput
from pydantic import TypeAdapter
from tests.agui.conformance import ABOUT_OLD_PEERS, NAMES, check, fixture
from tests.agui.wires import every_cut, read, sse

from handrail.agui._encode import encode
from handrail.agui._input import outgoing_input
from handrail.agui._values import json_equal
from handrail.agui._warnings import WarningRecord


@pytest.mark.parametrize("name", NAMES)
def test_conformance_stream(name: str) -> None:
    """P-97, P-13: in every cut, with text outside ASCII escaped and raw."""
    if name.startswith(ABOUT_OLD_PEERS):
        pytest.skip("asks for downgrading to an old peer, which the specification permits and we do not do")
    loaded = fixture(name)
    starts = [event for event in loaded["stream"] if event["type"] == "RUN_STARTED"]
    thread_id, run_id = (starts[0]["threadId"], starts[-1]["runId"]) if starts else ("t", "r")
    asked: list[WarningRecord] = []
    given = {"threadId": thread_id, "runId": run_id, "messages": [], **loaded.get("input", {})}
    sent = outgoing_input(given, asked.append)
    messages = TypeAdapter(RunAgentInput).validate_python(sent).messages
    for ensure_ascii in (True, False):
        for reads in every_cut(sse(loaded["stream"], ensure_ascii=ensure_ascii)):
            reading = read(reads, thread_id=thread_id, run_id=run_id, messages=messages)
            check(name, loaded["expect"], reading, sent, asked)


@pytest.mark.parametrize("name", NAMES)
def test_conformance_stream_as_payloads(name: str) -> None:
    """P-8: what needs no framing takes the same way to the same events."""
    loaded = fixture(name)
    from_bytes, from_dicts = read([sse(loaded["stream"])]), read(loaded["stream"])
    assert from_dicts.told() == from_bytes.told()


@pytest.mark.parametrize("name", [name for name in NAMES if fixture(name)["expect"]["outcome"] == "completed"])
def test_conformance_stream_sent_and_read_back(name: str) -> None:
    """P-98: what came through is sent by the encoder of the server, and comes through again as it was."""
    first = read([sse(fixture(name)["stream"])])
    body = b"".join(encode(number, event) for number, event in enumerate(first.events))
    again = read([body])
    assert again.dumps == first.dumps
    assert again.messages == first.messages
    assert json_equal(again.inbound.fold.state, first.inbound.fold.state)


def test_how_many_ran(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """P-97: the corpus is there whole; the number is printed, so that a run that judged nothing is seen."""
    ran = [name for name in NAMES if not name.startswith(ABOUT_OLD_PEERS)]
    with capsys.disabled():
        print(f"\n{len(ran)} of {len(NAMES)} conformance streams ran")
    assert len(NAMES) == 77
    assert len(ran) == 74
