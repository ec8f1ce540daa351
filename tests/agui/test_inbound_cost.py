"""The way in as a whole: any cut of a body gives the same, at the same cost."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.effort import effort
from tests.agui.incoming import ASKED, errored, finished, started, text
from tests.agui.wires import bytewise, pieces, read, sse

from handrail.agui._inbound import Inbound

RANDOM_STREAMS = st.lists(
    st.sampled_from([started(), started("r2"), finished(), errored(), *text("m", "é😀", ""), *text("n", "x"),
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "c", "delta": "x"}, {"type": "TEXT_MESSAGE_CHUNK", "delta": "y"},
        {"type": "FUTURE"}, {"type": "CUSTOM", "name": "x", "value": None}, {"type": "STEP_STARTED", "stepName": "s"},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/x", "value": 1}]}]),
    max_size=12,
)  # fmt: skip


@effort(150)
@given(RANDOM_STREAMS, st.integers(0, 1000), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_any_cut_of_any_body_gives_the_same(payloads: list[Any], seed: int, end: bytes) -> None:
    """P-13: events, warnings, verdict, messages and state; and of any end of line."""
    body = sse(payloads)
    first = read([body], **ASKED).told()
    ended = body.replace(b"\n", end)
    for reads in (bytewise(ended), pieces(ended, seed), [ended]):
        assert read(reads, **ASKED).told() == first


def calls_per_event(body: bytes, events: int) -> list[int]:
    """The Python calls that each event of a body takes, from bytes to the folded messages."""
    inbound = Inbound(warn=lambda record: None, new_id=str, **ASKED)
    counts: list[int] = []
    count = 0

    def profile(frame: Any, kind: str, argument: Any) -> None:
        nonlocal count
        count += kind == "call"

    stream = inbound.feed(body)
    gc.disable()  # a collection calls back into whoever asked for it
    sys.setprofile(profile)
    try:
        for _ in stream:
            counts.append(count)
            count = 0
    finally:
        sys.setprofile(None)
        gc.enable()
    assert len(counts) == events
    return counts


def test_a_text_event_takes_few_calls_and_always_as_many() -> None:
    """F-2, F-3, F-5: at most 20 Python calls from bytes to folded and verified; the last tenth costs as the first."""
    size = 2000
    counts = calls_per_event(sse([started(), *text("m", *["token "] * size), finished()]), size + 4)
    content = counts[2 : size + 2]
    assert max(content) <= 8  # what it has come down to
    assert sum(content[: size // 10]) == sum(content[-size // 10 :])


@pytest.mark.parametrize(
    ("item", "most"),
    [
        (lambda n: text(f"m{n}", "a"), 11),
        (
            lambda n: [
                {"type": "TOOL_CALL_START", "toolCallId": f"c{n}", "toolCallName": "f"},
                {"type": "TOOL_CALL_ARGS", "toolCallId": f"c{n}", "delta": "{}"},
                {"type": "TOOL_CALL_END", "toolCallId": f"c{n}"},
                {"type": "TOOL_CALL_RESULT", "messageId": f"t{n}", "toolCallId": f"c{n}", "content": "ok"},
            ],
            15,
        ),
        (lambda n: [{"type": "STATE_DELTA", "delta": [{"op": "add", "path": f"/k{n}", "value": n}]}], 17),
        (lambda n: [{"type": "TEXT_MESSAGE_CHUNK", "messageId": f"m{n}", "delta": "a"}], 21),
    ],
    ids=["messages", "calls", "keys of the state", "chunks"],
)
def test_the_cost_of_an_event_does_not_grow(item: Any, most: int) -> None:
    """F-3, F-5, P-60: with the messages, the calls or the state that are there already; at most so many calls each."""
    items = [item(number) for number in range(500)]
    payloads = [started(), *(payload for group in items for payload in group), finished()]
    expanded = len(read([sse(payloads)], **ASKED).events)
    counts = calls_per_event(sse(payloads), expanded)[1:-1]
    tenth = len(counts) // 10
    assert sum(counts) <= most * len(counts)
    assert abs(sum(counts[1 : tenth + 1]) - sum(counts[-tenth - 1 : -1])) <= tenth // 10
