"""The order of a stream: every cell of the tables, and what breaks a legal stream."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import (
    CustomEvent,
    Event,
    Interrupt,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.effort import effort
from tests.agui.streams import BRACKETS, THREAD, is_legal, legal_streams, make, run_finished, run_started
from tests.agui.verifying import refused, verified

from handrail.agui._verify import Verifier
from handrail.agui._warnings import WarningRecord
from handrail.errors import LocalProtocolError

# -- runs ------------------------------------------------------------------------------------------------------------


PHASES: dict[str, list[Event]] = {
    "fresh": [],
    "running": [run_started()],
    "finished": [run_started(), run_finished()],
    "errored": [run_started(), RunErrorEvent(message="boom")],
}
NEXT: dict[str, Event] = {
    "RUN_STARTED": run_started("r2"),
    "RUN_FINISHED": run_finished(),
    "RUN_ERROR": RunErrorEvent(message="boom"),
    "other": CustomEvent(name="x", value=1),
    "text": TextMessageStartEvent(message_id="m1"),
    "result": ToolCallResultEvent(message_id="t1", tool_call_id="c1", content=""),
}
RUN_CELLS: dict[tuple[str, str], str] = {
    ("fresh", "RUN_STARTED"): "running",
    ("fresh", "RUN_FINISHED"): "First event must be 'RUN_STARTED'",
    ("fresh", "RUN_ERROR"): "errored",
    ("fresh", "other"): "First event must be 'RUN_STARTED'",
    ("running", "RUN_STARTED"): "Cannot send 'RUN_STARTED' while a run is still active",
    ("running", "RUN_FINISHED"): "finished",
    ("running", "RUN_ERROR"): "errored",
    ("running", "other"): "running",
    ("finished", "RUN_STARTED"): "running",
    ("finished", "RUN_FINISHED"): "The run has already finished with 'RUN_FINISHED'",
    ("finished", "RUN_ERROR"): "errored",
    ("finished", "other"): "The run has already finished with 'RUN_FINISHED'",
    ("errored", "RUN_STARTED"): "running",
    ("errored", "RUN_FINISHED"): "The run has already errored with 'RUN_ERROR'",
    ("errored", "RUN_ERROR"): "The run has already errored with 'RUN_ERROR'",
    ("errored", "other"): "The run has already errored with 'RUN_ERROR'",
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("event", NEXT)
def test_runs(phase: str, event: str) -> None:
    """P-36: every cell of the table of runs, with every sort of other event."""
    verifier = verified(*PHASES[phase])
    expected = RUN_CELLS[phase, event if event.startswith("RUN_") else "other"]
    assert verifier.phase == phase
    if expected in PHASES:
        verifier.accept(NEXT[event])
        assert verifier.phase == expected
    else:
        refusal = refused(verifier, NEXT[event])
        assert expected in str(refusal)
        assert refusal.rule == "P-36"


def test_an_error_abandons_what_is_open() -> None:
    """P-36: RUN_ERROR needs no ENDs, and leaves nothing open."""
    verifier = verified(run_started(), *(make(row[0], kind, "x") for kind, row in BRACKETS.items()))
    assert len(verifier.open_items()) == len(BRACKETS)
    verifier.accept(RunErrorEvent(message="boom"))
    assert verifier.open_items() == ()


def test_a_refusal_changes_nothing() -> None:
    """P-35: refused is not remembered; the sender may say something else."""
    verifier = verified(run_started(), TextMessageStartEvent(message_id="m1"))
    refused(verifier, run_finished())
    refused(verifier, TextMessageStartEvent(message_id="m1"))
    verifier.accept(RunErrorEvent(message="boom"))
    assert verifier.phase == "errored"


@pytest.mark.parametrize("outcome", [None, "success", "interrupt", "cancelled"])
@pytest.mark.parametrize("kind", BRACKETS)
def test_nothing_may_be_open_at_the_end(kind: str, outcome: str | None) -> None:
    """P-37: with any outcome RUN_FINISHED needs everything closed, and names what is not."""
    outcomes = {
        None: None,
        "success": RunFinishedSuccessOutcome(),
        "interrupt": RunFinishedInterruptOutcome(interrupts=[Interrupt(id="i1", reason="x")]),
        "cancelled": RunFinishedCancelledOutcome(),
    }
    verifier = verified(run_started(), make(BRACKETS[kind][0], kind, "x-open"))
    refusal = refused(verifier, run_finished(outcome=outcomes[outcome]))
    assert "'x-open'" in str(refusal)
    assert refusal.rule == "P-37"
    verifier.accept(make(BRACKETS[kind][2][0], kind, "x-open"))
    verifier.accept(run_finished(outcome=outcomes[outcome]))


def test_order_of_the_complaints() -> None:
    """P-37: steps, texts, reasoning messages, reasoning spans, calls, subagents; with all ids of the first."""
    words = {
        "step": "steps",
        "text": "text messages",
        "reasoning": "reasoning messages",
        "span": "reasoning spans",
        "call": "tool calls",
        "subagent": "subagents",
    }
    verifier = verified(run_started(), *(make(row[0], kind, f"{kind}-1") for kind, row in BRACKETS.items()))
    for kind, noun in words.items():
        verifier.accept(make(BRACKETS[kind][0], kind, f"{kind}-2"))
        expected = f"Cannot send 'RUN_FINISHED' while {noun} are still active: '{kind}-1', '{kind}-2'"
        assert expected in str(refused(verifier, run_finished()))
        for key in (f"{kind}-1", f"{kind}-2"):
            verifier.accept(make(BRACKETS[kind][2][0], kind, key))
    verifier.accept(run_finished())


@pytest.mark.parametrize(
    ("events", "phrase", "path"),
    [
        ([run_started("r1"), run_finished("r2")], "must agree on their runId", "/runId"),
        (
            [run_started("r1"), RunFinishedEvent(thread_id="t2", run_id="r1")],
            "carry the input's threadId",
            "/threadId",
        ),
        (
            [run_started("r1"), run_finished("r1"), RunStartedEvent(thread_id="t2", run_id="r2")],
            "carries the input's threadId",
            "/threadId",
        ),
    ],
)
def test_ids_agree(events: list[Event], phrase: str, path: str) -> None:
    """P-38, P-27: ids that do not agree are fatal, and a warning where that is asked for."""
    refusal = refused(verified(*events[:-1]), events[-1])
    assert phrase in str(refusal)
    assert (refusal.rule, refusal.path) == ("P-38", path)
    told: list[WarningRecord] = []
    verified(*events, mismatch=told.append)
    assert [(record.code, record.path) for record in told] == [("run-id-mismatch", path)]


def test_the_thread_that_was_asked_for() -> None:
    """P-38: the first RUN_STARTED too carries the thread of the input; an empty id is an id."""
    refusal = refused(Verifier(thread_id="asked"), run_started())
    assert "carries the input's threadId 'asked'" in str(refusal)
    refused(Verifier(thread_id=""), run_started())
    refused(
        verified(RunStartedEvent(thread_id="", run_id="r"), RunFinishedEvent(thread_id="", run_id="r")), run_started()
    )
    verified(run_started(), thread_id=THREAD)


@pytest.mark.parametrize("mismatch", [None, [].append])
def test_interrupt_ids_are_unique(mismatch: Any) -> None:
    """P-38: two interrupts under one id are fatal, lenient or not."""
    asked = [Interrupt(id=name, reason="x") for name in ("i1", "i2", "i1")]
    refusal = refused(
        verified(run_started(), mismatch=mismatch),
        run_finished(outcome=RunFinishedInterruptOutcome(interrupts=asked)),
    )
    assert "two interrupts carrying the id 'i1'" in str(refusal)
    assert refusal.path == "/outcome/interrupts/2/id"


# -- brackets --------------------------------------------------------------------------------------------------------


STANDINGS = ("never", "open", "ended")
BRACKET_CELLS: dict[tuple[str, str], bool] = {
    ("start", "never"): True,
    ("start", "open"): False,
    ("start", "ended"): True,  # but for subagents
    ("go on", "never"): False,
    ("go on", "open"): True,
    ("go on", "ended"): False,
    ("end", "never"): False,
    ("end", "open"): True,
    ("end", "ended"): False,
}


def moves(kind: str, key: str) -> dict[str, list[Event]]:
    opener, continuation, closers, _ = BRACKETS[kind]
    return {
        "start": [make(opener, kind, key)],
        "go on": [make(continuation, kind, key), make(continuation, kind, key, delta="")] if continuation else [],
        "end": [make(closer, kind, key) for closer in closers],
    }


@pytest.mark.parametrize("kind", BRACKETS)
@pytest.mark.parametrize("move", ["start", "go on", "end"])
@pytest.mark.parametrize("standing", STANDINGS)
def test_brackets(kind: str, move: str, standing: str) -> None:
    """P-39: every cell of the table of brackets, empty deltas included."""
    own = moves(kind, "x")
    before = {"never": [], "open": own["start"], "ended": [*own["start"], own["end"][0]]}[standing]
    allowed = BRACKET_CELLS[move, standing] and (kind, move, standing) != ("subagent", "start", "ended")
    for event in own[move]:
        verifier = verified(run_started(), *moves(kind, "other")["start"], *before)
        if allowed:
            verifier.accept(event)
            assert any("'x'" in item for item in verifier.open_items()) is (move != "end")
        else:
            refusal = refused(verifier, event)
            assert "'x'" in str(refusal)
            assert refusal.rule == "P-39"


@pytest.mark.parametrize("kind", BRACKETS)
def test_a_new_run_forgets(kind: str) -> None:
    """P-35: per-run memory is cleared by RUN_STARTED."""
    own = moves(kind, "x")
    verifier = verified(run_started(), *own["start"], RunErrorEvent(message="boom"), run_started("r2"))
    assert verifier.open_items() == ()
    refused(verifier, own["end"][0])
    verifier.accept(own["start"][0])
    verifier.accept(own["end"][0])
    verifier.accept(run_finished("r2"))
    verifier.accept(run_started("r3"))
    verifier.accept(own["start"][0])


def test_namespaces_are_apart() -> None:
    """P-39: texts, calls, reasoning messages, reasoning spans, steps and subagents do not share their ids."""
    verifier = verified(run_started(), *(make(row[0], kind, "x") for kind, row in BRACKETS.items()))
    for kind, row in BRACKETS.items():
        verifier.accept(make(row[2][0], kind, "x"))
    verifier.accept(run_finished())


def test_steps_belong_to_their_owner() -> None:
    """P-39: a step is known by owner and name."""
    verifier = verified(run_started(), StepStartedEvent(step_name="plan", subagent_run_id="sub1"))
    refusal = refused(verifier, StepFinishedEvent(step_name="plan"))
    assert "that was not started" in str(refusal)
    verifier.accept(StepStartedEvent(step_name="plan"))
    assert verifier.open_items() == ("step 'plan' (subagent 'sub1')", "step 'plan'")
    verifier.accept(StepFinishedEvent(step_name="plan"))
    verifier.accept(StepFinishedEvent(step_name="plan", subagent_run_id="sub1"))
    verifier.accept(run_finished())


@pytest.mark.parametrize(
    "events",
    [
        [ToolCallResultEvent(message_id="t1", tool_call_id="c1", content="unknown call")],
        [ToolCallResultEvent(message_id="t1", tool_call_id="c1", content="x")] * 2,
        [
            ToolCallStartEvent(tool_call_id="c1", tool_call_name="f", parent_message_id="never heard of"),
            ToolCallResultEvent(message_id="t1", tool_call_id="c1", content="before END"),
            ToolCallArgsEvent(tool_call_id="c1", delta="not json"),
            make(BRACKETS["call"][2][0], "call", "c1"),
        ],
        moves("reasoning", "g1")["start"] + moves("reasoning", "g1")["end"],
        [
            *moves("span", "s")["start"],
            *moves("reasoning", "g1")["start"],
            *moves("span", "s")["end"],
            *moves("reasoning", "g1")["go on"],
            *moves("reasoning", "g1")["end"],
        ],
    ],
)
def test_not_a_matter_of_order(events: list[Event]) -> None:
    """P-40: results at any time, unknown parents, reasoning outside its span, arguments that are not JSON."""
    assert verified(run_started(), *events, run_finished()).phase == "finished"


# -- both directions, and whole streams ------------------------------------------------------------------------------


def test_the_sending_side() -> None:
    """P-35: the same rules outbound; the blame is ours."""
    with pytest.raises(LocalProtocolError) as caught:
        Verifier(local=True).accept(run_finished())
    assert caught.value.rule == "P-36"
    assert "this end" in str(caught.value)


@effort(40)
@given(legal_streams())
def test_legal_streams_pass(events: list[Event]) -> None:
    """P-36, P-39, P-41: a walk over the tables is accepted whole."""
    assert verified(*events).phase in ("finished", "errored")


@effort(40)
@given(legal_streams(max_events=15), st.data())
def test_one_event_lost_or_doubled(events: list[Event], data: st.DataObject) -> None:
    """P-36, P-39: dropping or doubling an event is caught at the very event where the stream ceases to be legal."""
    events = [event.model_copy(update={"subagent_run_id": None}) if _is_tagged(event) else event for event in events]
    index = data.draw(st.integers(0, len(events) - 1))
    doubled = data.draw(st.booleans())
    changed = [*events[:index], *([events[index]] * 2 if doubled else []), *events[index + 1 :]]
    legal = next((end for end in range(len(changed)) if not is_legal(changed[: end + 1])), len(changed))
    verifier = verified(*changed[:legal])
    if legal < len(changed):
        refused(verifier, changed[legal])


def _is_tagged(event: Event) -> bool:
    return not event.type.value.startswith("SUBAGENT_") and getattr(event, "subagent_run_id", None) is not None
