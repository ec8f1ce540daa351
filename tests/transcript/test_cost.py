"""What an event costs must not depend on what came before it. Counted in Python calls, which no load can move."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from ag_ui.core import BaseEvent
from tests.agui.counting import calls
from tests.transcript.events import acd, acs, call, cr, error, rf, rs, said, sd, ss, tc, te, text, ts

from handrail.transcript import TranscriptReducer


def calls_of(act: Callable[[], Any]) -> int:
    """How many Python functions are called while `act` runs."""
    return calls(act, "call")


def thread_of(messages: int) -> TranscriptReducer:
    """A thread with so many messages before the run."""
    reducer = TranscriptReducer()
    for number in range(messages // 2):
        reducer.add_turn(said(f"u{number}", "hi"))
        for event in [rs(f"r{number}"), *text(f"m{number}", "hello"), rf(f"r{number}")]:
            reducer.accept(event)
    return reducer


@pytest.mark.parametrize("messages", [10, 2_000])
def test_a_delta_costs_the_same_in_any_thread(messages: int) -> None:
    """S-158, F-4, F-5: pinned; also with a transcript held for every event."""
    reducer = thread_of(messages)
    reducer.accept(rs("now"))
    reducer.accept(ts("m"))
    reducer.accept(tc("m", "first"))
    reducer.accept(tc("m", "second"))
    assert calls_of(partial(reducer.accept, tc("m", "x"))) <= 10


def test_a_delta_costs_the_same_in_any_text() -> None:
    """S-158, F-5: behind 10,000 deltas, each of whose transcripts is held; patches beside 10,000 keys."""
    reducer = TranscriptReducer()
    for event in [rs(), ts("m"), acs("x", {"n": 0}), ss({str(key): key for key in range(10_000)})]:
        reducer.accept(event)

    def costs() -> list[int]:
        patch: dict[str, Any] = {"op": "replace", "path": "/77", "value": 1}
        return [
            calls_of(lambda event=event: reducer.accept(event))
            for event in [
                tc("m", "x"),
                sd(patch),
                acd("x", {"op": "replace", "path": "/n", "value": 1}),
            ]
        ]

    costs()
    first = costs()
    held = [reducer.accept(tc("m", "y")) for _ in range(10_000)]
    assert all(now <= then for now, then in zip(costs(), first, strict=True))
    assert [transcript.messages[0].text.count("y") for transcript in (held[0], held[99], held[-1])] == [1, 100, 10_000]


@pytest.mark.parametrize(
    ("first", "then", "most"),
    [
        (text("a", "hi"), text("b", "hi"), [25, 12, 9]),
        ([*call("a"), cr("a")], [*call("b"), cr("b")], [27, 12, 16, 20]),
    ],
    ids=["message", "call"],
)
def test_a_part_is_written_in_once(first: list[Any], then: list[Any], most: list[int]) -> None:
    """F-4: pinned; a part that begins, grows and ends in a row costs its writing in when the next one begins."""
    reducer = TranscriptReducer()
    for event in [rs(), *text("m", "one"), *first]:
        reducer.accept(event)
    costs = [calls_of(partial(reducer.accept, event)) for event in then]
    assert all(cost <= limit for cost, limit in zip(costs, most, strict=True)), costs


def test_a_turn_with_a_thousand_calls() -> None:
    """S-158, F-5: the thousandth call costs what the hundredth does."""
    reducer = TranscriptReducer()
    reducer.accept(rs())
    costs: list[int] = []
    for number in range(1_000):
        events = call(f"c{number}", parent="a")
        costs.append(calls_of(lambda events=events: [reducer.accept(event) for event in events]))
    assert max(costs[900:]) - min(costs[90:190]) <= 6


@pytest.mark.parametrize("end", [rf("now"), error("no")])
def test_a_run_costs_what_is_open(end: BaseEvent) -> None:
    """S-158, S-117: its start and its end visit open parts only, not the thread."""
    costs: list[list[int]] = []
    for messages in (10, 2_000):
        reducer = thread_of(messages)
        events = [rs("now"), ts("m"), tc("m", "x"), te("m"), end]
        costs.append([calls_of(partial(reducer.accept, event)) for event in events])
    assert all(abs(small - large) <= 4 for small, large in zip(*costs, strict=True))
