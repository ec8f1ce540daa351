"""A verdict of an agent behind HTTP is a latch: what comes behind it changes nothing."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.agui.wires import bytewise, sse
from tests.client.transports import FINISHED, SAID, STARTED, answering, ended, serve, types_of

from handrail.errors import TruncatedError

ERROR = {"type": "RUN_ERROR", "message": "boom", "code": "X"}


async def test_an_error_and_then_the_end() -> None:
    """P-43: RUN_STARTED, RUN_ERROR, RUN_FINISHED in one read, event by event."""
    run = await ended(answering(STARTED, ERROR, FINISHED))
    assert types_of(run) == ["RUN_STARTED", "RUN_ERROR"]
    assert (run.result.value.outcome, run.report.failure, run.report.code) == ("failed", "agent", "X")
    assert "RUN_FINISHED" in str(run.report.rejected)


async def test_the_last_run_on_the_stream_counts() -> None:
    """P-44: a finished run and one that is cut off is truncated; an empty body, too."""
    other = [STARTED | {"runId": "r0"}, FINISHED | {"runId": "r0"}]
    for stream in ([*other, STARTED], [], [{"type": "error"}]):
        run = await ended(answering(*stream))
        assert isinstance(run.report.cause, TruncatedError)
        assert [record.code for record in run.report.warnings] == (
            ["unknown-event"] if stream == [{"type": "error"}] else []
        )
    run = await ended(answering(*other))
    assert run.report.run_id == "r0"
    assert [record.code for record in run.report.warnings] == ["run-id-mismatch"]


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        pytest.param([sse([SAID[0]])], ["event-after-end"], id="a violation"),
        pytest.param([b"data: [DONE]\n\n"], ["event-after-end"], id="a bad payload"),
        pytest.param([httpx.ReadError("reset")], ["transport-after-end"], id="a reset"),
        pytest.param([sse([{"type": "NEW"}])], ["unknown-event"], id="an unknown event"),
    ],
)
async def test_a_verdict_stands(lines: list[Any], codes: list[str]) -> None:
    """P-45: nothing but a new run touches it; what was refused is kept beside it."""
    run = await ended(serve(sse([STARTED, *SAID, FINISHED]), *lines))
    assert (run.report.verdict, run.report.failure, run.result.value.ok) == ("success", None, True)
    assert [record.code for record in run.report.warnings] == codes
    assert (run.report.rejected is not None) is (lines[:1] == [sse([SAID[0]])])


async def test_a_late_error_stands_aside() -> None:
    """P-46: it is delivered, kept and warned; `late_run_error="fail"` makes it the run's."""
    stream = [STARTED, *SAID, FINISHED, ERROR]
    aside = await ended(answering(*stream))
    assert types_of(aside)[-1] == "RUN_ERROR"
    assert (aside.report.verdict, aside.report.late_error, aside.result.value.ok) == ("success", ("boom", "X"), True)
    assert [record.code for record in aside.report.warnings] == ["late-run-error"]
    failed = await ended(answering(*stream), late_run_error="fail")
    assert (failed.result.value.outcome, failed.result.value.error) == ("failed", "boom")
    assert (failed.report.verdict, failed.report.failure, failed.report.code) == ("error", "agent", "X")
    assert failed.report.late_error == ("boom", "X")


async def test_a_late_error_on_another_run() -> None:
    """P-46, P-44: it belongs to the run that finished; the next one has a verdict of its own."""
    run = await ended(answering(STARTED | {"runId": "r0"}, FINISHED | {"runId": "r0"}, ERROR, STARTED, FINISHED))
    assert (run.report.run_id, run.report.verdict, run.report.late_error) == ("r1", "success", None)
    assert [record.code for record in run.report.warnings] == ["late-run-error"]


async def test_absent_and_unknown_outcomes() -> None:
    """P-47: both are success."""
    for finished in (FINISHED, FINISHED | {"outcome": {"type": "paused"}}):
        run = await ended(answering(STARTED, finished))
        assert (run.report.verdict, run.result.value.ok) == ("success", True)


async def test_no_grace_wherever_the_body_is_cut() -> None:
    """P-72, P-13: with `close_grace=0` what follows the terminal event is not read, in one read or in many."""
    body = sse([STARTED, FINISHED, ERROR])
    for reads in ([body], bytewise(body)):
        server = serve(*reads, ends="never")
        run = await ended(server, close_grace=0)
        assert types_of(run) == ["RUN_STARTED", "RUN_FINISHED"]
        assert server.bodies[0].is_closed
