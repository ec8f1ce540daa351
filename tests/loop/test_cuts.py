"""Answers that were cut, and conversations that are too long for a backend."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import Budget, Loop, RetryPolicy, Window, events, user
from handrail.testing import ScriptedBackend, call, fail, finish, text, usage

from .kit import NOW, backends, play, results, roles

# -- cuts ------------------------------------------------------------------------------------------------------------


async def test_nothing_of_a_cut_answer_is_executed() -> None:
    """L-61, L-63 (case 127): also when the arguments are complete JSON; the text so far is in the attempt."""
    ran = []
    step = [text("I write"), call("write", {"path": "x"}), finish("length")]
    first, second = backends([step], [text("never")])
    got = await play(Loop(backends=[first, second], tools=[lambda_tool(ran)]))
    assert ran == []
    assert (got.outcome.outcome, got.outcome.reason) == ("failed", "completion-truncated")
    assert got.outcome.attempts[-1].text == "I write"
    assert got.of(events.AttemptSucceeded) == []
    assert got.kinds()[-3:] == ["attempt-failed", "turn-discarded", "run-failed"]
    assert got.of(events.AttemptFailed)[0].disposition == "abort"
    assert second.requests == []
    assert "max_tokens" in str(got.outcome.error)
    assert "Window" in str(got.outcome.error)
    assert roles(got) == ["user"]


def lambda_tool(ran: list[str]) -> Any:
    def write(path: str) -> str:
        ran.append(path)
        return "ok"

    return write


@pytest.mark.parametrize(("billed", "cuts"), [(50, True), (49, False)])
async def test_a_clip_is_a_cut(billed: int, cuts: bool) -> None:
    """L-60: cap 50 and 50 tokens: cut, with a warning that names reason, tokens and cap; 49: committed."""
    backend = ScriptedBackend([[text("x"), usage(10, billed)]], max_tokens=50)
    got = await play(Loop(backends=[backend]))
    assert got.outcome.reason == ("completion-truncated" if cuts else None)
    warnings = [str(log.data) for log in got.of(events.Log)]
    assert len(warnings) == cuts
    assert all(part in warnings[0] for part in ("stop", "50")) if cuts else True


async def test_a_cut_near_the_window_is_a_size_refusal() -> None:
    """L-62: advance, never degraded; alone it exhausts the context."""
    step = [text("x"), usage(900, 100), finish("length")]
    budget = Budget(windows={"m0": Window(context=1_000, reserve=10, margin=0)})
    first, second = backends([step], [text("ok")])
    got = await play(Loop(backends=[first, second], budget=budget))
    assert got.outcome.final == "ok"
    assert (got.outcome.attempts[0].error_class, got.outcome.attempts[0].disposition) == ("length", "advance")
    got = await play(Loop(backends=backends([step]), budget=budget))
    assert got.outcome.reason == "context-exhausted"


# -- sizes -----------------------------------------------------------------------------------------------------------


async def test_a_backend_that_is_too_small_is_skipped() -> None:
    """L-18, L-71, L-46: no attempt is opened; an info line and a record that name every term."""
    budget = Budget(windows={"m0": Window(context=600, reserve=50)})
    first, second = backends([text("never")], [text("ok")])
    got = await play(Loop(backends=[first, second], budget=budget), "x" * 400)
    assert results(got) == [(0, None, "skipped", None), (1, 1, "ok", None)]
    assert [log.level for log in got.of(events.Log)] == ["info"]
    assert all(part in str(got.outcome.attempts[0].error) for part in ("108", "512", "50", "600"))
    assert first.requests == []
    assert got.outcome.spent.complete is False  # the one attempt reported nothing; a skip is none


async def test_a_model_without_a_window_is_never_skipped() -> None:
    """L-70: unknown is not small."""
    got = await play(Loop(backends=backends([text("ok")]), budget=Budget()), "x" * 100_000)
    assert got.outcome.ok


@pytest.mark.parametrize("second_fails", ["overflow", "skip"])
async def test_all_refusing_on_size_exhausts_the_context(second_fails: str) -> None:
    """L-73: skip, overflow, near-window cut; no TurnDiscarded then."""
    windows = {"m0": Window(context=100)} | ({"m1": Window(context=100)} if second_fails == "skip" else {})
    first, second = backends([text("never")], [fail("http", 413)])
    got = await play(Loop(backends=[first, second], budget=Budget(windows=windows), retry=NOW))
    assert got.outcome.reason == "context-exhausted"
    assert got.of(events.TurnDiscarded) == []
    assert "m0" in str(got.outcome.error)


async def test_a_mixed_chain_is_an_ordinary_failure() -> None:
    """L-73: one backend refused on size, the other broke."""
    first, second = backends([fail("http", 413)], [fail("response")])
    got = await play(Loop(backends=[first, second], retry=RetryPolicy(max_attempts=1)))
    assert got.outcome.reason is None
    assert str(got.outcome.error).startswith("every backend failed: ")
    assert [d.reason for d in got.of(events.TurnDiscarded)] == ["failed"]


async def test_activities_are_not_sent() -> None:
    """L-142: they stay in the messages."""
    from ag_ui.core import ActivityMessage

    backend = ScriptedBackend([text("ok")])
    got = await play(Loop(backends=[backend]), [ActivityMessage(id="p", activity_type="plot", content={}), user("u")])
    assert [m.role for m in backend.requests[0].messages] == ["user"]
    assert roles(got) == ["activity", "user", "assistant"]
