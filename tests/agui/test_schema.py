"""The JSON Schema of the protocol as a judge of shapes: drawn documents pass, damaged ones are stripped or refused.

The schema is that of the next minor version; what is new in it is unknown here. It is exact where a receiver must be
tolerant, so it says what may pass in silence, and what must come out, and not what has to be refused.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.documents import bytes_of, corrupted
from tests.agui.effort import effort
from tests.agui.schema import EVENTS, INPUTS, NEW_IN_1_1, PATH, SCHEMA, is_valid, loaded, validator

from handrail.agui._enforce import quick_event, read_event
from handrail.agui._input import outgoing_input, read_input
from handrail.agui._shape_table import EVENT_SHAPES, INPUT_SHAPE
from handrail.agui._shapes import OneOf, Record, TextOrMany
from handrail.agui._values import json_equal
from handrail.agui._warnings import WarningRecord
from handrail.errors import RemoteProtocolError

pytestmark = pytest.mark.skipif(not PATH.is_file(), reason="the shared inputs are not beside this checkout")


def has_news(document: Any) -> bool:
    """Whether something of the next version is in it, outside of opaque data or inside."""
    return any(key.encode() in bytes_of(document) for key in NEW_IN_1_1)


def read(document: dict[str, Any]) -> tuple[Any, list[WarningRecord], RemoteProtocolError | None]:
    """What the walk makes of an event: the dump, the warnings, the refusal."""
    warnings: list[WarningRecord] = []
    try:
        event = read_event(document, warnings.append)
    except RemoteProtocolError as error:
        return None, warnings, error
    return (None if event is None else event.model_dump(by_alias=True, exclude_unset=True, mode="json")), warnings, None


@effort(100)
@given(EVENTS)
def test_every_event_of_the_schema_passes_unchanged(document: dict[str, Any]) -> None:
    """P-98, P-20: the dump is the document, no warning is given, and the schema agrees that it is valid."""
    assert is_valid(document)
    dumped, warnings, error = read(document)
    assert (warnings, error) == ([], None)
    assert json_equal(dumped, document)
    event = quick_event(bytes_of(document))
    assert event is None or json_equal(event.model_dump(by_alias=True, exclude_unset=True, mode="json"), document)


@effort(250)
@given(corrupted(EVENTS))
def test_a_damaged_event_is_stripped_or_refused(document: dict[str, Any]) -> None:
    """P-98, P-21: what the schema takes passes quietly; what it does not take never gets through in silence."""
    if not isinstance(document.get("type"), str) or not document["type"]:
        return
    dumped, warnings, error = read(document)
    if is_valid(document) and not has_news(document):
        assert (warnings, error) == ([], None)
        assert json_equal(dumped, document)
        return
    if not has_news(document):
        assert warnings or error
    if dumped is not None:
        assert is_valid(dumped), dumped


@effort(250)
@given(corrupted(EVENTS) | EVENTS)
def test_the_quick_pass_gives_what_the_walk_gives(document: dict[str, Any]) -> None:
    """F-2, P-20: wherever it gives an event at all, and without a warning."""
    event = quick_event(bytes_of(document))
    if event is not None:
        walked = read_event(document, pytest.fail)
        assert walked == event
        assert walked.model_fields_set == event.model_fields_set
        assert walked.model_dump_json() == event.model_dump_json()


@effort(100)
@given(EVENTS, st.data())
def test_an_unknown_key_goes_and_nothing_else(document: dict[str, Any], data: st.DataObject) -> None:
    """P-21: of any closed object; the path of the warning is its place."""
    document["future"] = data.draw(st.sampled_from([None, {"a": 1}, "x"]))
    dumped, warnings, error = read(document)
    assert error is None
    assert [(record.code, record.path) for record in warnings] == [("unknown-property", "/future")]
    del document["future"]
    assert json_equal(dumped, document)


@effort(100)
@given(EVENTS, st.data())
def test_every_required_field_is_required(document: dict[str, Any], data: st.DataObject) -> None:
    """P-21, P-23: each one, by the schema's own list; without it the event is refused at its path."""
    required = SCHEMA.fields(loaded()["$defs"][SCHEMA.event(document["type"])])[1] - {"type"}
    if required:
        key = data.draw(st.sampled_from(sorted(required)))
        del document[key]
        error = read(document)[2]
        assert error is not None
        assert error.path == f"/{key}"


@effort(100)
@given(INPUTS)
def test_every_input_of_the_schema_passes_in_both_directions(document: dict[str, Any]) -> None:
    """P-98, P-25, P-79: read quietly and unchanged, and sent as the schema has it."""
    assert json_equal(read_input(document, pytest.fail).model_dump(by_alias=True, exclude_unset=True), document)
    sent = outgoing_input(document, pytest.fail)
    assert validator("RunAgentInput").is_valid(sent)
    given = document | {"protocolVersion": "1.0"}
    assert json_equal({key: sent[key] for key in given}, given)


@effort(100)
@given(corrupted(INPUTS))
def test_a_damaged_input_is_stripped_or_refused(document: dict[str, Any]) -> None:
    """P-98, P-79: what comes out is valid by the schema."""
    warnings: list[WarningRecord] = []
    try:
        read_ = read_input(document, warnings.append)
    except RemoteProtocolError:
        assert not validator("RunAgentInput").is_valid(document)
        return
    dumped = read_.model_dump(by_alias=True, exclude_unset=True)
    assert validator("RunAgentInput").is_valid(dumped)
    if validator("RunAgentInput").is_valid(document) and not has_news(document):
        assert warnings == []
        assert json_equal(dumped, document)


def test_the_table_has_every_field_of_the_schema() -> None:
    """P-20: names and what is required, of every object that an event or an input can hold; but for what is newer."""
    by_name = {record.model.__name__: record for record in records()}
    for name, record in by_name.items():
        properties, required = SCHEMA.fields(loaded()["$defs"][name])
        assert set(record.fields) == set(properties) - NEW_IN_1_1, name
        assert set(record.required.values()) == required, name


def records() -> list[Record]:
    found: dict[int, Record] = {}
    waiting: list[Any] = [*EVENT_SHAPES.values(), INPUT_SHAPE]
    while waiting:
        shape = waiting.pop()
        if isinstance(shape, Record) and id(shape) not in found:
            found[id(shape)] = shape
            waiting.extend(slot.shape for slot in shape.fields.values())
        elif isinstance(shape, OneOf):
            waiting.extend(shape.members.values())
        elif isinstance(shape, TextOrMany):
            waiting.append(shape.many)
        elif hasattr(shape, "item"):
            waiting.append(shape.item)
    return list(found.values())
