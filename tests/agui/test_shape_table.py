"""The table of shapes as a whole, against the models."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from tests.agui.enforcing import refused, snapshot

from handrail.agui._shape_table import EVENT_SHAPES, INPUT_SHAPE
from handrail.agui._shapes import Choice, Field, Many, OneOf, Reading, Record, Shape, TextOrMany


def records() -> dict[str, Record]:
    """Every object that the table knows, by the name of its model."""
    found: dict[str, Record] = {}
    waiting: list[Shape] = [*EVENT_SHAPES.values(), INPUT_SHAPE]
    while waiting:
        match waiting.pop():
            case Record() as record if record.model.__name__ not in found:
                found[record.model.__name__] = record
                waiting += [slot.shape for slot in record.fields.values()]
            case Many(item=item):
                waiting.append(item)
            case TextOrMany(many=many):
                waiting.append(many)
            case OneOf(members=members):
                waiting += members.values()
            case _:
                pass
    return found


@pytest.mark.parametrize("name", records())
def test_the_table_says_what_the_models_say(name: str) -> None:
    """P-20, P-21: keys, attributes, defaults; required is what pydantic requires, and the constants."""
    record = records()[name]
    schema = record.model.model_json_schema(by_alias=True)
    constants = {key for key, rules in schema["properties"].items() if "const" in rules}
    assert record.fields.keys() == schema["properties"].keys()
    assert {key for key, slot in record.fields.items() if slot.required} == {*schema.get("required", ()), *constants}
    assert record.required == {slot.name: key for key, slot in record.fields.items() if slot.required}
    assert {slot.name for slot in record.fields.values()} == record.model.model_fields.keys() == record.absent.keys()
    optional = record.model.model_construct(**dict.fromkeys(record.required, "x"))
    assert {n: v for n, v in record.absent.items() if n not in record.required} == {
        n: v for n, v in optional.__dict__.items() if n not in record.required
    }


def test_which_fields_old_peers_may_write_as_null() -> None:
    """P-26: these and no others, and `rawEvent` on every event."""
    listed = {
        (name, key) for name, record in records().items() for key, slot in record.fields.items() if slot.null_is_absent
    }
    assert {name for name, key in listed if key == "rawEvent"} == {one.model.__name__ for one in EVENT_SHAPES.values()}
    assert {pair for pair in listed if pair[1] != "rawEvent"} == {
        ("ToolCallStartEvent", "parentMessageId"),
        ("ToolCallChunkEvent", "parentMessageId"),
        ("RunFinishedEvent", "outcome"),
        ("RunFinishedEvent", "result"),
        ("SubagentFinishedEvent", "result"),
        *((f"{medium}Part", "metadata") for medium in ("Image", "Audio", "Video", "Document")),
        ("ResumeEntry", "payload"),
        ("Tool", "parameters"),
        ("RunAgentInput", "forwardedProps"),
        ("RunAgentInput", "state"),
    }


@pytest.mark.parametrize("content", [{}, 5, True])
def test_a_content_is_text_or_parts(content: Any) -> None:
    """P-21, P-24: what is neither is refused, and told what it may be."""
    for payload in (
        {"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": content},
        snapshot({"id": "u", "role": "user", "content": content}),
    ):
        assert "expected string or array, received" in str(refused(payload))


class Inner(BaseModel):
    kind: str


class Outer(BaseModel):
    inner: Inner | None = None


def test_what_is_dropped_as_a_whole_is_reported_once() -> None:
    """P-22: an optional object that holds something newer goes with all that would have been said of it."""
    choice = Field("kind", Choice(frozenset({"old"})), required=True)
    inner = Record(Inner, fields={"kind": choice}, required={"kind": "kind"}, absent={"kind": None})
    outer = Record(Outer, fields={"inner": Field("inner", inner, required=False)}, absent={"inner": None})
    reading = Reading()
    assert outer.read({"more": 1, "inner": {"extra": 1, "kind": "new"}}, "", reading) == Outer()
    assert [(record.code, record.path) for record in reading.warnings] == [
        ("unknown-property", "/more"),
        ("unknown-value", "/inner"),
    ]
    reading = Reading()
    assert outer.read({"inner": {"extra": 1, "kind": "old"}}, "", reading) == Outer(inner=Inner(kind="old"))
    assert [(record.code, record.path) for record in reading.warnings] == [("unknown-property", "/inner/extra")]
