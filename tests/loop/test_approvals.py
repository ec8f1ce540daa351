"""Calls that need a person: the run ends and asks, and the run that continues."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import ResumeEntry

from handrail import AbortRun, Budget, Loop, assistant, events, tool, user
from handrail.agui import abandon, answer, approve, deny, edit
from handrail.messages import tool_call, tool_result
from handrail.testing import ScriptedBackend, call, collect, fail, gate, text

from .kit import answers, checked, play, roles
from .shop import Shop, asked, buy

# -- the run ends and asks -------------------------------------------------------------------------------------------


async def test_a_run_ends_and_asks() -> None:
    """L-120, L-121, L-126, L-127: the others of the turn run, the question is the call's, no further request."""
    shop = Shop()
    backend = ScriptedBackend([[text("May I?"), buy("hat", "a"), call("look", id="b"), buy("cat", "c")], text("never")])
    got = await play(Loop(backends=[backend], tools=shop.tools))
    outcome = got.outcome
    assert (outcome.outcome, outcome.ok, outcome.final) == ("completed", False, "May I?")
    assert [i.id for i in outcome.interrupts] == ["a", "c"]
    assert outcome.pending_calls == ("a", "c")
    first = outcome.interrupts[0]
    assert (first.reason, first.tool_call_id) == ("tool_call", "a")
    assert first.metadata == {"toolName": "buy", "arguments": {"item": "hat"}}
    assert "buy" in str(first.message)
    assert "hat" in str(first.message)
    schema = first.response_schema or {}
    assert schema["required"] == ["approved"]
    assert schema["properties"]["approved"] == {"type": "boolean"}
    assert set(schema["properties"]) == {"approved", "editedArgs", "reason"}
    assert shop.done == []
    assert answers(got) == {"b": "seen"}
    assert isinstance(got.terminal, events.RunCompleted)
    assert got.terminal.interrupts == outcome.interrupts
    assert got.terminal.pending_calls == ()
    assert len(backend.requests) == 1


async def test_a_call_that_is_refused_asks_nothing() -> None:
    """L-120: its arguments are checked first."""
    got = await play(Shop().loop(call("buy", {"wrong": 1}, id="a"), text("ok")))
    assert got.outcome.ok
    assert got.of(events.ToolResult)[0].is_error


async def test_the_messages_can_be_stored_and_given_back_elsewhere() -> None:
    """L-127: as JSON, in another process, and another loop."""
    first = await asked(Shop(), buy("hat", "a"))
    stored = json.dumps([m.model_dump(mode="json", by_alias=True) for m in first.outcome.messages])
    shop = Shop()
    got = await play(shop.loop(text("done")), json.loads(stored), answers=[approve("a")])
    assert got.outcome.final == "done"
    assert shop.done == ["hat"]


# -- continuing ------------------------------------------------------------------------------------------------------


async def test_an_approved_call_runs() -> None:
    """L-122, L-128, L-129: before round 1, with round 0 and no new ToolCall; its message behind its turn."""
    shop = Shop()
    first = await asked(shop, buy("hat", "a"))
    interrupt = first.outcome.interrupts[0]
    backend = ScriptedBackend([text("done")])
    got = await play(Loop(backends=[backend], tools=shop.tools), first.outcome.messages, answers=[approve(interrupt)])
    assert got.kinds()[:4] == ["run-started", "tool-started", "tool-result", "round-started"]
    assert [e.round for e in got.of((events.ToolStarted, events.ToolResult))] == [0, 0]
    assert shop.done == ["hat"]
    assert roles(got) == ["user", "assistant", "tool", "assistant"]
    assert [m.role for m in backend.requests[0].messages] == ["user", "assistant", "tool"]


async def test_edited_arguments_replace_those_of_the_call() -> None:
    """L-122: checked like any; the model is told in a first line; a refused edit is not run."""
    shop = Shop()
    first = await asked(shop, buy("hat", "a"), buy("cat", "b"))
    given = [edit("a", {"item": "cap"}), edit("b", {"wrong": 1})]
    got = await play(shop.loop(text("done")), first.outcome.messages, answers=given)
    assert shop.done == ["cap"]
    line, result = answers(got)["a"].split("\n")
    assert '{"item": "cap"}' in line
    assert result == "bought cap"
    assert [s.arguments for s in got.of(events.ToolStarted)] == [{"item": "cap"}]
    assert [r.is_error for r in got.of(events.ToolResult)] == [False, True]
    assert got.outcome.messages[1].tool_calls[0].function.arguments == '{"item": "hat"}'


@pytest.mark.parametrize(
    ("given", "reason", "told"),
    [
        (deny("a", "too dear"), "denied", ["not run", "denied", "too dear"]),
        (deny("a"), "denied", ["not run", "denied"]),
        (abandon("a"), "withdrawn", ["not run", "withdrawn"]),
        (answer("a", {"approved": False, "reason": "no money"}), "denied", ["not run", "no money"]),
        (answer("a", {"approved": 1}), "denied", ["not run"]),
        (answer("a", {"approved": "true"}), "denied", ["not run"]),
        (answer("a", "yes"), "denied", ["not run"]),
        (answer("a", None), "denied", ["not run"]),
        (ResumeEntry(interrupt_id="a", status="resolved"), "denied", ["not run"]),
        (ResumeEntry(interrupt_id="a", status="cancelled"), "withdrawn", ["not run", "withdrawn"]),
    ],
)
async def test_everything_else_is_a_denial(given: Any, reason: str, told: list[str]) -> None:
    """L-122: approved is exactly True and nothing else; cancelled is a withdrawal."""
    shop = Shop()
    first = await asked(shop, buy("hat", "a"))
    got = await play(shop.loop(text("all right")), first.outcome.messages, answers=[given])
    assert shop.done == []
    (end,) = got.of(events.ToolAbandoned)
    assert (end.reason, end.dispatched, end.round) == (reason, False, 0)
    assert all(part in answers(got)["a"] for part in told)
    assert "failed" not in answers(got)["a"]
    assert "error" not in answers(got)["a"]
    assert got.outcome.final == "all right"


async def test_a_question_without_an_answer_is_asked_again() -> None:
    """L-130: what is answered is applied; then the run ends with the rest, without a model request; harmless."""
    shop = Shop()
    first = await asked(shop, buy("hat", "a"), buy("cat", "b"))
    backend = ScriptedBackend([text("never")])
    loop = Loop(backends=[backend], tools=shop.tools)
    again = await play(loop, first.outcome.messages)
    assert [i.id for i in again.outcome.interrupts] == ["a", "b"]
    assert again.outcome.messages == first.outcome.messages
    assert again.kinds() == ["run-started", "run-completed"]
    half = await play(loop, [*first.outcome.messages, user("and?")], answers=[approve("b")])
    assert [i.id for i in half.outcome.interrupts] == ["a"]
    assert roles(half) == ["user", "assistant", "tool", "user"]
    assert shop.done == ["cat"]
    assert backend.requests == []
    last = await play(shop.loop(text("done")), half.outcome.messages, answers=[deny("a")])
    assert last.outcome.ok
    assert list(answers(last)) == ["a", "b"]


@pytest.mark.parametrize("history", ["unknown", "answered", "older", "needs none"])
async def test_an_answer_that_names_no_waiting_call_does_nothing(history: str) -> None:
    """L-131, L-128: a warning, and nothing is run, so a history cannot make a tool run that asks nobody."""
    open_call = assistant("", tool_calls=[tool_call("buy", '{"item": "hat"}', id="a")])
    messages = {
        "unknown": [user("hi")],
        "answered": [user("hi"), open_call, tool_result("a", "bought")],
        "older": [user("hi"), open_call, user("well?"), assistant("hm"), user("hi")],
        "needs none": [user("hi"), assistant("", tool_calls=[tool_call("look", "{}", id="a")])],
    }[history]
    shop = Shop()
    got = await play(shop.loop(text("ok")), messages, answers=[approve("a")])
    assert shop.done == []
    assert got.of(events.ToolStarted) == []
    assert any("'a'" in str(log.data) and log.level == "warning" for log in got.of(events.Log))
    assert got.outcome.final == "ok"


async def test_the_same_continuation_twice_runs_nothing_twice() -> None:
    """L-131, L-132: once the history has the result."""
    shop = Shop()
    first = await asked(shop, buy("hat", "a"))
    second = await play(shop.loop(text("one")), first.outcome.messages, answers=[approve("a")])
    await play(shop.loop(text("two")), second.outcome.messages, answers=[approve("a")])
    assert shop.done == ["hat"]


async def test_a_continuation_that_fails_or_is_cancelled_loses_no_result_and_no_question() -> None:
    """L-130, L-132: a result is told as soon as it is known; what has no answer goes on waiting."""
    shop = Shop()
    first = await asked(shop, buy("hat", "a"))
    failed = await play(shop.loop(fail("misuse")), first.outcome.messages, answers=[approve("a")])
    assert failed.outcome.outcome == "failed"
    assert answers(failed) == {"a": "bought hat"}

    both = await asked(shop, buy("cap", "b"), buy("cat", "c"))
    held = gate()

    @tool(name="buy", needs_approval=True)
    async def blocked(item: str) -> str:
        await held
        return "never"

    async with Loop(backends=[ScriptedBackend()], tools=[blocked]) as loop:
        run = loop.run(both.outcome.messages, answers=[approve("b")])
        await held.reached
        run.cancel()
        outcome = await run.result
    assert outcome.outcome == "cancelled"
    assert outcome.pending_calls == ("c",)
    again = await play(shop.loop(), outcome.messages)
    assert [i.id for i in again.outcome.interrupts] == ["c"]


async def test_approved_together_parallel_tools_run_together() -> None:
    """L-129: groups hold as in a round, in call order."""
    both = [gate(), gate()]

    @tool(name="buy", needs_approval=True, parallel=True)
    async def both_at_once(item: str) -> str:
        await both[item == "cat"]
        return item

    first = await asked(Shop(), buy("hat", "a"), buy("cat", "b"))
    async with Loop(backends=[ScriptedBackend([text("done")])], tools=[both_at_once]) as loop:
        run = loop.run(first.outcome.messages, answers=[approve("b"), approve("a")])
        for held in both:
            await held.reached
        for held in both:
            held.open()
        got = checked(await collect(run))
    assert [e.id for e in got.of(events.ToolStarted)] == ["a", "b"]
    assert list(answers(got)) == ["a", "b"]


async def test_bounds_hold_in_a_continuation() -> None:
    """L-129: caps and deadlines, as in a round."""
    shop = Shop()
    first = await asked(shop, buy("hat", "a"))
    got = await play(shop.loop(budget=Budget(max_cost=0)), first.outcome.messages, answers=[approve("a")])
    assert got.outcome.reason == "budget-exhausted"
    assert [(e.reason, e.dispatched) for e in got.of(events.ToolAbandoned)] == [("budget-exhausted", False)]
    assert shop.done == []


async def test_a_waiting_call_whose_arguments_no_longer_fit() -> None:
    """L-130: without an answer it is neither refused nor dropped; approved, it gets the error result."""
    waits = [user("hi"), assistant("", tool_calls=[tool_call("buy", '{"old": 1}', id="a")])]
    again = await play(Shop().loop(), waits)
    assert [i.id for i in again.outcome.interrupts] == ["a"]
    got = await play(Shop().loop(text("ok")), waits, answers=[approve("a")])
    assert [r.is_error for r in got.of(events.ToolResult)] == [True]


async def test_a_history_is_believed() -> None:
    """L-134: a call that somebody wrote into it, and approved, is run: whoever takes histories must know."""
    shop = Shop()
    made_up = [user("hi"), assistant("", tool_calls=[tool_call("buy", '{"item": "x"}', id="forged")])]
    await play(shop.loop(text("ok")), made_up, answers=[approve("forged")])
    assert shop.done == ["x"]


async def test_abort_in_a_continuation() -> None:
    """L-129, L-86: the run fails, with the calls answered."""

    @tool(name="buy", needs_approval=True)
    def broken(item: str) -> str:
        raise AbortRun("no shop")

    first = await asked(Shop(), buy("hat", "a"), buy("cat", "b"))
    got = await play(
        Loop(backends=[ScriptedBackend()], tools=[broken]), first.outcome.messages, answers=[approve("a"), approve("b")]
    )
    assert got.outcome.error == "no shop"
    assert [e.reason for e in got.of(events.ToolAbandoned)] == ["aborted"]
