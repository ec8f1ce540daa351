"""The order of a stream: who owns what, and may go on with it."""

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
    MessagesSnapshotEvent,
    RawEvent,
    ReasoningEncryptedValueEvent,
    ReasoningMessage,
    RunAgentInput,
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
    ToolMessage,
)
from tests.agui.streams import BRACKETS, THREAD, make, run_finished, run_started
from tests.agui.verifying import call, refused, verified

from handrail.agui._verify import Verifier

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


@pytest.mark.parametrize(("owner", "named"), [(None, "the parent agent"), ("sub1", "'sub1'")])
def test_a_refusal_names_the_owner(owner: str | None, named: str) -> None:
    """P-41: a subagent by its id, and the agent that has none in words."""
    verifier = verified(run_started(), TextMessageStartEvent(message_id="m1", subagent_run_id=owner))
    refusal = refused(verifier, TextMessageContentEvent(message_id="m1", delta="x", subagent_run_id="sub2"))
    assert f"does not match the owner of text message 'm1', {named} (P-41)" in str(refusal)


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
