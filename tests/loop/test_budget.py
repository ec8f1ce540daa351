"""Caps, sums and sizes, as values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from ag_ui.core import AssistantMessage, ImagePart, TextPart, UrlSource, UserMessage
from hypothesis import given
from hypothesis import strategies as st

from handrail import Budget, Usage, Window, assistant, user
from handrail.loop import BackendRequest
from handrail.loop._budget import Estimate, Ledger, is_clip, is_near_window, misfit
from handrail.messages import tool_call
from handrail.tools import Tool


def ledger(*reports: Usage | None) -> Ledger:
    book = Ledger()
    for report in reports:
        book.add(report)
    return book


@pytest.mark.parametrize(
    ("reports", "total", "complete", "halves"),
    [
        ([], 0, True, (None, None)),
        ([None], 0, False, (None, None)),
        ([Usage(10, 5), None], 15, False, (10, 5)),
        ([Usage(total_tokens=15)], 15, True, (None, None)),
        ([Usage(0, 0)], 0, True, (0, 0)),
        ([Usage(10, 5, 17)], 17, True, (10, 5)),
        ([Usage(prompt_tokens=10)], 0, False, (10, None)),
        ([Usage(10, 5), Usage(total_tokens=3)], 18, True, (10, 5)),
        ([Usage(10, 5), Usage(-1, -1, -1)], 15, False, (10, 5)),
        ([Usage(10, -1)], 0, False, (10, None)),
    ],
)
def test_unknown_is_not_zero(
    reports: list[Usage | None], total: int, complete: bool, halves: tuple[int | None, int | None]
) -> None:
    """L-114, L-115: sums are None until somebody reports; `complete` says whether everybody did."""
    spent = ledger(*reports).spent(1.23456)
    assert (spent.total_tokens, spent.complete) == (total, complete)
    assert (spent.prompt_tokens, spent.completion_tokens) == halves
    assert spent.wall_clock == 1.235


def test_cached_is_part_of_prompt_and_cost_is_exact() -> None:
    """L-114, L-116: cached tokens are never added; floats go through their text."""
    spent = ledger(Usage(10, 5, cached_prompt_tokens=8, cost=0.1), Usage(1, 1, cost=0.2)).spent(0)
    assert spent.total_tokens == 17
    assert spent.cached_prompt_tokens == 8
    assert spent.cost == Decimal("0.3")


@pytest.mark.parametrize("cost", [-1, -0.5, Decimal("-0.5")])
def test_a_number_below_zero_is_no_report(cost: Any) -> None:
    """L-114, L-115: some servers write -1 for what they do not know; it takes nothing off the sums."""
    assert Usage(-1, -1, -1, -1, cost) == Usage()
    assert ledger(Usage(1, 1, cost=2), Usage(1, 1, cost=cost)).spent(0).cost == 2


usages = st.none() | st.builds(
    Usage,
    *[st.none() | st.integers(0, 10_000)] * 4,
    st.none() | st.decimals(0, 10, places=4),
)


@given(reports=st.lists(usages, max_size=12))
def test_the_order_of_reports_does_not_matter(reports: list[Usage | None]) -> None:
    """L-114, L-115: a ledger is a sum."""
    assert ledger(*reports).spent(0) == ledger(*reversed(reports)).spent(0)
    assert ledger(*reports).complete == all(
        r is not None and (r.total_tokens is not None or None not in (r.prompt_tokens, r.completion_tokens))
        for r in reports
    )


@pytest.mark.parametrize(
    ("caps", "used", "seconds", "tripped"),
    [
        ({}, Usage(9, 9), 99.0, None),
        ({"max_total_tokens": 15}, Usage(10, 4), 0.0, None),
        ({"max_total_tokens": 15}, Usage(10, 5), 0.0, "max_total_tokens"),
        ({"max_cost": 1}, Usage(10, 5), 0.0, None),
        ({"max_cost": 0}, Usage(), 0.0, "max_cost"),
        ({"max_cost": 0.3}, Usage(cost=0.3), 0.0, "max_cost"),
        ({"max_wall_clock": 2.0}, Usage(), 2.0, "max_wall_clock"),
        ({"max_cost": 1, "max_total_tokens": 1, "max_wall_clock": 1}, Usage(1, 1, cost=1), 1.0, "max_cost"),
        ({"max_cost": 2, "max_total_tokens": 1, "max_wall_clock": 1}, Usage(1, 1, cost=1), 1.0, "max_total_tokens"),
    ],
)
def test_a_cap_trips_when_it_is_reached(caps: dict[str, Any], used: Usage, seconds: float, tripped: str | None) -> None:
    """L-111: cost, then tokens, then time; what nobody reported counts as nothing."""
    told = ledger(used).tripped(Budget(**caps), seconds)
    assert told is None if tripped is None else told is not None and tripped in told


def test_the_words_of_a_cap_name_what_was_spent() -> None:
    """L-113: cap, spent and maximum."""
    told = ledger(Usage(10, 7)).tripped(Budget(max_total_tokens=15), 0)
    assert told is not None
    assert all(part in told for part in ("max_total_tokens", "17", "15"))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Budget(max_cost=-1),
        lambda: Budget(max_total_tokens=-1),
        lambda: Budget(max_wall_clock=-0.1),
        lambda: Window(context=0),
        lambda: Window(context=10, reserve=10),
        lambda: Window(context=10, reserve=-1),
        lambda: Window(context=10, margin=-1),
    ],
)
def test_what_cannot_work_is_refused(wrong: Any) -> None:
    """L-2: at once, with a sentence."""
    with pytest.raises(ValueError, match="is"):
        wrong()


def request(*messages: Any, tools: Any = ()) -> BackendRequest:
    return BackendRequest(messages=messages, tools=tools)


def test_the_rule_of_thumb() -> None:
    """L-72: 8 and a token for every 4 characters, a message and a tool; the JSON of calls included."""
    assert Estimate(None).of(request(user("")), 0) == 8
    assert Estimate(None).of(request(user("12345")), 0) == 10
    call = tool_call("f", '{"a": 1}', id="c")
    text = len(call.model_dump_json(by_alias=True))
    assert Estimate(None).of(request(assistant("", tool_calls=[call])), 0) == 8 + -(-text // 4)

    def look(q: str) -> str:
        """Look."""
        return q

    assert Estimate(None).of(request(user(""), tools=[Tool(look)]), 0) > 16


def test_a_measured_request_needs_an_estimate_of_the_additions_only() -> None:
    """L-72: prompt tokens that this backend reported, and the additions; not for another backend, nor other tools."""
    estimate = Estimate(None)
    first, second = user("x" * 400), user("y" * 40)
    estimate.learn(request(first), 0, Usage(prompt_tokens=50, completion_tokens=1))
    assert estimate.of(request(first, second), 0) == 50 + 18
    assert estimate.of(request(first, second), 1) == 108 + 18
    assert estimate.of(request(first, second, tools=[Tool(lambda: 0, name="t")]), 0) > 100
    estimate.learn(request(first, second), 0, None)
    assert estimate.of(request(first, second), 0) == 108 + 18


def test_a_counter_of_ones_own() -> None:
    """L-72: `Budget(count=f)` is asked instead."""
    assert Estimate(lambda request: len(request.messages)).of(request(user("x" * 99)), 0) == 1


@pytest.mark.parametrize(("estimate", "fits"), [(476, True), (477, False)])
def test_a_request_fits_or_every_term_is_named(estimate: int, fits: bool) -> None:
    """L-70, L-71: estimate + margin + reserve against the window."""
    why = misfit(Window(context=2_012), estimate, None)
    assert (why is None) == fits
    assert why is None or all(term in why for term in ("477", "512", "1024", "2012"))
    assert misfit(Window(context=2_012, reserve=0), 1_500, None) is None
    assert misfit(Window(context=2_012), 1_400, 100) is None


@pytest.mark.parametrize(
    ("usage", "cap", "clip"),
    [
        (Usage(1, 50), 50, True),
        (Usage(1, 51), 50, True),
        (Usage(1, 49), 50, False),
        (Usage(1, 50), None, False),
        (Usage(total_tokens=99), 50, False),
        (None, 50, False),
    ],
)
def test_a_clip(usage: Usage | None, cap: int | None, clip: bool) -> None:
    """L-60: billed tokens at the cap are a cut, whatever the finish reason says."""
    assert is_clip(usage, cap) == clip


@pytest.mark.parametrize(
    ("usage", "estimate", "near"),
    [
        (Usage(900, 100), 0, True),
        (Usage(900, 99), 0, False),
        (Usage(951, 1), 0, True),
        (Usage(950, 1), 0, False),
        (None, 760, False),
        (None, 761, True),
    ],
)
def test_near_the_window(usage: Usage | None, estimate: int, near: bool) -> None:
    """L-62: by the usage if there is one, else by the estimate with a quarter on top."""
    assert is_near_window(Window(context=1_000, reserve=50), usage, lambda: estimate, None) == near


def test_text_in_parts_counts_as_text() -> None:
    """L-72: a message says as much in parts as it does whole; a picture says nothing."""
    picture = ImagePart(type="image", source=UrlSource(type="url", value="https://example.org/" + "x" * 4_000))
    parts = [TextPart(type="text", text="x" * 200), picture, TextPart(type="text", text="y" * 200)]
    inparts = UserMessage(id="u1", content=parts)
    assert Estimate(None).of(request(inparts), 0) == Estimate(None).of(request(user("z" * 400)), 0)


def test_a_request_is_estimated_to_the_token() -> None:
    """L-72: 8 and a token for every 4 characters, of a tool its name, its description and its schema together."""

    def look(q: str) -> str:
        """Looks for it wherever it may be found."""
        return q

    tool = Tool(look)
    texts = len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters))
    assert Estimate(None).of(request(user(""), tools=[tool, tool]), 0) == 8 + 2 * (8 + -(-texts // 4))
    assert Estimate(None).of(request(AssistantMessage(id="a1")), 0) == 8
    secret = tool_call("f", "{}", id="c").model_copy(update={"encrypted_value": "x" * 10})
    shown = len(secret.model_dump_json(by_alias=True))
    assert Estimate(None).of(request(AssistantMessage(id="a1", tool_calls=[secret])), 0) == 8 + -(-shown // 4)


def test_an_estimate_follows_a_conversation_that_grows() -> None:
    """L-72: whatever was asked before, the sum is that of the messages at hand; what was measured counts."""
    estimate = Estimate(None)
    said = [user("x" * 4 * number) for number in range(1, 6)]
    for length in (1, 2, 4, 5):
        assert estimate.of(request(*said[:length]), 0) == sum(8 + number for number in range(1, length + 1))
    tools = [Tool(lambda: 0, name="t")]
    estimate.learn(request(*said[:4], tools=tools), 0, Usage(prompt_tokens=500))
    assert estimate.of(request(*said, tools=tools), 0) == 500 + 13
    assert estimate.of(request(*said), 0) == sum(8 + number for number in range(1, 6))
    estimate.learn(request(*said, tools=tools), 0, Usage(completion_tokens=5))
    assert estimate.of(request(*said, tools=tools), 0) > 55


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Window(context=0), ValueError, "context"),
        (lambda: Window(context=10, reserve=-1), ValueError, "reserve"),
        (lambda: Window(context=10, reserve=10), ValueError, "reserve is 10: it is 0 to context - 1 \\(9\\)"),
        (lambda: Window(context=10, margin=-1), ValueError, "margin"),
        (lambda: Budget(max_cost=-1), ValueError, "max_cost"),
        (lambda: Budget(max_total_tokens=-1), ValueError, "max_total_tokens"),
        (lambda: Budget(max_wall_clock=-1), ValueError, "max_wall_clock"),
        (lambda: Budget(count=5), TypeError, "count is"),
        (lambda: Budget(windows=[Window(context=5)]), TypeError, "windows is a dict of Window by model"),
        (lambda: Budget(windows={"m": 5}), TypeError, "the window of 'm' is a Window"),
    ],
)
def test_a_refusal_names_the_setting(make: Any, error: type[Exception], words: str) -> None:
    """L-2"""
    with pytest.raises(error, match=rf"\b{words}"):
        make()


def test_the_smallest_settings_are_taken() -> None:
    """L-2, L-70: a window of one token, caps of nothing; the windows are the budget's own."""
    assert Window(context=1, reserve=0, margin=0).kept_for_answer(5) == 0
    assert (Window(context=1).kept_for_answer(5), Window(context=1).kept_for_answer(None)) == (5, 1_024)
    assert Budget(max_cost=0, max_total_tokens=0, max_wall_clock=0).max_cost == Decimal(0)
    windows = {"m": Window(context=1)}
    budget = Budget(windows=windows)
    windows.clear()
    assert dict(budget.windows) == {"m": Window(context=1)}


def test_time_is_counted_to_the_millisecond() -> None:
    """L-111, L-116: as it is told, so it trips."""
    assert ledger().tripped(Budget(max_wall_clock=2), 1.9996) is not None
    assert ledger().tripped(Budget(max_wall_clock=2), 1.9994) is None
    assert (ledger().spent(1.9996).wall_clock, ledger().spent(1.9994).wall_clock) == (2.0, 1.999)


def test_nothing_said_of_the_answer_is_no_token() -> None:
    """L-62: an unknown completion adds nothing, an unknown prompt leaves the estimate."""
    window = Window(context=1_000, reserve=0)
    assert not is_near_window(window, Usage(prompt_tokens=999), lambda: 0, None)
    assert is_near_window(window, Usage(999, 1), lambda: 0, None)
    assert is_near_window(window, Usage(total_tokens=99), lambda: 801, None)
    assert not is_near_window(window, Usage(total_tokens=99), lambda: 800, None)
