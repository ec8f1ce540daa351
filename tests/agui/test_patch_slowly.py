"""JSON Patch against a slow reference."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.effort import effort
from tests.agui.patching import op, operations

from handrail.agui._patch import Document
from handrail.agui._values import copy_json, json_equal
from handrail.errors import PatchError

KEYS = ["a", "b", "0", "1", "-", "", "~", "/"]
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, -1.5, "", "a", "😀"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=8,
)
TOKENS = st.sampled_from([*KEYS, "2", "01", "zz"])
PATHS = st.lists(TOKENS, max_size=3).map(
    lambda tokens: "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)
)
OPERATIONS = st.one_of(
    st.builds(
        lambda name, path, value: op(name, path, value=value), st.sampled_from(["add", "replace"]), PATHS, VALUES
    ),
    st.builds(lambda path: op("remove", path), PATHS),
    st.builds(lambda path, value: op("test", path, value=value), PATHS, VALUES),
    st.builds(
        lambda name, source, path: {"op": name, "from": source, "path": path},
        st.sampled_from(["move", "copy"]),
        PATHS,
        PATHS,
    ),
)


def slowly(value: Any, patch: list[dict[str, Any]]) -> Any:
    """RFC 6902 read out loud: a whole new value for each operation. Raises LookupError where one does not apply."""
    for one in patch:
        name, path = one["op"], tokens_of(one["path"])
        if name == "test":
            if canonical(look_up(value, path)) != canonical(one["value"]):
                raise LookupError("another value")
        elif name in ("add", "replace"):
            if name == "replace":
                look_up(value, path)
                value = without(value, path) if path else value
            value = with_value(value, path, one["value"])
        elif name == "remove":
            value = without(value, path)
        else:
            source = tokens_of(one["from"])
            moved = look_up(value, source)
            if name == "move" and source != path:
                if path[: len(source)] == source:
                    raise LookupError("its own child")
                value = without(value, source)
            if name == "copy" or source != path:
                value = with_value(value, path, moved)
    return value


def tokens_of(pointer: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def canonical(value: Any) -> str:
    """One text for each JSON value: numbers by size, objects by sorted names."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, int | float):
        return str(float(value))
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return "{" + ",".join(f"{json.dumps(key)}:{canonical(value[key])}" for key in sorted(value)) + "}"


def place(container: Any, token: str, *, end: int = 0) -> Any:
    if isinstance(container, dict):
        return token
    if isinstance(container, list) and token in [str(number) for number in range(len(container) + end)]:
        return int(token)
    raise LookupError(token)


def look_up(value: Any, path: list[str]) -> Any:
    for token in path:
        value = value[place(value, token)]
    return value


def without(value: Any, path: list[str]) -> Any:
    look_up(value, path)
    if not path:
        return None
    value = copy.deepcopy(value)
    parent = look_up(value, path[:-1])
    del parent[place(parent, path[-1])]
    return value


def with_value(value: Any, path: list[str], new: Any) -> Any:
    if not path:
        return new
    value = copy.deepcopy(value)
    parent = look_up(value, path[:-1])
    if isinstance(parent, list):
        index = len(parent) if path[-1] == "-" else place(parent, path[-1], end=1)
        parent.insert(index, copy.deepcopy(new))
    else:
        parent[place(parent, path[-1])] = copy.deepcopy(new)
    return value


@effort(150)
@given(VALUES, st.lists(OPERATIONS, max_size=4))
def test_against_the_slow_reference(value: Any, patch: list[dict[str, Any]]) -> None:
    """P-54, P-55: the same value, or the same refusal with everything as it was."""
    document = Document(value)
    try:
        expected = slowly(value, patch)
    except LookupError:
        with pytest.raises(PatchError):
            document.patch(operations(*patch))
        assert canonical(document.read()) == canonical(value)
    else:
        document.patch(operations(*patch))
        assert canonical(document.read()) == canonical(expected)


@effort(80)
@given(VALUES, VALUES)
def test_equality_and_copies(one: Any, other: Any) -> None:
    """P-55: equal as JSON values are, and a copy is equal and shares nothing."""
    assert json_equal(one, other) is (canonical(one) == canonical(other))
    copied = copy_json(one)
    assert canonical(copied) == canonical(one)
    assert copied is not one or not isinstance(one, list | dict)
