"""The conformance streams, the cases and the recordings, through an `HttpAgent`, whole and byte by byte."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest
from tests.agui.cases import CASES, STREAMED, body_of, calls_of, in_order, judge_run, load, matches, texts_of
from tests.agui.conformance import ABOUT_OLD_PEERS, NAMES, check, fixture
from tests.agui.recordings import RECORDINGS
from tests.agui.wires import bytewise, pieces, sse, whole
from tests.client.transports import ended, serve

from handrail import AgentRun
from handrail.agui._values import json_equal

CUTS = {"whole": whole, "bytewise": bytewise}


def reading_of(run: AgentRun) -> Any:
    """A run as the judges of the pipeline know a reading."""
    report, outcome = run.report, run.result.value
    answered = {message.tool_call_id for message in report.messages if message.role == "tool"}
    sendable = [call for message in outcome.messages for call in getattr(message, "tool_calls", None) or ()]
    return SimpleNamespace(
        events=run.events.so_far(),
        types=[event.type.value for event in run.events.so_far()],
        warnings=list(report.warnings),
        verdict=SimpleNamespace(
            said=report.verdict,
            failure=report.failure,
            code=report.code,
            cause=report.cause,
            rejected=report.rejected,
            message=outcome.error,
        ),
        messages=[message.model_dump(by_alias=True, exclude_none=True) for message in report.messages],
        inbound=SimpleNamespace(
            fold=SimpleNamespace(
                state=report.state,
                messages=report.messages,
                unanswered=[call for call in sendable if call.id not in answered],
            )
        ),
    )


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(ABOUT_OLD_PEERS)])
async def test_conformance_stream(name: str, cut: str) -> None:
    """P-97, P-25, P-28: with the request that was sent."""
    loaded = fixture(name)
    starts = [event for event in loaded["stream"] if event["type"] == "RUN_STARTED"]
    thread_id, run_id = (starts[0]["threadId"], starts[-1]["runId"]) if starts else ("t", "r")
    given = {"threadId": thread_id, "runId": run_id, "messages": [], **loaded.get("input", {})}
    server = serve(*CUTS[cut](sse(loaded["stream"])))
    run = await ended(server, given, close_grace=5)
    check(name, loaded["expect"], reading_of(run), server.sent, [])
    assert server.bodies[0].is_closed
    assert run.drained.is_set


async def keep_alive() -> None:
    await anyio.sleep(0.01)


def reads_of(body: bytes, cut: str) -> list[bytes]:
    """Byte by byte, but what is too long for that in pieces of many lengths."""
    return pieces(body, 1, longest=16_384) if cut == "bytewise" and len(body) > 20_000 else CUTS[cut](body)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", STREAMED)
async def test_case(name: str, cut: str) -> None:
    """P-3, P-4, P-61, P-69, P-71, P-72: streams made after public reports, with the connection they came over."""
    case = CASES / name
    expected, request = load(case, "expected.json"), load(case, "request.json")
    http = {"status": 200, "content_type": "text/event-stream", "close": "clean"} | load(case, "http.json", {})
    lines: list[Any] = list(reads_of(body_of(case), cut))
    if http["close"] == "reset":
        lines.append(httpx.ReadError("Connection reset by peer"))
    elif http["close"] == "never":
        lines += [keep_alive, b": keep-alive\n\n"] * 3
    ends = "never" if http["close"] == "never" else "clean"
    server = serve(*lines, ends=ends, status=http["status"], headers={"content-type": http["content_type"]})
    with anyio.fail_after(20):
        run = await ended(server, request, close_grace=0.05 if ends == "never" else 5)

    reading, known = reading_of(run), {message["id"] for message in request["messages"]}
    judge_run(expected["run"], reading)
    if "status" in expected["run"].get("failure", {}):
        assert run.report.cause.status == expected["run"]["failure"]["status"]
    assert matches(expected["transcript"], texts_of(reading, known))
    assert matches(expected["tool_calls"], calls_of(reading))
    assert json_equal(expected["state"], run.report.state)
    assert {"no": not run.report.warnings, "yes": bool(run.report.warnings), "any": True}[expected["warnings"]]
    if "history" in expected:
        history = [message.model_dump(by_alias=True, exclude_none=True) for message in run.result.value.messages]
        assert matches(in_order(expected["history"]), in_order(history))
    if "pending_tool_calls" in expected:
        assert list(run.report.pending_tool_calls) == expected["pending_tool_calls"]
    assert server.bodies[0].is_closed


RECORDED = sorted(
    path.relative_to(RECORDINGS).as_posix().removesuffix(".http.json")
    for path in RECORDINGS.glob("*/*.http.json")
    if path.parent.name != "hostile"
)
"""What servers of others' making sent, by folder and scenario."""


def as_it_arrived(body: bytes, http: dict[str, Any]) -> list[bytes]:
    cut: list[bytes] = []
    for size in http["arrival_sizes"]:
        cut.append(body[:size])
        body = body[size:]
    return cut


@pytest.mark.parametrize("name", RECORDED)
async def test_recording(name: str) -> None:
    """P-13, P-45, P-97: as it arrived and in pieces; verdict, messages and state are those of the TypeScript client."""
    path = RECORDINGS / name
    http, request = load(path.parent, f"{path.name}.http.json"), load(path.parent, f"{path.name}.json")
    body = (path.parent / f"{path.name}.sse").read_bytes()
    seen = load(path.parent, "tsclient.json")[path.name]
    for reads in (as_it_arrived(body, http), pieces(body, 1)):
        broken = [httpx.RemoteProtocolError(http["error"])] if http["error"] else []
        server = serve(*reads, *broken, headers=http["headers"])
        reading = reading_of(run := await ended(server, request))
        assert run.report.verdict == {"RUN_ERROR": "error"}.get(seen["outcome"], seen["outcome"])
        assert reading.messages == seen["messages"]
        assert json_equal(run.report.state, seen["state"])
        assert server.sent == request | {"protocolVersion": "1.0"}
        codes = {record.code for record in run.report.warnings}
        assert codes - {"snapshot-dropped-turn"} == ({"transport-after-end"} if broken else set())


def test_how_many_ran(shared: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """P-97: a run that judged nothing is seen."""
    with capsys.disabled():
        print(f"\n{len(NAMES)} conformance streams, {len(STREAMED)} cases, {len(RECORDED)} recordings over HTTP")
    assert (len(NAMES), len(RECORDED)) == (77, 64)
    assert len(STREAMED) >= 44
