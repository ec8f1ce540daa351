"""JSON Patch: the RFC's own examples, what strict means, all or nothing, and a slow reference."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from ag_ui.core import StateDeltaEvent
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.counting import calls
from tests.agui.effort import effort

from handrail.agui._json import encode_json, parse_json
from handrail.agui._patch import Document
from handrail.agui._values import copy_json, extent, json_equal
from handrail.errors import HandrailError, PatchError


def operations(*patch: dict[str, Any]) -> list[Any]:
    """The operations as an event holds them."""
    return StateDeltaEvent.model_validate({"type": "STATE_DELTA", "delta": list(patch)}).delta


def patched(value: Any, *patch: dict[str, Any]) -> Any:
    document = Document(value)
    document.patch(operations(*patch))
    return document.read()


def refused(value: Any, *patch: dict[str, Any], result: type = object) -> PatchError:
    """The error of a patch that does not apply, which leaves the value as it was."""
    document = Document(value)
    with pytest.raises(PatchError) as caught:
        document.patch(operations(*patch), result=result)
    assert json.dumps(document.read(), sort_keys=True) == json.dumps(value, sort_keys=True)
    return caught.value


def attempt(document: Document, patch: list[Any]) -> None:
    with suppress(PatchError):
        document.patch(patch)


def op(name: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **rest}


def move(source: str, target: str) -> dict[str, Any]:
    return {"op": "move", "from": source, "path": target}


RFC_EXAMPLES: list[tuple[str, Any, list[dict[str, Any]], Any]] = [
    ("A.1", {"foo": "bar"}, [op("add", "/baz", value="qux")], {"baz": "qux", "foo": "bar"}),
    ("A.2", {"foo": ["bar", "baz"]}, [op("add", "/foo/1", value="qux")], {"foo": ["bar", "qux", "baz"]}),
    ("A.3", {"baz": "qux", "foo": "bar"}, [op("remove", "/baz")], {"foo": "bar"}),
    ("A.4", {"foo": ["bar", "qux", "baz"]}, [op("remove", "/foo/1")], {"foo": ["bar", "baz"]}),
    ("A.5", {"baz": "qux", "foo": "bar"}, [op("replace", "/baz", value="boo")], {"baz": "boo", "foo": "bar"}),
    (
        "A.6",
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [move("/foo/waldo", "/qux/thud")],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    (
        "A.7",
        {"foo": ["all", "grass", "cows", "eat"]},
        [move("/foo/1", "/foo/3")],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    (
        "A.8",
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [op("test", "/baz", value="qux"), op("test", "/foo/1", value=2)],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    ("A.9", {"baz": "qux"}, [op("test", "/baz", value="bar")], PatchError),
    (
        "A.10",
        {"foo": "bar"},
        [op("add", "/child", value={"grandchild": {}})],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    ("A.11", {"foo": "bar"}, [op("add", "/baz", value="qux", xyz=123)], {"foo": "bar", "baz": "qux"}),
    ("A.12", {"foo": "bar"}, [op("add", "/baz/bat", value="qux")], PatchError),
    ("A.14", {"/": 9, "~1": 10}, [op("test", "/~01", value=10)], {"/": 9, "~1": 10}),
    ("A.15", {"/": 9, "~1": 10}, [op("test", "/~01", value="10")], PatchError),
    ("A.16", {"foo": ["bar"]}, [op("add", "/foo/-", value=["abc", "def"])], {"foo": ["bar", ["abc", "def"]]}),
]


@pytest.mark.parametrize(
    ("value", "patch", "expected"), [row[1:] for row in RFC_EXAMPLES], ids=[r[0] for r in RFC_EXAMPLES]
)
def test_examples_of_the_rfc(value: Any, patch: list[dict[str, Any]], expected: Any) -> None:
    """P-55: the examples of RFC 6902, appendix A (A.13 is no JSON, a matter of the decoder)."""
    if expected is PatchError:
        refused(value, *patch)
    else:
        assert patched(value, *patch) == expected


POINTERS: dict[str, Any] = {
    "": ...,
    "/foo": ["bar", "baz"],
    "/foo/0": "bar",
    "/": 0,
    "/a~1b": 1,
    "/c%d": 2,
    "/e^f": 3,
    "/g|h": 4,
    "/i\\j": 5,
    '/k"l': 6,
    "/ ": 7,
    "/m~0n": 8,
}


@pytest.mark.parametrize("pointer", POINTERS)
def test_pointers_of_the_rfc(pointer: str) -> None:
    """P-55: the pointers of RFC 6901, section 5."""
    value = {
        "foo": ["bar", "baz"],
        "": 0,
        "a/b": 1,
        "c%d": 2,
        "e^f": 3,
        "g|h": 4,
        "i\\j": 5,
        'k"l': 6,
        " ": 7,
        "m~n": 8,
    }
    expected = value if pointer == "" else POINTERS[pointer]
    patched(value, op("test", pointer, value=expected))
    if pointer:
        assert "removed" in patched({"removed": 1, **value}, op("remove", pointer))


STRICT: list[tuple[str, Any, list[dict[str, Any]]]] = [
    ("replace needs its target", {}, [op("replace", "/a", value=1)]),
    ("remove needs its target", {}, [op("remove", "/a")]),
    ("an item to replace", [1], [op("replace", "/1", value=1)]),
    ("an item to remove", [1], [op("remove", "/1")]),
    ("no gap", [1], [op("add", "/2", value=1)]),
    ("no leading zero", [1, 2], [op("replace", "/00", value=1)]),
    ("no leading zero in add", [1, 2], [op("add", "/01", value=1)]),
    ("no minus", [1, 2], [op("replace", "/-1", value=1)]),
    ("no plus", [1, 2], [op("replace", "/+1", value=1)]),
    ("no exponent", [1, 2], [op("replace", "/1e0", value=1)]),
    ("no space", [1, 2], [op("replace", "/ 1", value=1)]),
    ("no underscore", list(range(20)), [op("replace", "/1_0", value=1)]),
    ("no other digits", [1, 2], [op("replace", "/١", value=1)]),
    ("no name in an array", [1, 2], [op("replace", "/a", value=1)]),
    ("no empty name in an array", [1, 2], [op("replace", "/", value=1)]),
    ("an index beyond all numbers", [1], [op("replace", "/" + "9" * 5000, value=1)]),
    ("nothing to remove at -", [1], [op("remove", "/-")]),
    ("nothing to replace at -", [1], [op("replace", "/-", value=1)]),
    ("nothing to test at -", [1], [op("test", "/-", value=1)]),
    ("nothing to move at -", [1], [move("/-", "/0")]),
    ("true is not 1", {"a": 1}, [op("test", "/a", value=True)]),
    ("false is not 0", {"a": False}, [op("test", "/a", value=0)]),
    ("true is not 1, deep", {"a": [{"b": 1}]}, [op("test", "/a", value=[{"b": True}])]),
    ("absent is not null", {}, [op("test", "/a", value=None)]),
    ("an array is no object", {"a": []}, [op("test", "/a", value={})]),
    ("a text is no number", {"a": 1}, [op("test", "/a", value="1")]),
    ("one member more", {"a": {"b": 1}}, [op("test", "/a", value={"b": 1, "c": 2})]),
    ("order of an array", {"a": [1, 2]}, [op("test", "/a", value=[2, 1])]),
    ("no parent", {}, [op("add", "/a/b", value=1)]),
    ("a parent without members", {"a": 1}, [op("add", "/a/b", value=1)]),
    ("a text has no items", {"a": "xy"}, [op("replace", "/a/0", value=1)]),
    ("null has no members", None, [op("add", "/a", value=1)]),
    ("into its own child", {"a": {"b": {}}}, [move("/a", "/a/b/c")]),
    ("the root into its own child", {"a": {}}, [move("", "/a")]),
    ("nothing to move", {}, [move("/a", "/b")]),
    ("nothing to move to itself", {}, [move("/a", "/a")]),
    ("nothing to copy", {}, [{"op": "copy", "from": "/a", "path": "/b"}]),
]


@pytest.mark.parametrize(("value", "patch"), [row[1:] for row in STRICT], ids=[row[0] for row in STRICT])
def test_what_strict_means(value: Any, patch: list[dict[str, Any]]) -> None:
    """P-55: what does not apply is refused, behind operations that do, and everything is taken back."""
    refused(value, *patch)
    if isinstance(value, dict):
        error = refused(
            {**value, "zz": [1, {"y": 2}]},
            op("remove", "/zz/0"),
            op("add", "/zz/0/x", value=3),
            move("/zz/0/y", "/yy"),
            op("replace", "/zz", value=None),
            *patch,
        )
        assert error.index == 4


@pytest.mark.parametrize("pointer", ["a", "a/b", "/~", "/~2", "/a~"])
def test_what_is_no_pointer(pointer: str) -> None:
    """P-55: a pointer that is none is refused also where no model has seen it."""
    operation = operations(op("remove", "/a"))[0].model_copy(update={"path": pointer})
    with pytest.raises(PatchError, match="no JSON pointer"):
        Document({"a": 1, "~": 1, "~2": 1, "a~": 1}).patch([operation])


@pytest.mark.parametrize(
    ("value", "patch", "expected"),
    [
        ({"a": 1}, [op("test", "/a", value=1.0)], {"a": 1}),
        ({"a": {"b": 1, "c": [1.0]}}, [op("test", "/a", value={"c": [1], "b": 1})], {"a": {"b": 1, "c": [1.0]}}),
        ({"a": 1}, [op("add", "", value=[1])], [1]),
        ({"a": 1}, [op("replace", "", value=None), op("test", "", value=None)], None),
        ({"a": 1}, [op("remove", "")], None),
        ({"a": 1}, [move("/a", "")], 1),
        ({"a": 1}, [{"op": "copy", "from": "", "path": "/b"}], {"a": 1, "b": {"a": 1}}),
        ({"a": 1}, [move("/a", "/a")], {"a": 1}),
        ({"a": 1, "ab": 2}, [move("/a", "/ab")], {"ab": 1}),
        ([1, 2, 3], [move("/0", "/-")], [2, 3, 1]),
        ([], [op("add", "/0", value=1), op("add", "/-", value=2)], [1, 2]),
        ({}, [op("add", "/-", value=1), op("replace", "/-", value=2)], {"-": 2}),
        ({"00": 1}, [op("replace", "/00", value=2)], {"00": 2}),
        ({"a": None}, [op("replace", "/a", value=1)], {"a": 1}),
        ({"a": 1}, [], {"a": 1}),
    ],
)
def test_corners(value: Any, patch: list[dict[str, Any]], expected: Any) -> None:
    """P-55: equal numbers, the root, the place behind the last item, names that look like indexes."""
    assert json.dumps(patched(value, *patch), sort_keys=True) == json.dumps(expected, sort_keys=True)


def test_the_error_says_what() -> None:
    """P-5, P-54: index, operation, path and reason."""
    error = refused({}, op("add", "/a", value=1), op("remove", "/b/c"))
    assert isinstance(error, HandrailError)
    assert (error.index, error.op, error.path, error.why) == (1, "remove", "/b/c", "there is no member 'b'")
    for word in ("1", "remove", "'/b/c'", error.why):
        assert word in str(error)


def test_the_result_must_be_an_object() -> None:
    """P-56: where an object is asked for, a patch that makes something else is taken back."""
    error = refused({"a": 1}, op("replace", "/a", value=2), op("replace", "", value=[]), result=dict)
    assert error.index == 1
    document = Document([])
    document.patch([], result=dict)
    assert document.read() == []


def test_nothing_is_shared() -> None:
    """P-55, P-60: neither with what it starts from, nor with the event, nor between copies, nor with what was read."""
    start, value = {"a": [1]}, [1]
    document = Document(start)
    start["a"].append(2)
    patch = operations(op("add", "/b", value=value), op("replace", "/b", value=value), op("add", "/c", value=value))
    document.patch(patch)
    for operation in patch:
        operation.value.append(2)
    document.patch(operations({"op": "copy", "from": "/c", "path": "/d"}, op("add", "/d/-", value=3)))
    read = document.read()
    assert read == {"a": [1], "b": [1], "c": [1], "d": [1, 3]}
    assert document.read() is read
    document.patch(operations(op("add", "/a/-", value=9), op("remove", "/b")))
    assert read == {"a": [1], "b": [1], "c": [1], "d": [1, 3]}


@pytest.mark.parametrize(
    "patch",
    [
        [op("replace", "/k5/n", value=1), op("add", "/k7/x", value={"a": 1})],
        [op("remove", "/k5"), op("test", "/k6/n", value=6)],
        [op("add", "/k5/n", value=1), op("replace", "/nowhere", value=1)],
    ],
)
def test_cost_does_not_depend_on_the_untouched(patch: list[dict[str, Any]]) -> None:
    """P-55, P-60, F-6: the same work at 100 and at 100,000 keys, also where a patch is taken back."""
    counts = set[int]()
    for keys in (100, 100_000):
        document, made = Document({f"k{number}": {"n": number} for number in range(keys)}), operations(*patch)
        counts.add(calls(partial(attempt, document, made), "call", "c_call"))
    assert len(counts) == 1
    assert counts.pop() < 100


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def depth(value: Any) -> int:
    return 1 + max(map(depth, value.values()), default=0) if isinstance(value, dict) else 0


@pytest.mark.parametrize(
    "patch",
    [
        [op("add", "/b", value={}), move("/a", "/b/a"), move("/b", "/a")],
        [op("add", "/b", value={"a": {}}), {"op": "copy", "from": "/a", "path": "/b/a"}, move("/b", "/a")],
    ],
)
def test_values_are_not_nested_without_end(patch: list[dict[str, Any]]) -> None:
    """P-16, P-54, P-55: what could not be sent in a request of 200 levels is not made; the value stays as it was."""
    document = Document({"a": {}})

    def go_on() -> None:
        for _ in range(300):
            document.patch(operations(*patch))

    with pytest.raises(PatchError, match="200 levels"):
        go_on()
    assert depth(document.read()) == 199
    assert parse_json(encode_json({"state": document.read()})) == {"state": document.read()}


@pytest.mark.parametrize("kind", ["add", "replace"])
def test_a_value_may_be_as_deep_as_can_be_sent(kind: str) -> None:
    """P-16, P-55: 199 levels and the object around them; a plain value adds none."""
    document = Document({"a": 1})
    with pytest.raises(PatchError, match="200 levels"):
        document.patch(operations(op(kind, "/a", value=nested(199))))
    document.patch(operations(op(kind, "/a", value=nested(198))))
    assert depth(document.read()) == 199
    document.patch(operations(op("add", "/a" * 198 + "/b", value=1)))
    document.patch(operations(move("/a", "/b")))
    assert depth(document.read()) == 199


def test_values_deeper_than_the_stack() -> None:
    """P-55: neither comparing, copying nor measuring a value is a matter of Python's stack."""
    deep = nested(5000)
    assert json_equal(deep, copy_json(deep))
    assert extent(deep) == (5000, 5000 * 16 + 4999)
    assert extent(["ab", 1, {"k": None}]) == (2, 5 * 16 + 3)


def test_a_value_that_was_deep_before_stays_usable() -> None:
    """P-54: the limit is for what a patch makes, not for what an application has put there."""
    document = Document({"deep": nested(1000), "a": 1})
    document.patch(operations(op("replace", "/a", value=[2]), op("remove", "/deep/a"), op("add", "/b", value={})))
    assert document.read() == {"deep": {}, "a": [2], "b": {}}


def test_copies_do_not_grow_without_end() -> None:
    """P-54, P-55: what one patch copies is bounded, so that a few operations cannot fill the memory; it is undone."""
    document = Document({})
    doubling = [{"op": "copy", "from": "", "path": f"/k{number}"} for number in range(30)]
    with pytest.raises(PatchError, match="copies more than") as caught:
        document.patch(operations(*doubling))
    assert caught.value.op == "copy"
    assert document.read() == {}
    text = Document({"s": "x" * 2**20})
    copies = [{"op": "copy", "from": "/s", "path": f"/k{number}"} for number in range(4)]
    with pytest.raises(PatchError, match="copies more than"):
        text.patch(operations(*copies))
    for _ in range(3):
        text.patch(operations(*copies[:3]))
    assert len(text.read()) == 4


# -- against a slow reference ----------------------------------------------------------------------------------------

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
