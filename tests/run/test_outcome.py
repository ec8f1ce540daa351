"""The result: always there, never raised, and a value that stays what it was."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import logging
import threading
from decimal import Decimal
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.errors import UsageError
from handrail.run import Outcome, RunDriver, RunScope, Spend, drive

from ._kit import PATIENCE, TERMINALS, Completed, Crew, Failed, Said, listed, soon


def finished(terminal: Any = None, **parts: Any) -> Outcome:
    """The outcome of a run that ended with these parts."""
    driver: RunDriver[Any] = RunDriver()
    if terminal is None:
        parts.setdefault("outcome", "completed")
    assert driver.finish(terminal, **parts) is True
    return driver.run.result.value


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


async def test_awaiting_the_result_raises_for_none_of_the_three_outcomes() -> None:
    """R-20"""

    async def fine(driver: RunDriver[Said]) -> None:
        driver.finish(Completed())

    async def broken(driver: RunDriver[Said]) -> None:
        raise RuntimeError("boom")

    async def endless(driver: RunDriver[Said]) -> None:
        await anyio.sleep_forever()

    async with RunScope():
        runs = [drive(fine), drive(broken), drive(endless)]
        runs[2].cancel()
        outcomes = [(await soon(run.result)).outcome for run in runs]
    assert outcomes == ["completed", "failed", "cancelled"]
    assert [run.result.value.outcome for run in runs] == outcomes


def test_a_failed_run_nobody_looks_at_makes_no_noise(
    unraisable: list[object], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """R-21: no loop exception handler, no unraisable hook, nothing logged as an error, nothing on stderr."""
    handled: list[dict[str, Any]] = []

    async def broken(driver: RunDriver[Said]) -> None:
        driver.emit(Said())
        await asyncio.sleep(0)
        raise RuntimeError("nobody will see this")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: handled.append(context))
        for _ in range(20):
            drive(broken)
            driver: RunDriver[Said] = RunDriver()
            driver.finish(Failed(), error="neither this")
            del driver
        for _ in range(10):
            await asyncio.sleep(0)
        gc.collect()

    with caplog.at_level(logging.ERROR, logger="asyncio"):
        asyncio.run(main())
        gc.collect()
    assert handled == []
    assert unraisable == []
    assert [record for record in caplog.records if record.name == "asyncio"] == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("terminal", TERMINALS)
def test_the_outcome_comes_from_the_terminal_event(terminal: type[Said]) -> None:
    """R-22: by default from the class attribute `ends`."""
    assert finished(terminal()).outcome == terminal.ends
    assert finished(terminal(), error="text").outcome == terminal.ends


def test_a_verdict_reads_events_of_any_type() -> None:
    """R-22, R-80: strings and dictionaries of another library."""
    driver: RunDriver[str] = RunDriver(verdict={"done": "completed", "broke": "failed"}.get)
    assert driver.emit("hello") is True
    with pytest.raises(UsageError):
        driver.emit("done")
    with pytest.raises(UsageError):
        driver.finish("hello")
    assert driver.finish("broke") is True
    assert driver.run.result.value.outcome == "failed"
    assert list(driver.run.events) == ["hello", "broke"]


def test_without_verdict_or_ends_no_event_is_terminal() -> None:
    """R-80: foreign events are ordinary ones."""
    driver: RunDriver[object] = RunDriver()
    for event in ("text", 5, {"kind": "end"}, None):
        if event is not None:
            with pytest.raises(UsageError):
                driver.finish(event)
        assert driver.emit(event) is True
    driver.finish(None, outcome="completed")
    assert list(driver.run.events) == ["text", 5, {"kind": "end"}, None]


def test_only_the_class_says_what_ends_a_run() -> None:
    """R-22, R-80: a foreign event may have a field of that name, which says nothing about the run."""

    class Meeting:
        def __init__(self) -> None:
            self.ends = "completed"

    driver: RunDriver[Meeting] = RunDriver()
    assert driver.emit(Meeting()) is True
    with pytest.raises(UsageError):
        driver.finish(Meeting())
    driver.finish(None, outcome="completed")


def test_a_verdict_that_raises_is_the_callers_and_nothing_has_happened() -> None:
    """R-80, R-40: like a stamp that raises."""

    def judge(event: str) -> None:
        raise LookupError(event)

    driver: RunDriver[str] = RunDriver(verdict=judge)
    with pytest.raises(LookupError):
        driver.emit("a")
    with pytest.raises(LookupError):
        driver.finish("b")
    assert driver.run.status == "running"
    assert driver.run.events.so_far() == ()
    driver.finish(None, outcome="failed")


def test_a_verdict_wins_over_ends() -> None:
    """R-22: `outcome` is `verdict(terminal)` where one is given."""
    driver: RunDriver[Said] = RunDriver(verdict=lambda event: "failed" if event.text == "end" else None)
    assert driver.emit(Completed("not the end here")) is True
    driver.finish(Completed("end"))
    assert driver.run.status == "failed"


@pytest.mark.parametrize("outcome", ["completed", "failed", "cancelled"])
def test_an_outcome_beside_a_terminal_event_is_refused(outcome: str) -> None:
    """R-22: also the same one, and nothing happens."""
    driver: RunDriver[Said] = RunDriver()
    with pytest.raises(UsageError):
        driver.finish(Completed(), outcome=outcome)
    assert driver.run.status == "running"
    assert driver.run.events.so_far() == ()
    driver.finish(Completed())


@pytest.mark.parametrize("outcome", ["completed", "failed", "cancelled"])
def test_a_run_can_end_without_a_terminal_event(outcome: str) -> None:
    """R-23: readers of every kind simply end; the form needs an outcome."""
    driver: RunDriver[Said] = RunDriver()
    got: list[Said] = []
    driver.run.events.subscribe(got.append)
    crew = Crew()
    crew.start(list, driver.run.events)
    crew.start(anyio.run, listed, driver.run.events)
    driver.emit(Said("last words"))
    with pytest.raises(UsageError):
        driver.finish(None)
    assert not driver.run.is_done
    assert driver.finish(None, outcome=outcome, final="f") is True
    assert driver.run.status == outcome
    assert [[e.text for e in events] for events in crew.join()] == [["last words"]] * 2
    assert driver.run.result.value.final == "f"


def test_who_sees_the_terminal_event_sees_the_result() -> None:
    """R-24: a subscriber, a thread and an event loop look without waiting, in a thousand runs."""
    seen: list[bool] = []
    told = threading.Semaphore(0)

    async def read(run: Any) -> bool:
        async for event in run.events:
            if event.ends:
                return run.result.is_set and run.is_done
        return False

    def iterate(run: Any) -> bool:
        return next(run.result.is_set and run.is_done for event in run.events if event.ends)

    async def main() -> None:
        for number in range(1000):
            driver: RunDriver[Said] = RunDriver()
            run = driver.run
            finished = Crew()

            def look(event: Said, run: Any = run) -> None:
                if event.ends:
                    seen.append(run.result.is_set)
                    told.release()

            run.events.subscribe(look)
            reader = asyncio.create_task(read(run))
            await asyncio.sleep(0)
            if number % 10 == 0:
                finished.start(iterate, run)
            finished.start(driver.finish, Completed())
            assert await reader
            assert all(finished.join())

    asyncio.run(main())
    for _ in range(1000):
        assert told.acquire(timeout=PATIENCE)
    assert seen == [True] * 1000


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
