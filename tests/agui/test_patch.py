"""JSON Patch: the RFC's own examples, what strict means, all or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.agui.patching import move, op, operations, patched, refused

from handrail.agui._patch import Document
from handrail.errors import HandrailError, PatchError

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
