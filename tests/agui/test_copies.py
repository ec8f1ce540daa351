"""Copies of what is kept, for others to have: equal, and nothing in common that can be written into."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from ag_ui.core import (
    AssistantMessage,
    CustomEvent,
    DataSource,
    FunctionCall,
    ImagePart,
    Interrupt,
    ResumeEntry,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextPart,
    TokenUsage,
    ToolCall,
    UserMessage,
)
from pydantic import BaseModel

from handrail.agui._copies import copied
from handrail.agui._models import changed, made

DEEP: Any = {"a": [{"b": [1, None, {"c": []}]}, "x", 1.5, True], "d": {}}
CALL = ToolCall(
    id="c1", type="function", function=FunctionCall(name="f", arguments="{}", further=DEEP), metadata={"m": [1]}
)
PICTURE = ImagePart(type="image", source=DataSource(type="data", value="AA==", mime_type="image/png"), metadata=DEEP)
QUESTION = Interrupt(id="i1", reason="x", response_schema={"properties": {"a": {}}}, metadata=DEEP)
VALUES = [
    AssistantMessage(id="a1", content="x", tool_calls=[CALL, CALL], metadata=DEEP),
    UserMessage(id="u1", content=[TextPart(type="text", text="x", metadata={"k": []}), PICTURE]),
    ResumeEntry(interrupt_id="i1", status="resolved", payload=DEEP),
    RunFinishedEvent(
        thread_id="t1",
        run_id="r1",
        outcome=RunFinishedInterruptOutcome(type="interrupt", interrupts=[QUESTION]),
        usage=[TokenUsage(total_tokens=3)],
    ),
    RunErrorEvent.model_validate({"message": "x", "later": {"than": ["this"]}}),
    StateDeltaEvent.model_validate({"delta": [{"op": "add", "path": "/a", "value": DEEP, "why": ["so"]}]}),
    CustomEvent(name="x", value=[QUESTION, {"k": [1]}]),
    StateSnapshotEvent(snapshot=(QUESTION, [PICTURE], ())),
    [QUESTION, "x", [PICTURE]],
    (QUESTION, DEEP),
    DEEP,
    [DEEP, []],
    [],
    {},
    (),
]


def writable(value: Any) -> Iterator[object]:
    """All in a value that somebody could write into."""
    if isinstance(value, BaseModel):
        further = value.__pydantic_extra__
        yield from (value, value.__dict__, value.__pydantic_fields_set__)
        yield from writable(tuple(value.__dict__.values()))
        if further is not None:
            yield from writable(further)
    elif isinstance(value, dict):
        yield value
        yield from writable(tuple(value.values()))
    elif isinstance(value, list | tuple):
        if isinstance(value, list):
            yield value
        for item in value:
            yield from writable(item)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed(value: Any) -> None:
    """S-113: whoever gets what is kept here may do with it what they like."""
    copy = copied(value)
    assert copy == value
    assert type(copy) is type(value)
    assert not {*map(id, writable(copy))} & {*map(id, writable(value))}
    if isinstance(value, BaseModel):
        assert copy.model_fields_set == value.model_fields_set
        assert copy.__pydantic_extra__ == value.__pydantic_extra__
        assert copy.model_dump_json(by_alias=True) == value.model_dump_json(by_alias=True)
        assert pickle.loads(pickle.dumps(copy)) == value


def test_what_is_no_model_and_no_json_is_passed_through() -> None:
    """S-113: a value that nobody can write into, or nobody here knows how to copy, is itself."""
    thing = object()
    for value in ("x", 1, 1.5, True, None, thing):
        assert copied(value) is value
    assert copied([thing])[0] is thing


def test_nesting_is_no_limit() -> None:
    """P-53: JSON may be nested deeper than the stack of Python."""
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    inner = copied({"a": deep})["a"]
    levels = 0
    while inner:
        (inner,) = inner
        levels += 1
    assert levels == 5_000


def test_a_changed_model_keeps_the_rest() -> None:
    """P-53: the same values, what was set, and what later versions of the protocol may have added."""
    before = RunErrorEvent.model_validate({"message": "x", "code": "X", "later": [1]})
    after = changed(before, {"message": "y", "raw_event": 1})
    assert (after.message, after.code, after.model_extra) == ("y", "X", {"later": [1]})
    assert after.model_fields_set == {"message", "code", "later", "raw_event"}
    assert (before.message, before.raw_event) == ("x", None)
    assert before.model_fields_set == {"message", "code", "later"}
    plain = changed(made(TextPart, type="text", text="x"), {"text": "y"})
    assert plain == TextPart(type="text", text="y")
    assert plain.model_extra == {}


def test_what_is_made_of_nothing_was_not_set() -> None:
    """P-20: None leaves a field out."""
    event = made(RunErrorEvent, message="x", code=None)
    assert event == RunErrorEvent(message="x")
    assert event.model_fields_set == {"message"}
    assert event.model_copy(deep=True) == pickle.loads(pickle.dumps(event)) == event
