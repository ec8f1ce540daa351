"""A run, step by step: what a reader may rely on, and how a run ends."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from handrail import Budget, Loop, Tool, Window, events, user
from handrail.testing import ScriptedBackend, call, collect, cut, fail, finish, gate, reasoning, stall, text, usage

from .kit import NOW, checked, event, look, play, roles


async def test_the_order_of_a_plain_round() -> None:
    """L-19, L-13, L-15, L-17: each event in its place."""
    backend = ScriptedBackend(
        [[reasoning("hm"), text("Let ", "me."), call("look", {"q": "1"}), call("look", {"q": "2"})], text("Done.")]
    )
    got = await play(Loop(backends=[backend], tools=[look]))
    assert got.kinds() == [
        "run-started",
        "round-started",
        "attempt-started",
        "reasoning-token",
        "token",
        "token",
        "attempt-succeeded",
        "assistant-message",
        "tool-call",
        "tool-call",
        "tool-started",
        "tool-result",
        "tool-started",
        "tool-result",
        "round-started",
        "attempt-started",
        "token",
        "attempt-succeeded",
        "assistant-message",
        "run-completed",
    ]
    assert [e.round for e in got.of(events.RoundStarted)] == [1, 2]
    completed = got.terminal
    assert isinstance(completed, events.RunCompleted)
    assert (completed.final, completed.rounds, completed.message_count) == ("Done.", 2, 6)
    assert completed.message_count == len(got.outcome.messages)


async def test_ids_are_known_before_the_first_token() -> None:
    """L-14, L-142: message_id of the attempt is the id of its message; parent_id names it; reasoning goes before."""
    backend = ScriptedBackend([[reasoning("hm"), text("x"), call("look")], text("Done.")])
    got = await play(Loop(backends=[backend], tools=[look]))
    first, second = got.of(events.AssistantMessage)
    assert [e.message_id for e in got.of(events.AttemptStarted)] == [first.message.id, second.message.id]
    assert got.of(events.ToolCall)[0].parent_id == first.message.id
    assert first.reasoning is not None
    assert first.reasoning.id == f"{first.message.id}:reasoning"
    assert first.reasoning.metadata == {"backend": 0, "model": "scripted"}
    assert second.reasoning is None
    assert roles(got) == ["user", "reasoning", "assistant", "tool", "assistant"]


@pytest.mark.parametrize(
    ("script", "final"),
    [
        ([[text("The ans"), fail("connection")], text("The answer is 4.")], "The answer is 4."),
        ([[text("half"), cut()], text("whole")], "whole"),
        ([[call("look")], text("after")], "after"),
        ([[text("limit"), call("look")], [text("x"), call("look")], text("last")], "last"),
    ],
)
async def test_the_folded_text_is_final(script: list[Any], final: str) -> None:
    """L-16 (case 130): start at AttemptStarted, drop what failed or was discarded, keep what was committed."""
    from handrail import Limits

    loop = Loop(backends=[ScriptedBackend(script)], tools=[look], retry=NOW, limits=Limits(max_rounds=1))
    got = await play(loop)
    assert got.outcome.final == got.text() == final


async def test_a_failed_attempt_is_marked_before_the_next_token() -> None:
    """L-13, L-14 (case 130): two attempts are never joined."""
    first = ScriptedBackend([[text("The answer"), fail("response")]], model="one")
    second = ScriptedBackend([text("The answer is 4.")], model="two")
    got = await play(Loop(backends=[first, second]))
    kinds = got.kinds()
    assert kinds.index("attempt-failed") < len(kinds) - 1 - kinds[::-1].index("token")
    assert [(t.text, t.attempt) for t in got.of(events.Token)] == [("The answer", 1), ("The answer is 4.", 2)]
    assert got.outcome.final == "The answer is 4."
    assert got.of(events.TurnDiscarded) == []


async def test_a_cancel_in_mid_text_folds_to_the_text_before() -> None:
    """L-16, L-13, L-22: the attempt is closed as cancelled, the turn discarded, and final is what was committed."""
    held = gate()
    backend = ScriptedBackend([[text("first"), call("look")], [text("half of"), held]])
    async with Loop(backends=[backend], tools=[look]) as loop:
        run = loop.run("hi")
        await held.reached
        run.cancel()
        got = checked(await collect(run))
    assert got.kinds()[-3:] == ["attempt-failed", "turn-discarded", "run-cancelled"]
    failed = got.of(events.AttemptFailed)[0]
    assert (failed.error_class, failed.disposition) == ("cancelled", "abort")
    assert got.outcome.final == got.text() == "first"
    assert (got.outcome.attempts[-1].result, got.outcome.attempts[-1].text) == ("cancelled", "half of")
    assert (got.outcome.error, got.outcome.reason) == (None, None)


async def test_an_empty_answer_is_an_answer() -> None:
    """L-23, L-22: a finish reason and nothing else is committed, and completes with ""."""
    got = await play(Loop(backends=[ScriptedBackend([finish("stop")])]))
    assert (got.outcome.outcome, got.outcome.final) == ("completed", "")
    assert roles(got) == ["user", "assistant"]
    assert got.outcome.messages[-1].content == ""


async def test_final_of_a_completed_run_is_its_last_turn() -> None:
    """L-22: "" is possible; of a failed run it is the last text that is not empty."""
    got = await play(Loop(backends=[ScriptedBackend([[text("before"), call("look")], finish("stop")])], tools=[look]))
    assert got.outcome.final == ""
    script = [[text("before"), call("look")], call("look"), fail("misuse")]
    got = await play(Loop(backends=[ScriptedBackend(script)], tools=[look]))
    assert (got.outcome.outcome, got.outcome.final) == ("failed", "before")


async def test_a_cancel_before_the_first_step() -> None:
    """L-20: step 1, stage start; no model was asked."""
    backend = ScriptedBackend([text("never")])
    async with Loop(backends=[backend]) as loop:
        run = loop.run("hi")
        run.cancel()
        got = checked(await collect(run))
    assert got.kinds() == ["run-started", "run-cancelled"]
    assert isinstance(got.terminal, events.RunCancelled)
    assert got.terminal.stage == "start"
    assert got.terminal.round is None
    assert backend.requests == []
    assert roles(got) == ["user"]


async def test_a_cancel_when_the_stream_has_just_ended() -> None:
    """L-21: a clean end looks for a cancel once more before the attempt succeeds."""
    from handrail.loop import LoopRun

    runs: list[LoopRun] = []

    class CancelsAtItsEnd(ScriptedBackend):
        def stream(self, request: Any) -> Any:
            played = super().stream(request)

            class Ending:
                async def __aenter__(self) -> Any:
                    return self._all(await played.__aenter__())

                async def _all(self, deltas: Any) -> Any:
                    async for delta in deltas:
                        yield delta
                    runs[0].cancel()

                async def __aexit__(self, *args: Any) -> None:
                    await played.__aexit__(*args)

            return Ending()

    async with Loop(backends=[CancelsAtItsEnd([text("whole answer")])]) as loop:
        runs.append(loop.run("hi"))
        got = checked(await collect(runs[0]))
    assert got.outcome.outcome == "cancelled"
    assert got.of(events.AttemptSucceeded) == []
    assert roles(got) == ["user"]


async def test_the_loops_own_exception_ends_the_run_as_failed(caplog: pytest.LogCaptureFixture) -> None:
    """L-20, L-110 (case 121): a token counter raises in round 2, after one tool; the run is data, and drained."""
    counted = 0

    def count(request: Any) -> int:
        nonlocal counted
        counted += 1
        if counted == 2:
            raise RuntimeError("boom\nsecond line")
        return 1

    budget = Budget(windows={"scripted": Window(context=10_000)}, count=count)
    backend = ScriptedBackend([[call("look", id="c1")], text("never")])
    caplog.set_level(logging.CRITICAL)
    got = await play(Loop(backends=[backend], tools=[look], budget=budget))
    assert got.outcome.outcome == "failed"
    assert got.outcome.error == "RuntimeError: boom"
    assert roles(got) == ["user", "assistant", "tool"]
    assert got.outcome.spent is not None


class Stopping:
    """A clock that fails for good once it was stopped."""

    is_stopped = False

    def now(self) -> datetime:
        if self.is_stopped:
            raise OSError("no time")
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


async def test_what_was_said_outlives_a_clock() -> None:
    """L-20, R-20: where not even the last event can be made, the run ends all the same, with all that was committed."""
    clock = Stopping()

    def stop() -> str:
        clock.is_stopped = True
        return "stopped"

    backend = ScriptedBackend([[text("First."), call("stop", id="c"), usage(1, 2)], text("never")])
    async with Loop(backends=[backend], tools=[Tool(stop)], clock=clock, budget=Budget()) as loop:
        run = loop.run("hi")
        with anyio.fail_after(20):
            outcome = await run.result
            await run.drained
    assert (outcome.outcome, outcome.error, outcome.final) == ("failed", "OSError: no time", "First.")
    assert [message.role for message in outcome.messages][:2] == ["user", "assistant"]
    assert outcome.spent.total_tokens == 3
    assert len(outcome.attempts) == 1


async def test_a_backend_that_raises_anything_fails_an_attempt() -> None:
    """L-38, L-20 (case 121): never a dead run."""
    backend = ScriptedBackend([[call("look")], *[fail(RuntimeError("boom"))] * 3])
    got = await play(Loop(backends=[backend], tools=[look], retry=NOW))
    assert got.outcome.outcome == "failed"
    assert "boom" in str(got.outcome.error)
    assert roles(got) == ["user", "assistant", "tool"]
    assert [a.result for a in got.outcome.attempts] == ["ok", "failed", "failed", "failed"]


async def test_sections_are_named() -> None:
    """L-20, R-74: run, stream MODEL, tool NAME."""
    held, tooled = gate(), gate()

    async def wait() -> str:
        await tooled
        return "ok"

    backend = ScriptedBackend([[held, call("wait")], text("done")], model="m1")
    async with Loop(backends=[backend], tools=[wait]) as loop:
        run = loop.run("hi")
        await held.reached
        assert run.open_work == ("run", "stream m1")
        held.open()
        await tooled.reached
        assert run.open_work == ("run", "tool wait")
        tooled.open()
        await run.drained
    assert run.open_work == ()


async def test_drained_comes_with_the_result_where_nothing_is_left() -> None:
    """L-20, R-71: a plain await of the result finds `drained` set."""
    async with Loop(backends=[ScriptedBackend([[call("look")], text("done")])], tools=[look]) as loop:
        run = loop.run("hi")
        await run.result
        assert run.drained.is_set


async def test_a_run_goes_on_when_its_reader_leaves() -> None:
    """R-46 (case 115): breaking out of the events stops the watching only."""
    held = gate()
    async with Loop(backends=[ScriptedBackend([[text("a"), held, text("b")]])]) as loop:
        run = loop.run("hi")
        async for seen in run.events:
            if seen.kind == "token":
                break
        held.open()
        outcome = await run.result
    assert (outcome.outcome, outcome.final) == ("completed", "ab")


async def test_a_scope_that_is_left_by_cancellation_cancels_its_runs() -> None:
    """R-91, R-94 (case 121): the run ends as cancelled, with what it has; nobody had called cancel()."""
    backend = ScriptedBackend([[text("half"), stall()]])
    runs: list[Any] = []
    with anyio.CancelScope() as scope:
        async with Loop(backends=[backend]) as loop:
            runs.append(loop.run([user("hi")]))
            await event(runs[0], events.Token)
            scope.cancel()
            await anyio.sleep_forever()
    got = checked(await collect(runs[0]))
    assert got.outcome.outcome == "cancelled"
    assert backend.closed == 1
    assert roles(got) == ["user"]


async def test_usage_and_the_model_that_answered_are_told() -> None:
    """L-35, L-114: of an attempt that succeeded; usage that comes after the finish reason counts."""
    step = [text("x"), usage(prompt=3), finish("other", model="m-2026"), usage(completion=2)]
    got = await play(Loop(backends=[ScriptedBackend([step])]))
    (ok,) = got.of(events.AttemptSucceeded)
    assert (ok.model, ok.model_used, ok.finish_reason) == ("scripted", "m-2026", "other")
    assert ok.to_dict()["usage"] == {"prompt_tokens": 3, "completion_tokens": 2}
    assert ok.latency >= 0
    assert got.outcome.spent is None


async def test_names_of_tools_in_a_request() -> None:
    """L-31: a request says run, round and attempt, and shows the tools with their schemas."""
    backend = ScriptedBackend([[call("look")], fail("connection"), text("ok")])
    got = await play(Loop(backends=[backend], tools=[Tool(look)], retry=NOW))
    assert [(r.run_id, r.round, r.attempt) for r in backend.requests] == [
        (got.events[0].run_id, 1, 1),
        (got.events[0].run_id, 2, 1),
        (got.events[0].run_id, 2, 2),
    ]
    (spec,) = backend.requests[0].tools
    assert (spec.name, spec.description, spec.parameters["type"]) == ("look", "Look something up.", "object")
    with pytest.raises(AttributeError):
        backend.requests[0].round = 2  # type: ignore[misc]
