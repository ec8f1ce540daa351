"""The order of a stream: every cell of the tables, and what breaks a legal stream."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import (
    ActivityDeltaEvent,
    ActivityMessage,
    ActivitySnapshotEvent,
    AssistantMessage,
    CustomEvent,
    Event,
    FunctionCall,
    Interrupt,
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningEncryptedValueEvent,
    ReasoningMessage,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.effort import effort
from tests.agui.streams import BRACKETS, THREAD, is_legal, legal_streams, make, run_finished, run_started

from handrail.agui._verify import Verifier
from handrail.agui._warnings import WarningRecord
from handrail.errors import LocalProtocolError, RemoteProtocolError


def verified(*events: Event, **options: Any) -> Verifier:
    verifier = Verifier(**options)
    for event in events:
        verifier.accept(event)
    return verifier


def refused(verifier: Verifier, event: Event) -> RemoteProtocolError:
    """The refusal of an event, which leaves everything as it was."""
    before = (verifier.phase, verifier.open_items())
    with pytest.raises(RemoteProtocolError) as caught:
        verifier.accept(event)
    assert (verifier.phase, verifier.open_items()) == before
    assert caught.value.event_type == event.type.value
    assert event.type.value in str(caught.value)
    assert caught.value.rule in str(caught.value)
    return caught.value


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


# -- owners ----------------------------------------------------------------------------------------------------------

OWNED = ("text", "call", "span", "reasoning")


@pytest.mark.parametrize("kind", OWNED)
@pytest.mark.parametrize(
    ("owner", "tag", "fits"),
    [
        (None, None, True),
        ("sub1", None, True),
        ("sub1", "sub1", True),
        ("sub1", "sub2", False),
        (None, "sub1", False),
    ],
)
def test_owner_of_an_item(kind: str, owner: str | None, tag: str | None, fits: bool) -> None:
    """P-41: continuations, ends and restarts carry the tag of the opener or none; never announced tags are fine."""
    opener, continuation, closers, _ = BRACKETS[kind]
    started = make(opener, kind, "x", subagent_run_id=owner)
    restarted = make(opener, kind, "x", subagent_run_id=tag)
    end = make(closers[0], kind, "x", subagent_run_id=tag)
    tries = [([started], end), ([started, make(closers[0], kind, "x")], restarted)]
    if continuation is not None:
        tries.append(([started], make(continuation, kind, "x", subagent_run_id=tag)))
    for before, event in tries:
        verifier = verified(run_started(), *before)
        if fits:
            verifier.accept(event)
        else:
            refusal = refused(verifier, event)
            assert "does not match" in str(refusal)
            assert "'x'" in str(refusal)
            assert (refusal.rule, refusal.path) == ("P-41", "/subagentRunId")


def test_the_first_opener_stays_the_owner() -> None:
    """P-41: an untagged restart does not take over, and closing forgets no owner."""
    opener, continuation, closers, _ = BRACKETS["text"]
    verifier = verified(
        run_started(),
        make(opener, "text", "x", subagent_run_id="sub1"),
        make(closers[0], "text", "x"),
        make(opener, "text", "x"),
        make(continuation, "text", "x", subagent_run_id="sub1"),
    )
    refused(verifier, make(continuation, "text", "x", subagent_run_id="sub2"))


def call(name: str = "c1", parent: str | None = None, tag: str | None = None) -> ToolCallStartEvent:
    return ToolCallStartEvent(tool_call_id=name, tool_call_name="f", parent_message_id=parent, subagent_run_id=tag)


@pytest.mark.parametrize(
    ("message_owner", "tag", "owner"),
    [(None, None, None), ("sub1", None, "sub1"), ("sub1", "sub1", "sub1"), ("sub1", "sub2", "!"), (None, "sub1", "!")],
)
def test_a_call_belongs_to_its_message(message_owner: str | None, tag: str | None, owner: str | None) -> None:
    """P-41: the tag of a call is the owner of its parent message; untagged it inherits that owner."""
    verifier = verified(run_started(), TextMessageStartEvent(message_id="m1", subagent_run_id=message_owner))
    if owner == "!":
        assert "does not match" in str(refused(verifier, call(parent="m1", tag=tag)))
        return
    verifier.accept(call(parent="m1", tag=tag))
    refused(verifier, ToolCallArgsEvent(tool_call_id="c1", delta="", subagent_run_id="other"))
    verifier.accept(ToolCallArgsEvent(tool_call_id="c1", delta="", subagent_run_id=owner))


def test_a_known_call_keeps_its_owner() -> None:
    """P-41: a known call whose owner is not that of the parent message is refused."""
    end = make(BRACKETS["call"][2][0], "call", "c1")
    verifier = verified(
        run_started(), TextMessageStartEvent(message_id="m1", subagent_run_id="sub1"), call(tag="sub2"), end
    )
    assert "'c1'" in str(refused(verifier, call(parent="m1")))
    verifier.accept(call(tag="sub2"))


def test_owner_of_an_activity() -> None:
    """P-41: a replacing snapshot takes over, another changes nothing, a delta must carry the owner's tag."""

    def shown(tag: str | None, replace: bool | None = None) -> Event:
        return ActivitySnapshotEvent(
            message_id="a1", activity_type="plan", content={}, subagent_run_id=tag, replace=replace
        )

    def delta(tag: str | None) -> Event:
        return ActivityDeltaEvent(message_id="a1", activity_type="plan", patch=[], subagent_run_id=tag)

    verifier = verified(run_started(), delta("anyone"), shown("sub1", replace=False), delta("sub1"), delta(None))
    refused(verifier, delta("sub2"))
    verifier.accept(shown("sub2", replace=False))
    refused(verifier, delta("sub2"))
    verifier.accept(shown("sub2"))
    refused(verifier, delta("sub1"))
    verifier.accept(delta("sub2"))
    verifier.accept(shown(None, replace=True))
    refused(verifier, delta("sub2"))


def test_the_newest_result_owns_its_message() -> None:
    """P-41: a result takes over its message id."""

    def encrypted(tag: str) -> Event:
        return ReasoningEncryptedValueEvent(subtype="message", entity_id="t1", encrypted_value="x", subagent_run_id=tag)

    def result(tag: str | None) -> Event:
        return ToolCallResultEvent(message_id="t1", tool_call_id="c1", content="", subagent_run_id=tag)

    verifier = verified(run_started(), result("sub1"), encrypted("sub1"))
    refused(verifier, encrypted("sub2"))
    verifier.accept(result("sub2"))
    verifier.accept(encrypted("sub2"))


@pytest.mark.parametrize(("kind", "subtype"), [("text", "message"), ("reasoning", "message"), ("call", "tool-call")])
def test_owner_of_an_encrypted_value(kind: str, subtype: Any) -> None:
    """P-41: the tag of an encrypted value is the owner's; what nobody opened is nobody's."""

    def encrypted(entity: str, tag: str | None) -> Event:
        return ReasoningEncryptedValueEvent(subtype=subtype, entity_id=entity, encrypted_value="x", subagent_run_id=tag)

    verifier = verified(run_started(), make(BRACKETS[kind][0], kind, "x", subagent_run_id="sub1"))
    verifier.accept(encrypted("x", "sub1"))
    verifier.accept(encrypted("x", None))
    verifier.accept(encrypted("unknown", "sub2"))
    refused(verifier, encrypted("x", "sub2"))


TEXT_OF_ONE = TextMessageStartEvent(message_id="m1", subagent_run_id="sub1")


@pytest.mark.parametrize(
    ("before", "event", "rule", "path"),
    [
        ([], run_finished(), "P-36", None),
        ([run_started(), TEXT_OF_ONE], run_finished(), "P-37", None),
        ([run_started()], TextMessageContentEvent(message_id="m1", delta="x"), "P-39", None),
        (
            [run_started(), TEXT_OF_ONE],
            TextMessageContentEvent(message_id="m1", delta="x", subagent_run_id="sub2"),
            "P-41",
            "/subagentRunId",
        ),
        ([run_started(), TEXT_OF_ONE], call(parent="m1", tag="sub2"), "P-41", "/subagentRunId"),
        (
            [run_started(), TEXT_OF_ONE, call(tag="sub2"), make(BRACKETS["call"][2][0], "call", "c1")],
            call(parent="m1"),
            "P-41",
            "/parentMessageId",
        ),
        (
            [run_started()],
            SubagentStartedEvent(subagent_run_id="sub2", name="x", parent_subagent_run_id="sub1"),
            "P-41",
            "/parentSubagentRunId",
        ),
    ],
)
def test_a_refusal_names_its_rule_and_its_place(before: list[Event], event: Event, rule: str, path: str | None) -> None:
    """P-36 to P-41: the place is the field that would have to be another; of an event out of order it is none."""
    refusal = refused(verified(*before), event)
    assert (refusal.rule, refusal.path) == (rule, path)


def test_a_refusal_outside_of_a_run_names_the_run_before() -> None:
    """P-36: where there was one."""
    assert "(run 'r1')" in str(refused(verified(run_started("r1"), run_finished("r1")), run_finished("r1")))
    assert "(run" not in str(refused(Verifier(), run_finished()))


def test_parents_of_subagents() -> None:
    """P-41: a parent subagent has been started in this run, and may have ended."""

    def started(name: str, parent: str | None = None) -> Event:
        return SubagentStartedEvent(subagent_run_id=name, name="x", parent_subagent_run_id=parent)

    verifier = verified(run_started())
    assert "'sub1'" in str(refused(verifier, started("sub2", "sub1")))
    refused(verifier, started("sub1", "sub1"))
    verifier.accept(started("sub1"))
    verifier.accept(started("sub2", "sub1"))
    verifier.accept(SubagentFinishedEvent(subagent_run_id="sub1"))
    verifier.accept(started("sub3", "sub1"))
    verifier.accept(TextMessageStartEvent(message_id="m1", subagent_run_id="sub1"))


def test_tags_that_are_provenance_only() -> None:
    """P-41: state, custom and raw events and steps carry any tag."""
    verified(
        run_started(),
        StateSnapshotEvent(snapshot=1, subagent_run_id="never announced"),
        CustomEvent(name="x", value=1, subagent_run_id="never announced"),
        RawEvent(event=1, subagent_run_id="never announced"),
        StepStartedEvent(step_name="s", subagent_run_id="never announced"),
        StepFinishedEvent(step_name="s", subagent_run_id="never announced"),
        run_finished(),
    )


MESSAGES: list[Any] = [
    AssistantMessage(
        id="m1",
        subagent_run_id="sub1",
        tool_calls=[ToolCall(id="c1", function=FunctionCall(name="f", arguments=""))],
    ),
    ReasoningMessage(id="g1", content="", subagent_run_id="sub1"),
    ActivityMessage(id="a1", activity_type="plan", content={}, subagent_run_id="sub1"),
    ToolMessage(id="t1", tool_call_id="c1", content="", subagent_run_id="sub1"),
]
INPUT = RunAgentInput(thread_id=THREAD, run_id="r1", messages=MESSAGES)
TAGGED: list[Any] = [
    lambda tag: TextMessageStartEvent(message_id="m1", subagent_run_id=tag),
    lambda tag: TextMessageStartEvent(message_id="t1", subagent_run_id=tag),
    lambda tag: call("c1", tag=tag),
    lambda tag: call("c9", parent="m1", tag=tag),
    lambda tag: make(BRACKETS["reasoning"][0], "reasoning", "g1", subagent_run_id=tag),
    lambda tag: ActivityDeltaEvent(message_id="a1", activity_type="plan", patch=[], subagent_run_id=tag),
]


@pytest.mark.parametrize("tagged", TAGGED)
@pytest.mark.parametrize(
    "before", [[run_started(input=INPUT)], [run_started(), MessagesSnapshotEvent(messages=MESSAGES)]]
)
def test_lists_of_messages_set_owners(before: list[Event], tagged: Any) -> None:
    """P-41: MESSAGES_SNAPSHOT and RUN_STARTED.input say who owns the messages they name, their calls included."""
    refused(verified(*before), tagged("sub2"))
    verified(*before).accept(tagged("sub1"))
    verified(*before).accept(tagged(None))


def test_a_snapshot_takes_over() -> None:
    """P-41: MESSAGES_SNAPSHOT sets the owner also of a message that is open."""
    verifier = verified(run_started(), TextMessageStartEvent(message_id="m1"), MessagesSnapshotEvent(messages=MESSAGES))
    verifier.accept(TextMessageContentEvent(message_id="m1", delta="x", subagent_run_id="sub1"))


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
