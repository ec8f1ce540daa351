"""What every event and every input may hold: the table of shapes, built once from the models of `ag_ui.core`.

Aliases, what is required, unions, closed sets and bounds are read off the models, so that a new minor version of them
needs no new table. Two things the models do not say stand here: which optional fields old peers write as null, and that
the operations of a JSON Patch are open.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from ag_ui.core import Event, RunAgentInput
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from handrail.agui._shapes import (
    Choice,
    Constant,
    Field,
    Flag,
    Many,
    OneOf,
    Opaque,
    OpaqueObject,
    Pointer,
    Record,
    Shape,
    Text,
    TextOrMany,
    Whole,
)

__all__ = ["EVENT_SHAPES", "INPUT_SHAPE"]

_NULL_IS_ABSENT = {
    # What old peers write as null: (model or any, key). See P-26 of the protocol rules.
    ("*", "rawEvent"),
    ("ToolCallStartEvent", "parentMessageId"),
    ("ToolCallChunkEvent", "parentMessageId"),
    ("RunFinishedEvent", "outcome"),
    ("RunFinishedEvent", "result"),
    ("SubagentFinishedEvent", "result"),
    ("ImagePart", "metadata"),
    ("AudioPart", "metadata"),
    ("VideoPart", "metadata"),
    ("DocumentPart", "metadata"),
    ("ResumeEntry", "payload"),
    ("Tool", "parameters"),
    ("RunAgentInput", "forwardedProps"),
    ("RunAgentInput", "state"),
}
_OPEN = "op"
"""What tells patch operations apart: RFC 6902 has further members of them ignored, so they are nobody's mistake."""
_records: dict[type[BaseModel], Record] = {}


def _record_of(model: type[BaseModel], is_open: bool = False) -> Record:
    if model not in _records:
        record = _records[model] = Record(model, is_open)
        for name, info in model.model_fields.items():
            key = info.alias or name
            slot = _field_of(model.__name__, name, key, info)
            record.fields[key] = slot
            record.absent[name] = info.get_default()
            if slot.required:
                record.required[name] = key
    return _records[model]


def _field_of(model: str, name: str, key: str, info: FieldInfo) -> Field:
    """A field is optional where its type says so; a default alone is the constant of a required one."""
    annotation: Any = info.annotation
    members = get_args(annotation) if get_origin(annotation) is Union else ()
    is_optional = type(None) in members
    if is_optional:
        annotation = Union[tuple(member for member in members if member is not type(None))]  # noqa: UP007
    shape = _shape_of(annotation, info.metadata, info.discriminator)
    return Field(name, shape, not is_optional, bool(_NULL_IS_ABSENT & {(model, key), ("*", key)}))


def _shape_of(annotation: Any, constraints: Sequence[Any] = (), discriminator: Any = None) -> Shape:
    origin, members = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape_of(members[0], members[1:], next((m.discriminator for m in members[1:] if m.discriminator), None))
    if annotation is Any:
        return Opaque()
    if annotation is str:
        return Pointer() if any(hasattr(constraint, "pattern") for constraint in constraints) else Text()
    if annotation is bool:
        return Flag()
    if annotation is int:
        return Whole(_limit(constraints, "ge"), _limit(constraints, "le"))
    if origin is dict:
        return OpaqueObject()
    if origin is list:
        return Many(_shape_of(members[0]), _limit(constraints, "min_length", 0))
    if origin is Literal:
        return _closed_set(members)
    if origin is Union and discriminator is not None:
        return _one_of(discriminator, members)
    if origin is Union and members[0] is str:
        return TextOrMany(cast("Many", _shape_of(members[1])))
    return _record_of(annotation)


def _closed_set(members: Sequence[Any]) -> Shape:
    only, *others = members
    if others:
        return Choice(frozenset(members))
    return Constant(only.value if isinstance(only, Enum) else only, only)


def _one_of(discriminator: str, members: tuple[Any, ...]) -> OneOf:
    is_open = discriminator == _OPEN
    records = {model.model_fields[discriminator].default: _record_of(model, is_open) for model in members}
    key = next(iter(records.values())).model.model_fields[discriminator].alias or discriminator
    return OneOf(key, records)


def _limit(constraints: Sequence[Any], name: str, default: int | None = None) -> int:
    found = (getattr(constraint, name) for constraint in constraints if hasattr(constraint, name))
    limit = next(found, default)
    if limit is None:
        raise TypeError(f"the models no longer bound their integers by {name!r}")
    return limit


_EVENTS: tuple[type[BaseModel], ...] = get_args(get_args(cast("Any", Event))[0])
EVENT_SHAPES: dict[str, Record] = {model.model_fields["type"].default.value: _record_of(model) for model in _EVENTS}
INPUT_SHAPE = _record_of(RunAgentInput)
