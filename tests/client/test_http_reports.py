"""What an agent behind HTTP reports of a run: its events, its report, its outcome, and its warnings."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.agui.wires import sse
from tests.client.transports import ASKED, CALLED, FINISHED, SAID, STARTED, agent_of, answering, ended, serve, types_of

from handrail import CANCELLED_CODE, CLIENT_ERROR_CODE, AgentRun, RunScope, WarningRecord
from handrail.errors import NotSettled, TruncatedError

# -- events, report, outcome -----------------------------------------------------------------------------------------


async def test_nothing_is_made_up() -> None:
    """P-2, P-44: a body that just ends is a failed run, and neither RUN_FINISHED nor RUN_ERROR is anywhere."""
    run = await ended(answering(STARTED, SAID[0]))
    assert types_of(run) == ["RUN_STARTED", "TEXT_MESSAGE_START"]
    assert [event async for event in run.events] == list(run.events.so_far())
    outcome, report = run.result.value, run.report
    assert (outcome.outcome, report.verdict, report.failure) == ("failed", None, "client")
    assert report.code == CLIENT_ERROR_CODE
    cause = report.cause
    assert isinstance(cause, TruncatedError)
    assert cause.run_started
    assert any("m1" in item for item in cause.open_items)
    assert outcome.error == str(cause) == "Stream ended before RUN_FINISHED: it ended without a terminal event"


async def test_there_is_no_report_before_the_result() -> None:
    """P-3: reading it early raises; a subscriber to the result finds it."""
    server = serve(sse([STARTED]), ends="never")
    async with RunScope():
        run = agent_of(server).start(ASKED)
        await server.bodies[0].reading.wait()
        with pytest.raises(NotSettled, match="result"):
            _ = run.report
        run.cancel()
        await run.result
        assert run.report.run_id == "r1"


async def test_a_success() -> None:
    """P-3, P-4, P-47, P-62: what the agent said, and what the run left behind."""
    usage = [{"inputTokens": 3, "outputTokens": 4}, {"totalTokens": 10, "cachedInputTokens": 2}]
    finished = FINISHED | {"result": {"n": 1}, "usage": usage}
    state = {"type": "STATE_SNAPSHOT", "snapshot": {"k": 1}}
    run = await ended(answering(STARTED, *SAID, *CALLED, state, finished))
    report, outcome = run.report, run.result.value
    assert (report.thread_id, report.run_id) == ("t1", "r1")
    assert (report.verdict, report.failure, report.code, report.cause) == ("success", None, None, None)
    assert (report.result, report.state) == ({"n": 1}, {"k": 1})
    assert (report.late_error, report.rejected, report.warnings) == (None, None, ())
    assert report.pending_tool_calls == outcome.pending_calls == ("c1",)
    assert [message.id for message in report.messages] == ["u1", "m1"]
    assert outcome.messages == report.messages
    assert (outcome.outcome, outcome.final, outcome.error, outcome.reason) == ("completed", "Hi.", None, None)
    assert (outcome.attempts, outcome.interrupts, outcome.ok) == ((), (), True)
    spent = outcome.spent
    assert (spent.total_tokens, spent.complete, spent.prompt_tokens) == (17, True, 3)
    assert (spent.completion_tokens, spent.cached_prompt_tokens, spent.cost) == (4, 2, None)
    assert spent.wall_clock > 0
    assert [entry.total_tokens for entry in report.usage] == [None, 10]


@pytest.mark.parametrize(
    ("usage", "total", "complete"),
    [
        pytest.param(None, None, None, id="absent"),
        pytest.param([{"model": "m"}], None, None, id="no count"),
        pytest.param([{"totalTokens": 0}], 0, True, id="zero"),
        pytest.param([{"inputTokens": 5}], 5, False, id="one half"),
        pytest.param([{"totalTokens": 5}, {"model": "m"}], 5, False, id="one of two"),
        pytest.param([{"cachedInputTokens": 5}], 0, False, id="cached only"),
    ],
)
async def test_unknown_is_not_zero(usage: Any, total: int | None, complete: bool | None) -> None:
    """P-4: without a count nothing is spent as far as anybody knows; an incomplete sum says so."""
    run = await ended(answering(STARTED, FINISHED | ({} if usage is None else {"usage": usage})))
    spent = run.result.value.spent
    assert (spent and spent.total_tokens, spent and spent.complete) == (total, complete)


async def test_an_interrupt() -> None:
    """P-4: it completes, with something left to ask."""
    asks = {"type": "interrupt", "interrupts": [{"id": "i1", "reason": "tool_call"}]}
    run = await ended(answering(STARTED, *SAID, FINISHED | {"outcome": asks}))
    outcome = run.result.value
    assert (run.report.verdict, outcome.outcome, outcome.ok) == ("interrupt", "completed", False)
    assert [one.id for one in outcome.interrupts] == ["i1"]


async def test_cancelled_by_the_agent() -> None:
    """P-4, P-47, P-61: neither success nor failure; a result with it is kept, its calls are answered."""
    finished = FINISHED | {"outcome": {"type": "cancelled"}, "result": 1}
    run = await ended(answering(STARTED, *SAID, *CALLED, finished))
    outcome = run.result.value
    assert (run.report.verdict, run.report.failure, run.report.code) == ("cancelled", None, None)
    assert run.report.result == 1
    assert (outcome.outcome, outcome.error, outcome.pending_calls) == ("cancelled", None, ())
    assert not run.is_cancelled


@pytest.mark.parametrize("code", ["context-exhausted", "budget-exhausted", "completion-truncated", "E1", None])
async def test_an_error_of_the_agent(code: str | None) -> None:
    """P-4, P-61: its message and code; the code is the reason where it is one, and calls are answered."""
    error = {"type": "RUN_ERROR", "message": "boom"} | ({} if code is None else {"code": code})
    run = await ended(answering(STARTED, *SAID, *CALLED, error))
    outcome = run.result.value
    assert (run.report.verdict, run.report.failure, run.report.code) == ("error", "agent", code)
    assert run.report.cause is None
    assert (outcome.outcome, outcome.error) == ("failed", "boom")
    assert outcome.reason == (code if code not in ("E1", None) else None)
    assert [message.role for message in outcome.messages] == ["user", "assistant", "tool"]
    assert outcome.messages[-1].error is not None
    assert [message.role for message in run.report.messages] == ["user", "assistant"]


async def test_cancelled_by_the_caller_keeps_what_was_said() -> None:
    """P-74, P-43, P-61: delivered is delivered; a call that was cut off is not in the history."""
    server = serve(sse([STARTED, *SAID, *CALLED[:2]]), ends="never")
    async with RunScope():
        run = agent_of(server).start(ASKED)
        await server.bodies[0].reading.wait()
        run.cancel()
        outcome = await run.result
    assert (outcome.outcome, outcome.final, outcome.error) == ("cancelled", "Hi.", None)
    assert run.report.code == CANCELLED_CODE
    assert outcome.pending_calls == ()
    assert len(run.events.so_far()) == 6
    assert server.bodies[0].is_closed


async def test_a_cancel_between_any_two_reads() -> None:
    """P-74, P-43, P-45: what was read stands; behind the verdict it only ends the grace."""
    stream = [STARTED, *SAID, *CALLED, FINISHED]
    for place in range(len(stream) + 1):
        held: list[AgentRun] = []
        lines: list[Any] = [sse([payload]) for payload in stream]
        lines.insert(place, lambda held=held: held[0].cancel())
        server = serve(*lines, ends="never")
        async with RunScope():
            held.append(agent_of(server, close_grace=60).start(ASKED))
            outcome = await held[0].result
        run = held[0]
        is_late = place == len(stream)
        assert outcome.outcome == ("completed" if is_late else "cancelled")
        assert run.report.failure == (None if is_late else "cancelled")
        assert len(run.events.so_far()) == place
        assert (outcome.pending_calls == ("c1",)) is is_late
        assert server.bodies[0].is_closed
        assert run.drained.is_set


# -- warnings --------------------------------------------------------------------------------------------------------


async def test_warnings_go_to_whoever_asks(caplog: pytest.LogCaptureFixture) -> None:
    """P-6: all of them, the earlier ones first, in order, also after the end; nothing is logged then."""
    server = answering({"type": "NEW1"}, STARTED, {"type": "NEW2"}, FINISHED)
    early: list[WarningRecord] = []
    late: list[WarningRecord] = []
    async with RunScope():
        run = agent_of(server).start(ASKED)
        stop = run.on_warning(early.append)
        await run.result
    stop()
    run.on_warning(late.append)
    assert tuple(early) == tuple(late) == run.report.warnings
    assert [record.code for record in early] == ["unknown-event", "unknown-event"]
    assert caplog.records == []


async def test_warnings_are_logged_where_nobody_asks(caplog: pytest.LogCaptureFixture) -> None:
    """P-6: to the logger `handrail.agui`, those about the request, too."""
    run = await ended(answering(STARTED, {"type": "NEW"}, FINISHED), ASKED | {"future": 1})
    assert [(record.name, record.levelno) for record in caplog.records] == [("handrail.agui", logging.WARNING)] * 2
    assert "future" in caplog.records[0].getMessage()
    assert "NEW" in caplog.records[1].getMessage()
    assert len(run.report.warnings) == 2


async def test_a_sink_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """P-6: it is logged and changes nothing; the next one and the next warning are told."""
    told: list[WarningRecord] = []

    def broken(record: WarningRecord) -> None:
        raise ValueError("no thanks")

    async with RunScope():
        run = agent_of(answering(STARTED, {"type": "A"}, {"type": "B"}, FINISHED)).start(ASKED)
        run.on_warning(broken)
        run.on_warning(told.append)
        assert (await run.result).ok
    assert len(told) == 2
    assert caplog.text.count("ValueError: no thanks") == 2


async def test_a_sink_that_nobody_would_await() -> None:
    """P-6: a coroutine function is refused at once."""

    async def sink(record: WarningRecord) -> None: ...

    run = await ended(answering(STARTED, FINISHED))
    for wrong in (sink, None, "print"):
        with pytest.raises(TypeError, match="plain function"):
            run.on_warning(wrong)  # type: ignore[arg-type]


async def test_a_hundred_thousand_warnings_cost_what_they_are() -> None:
    """P-6, P-60: each is kept once; telling one does not go over those before it."""
    from handrail.client._warning_log import WarningLog

    log, told = WarningLog(), list[WarningRecord]()
    log.subscribe(told.append)
    for number in range(100_000):
        log(WarningRecord("unknown-event", str(number)))
    assert len(told) == len(log.records) == 100_000
