"""Plain JSON values as Python holds them: when two are equal, and a copy that shares nothing.

Python's own `==` is too weak for JSON: it takes True for 1. `copy.deepcopy` is right and five times slower than a value
without cycles needs.
"""

from __future__ import annotations

from typing import Any, cast

__all__ = ["copy_json", "json_equal"]


def json_equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are the same value: 1 equals 1.0, true equals no number, objects have no order."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        mine, theirs = cast("dict[Any, Any]", left), cast("dict[Any, Any]", right)
        return len(mine) == len(theirs) and all(
            key in theirs and json_equal(value, theirs[key]) for key, value in mine.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        mine, theirs = cast("list[Any]", left), cast("list[Any]", right)
        return len(mine) == len(theirs) and all(map(json_equal, mine, theirs))
    return left == right


def copy_json(value: Any) -> Any:
    """A copy of a JSON value that shares no object or list with it; anything else is passed through as it is."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [copy_json(item) for item in cast("list[Any]", value)]
    return value
