"""Legal streams for property tests: a walk over the tables of order, and a slow judge written the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    CustomEvent,
    Event,
    RawEvent,
    ReasoningEncryptedValueEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from hypothesis import strategies as st

THREAD = "t1"
DELTAS = st.sampled_from(["", "a", "Hello", "😀", "\ud83d", "\ude00", '{"n": 1}', "\n"])

# kind: (opener, continuation or None, closers, keyword of the id)
BRACKETS: dict[str, tuple[Any, Any, tuple[Any, ...], str]] = {
    "text": (TextMessageStartEvent, TextMessageContentEvent, (TextMessageEndEvent,), "message_id"),
    "call": (ToolCallStartEvent, ToolCallArgsEvent, (ToolCallEndEvent,), "tool_call_id"),
    "span": (ReasoningStartEvent, None, (ReasoningEndEvent,), "message_id"),
    "reasoning": (
        ReasoningMessageStartEvent,
        ReasoningMessageContentEvent,
        (ReasoningMessageEndEvent,),
        "message_id",
    ),
    "step": (StepStartedEvent, None, (StepFinishedEvent,), "step_name"),
    "subagent": (SubagentStartedEvent, None, (SubagentFinishedEvent, SubagentErrorEvent), "subagent_run_id"),
}
EXTRA: dict[Any, dict[str, Any]] = {
    ToolCallStartEvent: {"tool_call_name": "f"},
    SubagentStartedEvent: {"name": "helper"},
    SubagentErrorEvent: {"message": "boom"},
    TextMessageContentEvent: {"delta": "x"},
    ToolCallArgsEvent: {"delta": "x"},
    ReasoningMessageContentEvent: {"delta": "x"},
}


def make(event_class: Any, kind: str, key: str, **fields: Any) -> Event:
    """An event of a bracket, by its kind and id."""
    return event_class(**{**EXTRA.get(event_class, {}), BRACKETS[kind][3]: key, **fields})


def run_started(run_id: str = "r1", **fields: Any) -> RunStartedEvent:
    return RunStartedEvent(thread_id=THREAD, run_id=run_id, **fields)


def run_finished(run_id: str = "r1", **fields: Any) -> RunFinishedEvent:
    return RunFinishedEvent(thread_id=THREAD, run_id=run_id, **fields)


@st.composite
def _plain_events(draw: st.DrawFn) -> Event:
    """An event that opens and closes nothing."""
    number = draw(st.integers(1, 3))
    return draw(
        st.sampled_from(
            [
                RawEvent(event={"any": "thing"}),
                CustomEvent(name="x", value=None),
                StateSnapshotEvent(snapshot={"n": number}),
                StateDeltaEvent(delta=[{"op": "add", "path": "/k", "value": number}]),
                ToolCallResultEvent(message_id=f"t{number}", tool_call_id=f"c{number}", content="done"),
                ActivitySnapshotEvent(message_id=f"a{number}", activity_type="plan", content={"n": number}),
                ActivityDeltaEvent(
                    message_id=f"a{number}",
                    activity_type="plan",
                    patch=[{"op": "add", "path": "/k", "value": number}],
                ),
                ReasoningEncryptedValueEvent(subtype="message", entity_id=f"g{number}", encrypted_value="x"),
            ]
        )
    )


@st.composite
def legal_streams(draw: st.DrawFn, max_events: int = 25, max_runs: int = 2) -> list[Event]:
    """One to `max_runs` runs on one thread, interleaved as the tables allow, each with its terminal event.

    Ids of texts, reasoning, calls and results are of different pools, so the streams are free of collisions; items are
    reopened, tags are kept or left out, and a run may error with everything open.
    """
    events: list[Event] = []
    for number in range(1, draw(st.integers(1, max_runs)) + 1):
        events.append(run_started(f"r{number}"))
        open_items, owners = set[tuple[str, str]](), dict[tuple[str, str], str | None]()
        events.extend(draw(_next_event(open_items, owners)) for _ in range(draw(st.integers(0, max_events))))
        if draw(st.booleans()):
            events.append(RunErrorEvent(message="boom"))
            continue
        for kind, key in sorted(open_items):
            events.append(make(draw(st.sampled_from(BRACKETS[kind][2])), kind, key))
        events.append(run_finished(f"r{number}"))
    return events


@st.composite
def _next_event(draw: st.DrawFn, open_items: set[tuple[str, str]], owners: dict[tuple[str, str], str | None]) -> Event:
    kind = draw(st.sampled_from([*BRACKETS, "plain"]))
    if kind == "plain":
        return draw(_plain_events())
    opener, continuation, closers, _ = BRACKETS[kind]
    prefix = {"text": "m", "call": "c", "reasoning": "g", "span": "g", "step": "s", "subagent": "sub"}[kind]
    item = (kind, f"{prefix}{draw(st.integers(1, 3))}")
    if item not in open_items:
        if kind == "subagent" and item in owners:
            return draw(_plain_events())
        open_items.add(item)
        tags: dict[str, Any] = {}
        if kind in ("text", "call", "span", "reasoning"):
            if item in owners:
                tags = draw(_tag(owners[item]))
            else:
                owners[item] = draw(st.sampled_from([None, None, "sub1"]))
                tags = {"subagent_run_id": owners[item]}
        owners.setdefault(item, None)
        return make(opener, *item, **tags)
    tags = draw(_tag(owners[item])) if kind not in ("step", "subagent") else {}
    if continuation is not None and draw(st.booleans()):
        return make(continuation, *item, delta=draw(DELTAS), **tags)
    open_items.remove(item)
    return make(draw(st.sampled_from(closers)), *item, **tags)


def _tag(owner: str | None) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from([{}, {} if owner is None else {"subagent_run_id": owner}])


def is_legal(events: Sequence[Event]) -> bool:
    """Whether an untagged stream keeps the order, judged from all that came before, event by event."""
    return all(_may_follow(events[:index], event) for index, event in enumerate(events))


def _may_follow(before: Sequence[Event], event: Event) -> bool:
    kinds = [past.type.value for past in before]
    starts = [index for index, kind in enumerate(kinds) if kind == "RUN_STARTED"]
    run = before[starts[-1] :] if starts else []
    last_end = next((kind for kind in reversed(kinds) if kind in ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR")), None)
    name = event.type.value
    if name == "RUN_STARTED":
        return last_end != "RUN_STARTED"
    if name == "RUN_ERROR":
        return last_end != "RUN_ERROR"
    if last_end != "RUN_STARTED":
        return False
    if name == "RUN_FINISHED":
        return not any(_balance(run, kind, key) for kind, key in _items_of(run))
    for kind, (opener, continuation, closers, keyword) in BRACKETS.items():
        if isinstance(event, (opener, *closers) if continuation is None else (opener, continuation, *closers)):
            key = _key(event, kind, keyword)
            is_open = _balance(run, kind, key) == 1
            if not isinstance(event, opener):
                return is_open
            return not is_open and not (kind == "subagent" and (kind, key) in _items_of(run))
    return True


def _key(event: Any, kind: str, keyword: str) -> Any:
    return (event.subagent_run_id, event.step_name) if kind == "step" else getattr(event, keyword)


def _items_of(run: Sequence[Event]) -> set[tuple[str, Any]]:
    return {
        (kind, _key(event, kind, keyword))
        for event in run
        for kind, (opener, _, _, keyword) in BRACKETS.items()
        if isinstance(event, opener)
    }


def _balance(run: Sequence[Event], kind: str, key: Any) -> int:
    opener, _, closers, keyword = BRACKETS[kind]
    opened = sum(isinstance(event, opener) and _key(event, kind, keyword) == key for event in run)
    return opened - sum(isinstance(event, closers) and _key(event, kind, keyword) == key for event in run)
