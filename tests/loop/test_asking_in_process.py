"""Calls that need a person who is asked in process, while the run goes on."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from ag_ui.core import ResumeEntry

from handrail import Budget, events
from handrail.agui import approve, deny
from handrail.testing import FakeClock, call, collect, gate, text

from .kit import answers, checked, play
from .shop import Shop, asked, buy


@pytest.mark.parametrize(
    ("said", "runs"),
    [
        (True, True),
        (False, False),
        (1, False),
        ("yes", False),
        (None, False),
        (ResumeEntry(interrupt_id="a", status="resolved", payload={"approved": True}), True),
        (ResumeEntry(interrupt_id="other", status="resolved", payload={"approved": True}), False),
        (ResumeEntry(interrupt_id="a", status="cancelled"), False),
        (approve("a"), True),
        (deny("a", "no"), False),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_asked_in_process(said: Any, runs: bool, is_async: bool) -> None:
    """L-123: True, False or an entry; what is no answer is a denial: silence approves nothing."""
    threads = []

    def ask(interrupt: Any) -> Any:
        threads.append(threading.current_thread().daemon)
        return said

    async def ask_async(interrupt: Any) -> Any:
        threads.append(False)
        return said

    shop = Shop()
    got = await play(shop.loop(buy("hat", "a"), text("ok"), ask=ask_async if is_async else ask))
    assert shop.done == (["hat"] if runs else [])
    assert threads == [not is_async]
    (pending,) = got.of(events.AskPending)
    (answered,) = got.of(events.AskAnswered)
    assert pending.interrupt.id == answered.interrupt_id == "a"
    assert answered.answer is not None
    assert got.outcome.ok
    assert got.outcome.interrupts == ()


async def test_an_exception_while_asking_is_a_denial() -> None:
    """L-123: logged, and named in the text."""

    def ask(interrupt: Any) -> Any:
        raise ValueError("no terminal")

    shop = Shop()
    got = await play(shop.loop(buy("hat", "a"), text("ok"), ask=ask))
    assert shop.done == []
    assert "ValueError: no terminal" in answers(got)["a"]
    assert [log.level for log in got.of(events.Log)] == ["error"]
    assert [e.reason for e in got.of(events.ToolAbandoned)] == ["denied"]


async def test_questions_come_one_at_a_time_at_the_calls_turn() -> None:
    """L-123: earlier calls have run; those of a parallel group are asked before the group starts."""
    shop = Shop(parallel=True)
    asked_when: list[tuple[str, list[str]]] = []

    def ask(interrupt: Any) -> bool:
        asked_when.append((interrupt.id, list(shop.done)))
        return True

    calls = [buy("x", "a"), call("look", id="b"), buy("y", "c"), buy("z", "d")]
    got = await play(shop.loop(calls, text("ok"), ask=ask))
    assert asked_when == [("a", []), ("c", ["x"]), ("d", ["x"])]
    kinds = [e.kind for e in got.events if e.kind.startswith(("ask", "tool-s", "tool-r"))]
    assert kinds == [
        *["ask-pending", "ask-answered", "tool-started", "tool-result"],
        *["tool-started", "tool-result"],
        *["ask-pending", "ask-answered"] * 2,
        *["tool-started", "tool-started", "tool-result", "tool-result"],
    ]
    assert sorted(shop.done) == ["x", "y", "z"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_cancel_while_asking(is_async: bool) -> None:
    """L-124 (case 110): the result at once, stage asking; AskAnswered without an answer; a late answer is nothing."""
    held = gate()

    def ask(interrupt: Any) -> bool:
        held.wait(10)
        return True

    async def ask_async(interrupt: Any) -> bool:
        await held
        return True

    shop = Shop()
    async with shop.loop([buy("hat", "a"), call("look", id="b")], ask=ask_async if is_async else ask) as loop:
        run = loop.run("hi")
        await held.reached
        assert run.open_work == ("run", "ask a")
        run.cancel()
        got = checked(await collect(run))
        assert run.drained.is_set == (run.open_work == ())
        held.open()
        await run.drained
    assert isinstance(got.terminal, events.RunCancelled)
    assert got.terminal.stage == "asking"
    assert got.of(events.AskAnswered)[0].answer is None
    assert [(e.id, e.dispatched) for e in got.of(events.ToolAbandoned)] == [("a", False), ("b", False)]
    kinds = got.kinds()
    assert kinds.index("ask-answered") < kinds.index("tool-abandoned")
    assert shop.done == []


async def test_asking_is_not_working() -> None:
    """L-125: the tool's deadline starts when it does; asking counts as wall clock."""
    clock = FakeClock()

    def ask(interrupt: Any) -> bool:
        clock.advance(100)
        return True

    shop = Shop()
    got = await play(shop.loop(buy("hat", "a"), text("ok"), ask=ask, clock=clock, tool_timeout=10, budget=Budget()))
    assert shop.done == ["hat"]
    assert got.outcome.spent.wall_clock == 100


async def test_waiting_calls_of_the_input_are_asked_in_process() -> None:
    """L-133: those that have no answer."""
    shop = Shop()
    first = await asked(shop, buy("hat", "a"), buy("cat", "b"))
    questions = []

    def ask(interrupt: Any) -> bool:
        questions.append(interrupt.id)
        return True

    got = await play(shop.loop(text("ok"), ask=ask), first.outcome.messages, answers=[deny("a")])
    assert questions == ["b"]
    assert shop.done == ["cat"]
    assert got.outcome.ok
