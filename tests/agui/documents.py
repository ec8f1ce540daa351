"""Documents drawn from a JSON Schema, and documents with one thing wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

TEXTS = st.sampled_from(["", "a", "é😀", "null", "NaN 1e999", "\n", "x" * 30])
OPAQUE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**60) | st.floats(-1e9, 1e9) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
POINTERS = st.sampled_from(["", "/", "/a", "/a/0", "/~0~1", "/a b/é", "/-"])
WRONG = [None, 5, -1, 1.5, 2.0, "x", True, [], {}, 2**53, "/~", {"type": "later"}, {"role": "later"}, {"op": "later"}]
NEWER_KEYS = ["zz", "message_id", "encryptedValueType"]


class Schema:
    """The definitions of a schema, as strategies for the documents they allow."""

    def __init__(self, schema: dict[str, Any], *, without: frozenset[str]) -> None:
        self.definitions: dict[str, Any] = schema["$defs"]
        self._without = without
        self._events = {
            shape["properties"]["type"]["const"]: name
            for name, shape in self.definitions.items()
            if name.endswith("Event") and "const" in shape.get("properties", {}).get("type", {})
        }

    def documents(self, name: str) -> st.SearchStrategy[Any]:
        return self.values(self.definitions[name])

    def event(self, name: str) -> str:
        """The name of the definition of an event, by its type."""
        return self._events.get(name, "Event")

    def values(self, shape: dict[str, Any]) -> st.SearchStrategy[Any]:
        if "not" in shape:
            return OPAQUE.filter(lambda value: value is not None)
        if "$ref" in shape:
            return self.values(self.definitions[shape["$ref"].rpartition("/")[2]])
        if "const" in shape:
            return st.just(shape["const"])
        if "enum" in shape:
            return st.sampled_from(shape["enum"])
        if "oneOf" in shape:
            return st.one_of(*map(self.values, shape["oneOf"]))
        kind = shape.get("type")
        if kind == "string":
            return POINTERS if "pattern" in shape else TEXTS
        if kind == "integer":
            return st.integers(shape["minimum"], shape["maximum"]) | st.integers(0, 9).map(float)
        if kind == "boolean":
            return st.booleans()
        if kind == "array":
            return st.lists(self.values(shape["items"]), min_size=shape.get("minItems", 0), max_size=2)
        if kind == "object":
            return self._objects(shape)
        return OPAQUE

    def _objects(self, shape: dict[str, Any]) -> st.SearchStrategy[Any]:
        properties, required = self.fields(shape)
        if not properties:
            return st.dictionaries(TEXTS, OPAQUE, max_size=2)
        values = {key: self.values(value) for key, value in properties.items() if key not in self._without}
        return st.fixed_dictionaries(
            {key: value for key, value in values.items() if key in required},
            optional={key: value for key, value in values.items() if key not in required},
        )

    def fields(self, shape: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
        properties, required = dict[str, Any](), set(shape.get("required", ()))
        for part in shape.get("allOf", ()):
            inherited, needed = self.fields(self.definitions[part["$ref"].rpartition("/")[2]])
            properties |= inherited
            required |= needed
        return properties | shape.get("properties", {}), required


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to everything inside a document."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


@st.composite
def corrupted(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> Any:
    """A document with one value replaced, removed or added."""
    document = copy.deepcopy(draw(documents))
    path = draw(st.sampled_from([*places(document)]))
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    change = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
    if change == "replace":
        holder[path[-1]] = copy.deepcopy(draw(st.sampled_from(WRONG)))
    elif change == "remove":
        del holder[path[-1]]
    elif isinstance(holder, dict):
        holder[draw(st.sampled_from(NEWER_KEYS))] = draw(OPAQUE)
    else:
        holder.append(copy.deepcopy(draw(st.sampled_from(WRONG))))
    return document


def bytes_of(document: Any) -> bytes:
    return json.dumps(document).encode()
