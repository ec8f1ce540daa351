"""User turns that come while a run is going on."""

from __future__ import annotations

import signal
import threading
from typing import Any

import anyio
import pytest

from handrail import Budget, Loop, assistant, events, user
from handrail.loop import LoopRun
from handrail.loop._steering import Steers
from handrail.testing import Collected, ScriptedBackend, call, collect, fail, gate, text

from .kit import checked, look, roles


async def steered(script: list[Any], *turns: str, **options: Any) -> tuple[Collected[Any], ScriptedBackend, list[bool]]:
    """A run that is given these turns while its first answer is held in a gate named "held" in the script."""
    held = gate()
    steps = [[held if move == "held" else move for move in step] if isinstance(step, list) else step for step in script]
    backend = ScriptedBackend(steps)
    async with Loop(backends=[backend], **options) as loop:
        run = loop.run("hi")
        await held.reached
        accepted = [run.steer(turn) for turn in turns]
        held.open()
        got = checked(await collect(run))
    return got, backend, accepted


async def test_steers_become_user_turns_of_the_next_round() -> None:
    """L-144, L-145: in order, never between calls and their results."""
    got, backend, accepted = await steered([["held", call("look")], text("ok")], "left", "no, right", tools=[look])
    assert accepted == [True, True]
    assert roles(got) == ["user", "assistant", "tool", "user", "user", "assistant"]
    assert [(e.message.content, e.round) for e in got.of(events.Steered)] == [("left", 2), ("no, right", 2)]
    assert [m.role for m in backend.requests[1].messages] == ["user", "assistant", "tool", "user", "user"]


async def test_a_steer_during_the_last_answer_makes_one_more_round() -> None:
    """L-145: decision 10."""
    got, _, _ = await steered([["held", text("done")], text("done differently")], "differently")
    assert got.outcome.final == "done differently"
    assert roles(got) == ["user", "assistant", "user", "assistant"]


async def test_what_no_round_took_is_appended_at_the_end() -> None:
    """L-146: a failed run; Steered without a round, before the terminal event."""
    got, _, accepted = await steered([["held", fail("misuse")]], "wait")
    assert accepted == [True]
    assert got.outcome.outcome == "failed"
    assert roles(got) == ["user", "user"]
    (told,) = got.of(events.Steered)
    assert told.round is None
    assert got.kinds()[-2:] == ["steered", "run-failed"]


async def test_a_cap_and_a_question_leave_steers_behind_too() -> None:
    """L-146: at a cap, and where the run stops to ask."""
    from handrail import Tool
    from handrail.testing import usage

    got, _, _ = await steered(
        [["held", call("look"), usage(9, 9)]], "go", tools=[look], budget=Budget(max_total_tokens=1)
    )
    assert got.outcome.reason == "budget-exhausted"
    assert roles(got) == ["user", "assistant", "tool", "user"]
    asks = Tool(look, needs_approval=True)
    got, _, _ = await steered([["held", call("look", id="c")]], "go", tools=[asks])
    assert got.outcome.interrupts
    assert roles(got) == ["user", "assistant", "user"]


async def test_a_cancelled_run_looks_at_the_cancel_first() -> None:
    """L-146: its steers are kept all the same."""
    held = gate()
    async with Loop(backends=[ScriptedBackend([[text("x"), held]])]) as loop:
        run = loop.run("hi")
        await held.reached
        run.cancel()
        accepted = run.steer("too late to matter")
        got = checked(await collect(run))
    assert accepted
    assert roles(got) == ["user", "user"]
    assert got.kinds()[-2:] == ["steered", "run-cancelled"]


async def test_after_the_end_a_steer_is_refused() -> None:
    """L-144: False, and nothing has changed."""
    async with Loop(backends=[ScriptedBackend([text("ok")])]) as loop:
        run = loop.run("hi")
        outcome = await run.result
        assert run.steer("more") is False
    assert run.result.value is outcome


@pytest.mark.parametrize(("wrong", "error"), [("", ValueError), (7, TypeError), (assistant("x"), TypeError)])
async def test_what_is_no_turn_is_refused(wrong: Any, error: type[Exception]) -> None:
    """L-144: a string with something in it, or a user message."""
    async with Loop(backends=[ScriptedBackend([[text("ok")]])]) as loop:
        run = loop.run("hi")
        with pytest.raises(error, match="steer"):
            run.steer(wrong)
        assert run.steer(user("mine", id="u9")) is True
        await run.drained
    assert "u9" in [m.id for m in run.result.value.messages]


def test_nothing_accepted_is_lost() -> None:
    """L-144: threads steer until refused while the run ends; what was accepted is in the conversation, once."""
    for number in range(20):
        backend = ScriptedBackend([[text(f"{n}")] for n in range(2_000)])
        run: LoopRun = Loop(backends=[backend], budget=Budget()).run("hi")
        accepted: list[str] = []
        together = threading.Barrier(3)

        def push(name: str, run: LoopRun = run, accepted: list[str] = accepted, start: Any = together) -> None:
            start.wait()
            for n in range(50):
                if not run.steer(f"{name}{n}"):
                    return
                accepted.append(f"{name}{n}")

        threads = [threading.Thread(target=push, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        together.wait()
        for thread in threads:
            thread.join()
        outcome = run.result.wait(20)
        said = [m.content for m in outcome.messages if m.role == "user"][1:]
        assert sorted(said) == sorted(accepted), number


async def test_many_tasks_may_steer() -> None:
    """L-144: any task or thread, without waiting."""
    held = gate()
    async with Loop(backends=[ScriptedBackend([[text("x"), held], text("ok")])]) as loop:
        run = loop.run("hi")
        await held.reached
        async with anyio.create_task_group() as group:
            for n in range(20):
                group.start_soon(anyio.to_thread.run_sync, run.steer, f"t{n}")
        held.open()
        outcome = await run.result
    assert len(outcome.messages) == 1 + 1 + 20 + 1


def test_a_signal_handler_may_steer() -> None:
    """L-144, R-61: also where it has interrupted the thread that takes the turns: it does not wait for itself."""
    steers = Steers()
    accepted: list[bool] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: accepted.append(steers.put(user("now"))))
    try:
        with steers._lock:  # pyright: ignore[reportPrivateUsage]  # where a signal may find the run
            signal.raise_signal(signal.SIGUSR1)
        assert (accepted, steers.close_if_empty()) == ([True], False)
        assert [message.content for message in steers.take()] == ["now"]
        assert steers.close_if_empty()
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (accepted, steers.close()) == ([True, False], [])
