"""Real runs on their way out: a client gets back what the loop has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from ag_ui.core import Event, Message, RunAgentInput
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.conformance import NAMES, fixture
from tests.agui.effort import effort
from tests.agui.outgoing import (
    DONE,
    INPUT,
    USER,
    Wire,
    attempt,
    committed,
    failed,
    result,
    started,
    succeeded,
    thought,
    token,
    tool_call,
)
from tests.agui.schema import PATH, is_valid
from tests.agui.wires import read, sse, whole

from handrail import Limits, Loop, RetryPolicy, Tool, events
from handrail.agui._encode import encode, encode_next
from handrail.agui._gate import Gate, _holds_texts_only
from handrail.agui._warnings import WarningRecord
from handrail.errors import LocalProtocolError
from handrail.run import Outcome
from handrail.testing import ScriptedBackend, call, fail, reasoning, text, usage


def double(n: int) -> int:
    """Doubles."""
    return 2 * n


def explode() -> None:
    """Fails."""
    raise ValueError("boom")


def played(
    script: Sequence[Any], *, given: RunAgentInput = INPUT, steer: str | None = None, **options: Any
) -> tuple[Wire, Outcome]:
    """A run of a real loop, sent out as it went."""
    loop = Loop([ScriptedBackend(script)], **options, retry=RetryPolicy(backoff_cap=0, jitter=0))
    run = loop.run(given.messages)
    if steer is not None:
        run.steer(steer)
    wire = Wire(given)
    for event in run.events:
        wire.feed(event)
    outcome = run.result.wait(20)
    return wire.finish(outcome), outcome


def assert_valid(sent: Sequence[Event]) -> None:
    """Every event is valid by the protocol's own schema, where that is beside this checkout."""
    for event in sent:
        document = event.model_dump(by_alias=True, mode="json")
        assert not PATH.is_file() or is_valid(document), document


def essence(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    """Ids, content and order, the results of one answer in any order."""
    found: list[tuple[Any, ...]] = []
    for message in messages:
        values = message.model_dump()
        calls = [
            (made["id"], made["function"]["name"], made["function"]["arguments"])
            for made in values.get("tool_calls") or ()
        ]
        found.append((message.role, message.id, values.get("content") or None, calls, values.get("tool_call_id")))
    return sorted_results(found)


def sorted_results(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    ordered: list[tuple[Any, ...]] = []
    block: list[tuple[Any, ...]] = []
    for one in [*found, ("end",)]:
        if one[0] == "tool":
            block.append(one)
            continue
        ordered += sorted(block)
        block = []
        ordered.append(one)
    return ordered


SCRIPTS: dict[str, list[Any]] = {
    "text": [[text("Hel"), text("lo")]],
    "reasoning": [[reasoning("be"), reasoning("cause"), text("4."), usage(1, 2)]],
    "nothing": [[]],
    "tools": [[text("Let me see."), call("double", {"n": 2}), call("double", {"n": 3})], [text("4 and 6.")]],
    "tools without text": [[reasoning("hm"), call("double", {"n": 2})], [call("explode")], [text("It broke.")]],
    "bad calls": [[call("unknown"), call("double", {"n": "x"})], [text("Sorry.")]],
    "retry in mid-text": [[text("The ans"), fail("http", 503)], [text("4.")]],
    "retry after tools": [[call("double", {"n": 2})], [text("So 4"), fail("http", 503)], [text("4.")]],
    "parallel": [[call("slow", {"n": 1}), call("slow", {"n": 2})], [text("ok")]],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_client_gets_what_the_loop_has(name: str) -> None:
    """P-86: folding the stream of a completed run gives the outcome's messages: ids, content, order."""
    tools: list[Any] = [double, explode, Tool(double, name="slow", parallel=True)]
    wire, outcome = played(SCRIPTS[name], tools=tools)
    assert_valid(wire.events)
    assert outcome.outcome == "completed"
    fold = wire.folded()
    assert essence(fold.messages) == essence(outcome.messages)
    assert fold.final == outcome.final
    assert wire.told == []
    ids = [message.id for message in fold.messages]
    assert len(ids) == len(set(ids))


def test_a_client_gets_steers_and_questions() -> None:
    """P-86, P-87: a steer, a question, and its answer in the next run."""
    wire, outcome = played([[text("One.")], [text("Two.")]], steer="and?")
    assert essence(wire.folded().messages) == essence(outcome.messages)
    gated = Tool(double, needs_approval=True)
    wire, outcome = played([[text("May I?"), call("double", {"n": 2})]], tools=[gated])
    assert [interrupt.id for interrupt in outcome.interrupts]
    assert wire.said[-1][3]["type"] == "interrupt"
    assert essence(wire.folded().messages) == essence(outcome.messages)


def test_a_limit() -> None:
    """P-86, P-87: all but the limit notice, which stays with the loop."""
    script = [[call("double", {"n": 2})], [call("double", {"n": 2})], [text("Enough.")]]
    wire, outcome = played(script, tools=[double], limits=Limits(max_rounds=1))
    kept = [message for message in outcome.messages if message.role != "system"]
    assert essence(wire.folded().messages) == essence(kept)
    assert "handrail.limit-reached" in [said[1] for said in wire.said if said[0] == "CUSTOM"]


@effort(25)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([reasoning("r"), text("a"), text("😀"), fail("http", 503)]), max_size=4),
            st.booleans(),
        ),
        max_size=3,
    )
)
def test_scripts_at_random(rounds: list[tuple[list[Any], bool]]) -> None:
    """P-85, P-86, P-88: whatever the model does, the stream is legal, ends once, and folds to the outcome."""
    script = [[*moves, *([call("double", {"n": 1})] if calls else [])] for moves, calls in rounds]
    wire, outcome = played([*script, [text("end")], [text("end")], [text("end")]], tools=[double])
    fold = wire.folded()
    assert [said[0] for said in wire.said].count("RUN_FINISHED") + [said[0] for said in wire.said].count(
        "RUN_ERROR"
    ) == 1
    if outcome.outcome == "completed":
        sent = [one for one in essence(fold.messages) if one[0] != "reasoning"]
        assert sent == [one for one in essence(outcome.messages) if one[0] != "reasoning"]


MOVES: list[events.RunEvent] = [
    started,
    attempt("a1"),
    attempt("a2"),
    *[token(said) for said in ("", "a", "\u2028\ud83d", "\ude00")],
    *[thought(said) for said in ("", "b", "\ud83d")],
    failed,
    succeeded,
    committed("a1", "aa"),
    committed("a2", "b", thoughts="bb"),
    events.TurnDiscarded(reason="failed", round=1),
    tool_call(),
    result(),
    events.ToolProgress(id="c1", progress=0.5),
    events.Log(level="info", data="x"),
    events.Steered(message=USER),
]


@effort(150)
@given(st.lists(st.sampled_from(MOVES), max_size=25), st.sampled_from(["live", "committed"]), st.booleans())
def test_the_short_way_gives_the_same_bytes(moves: list[events.RunEvent], stream: Any, fails: bool) -> None:
    """P-83, P-85: whatever a loop says, and in whatever order, deltas written after one another change no byte of it.

    Where the verifier refuses an event it is refused both ways.
    """

    def sent(is_short: bool) -> list[bytes]:
        wire, frames = Wire(stream=stream), list[bytes]()
        try:
            for event in [started, *moves]:
                if is_short and (delta := wire.out.next_delta(event)) is not None:
                    frames.append(encode_next(len(frames), *delta))
                else:
                    frames += [encode(len(frames) + more, one) for more, one in enumerate(wire.out.feed(event))]
        except LocalProtocolError:
            fails_now = True
        else:
            fails_now = fails
        last = wire.out.fail() if fails_now else wire.out.finish(DONE)
        assert all(wire.out.next_delta(event) is None for event in MOVES)
        return frames + [encode(len(frames) + more, one) for more, one in enumerate(last)]

    assert sent(is_short=True) == sent(is_short=False)


def test_most_tokens_go_the_short_way() -> None:
    """F-14: all but the first of a stretch, also where the loop says something of its own business in between."""
    wire = Wire().feed(started, attempt(), thought("x"))
    assert wire.out.next_delta(thought("y")) == (wire.events[-1], "y")
    assert wire.out.next_delta(token("x")) is None
    wire.feed(token("x"), events.Log(level="info", data="x"))
    assert wire.out.next_delta(token("y")) == (wire.events[-1], "y")
    assert wire.feed(committed("a1", "xy", thoughts="xy")).said[-1] == ("TEXT_MESSAGE_END", "a1")


@pytest.mark.parametrize("name", NAMES)
def test_what_holds_texts_only_is_in_shape(name: str) -> None:
    """P-85: of an event that its model has made of texts the table of shapes changes nothing and remarks on nothing."""
    for event in read(whole(sse(fixture(name)["stream"]))).events:
        again = type(event).model_validate(event.model_dump(by_alias=True))
        told: list[WarningRecord] = []
        gate = Gate("t", told.append)
        if _holds_texts_only(again):
            assert gate._in_shape(again) == again
            assert told == []
