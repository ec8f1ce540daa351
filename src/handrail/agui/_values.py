"""Plain JSON values as Python holds them: when two are equal, a copy that shares nothing, and how large one is.

Python's own `==` is too weak for JSON: it takes True for 1. `copy.deepcopy` is right, and several times slower than a
value without cycles needs. No function recurses, since a value may be nested deeper than Python's stack.
"""

from __future__ import annotations

from typing import Any, cast

__all__ = ["copy_json", "extent", "json_equal"]

_WEIGHT_OF_A_VALUE = 16
_NESTED = (dict, list)  # `dict | list` would make a new type each time


def json_equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are the same value: 1 equals 1.0, true equals no number, objects have no order."""
    pairs: list[tuple[Any, Any]] = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, bool) or isinstance(other, bool):
            if one is not other:
                return False
        elif isinstance(one, dict) and isinstance(other, dict):
            mine, theirs = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
            if mine.keys() != theirs.keys():
                return False
            pairs.extend((value, theirs[key]) for key, value in mine.items())
        elif isinstance(one, list) and isinstance(other, list):
            mine, theirs = cast("list[Any]", one), cast("list[Any]", other)
            if len(mine) != len(theirs):
                return False
            pairs.extend(zip(mine, theirs, strict=True))
        elif one != other:
            return False
    return True


def copy_json(value: Any) -> Any:
    """A copy of a JSON value that shares no object or list with it; anything else is passed through as it is."""
    if not isinstance(value, _NESTED):
        return value
    root = cast("dict[Any, Any] | list[Any]", value).copy()
    todo: list[dict[Any, Any] | list[Any]] = [root]
    while todo:
        node = todo.pop()
        for key, child in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(child, _NESTED):
                node[key] = own = cast("dict[Any, Any] | list[Any]", child).copy()
                todo.append(own)
    return root


def extent(value: Any) -> tuple[int, int]:
    """How many levels of objects and lists a JSON value has, and its weight: a byte a character, and 16 a value."""
    depth = weight = 0
    level = [value]
    while level:
        below: list[Any] = []
        is_nested = False
        for item in level:
            weight += _WEIGHT_OF_A_VALUE
            if isinstance(item, str):
                weight += len(item)
            elif isinstance(item, dict):
                members = cast("dict[str, Any]", item)
                is_nested = True
                weight += len("".join(members))
                below.extend(members.values())
            elif isinstance(item, list):
                is_nested = True
                below.extend(cast("list[Any]", item))
        depth += is_nested
        level = below
    return depth, weight
