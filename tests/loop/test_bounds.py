"""Limits on tool use and caps on spending, as a run shows them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from handrail import Budget, Limits, Loop, RetryPolicy, Tool, events, tool
from handrail.testing import FakeClock, ScriptedBackend, call, fail, text, usage

from .kit import answers, play, roles


def look(q: int = 0) -> str:
    """Look something up."""
    return f"found {q}"


def always(*, said: str = "") -> list[Any]:
    """A model that never stops asking for one tool."""
    return [[text(said), call("look")] if said else [call("look")] for _ in range(20)]


# -- limits ----------------------------------------------------------------------------------------------------------


async def test_a_limit_gives_the_model_one_last_answer() -> None:
    """L-102, L-100: tripped before the turn is committed; tools off; the notice stays in the history."""
    backend = ScriptedBackend([call("look"), [text("let me"), call("look")], text("Enough: 4.")])
    got = await play(Loop(backends=[backend], tools=[look], limits=Limits(max_rounds=1)))
    assert got.outcome.final == "Enough: 4."
    assert roles(got) == ["user", "assistant", "tool", "system", "assistant"]
    (reached,) = got.of(events.LimitReached)
    assert (reached.limit, reached.count, reached.max, reached.name) == ("max-rounds", 1, 1, None)
    assert reached.notice.content == got.outcome.messages[3].content
    assert [d.reason for d in got.of(events.TurnDiscarded)] == ["limit"]
    kinds = got.kinds()
    assert kinds.index("limit-reached") < kinds.index("turn-discarded")
    assert [len(r.tools) for r in backend.requests] == [1, 1, 0]
    assert len(got.of(events.ToolCall)) == 1


async def test_no_tool_ever_runs_with_max_rounds_0() -> None:
    """L-102."""
    backend = ScriptedBackend([call("look"), text("without")])
    got = await play(Loop(backends=[backend], tools=[look], limits=Limits(max_rounds=0)))
    assert got.outcome.final == "without"
    assert got.of(events.ToolStarted) == []


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (Limits(max_rounds=2), "max-rounds"),
        (Limits(max_tool_calls=2), "max-tool-calls"),
        (Limits(max_identical_calls=2), "max-identical-calls"),
    ],
)
async def test_a_model_that_only_ever_calls_fails_the_run(limits: Limits, limit: str) -> None:
    """L-103, L-101 (cases 137, 136): nothing was answered; the error names the limit, and the history is closed."""
    loop = Loop(backends=[ScriptedBackend(always())], tools=[look], limits=limits)
    got = await play(loop)
    assert (got.outcome.outcome, got.outcome.reason) == ("failed", "budget-exhausted")
    assert limit in str(got.outcome.error)
    assert [e.limit for e in got.of(events.LimitReached)] == [limit]
    assert roles(got) == ["user", "assistant", "tool", "assistant", "tool", "system"]
    assert got.kinds()[-2:] == ["turn-discarded", "run-failed"]
    again = await play(Loop(backends=[ScriptedBackend([text("ok")])], tools=[look]), got.outcome.messages)
    assert again.outcome.ok


async def test_an_invented_name_is_bounded() -> None:
    """L-101, L-83 (case 136): refused calls count as identical ones."""
    backend = ScriptedBackend([call("serch") for _ in range(20)])
    got = await play(Loop(backends=[backend], tools=[look], limits=Limits(max_identical_calls=3)))
    assert got.outcome.reason == "budget-exhausted"
    assert len(got.of(events.ToolResult)) == 3


async def test_with_tools_off_a_turn_with_text_completes() -> None:
    """L-103: its calls are left out, with a warning."""
    backend = ScriptedBackend(always(said="so far 4"))
    got = await play(Loop(backends=[backend], tools=[look], limits=Limits(max_rounds=1)))
    assert (got.outcome.outcome, got.outcome.final) == ("completed", "so far 4")
    assert got.outcome.messages[-1].tool_calls is None
    assert [log.level for log in got.of(events.Log)] == ["warning"]


# -- caps ------------------------------------------------------------------------------------------------------------


async def test_a_cap_of_zero_stops_before_the_first_request() -> None:
    """L-111, L-112: and the round refused is the first."""
    backend = ScriptedBackend([text("never")])
    got = await play(Loop(backends=[backend], budget=Budget(max_total_tokens=0)))
    assert got.outcome.reason == "budget-exhausted"
    assert got.kinds() == ["run-started", "run-failed"]
    assert isinstance(got.terminal, events.RunFailed)
    assert got.terminal.round == 1
    assert backend.requests == []
    assert got.outcome.spent.complete


async def test_the_answer_that_reaches_the_cap_completes() -> None:
    """L-112: decision 11."""
    got = await play(Loop(backends=[ScriptedBackend([[text("x"), usage(9, 9)]])], budget=Budget(max_total_tokens=5)))
    assert got.outcome.ok
    assert got.outcome.spent.total_tokens == 18


async def test_a_cap_reached_by_the_answer_abandons_its_calls() -> None:
    """L-113: before the group; not dispatched; the error names cap, spent and maximum."""
    backend = ScriptedBackend([[call("look", id="a"), call("look", id="b"), usage(10, 7)], text("never")])
    got = await play(Loop(backends=[backend], tools=[look], budget=Budget(max_total_tokens=15)))
    assert got.outcome.reason == "budget-exhausted"
    assert [(e.reason, e.dispatched) for e in got.of(events.ToolAbandoned)] == [("budget-exhausted", False)] * 2
    assert all("not run" in content for content in answers(got).values())
    assert all(part in str(got.outcome.error) for part in ("max_total_tokens", "17", "15"))
    assert got.terminal.round == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(("calls", "refused_round", "left"), [(2, 1, ["found 0", "not run"]), (1, 2, ["found 0"])])
async def test_a_cap_reached_while_a_tool_runs(calls: int, refused_round: int, left: list[str]) -> None:
    """L-112, L-113: during call 1 of 2: call 1 has its result; by the last call: the next round is refused."""
    clock = FakeClock()

    async def slow() -> str:
        clock.advance(60)
        return "found 0"

    backend = ScriptedBackend([[call("slow", id=f"c{n}") for n in range(calls)], text("never")])
    loop = Loop(backends=[backend], tools=[slow], budget=Budget(max_wall_clock=60), clock=clock)
    got = await play(loop)
    assert got.outcome.reason == "budget-exhausted"
    assert got.terminal.round == refused_round  # type: ignore[union-attr]
    assert all(part in said for part, said in zip(left, answers(got).values(), strict=True))
    assert got.outcome.spent.wall_clock == 60


async def test_a_cap_is_not_looked_at_inside_a_group() -> None:
    """L-91: before each group, never inside one: what is under way is not broken, what is behind is not begun."""
    clock = FakeClock()

    async def p(n: int) -> str:
        clock.advance(60)
        return f"r{n}"

    calls = [
        call("p", {"n": 1}, id="a"),
        call("p", {"n": 2}, id="b"),
        call("look", id="c"),
        call("p", {"n": 3}, id="d"),
    ]
    loop = Loop(
        backends=[ScriptedBackend([calls])],
        tools=[Tool(p, parallel=True), look],
        budget=Budget(max_wall_clock=60),
        clock=clock,
    )
    got = await play(loop)
    assert answers(got)["a"] == "r1"
    assert answers(got)["b"] == "r2"
    assert [(e.id, e.reason) for e in got.of(events.ToolAbandoned)] == [
        ("c", "budget-exhausted"),
        ("d", "budget-exhausted"),
    ]


async def test_a_retry_is_new_work() -> None:
    """L-47: caps are looked at before every attempt after the first of a round."""
    backend = ScriptedBackend([[usage(9, 9), fail("connection")], text("never")])
    loop = Loop(backends=[backend], budget=Budget(max_total_tokens=10), retry=RetryPolicy(backoff_cap=0))
    got = await play(loop)
    assert got.outcome.reason == "budget-exhausted"
    assert [d.reason for d in got.of(events.TurnDiscarded)] == ["failed"]
    assert len(backend.requests) == 1


async def test_an_unpriced_backend_never_trips_a_cost_cap() -> None:
    """L-111: what nobody reported counts as nothing."""
    got = await play(
        Loop(backends=[ScriptedBackend([call("look"), text("ok")])], tools=[look], budget=Budget(max_cost=0.01))
    )
    assert got.outcome.ok
    assert got.outcome.spent.cost is None


@pytest.mark.parametrize(
    ("first", "second", "total", "complete"),
    [
        ([], [], 0, False),
        ([usage(10, 5)], [], 15, False),
        ([usage(total=15)], [usage(total=1)], 16, True),
        ([usage(0, 0)], [usage(0, 0)], 0, True),
    ],
)
async def test_unknown_is_not_zero(first: list[Any], second: list[Any], total: int, complete: bool) -> None:
    """L-110, L-114, L-115 (case 133): over two rounds."""
    backend = ScriptedBackend([[call("look"), *first], [text("ok"), *second]])
    got = await play(Loop(backends=[backend], tools=[look], budget=Budget()))
    assert (got.outcome.spent.total_tokens, got.outcome.spent.complete) == (total, complete)
    plain = got.outcome.to_dict()["spent"]
    assert ("prompt_tokens" in plain) == any(u in ([usage(10, 5)], [usage(0, 0)]) for u in (first,))


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
async def test_spent_is_there_on_every_outcome_with_a_budget_and_on_none_without(how: str) -> None:
    """L-110: even an empty budget counts."""
    runs: list[Any] = []

    @tool
    async def stop() -> str:
        if how == "cancelled":
            runs[0].cancel()
        return "x"

    last = fail("misuse") if how == "failed" else text("ok")
    for budget in (Budget(), None):
        runs.clear()
        backend = ScriptedBackend([[call("stop"), usage(2, 1, cost=Decimal("0.5"))], last])
        async with Loop(backends=[backend], tools=[stop], budget=budget) as loop:
            runs.append(loop.run("hi"))
            outcome = await runs[0].result
        assert outcome.outcome == how
        assert (outcome.spent is not None) == (budget is not None)
        if outcome.spent is not None:
            assert outcome.spent.total_tokens == 3
            assert outcome.spent.cost == Decimal("0.5")


async def test_what_a_cancelled_attempt_had_reported_counts() -> None:
    """L-114: ok, failed or cancelled."""
    from handrail.testing import collect, gate

    from .kit import checked

    held = gate()
    backend = ScriptedBackend([[usage(7, 0), text("x"), held]])
    async with Loop(backends=[backend], budget=Budget()) as loop:
        run = loop.run("hi")
        await held.reached
        run.cancel()
        got = checked(await collect(run))
    assert (got.outcome.spent.total_tokens, got.outcome.spent.complete) == (7, True)


async def test_wall_clock_includes_waits() -> None:
    """L-116: from RunStarted, to the millisecond."""
    clock = FakeClock()

    def waits() -> str:
        clock.advance(1.23456)
        return "x"

    got = await play(
        Loop(backends=[ScriptedBackend([call("waits"), text("ok")])], tools=[Tool(waits)], budget=Budget(), clock=clock)
    )
    assert got.outcome.spent.wall_clock == 1.235
