"""The outcome: a value that stays what it was."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.run import RunDriver, RunScope, Spend, drive

from ._kit import TERMINALS, Completed, Failed, Said, finished, soon


@dataclasses.dataclass
class Message:
    """A message of nobody in particular, read by name."""

    role: str
    id: str = ""
    tool_calls: Any = None
    tool_call_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        calls = None if self.tool_calls is None else [call.id for call in self.tool_calls]
        data = {"role": self.role, "id": self.id, "tool_calls": calls, "tool_call_id": self.tool_call_id}
        return {key: value for key, value in data.items() if value is not None}


@dataclasses.dataclass
class Call:
    id: str


def test_the_eight_fields_and_their_defaults() -> None:
    """R-25"""
    outcome = finished(Completed())
    assert {f.name: getattr(outcome, f.name) for f in dataclasses.fields(outcome)} == {
        "outcome": "completed",
        "final": "",
        "messages": (),
        "error": None,
        "attempts": (),
        "reason": None,
        "interrupts": (),
        "spent": None,
    }
    for field in dataclasses.fields(outcome):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(outcome, field.name, None)
    with pytest.raises((AttributeError, TypeError)):
        outcome.extra = 1  # type: ignore[attr-defined]


def test_its_tuples_are_copies() -> None:
    """R-25: whatever the driver does to its lists afterwards; generators are read once."""
    messages, attempts, interrupts = [Message("user")], ["a"], ["i"]
    outcome = finished(Failed(), messages=messages, attempts=attempts, interrupts=interrupts)
    before = (tuple(messages), tuple(attempts), tuple(interrupts))
    for passed in (messages, attempts, interrupts):
        passed.clear()
    assert (outcome.messages, outcome.attempts, outcome.interrupts) == before
    assert finished(Completed(), messages=(m for m in [1, 2])).messages == (1, 2)


def test_the_parts_are_exactly_those_passed() -> None:
    """R-81, R-26: nothing is looked into or changed on the way."""
    spend = Spend(total_tokens=7, wall_clock=0.5, complete=True)
    parts: dict[str, Any] = {
        "final": "half an ans",
        "messages": (object(),),
        "error": "the line broke",
        "attempts": (object(), object()),
        "reason": "budget-exhausted",
        "interrupts": (object(),),
        "spent": spend,
    }
    outcome = finished(Failed(), **parts)
    assert {name: getattr(outcome, name) for name in parts} == parts
    assert outcome.messages[0] is parts["messages"][0]
    assert outcome.spent is spend


async def test_a_cancelled_outcome_has_no_error_and_no_reason_but_a_final() -> None:
    """R-26: as `drive` ends a cancelled body, and as a driver that keeps what was committed does."""

    async def endless(driver: RunDriver[Said]) -> None:
        await anyio.sleep_forever()

    async def keeping(driver: RunDriver[Said]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            driver.finish(None, outcome="cancelled", final="so far")

    async with RunScope():
        for body, final in ((endless, ""), (keeping, "so far")):
            run = drive(body)
            run.cancel()
            outcome = await soon(run.result)
            assert (outcome.outcome, outcome.final) == ("cancelled", final)
            assert outcome.error is None
            assert outcome.reason is None


def test_a_cancelled_outcome_takes_no_error_and_no_reason() -> None:
    """R-26: also where a driver passes what it had at hand."""
    outcome = finished(None, outcome="cancelled", error="too late", reason="budget-exhausted", final="so far")
    assert (outcome.error, outcome.reason, outcome.final) == (None, None, "so far")


@pytest.mark.parametrize("reason", ["context-exhausted", "budget-exhausted", "completion-truncated", None])
def test_a_reason_is_one_of_three_or_none(reason: str | None) -> None:
    """R-27"""
    assert finished(Failed(), reason=reason).reason == reason


@pytest.mark.parametrize("reason", ["tired", "", "Budget-Exhausted"])
def test_another_reason_is_refused(reason: str) -> None:
    """R-27, section 10: ValueError, and the run stays open."""
    driver: RunDriver[Said] = RunDriver()
    with pytest.raises(ValueError, match="reason"):
        driver.finish(Failed(), reason=reason)
    assert driver.run.status == "running"
    driver.finish(Failed())


def test_unknown_is_not_zero_in_a_spend() -> None:
    """R-28: three parts always, four None unless reported, and 0 with `complete` False is not free."""
    spend = Spend(total_tokens=0, wall_clock=0.25, complete=False)
    assert (spend.cost, spend.prompt_tokens, spend.completion_tokens, spend.cached_prompt_tokens) == (None,) * 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        spend.total_tokens = 5  # type: ignore[misc]
    assert finished(Completed()).spent is None
    data = finished(Completed(), spent=spend).to_dict()
    assert data["spent"] == {"total_tokens": 0, "wall_clock": 0.25, "complete": False}


def test_ok_is_completed_with_nothing_left_to_ask() -> None:
    """R-29"""
    assert finished(Completed()).ok is True
    assert finished(Completed(), interrupts=["which one?"]).ok is False
    assert [finished(terminal()).ok for terminal in TERMINALS] == [True, False, False]
    assert finished(None, outcome="completed").ok is True


def test_pending_calls_are_those_without_a_tool_message() -> None:
    """R-29: ids, in the order of the calls, wherever the answers stand."""
    messages = [
        Message("user"),
        Message("assistant", tool_calls=[Call("c1"), Call("c2"), Call("c3")]),
        Message("tool", tool_call_id="c2"),
        Message("assistant", tool_calls=[]),
        Message("assistant"),
        Message("assistant", tool_calls=(Call("c5"), Call("c4"))),
        Message("tool", tool_call_id="c4"),
    ]
    assert finished(Completed(), messages=messages).pending_calls == ("c1", "c3", "c5")
    assert finished(Completed()).pending_calls == ()
    assert finished(Completed(), messages=[object(), "text", None]).pending_calls == ()


def test_pending_calls_of_real_messages() -> None:
    """R-29, R-81: the AG-UI models are read by the same names."""
    core = pytest.importorskip("ag_ui.core")
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        core.UserMessage(id="u1", role="user", content="go"),
        core.AssistantMessage(id="a1", role="assistant", tool_calls=[call, {**call, "id": "c2"}]),
        core.ToolMessage(id="t1", role="tool", content="1", tool_call_id="c1"),
    ]
    outcome = finished(Completed(), messages=messages)
    assert outcome.pending_calls == ("c2",)
    data = outcome.to_dict()
    assert data["messages"][0] == {"id": "u1", "role": "user", "content": "go"}
    assert data["messages"][1]["toolCalls"][1]["id"] == "c2"
    assert "content" not in data["messages"][1]
    assert data["messages"][2]["toolCallId"] == "c1"
    assert json.loads(json.dumps(data)) == data


def test_to_dict_names_what_is_there() -> None:
    """R-30: the keys always there; `spent` only if counted, and in it only what was reported; cost as a string."""
    bare = finished(Completed()).to_dict()
    assert bare == {
        "outcome": "completed",
        "final": "",
        "messages": [],
        "error": None,
        "attempts": [],
        "reason": None,
        "interrupts": [],
    }
    spend = Spend(
        total_tokens=30,
        wall_clock=1.5,
        complete=True,
        cost=Decimal("0.000010"),
        prompt_tokens=10,
        completion_tokens=None,
        cached_prompt_tokens=0,
    )
    full = finished(Failed(), messages=[Message("user", "u1")], error="e", spent=spend).to_dict()
    assert full["messages"] == [{"role": "user", "id": "u1"}]
    assert full["spent"] == {
        "total_tokens": 30,
        "wall_clock": 1.5,
        "complete": True,
        "cost": "0.000010",
        "prompt_tokens": 10,
        "cached_prompt_tokens": 0,
    }
    for data in (bare, full):
        assert json.loads(json.dumps(data)) == data


counts = st.none() | st.integers(0, 2**60)
spends = st.builds(
    Spend,
    total_tokens=st.integers(0, 2**60),
    wall_clock=st.floats(0, 1e9),
    complete=st.booleans(),
    cost=st.none() | st.decimals(0, 10**9, allow_nan=False, allow_infinity=False),
    prompt_tokens=counts,
    completion_tokens=counts,
    cached_prompt_tokens=counts,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    terminal=st.sampled_from(TERMINALS),
    final=st.text(max_size=5),
    error=st.none() | st.text(max_size=5),
    ids=st.lists(st.text(max_size=3), max_size=3),
    spent=st.none() | spends,
)
def test_to_dict_survives_json(
    terminal: type[Said], final: str, error: str | None, ids: list[str], spent: Spend | None
) -> None:
    """R-30: any parts; and what was not reported is left out, never null or 0."""
    messages = [Message("assistant", name, tool_calls=[Call(name)]) for name in ids]
    data = finished(terminal(), final=final, error=error, messages=messages, spent=spent).to_dict()
    assert json.loads(json.dumps(data)) == data
    assert ("spent" in data) == (spent is not None)
    if spent is not None:
        assert None not in data["spent"].values()
        reported = {f.name for f in dataclasses.fields(spent) if getattr(spent, f.name) is not None}
        assert set(data["spent"]) == reported
        if spent.cost is not None:
            assert Decimal(data["spent"]["cost"]) == spent.cost
