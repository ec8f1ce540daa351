"""JSON Patch: what it shares, what it costs, and where it ends."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.agui.counting import calls
from tests.agui.patching import attempt, move, op, operations

from handrail.agui._json import encode_json, parse_json
from handrail.agui._patch import Document
from handrail.agui._values import copy_json, extent, json_equal
from handrail.errors import PatchError


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
