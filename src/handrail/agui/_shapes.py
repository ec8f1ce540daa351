"""The kinds of shape a payload is made of, each with its step of the one walk that enforces them.

The models of `ag_ui.core` alone would not do: they keep unknown keys, read snake_case, take null for an optional field,
and refuse a whole event for one unknown part of it. So a decoded payload is walked by the table that `_shape_table`
makes of them, and the instance is built from what is left, without a further check.

    unknown    a key, a member of a union or of a closed set that is newer than we are: dropped with a warning, the
               smallest optional field or list element around it whole, and reported once, at that place
    malformed  a known slot with a wrong value: fatal, never coerced (12.0 is 12, which is the same number)
    opaque     metadata, state, content, results, ...: any JSON value, untouched and not looked into
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from pydantic import BaseModel

from handrail.agui._json import excerpt
from handrail.agui._models import instance
from handrail.agui._warnings import WarningRecord

__all__ = [
    "UNKNOWN",
    "Choice",
    "Constant",
    "Field",
    "Flag",
    "Malformed",
    "Many",
    "OneOf",
    "Opaque",
    "OpaqueObject",
    "Pointer",
    "Reading",
    "Record",
    "Shape",
    "Text",
    "TextOrMany",
    "Whole",
    "kind_of",
]

_POINTER = re.compile(r"(?:/[^/~]*+(?:~[01][^/~]*+)*+)*+")

UNKNOWN: Any = object()
"""What a walk gives for something that is newer than this version of the protocol."""


class Malformed(Exception):
    """A known slot holds a wrong value; `path` is a JSON pointer, the text says what is wrong there."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(what)
        self.path = path


def _wrong(path: str, expected: str, value: object) -> Malformed:
    return Malformed(path, f"expected {expected}, received {kind_of(value)}")


@dataclass(slots=True)
class Reading:
    """One walk: what it tolerates, and what it has to say so far."""

    null_is_absent: bool = False
    """Whether null reads as absent in every optional field, and not only in the listed ones."""
    warnings: list[WarningRecord] = field(default_factory=list[WarningRecord])

    def warn(self, code: str, message: str, path: str) -> None:
        self.warnings.append(WarningRecord(code, message, path))


class Shape(Protocol):
    """One kind of value: gives the value as the models hold it, UNKNOWN, or raises `Malformed`."""

    def read(self, value: Any, path: str, reading: Reading) -> Any: ...


@dataclass(frozen=True, slots=True)
class Text:
    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if isinstance(value, str):
            return value
        raise _wrong(path, "string", value)


@dataclass(frozen=True, slots=True)
class Pointer:
    """A JSON pointer of RFC 6901."""

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if isinstance(value, str) and _POINTER.fullmatch(value):
            return value
        raise _wrong(path, "a JSON pointer", value)


@dataclass(frozen=True, slots=True)
class Flag:
    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if isinstance(value, bool):
            return value
        raise _wrong(path, "boolean", value)


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer, which a number with no fractional part is too."""

    low: int
    high: int

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return value
        raise _wrong(path, f"an integer from {self.low} to {self.high}", value)


@dataclass(frozen=True, slots=True)
class Constant:
    """The one string that may stand here; another is no newer member but a mistake."""

    text: str
    value: Any

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if value == self.text and isinstance(value, str):
            return self.value
        raise _wrong(path, f'"{self.text}"', value)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a closed set of strings, which a later version may have widened."""

    values: frozenset[str]

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, str):
            raise _wrong(path, "string", value)
        return value if value in self.values else UNKNOWN


@dataclass(frozen=True, slots=True)
class Opaque:
    """Any JSON value, null included."""

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        return value


@dataclass(frozen=True, slots=True)
class OpaqueObject:
    """An object with any keys."""

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        raise _wrong(path, "object", value)


@dataclass(frozen=True, slots=True)
class Many:
    """A list; of its elements the unknown ones are dropped."""

    item: Shape
    at_least: int = 0

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, list):
            raise _wrong(path, "array", value)
        elements = cast("list[Any]", value)
        if len(elements) < self.at_least:
            raise Malformed(path, f"expected at least {self.at_least} element, received an array of {len(elements)}")
        kept: list[Any] = []
        for index, element in enumerate(elements):
            place = f"{path}/{index}"
            said = len(reading.warnings)
            item = self.item.read(element, place, reading)
            if item is UNKNOWN:
                del reading.warnings[said:]
                reading.warn("unknown-value", f"unknown element {excerpt(element)} at {place} dropped", place)
            else:
                kept.append(item)
        return kept


@dataclass(frozen=True, slots=True)
class TextOrMany:
    """A string, or a list of parts."""

    many: Many

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if isinstance(value, str):
            return value
        if not isinstance(value, list):
            raise _wrong(path, "string or array", value)
        return self.many.read(cast("list[Any]", value), path, reading)


@dataclass(frozen=True, slots=True)
class OneOf:
    """An object of one of several kinds, told by one of its keys."""

    key: str
    members: Mapping[str, Record]

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, dict):
            raise _wrong(path, "object", value)
        members = cast("dict[str, Any]", value)
        if self.key not in members:
            raise Malformed(f"{path}/{self.key}", f"the required field {self.key!r} is missing")
        tag = members[self.key]
        if not isinstance(tag, str):
            raise _wrong(f"{path}/{self.key}", "string", tag)
        member = self.members.get(tag)
        return UNKNOWN if member is None else member.read(members, path, reading)


@dataclass(frozen=True, slots=True)
class Field:
    """One key of an object: what it may hold, and the attribute of the model that it becomes."""

    name: str
    shape: Shape
    required: bool
    null_is_absent: bool = False


@dataclass(slots=True)
class Record:
    """An object with the fields of a model; one that is `open` keeps further keys as they are."""

    model: type[BaseModel]
    is_open: bool = False
    fields: dict[str, Field] = field(default_factory=dict[str, Field])
    required: dict[str, str] = field(default_factory=dict[str, str])
    """Attribute to key, of what must be there."""
    absent: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the model holds where nothing was given: None, or its constant."""

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        if not isinstance(value, dict):
            raise _wrong(path, "object", value)
        values, given, further = self.absent.copy(), set[str](), dict[str, Any]()
        is_unknown = False
        for key, item in cast("dict[str, Any]", value).items():
            slot = self.fields.get(key)
            if slot is None:
                self._read_further(key, item, path, reading, further)
                continue
            place = f"{path}/{key}"
            if item is None and not slot.required:
                _read_null(slot, key, place, reading)
                continue
            said = len(reading.warnings)
            held = slot.shape.read(item, place, reading)
            if held is not UNKNOWN:
                values[slot.name] = held
                given.add(slot.name)
            elif slot.required:
                is_unknown = True
                given.add(slot.name)
            else:
                del reading.warnings[said:]
                reading.warn("unknown-value", f"unknown value {excerpt(item)} at {place} dropped", place)
        for name, key in self.required.items():
            if name not in given:
                raise Malformed(f"{path}/{key}", f"the required field {key!r} is missing")
        return UNKNOWN if is_unknown else instance(self.model, values, given, further)

    def build(self, given: dict[str, Any]) -> Any:
        """An instance of the model from attributes that are known to be right; its constants come by themselves."""
        values = self.absent | given
        return instance(self.model, values, {"type", *given}, {})

    def _read_further(self, key: str, item: Any, path: str, reading: Reading, further: dict[str, Any]) -> None:
        if self.is_open:
            further[key] = item
        else:
            place = f"{path}/{_escaped(key)}"
            reading.warn("unknown-property", f"unknown property {excerpt(key)!r} at {excerpt(place)} removed", place)


def _read_null(slot: Field, key: str, place: str, reading: Reading) -> None:
    """Null in an optional field: legal nowhere, and read as absent where old peers are known to send it."""
    if not (slot.null_is_absent or reading.null_is_absent):
        raise Malformed(place, f"the optional field {key!r} is null; leave the field out")
    reading.warn("null-read-as-absent", f"null in the optional field {place} read as absent", place)


def kind_of(value: object) -> str:
    """What JSON calls it, or Python if JSON has no such thing; a string or a number is shown as well."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f'the string "{excerpt(value)}"'
    if isinstance(value, int | float):
        return f"the number {excerpt(value)}"
    if isinstance(value, list | dict):
        return "array" if isinstance(value, list) else "object"
    return f"a Python {type(value).__name__}"


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
