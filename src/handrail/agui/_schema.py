"""The part of JSON Schema that the answer to a question is judged by (S-91).

Judged are the keywords that say what a form may contain: types, properties, items, choices, bounds and their
combinations. Every other keyword, and a keyword whose own value makes no sense, is ignored: a server may ask for more
than we can check, and then it does the checking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from handrail.agui._values import json_equal

__all__ = ["is_valid", "type_names", "violations"]

Violation = tuple[str, str]
"""Where (a JSON pointer into the value) and what is wrong there."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
}

_BOUNDS: tuple[tuple[str, Callable[[Any], Any], Callable[[Any, Any], bool], str], ...] = (
    ("minimum", lambda value: value if _is_number(value) else None, lambda size, bound: size >= bound, "less than {}"),
    ("maximum", lambda value: value if _is_number(value) else None, lambda size, bound: size <= bound, "more than {}"),
    ("minLength", lambda value: _length(value, str), lambda size, bound: size >= bound, "shorter than {}"),
    ("maxLength", lambda value: _length(value, str), lambda size, bound: size <= bound, "longer than {}"),
    ("minItems", lambda value: _length(value, list), lambda size, bound: size >= bound, "has fewer items than {}"),
    ("maxItems", lambda value: _length(value, list), lambda size, bound: size <= bound, "has more items than {}"),
)


def _length(value: Any, kind: type) -> int | None:
    return len(value) if isinstance(value, kind) else None


def is_valid(value: Any, schema: Any) -> bool:
    """Whether `violations` finds none."""
    return next(violations(value, schema), None) is None


def violations(value: Any, schema: Any, path: str = "") -> Iterator[Violation]:
    """What is wrong with a JSON value by the judged keywords of a schema, outermost first; nothing raises."""
    if schema is False:
        yield path, "nothing is allowed here"
    if not isinstance(schema, dict):
        return
    rules = cast("dict[str, Any]", schema)
    yield from _own_violations(value, rules, path)
    yield from _combined_violations(value, rules, path)
    if isinstance(value, dict):
        yield from _object_violations(cast("dict[str, Any]", value), rules, path)
    if isinstance(value, list) and "items" in rules:
        for index, item in enumerate(cast("list[Any]", value)):
            yield from violations(item, rules["items"], f"{path}/{index}")


def type_names(schema: Any) -> tuple[str, ...]:
    """The types a schema names, () where it names none that we know."""
    declared = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    names = cast("list[Any]", declared) if isinstance(declared, list) else [declared]
    return tuple(name for name in names if isinstance(name, str) and name in _TYPES)


def _own_violations(value: Any, rules: dict[str, Any], path: str) -> Iterator[Violation]:
    types = type_names(rules)
    if types and not any(_TYPES[name](value) for name in types):
        yield path, f"expected {' or '.join(types)}"
    choices = rules.get("enum")
    if isinstance(choices, list) and not any(json_equal(value, choice) for choice in cast("list[Any]", choices)):
        yield path, f"not one of {choices!r}"
    if "const" in rules and not json_equal(value, rules["const"]):
        yield path, f"expected {rules['const']!r}"
    for keyword, size_of, holds, words in _BOUNDS:
        bound, size = rules.get(keyword), size_of(value)
        if size is not None and _is_number(bound) and not holds(size, bound):
            yield path, words.format(bound)


def _combined_violations(value: Any, rules: dict[str, Any], path: str) -> Iterator[Violation]:
    for part in _schemas(rules, "allOf"):
        yield from violations(value, part, path)
    if (options := _schemas(rules, "anyOf")) and not any(is_valid(value, option) for option in options):
        yield path, "fits none of anyOf"
    if options := _schemas(rules, "oneOf"):
        fitting = sum(is_valid(value, option) for option in options)
        if fitting != 1:
            yield path, f"fits {fitting or 'none'} of oneOf, not exactly one"


def _schemas(rules: dict[str, Any], keyword: str) -> list[Any]:
    value = rules.get(keyword)
    return cast("list[Any]", value) if isinstance(value, list) else []


def _object_violations(value: dict[str, Any], rules: dict[str, Any], path: str) -> Iterator[Violation]:
    required = rules.get("required")
    for name in cast("list[Any]", required) if isinstance(required, list) else []:
        if name not in value:
            yield f"{path}/{_escape(str(name))}", "required, and missing"
    declared = rules.get("properties")
    properties = cast("dict[str, Any]", declared) if isinstance(declared, dict) else {}
    for name, item in value.items():
        where = f"{path}/{_escape(name)}"
        if name in properties:
            yield from violations(item, properties[name], where)
        elif rules.get("additionalProperties") is False:
            yield where, "not a property of the schema"
        else:
            yield from violations(item, rules.get("additionalProperties"), where)


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
