"""JSON Patch (RFC 6902) over JSON Pointer (RFC 6901): strict, all or nothing, and in place.

A `Document` holds a value of its own. A patch changes that value where it stands and notes how to take each change
back, so its cost is that of the patch and of the paths it walks, whatever the size of the rest; one that fails is taken
back in reverse. Whoever reads gets a copy, made at the first reading after a change, so what was read never changes.

Strict means: `replace`, `remove`, `test`, and the source of `move` and `copy` need a value that is there; a parent must
be there for every operation; an index is decimal without sign or leading zero; `-` is the place behind the last item,
and only `add` (and the target of `move` and `copy`) may use it; a move into its own child is refused; `test` compares
JSON values. Removing the root leaves null, which the RFC does not say and other implementations do.

A patch makes nothing that could not have been sent: what it nests deeper than a peer would read, or copies beyond
`MAX_COPIED`, does not apply. Else a handful of operations could double a value until nobody can hold or send it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from handrail.agui._json import MAX_DEPTH
from handrail.agui._values import copy_json, extent, json_equal
from handrail.errors import PatchError

__all__ = ["MAX_COPIED", "Document"]

MAX_COPIED = 4 * 2**20
"""The most that the copies of one patch may weigh together, in bytes as `extent` counts them."""
_MAX_LEVELS = MAX_DEPTH - 1  # the request or event that carries the value is a level of its own
_UNREAD: Any = object()
_Undo = list[tuple[Any, ...]]
"""What takes a patch back, last change first: a function and its arguments each."""


class _Refused(Exception):
    """Why an operation does not apply; made a `PatchError` where its index is known."""

    def __init__(self, why: str) -> None:
        self.why = why


class Document:
    """A JSON value of its own that patches change in place; what `read` has given never changes."""

    __slots__ = ("_copied", "_read", "_root")

    def __init__(self, value: Any) -> None:
        self._root = copy_json(value)
        self._read = _UNREAD
        self._copied = 0
        """What the copies of the patch at hand weigh."""

    def read(self) -> Any:
        """The value as it stands now. The first reading after a change costs the size of the value."""
        if self._read is _UNREAD:
            self._read = copy_json(self._root)
        return self._read

    def patch(self, operations: Sequence[Any], *, result: type = object) -> bool:
        """Applies the operations of a STATE_DELTA or ACTIVITY_DELTA in order, all or none; their values are copied.

        Gives whether anything is another value now: what was put where its equal stood changes nothing.

        Raises `PatchError` naming the operation, its path and the reason, where one does not apply or the value is no
        `result` afterwards; the value is what it was then, members that were removed and put back standing last.
        """
        undo: _Undo = []
        done = self._copied = 0
        try:
            for operation in operations:
                _APPLY[operation.op](self, operation, undo)
                done += 1
            if operations and not isinstance(self._root, result):
                done -= 1
                raise _Refused("the value would be no object")
        except _Refused as refused:
            for restore, *arguments in reversed(undo):
                restore(*arguments)
            raise _error(operations[done], done, refused.why) from None
        if undo:
            self._read = _UNREAD
        return bool(undo)

    def _set_root(self, value: Any, undo: _Undo) -> None:
        undo.append((setattr, self, "_root", self._root))
        self._root = value

    def _at(self, tokens: list[str]) -> Any:
        value = self._root
        for token in tokens:
            value = value[_existing(value, token)]
        return value

    def _add(self, operation: Any, undo: _Undo) -> None:
        tokens = _tokens(operation.path)
        self._insert(tokens, _own(operation.value, tokens), undo)

    def _remove(self, operation: Any, undo: _Undo) -> None:
        self._take(_tokens(operation.path), undo)

    def _replace(self, operation: Any, undo: _Undo) -> None:
        tokens = _tokens(operation.path)
        value = _own(operation.value, tokens)
        if not tokens:
            self._set_root(value, undo)
            return
        parent = self._at(tokens[:-1])
        key = _existing(parent, tokens[-1])
        if not json_equal(parent[key], value):
            undo.append((parent.__setitem__, key, parent[key]))
            parent[key] = value

    def _move(self, operation: Any, undo: _Undo) -> None:
        source, target = _tokens(operation.from_), _tokens(operation.path)
        value = self._at(source)
        if source == target:
            return
        if target[: len(source)] == source:
            raise _Refused(f"{operation.from_!r} cannot be moved into its own child")
        if len(target) > len(source):
            _check_depth(extent(value)[0], target)
        self._take(source, undo)
        self._insert(target, value, undo)

    def _copy(self, operation: Any, undo: _Undo) -> None:
        value, target = self._at(_tokens(operation.from_)), _tokens(operation.path)
        depth, weight = extent(value)
        _check_depth(depth, target)
        self._copied += weight
        if self._copied > MAX_COPIED:
            raise _Refused(f"the patch copies more than {MAX_COPIED} bytes")
        self._insert(target, copy_json(value), undo)

    def _test(self, operation: Any, undo: _Undo) -> None:
        if not json_equal(self._at(_tokens(operation.path)), operation.value):
            raise _Refused("the value there is another")

    def _insert(self, tokens: list[str], value: Any, undo: _Undo) -> None:
        if not tokens:
            self._set_root(value, undo)
            return
        parent, token = self._at(tokens[:-1]), tokens[-1]
        if isinstance(parent, dict):
            members = cast("dict[str, Any]", parent)
            undo.append(
                (members.__setitem__, token, members[token]) if token in members else (members.__delitem__, token)
            )
            members[token] = value
        elif isinstance(parent, list):
            items = cast("list[Any]", parent)
            index = len(items) if token == "-" else _index(token, len(items) + 1)
            undo.append((items.__delitem__, index))
            items.insert(index, value)
        else:
            raise _Refused(_no_members(parent, token))

    def _take(self, tokens: list[str], undo: _Undo) -> None:
        if not tokens:
            self._set_root(None, undo)
            return
        parent = self._at(tokens[:-1])
        key = _existing(parent, tokens[-1])
        undo.append((_PUT_BACK[type(parent)], parent, key, parent[key]))
        del parent[key]


_PUT_BACK: dict[type, Callable[..., None]] = {list: list[Any].insert, dict: dict[Any, Any].__setitem__}


_APPLY: dict[str, Callable[[Document, Any, _Undo], None]] = {
    "add": Document._add,  # pyright: ignore[reportPrivateUsage]  # the class's own table
    "remove": Document._remove,  # pyright: ignore[reportPrivateUsage]
    "replace": Document._replace,  # pyright: ignore[reportPrivateUsage]
    "move": Document._move,  # pyright: ignore[reportPrivateUsage]
    "copy": Document._copy,  # pyright: ignore[reportPrivateUsage]
    "test": Document._test,  # pyright: ignore[reportPrivateUsage]
}


def _own(value: Any, target: Sequence[str]) -> Any:
    """A copy of what an operation brings, if it may stand at `target`."""
    if not isinstance(value, (dict, list)):
        return value
    _check_depth(extent(value)[0], target)
    return copy_json(value)


def _check_depth(depth: int, target: Sequence[str]) -> None:
    if depth and len(target) + depth > _MAX_LEVELS:
        raise _Refused(f"the value would be nested deeper than the {MAX_DEPTH} levels that can be sent")


def _error(operation: Any, index: int, why: str) -> PatchError:
    text = f"patch operation {index} ({operation.op} {operation.path!r}) does not apply: {why}"
    return PatchError(text, index=index, op=operation.op, path=operation.path, why=why)


def _tokens(pointer: str) -> list[str]:
    """The reference tokens of a pointer (RFC 6901); `~1` is read before `~0`, so that `~01` is `~1`."""
    if not pointer:
        return []
    if pointer[0] != "/":
        raise _Refused(f"{pointer!r} is no JSON pointer: it begins with no '/'")
    tokens = pointer[1:].split("/")
    if "~" in pointer:
        if "~" in pointer.replace("~0", "").replace("~1", ""):
            raise _Refused(f"{pointer!r} is no JSON pointer: '~' stands before 0 or 1 only")
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in tokens]
    return tokens


def _existing(container: Any, token: str) -> Any:
    """The key of a value that is there."""
    if isinstance(container, dict):
        if token not in container:
            raise _Refused(f"there is no member {token!r}")
        return token
    if isinstance(container, list):
        return _index(token, len(cast("list[Any]", container)))
    raise _Refused(_no_members(container, token))


def _index(token: str, end: int) -> int:
    """The array index that a token names, if it is below `end`."""
    if not (token.isascii() and token.isdecimal()) or (token[0] == "0" and token != "0"):
        raise _Refused(f"{token!r} is no array index")
    if len(token) > len(str(end)) or (index := int(token)) >= end:
        raise _Refused(f"there is no item {token}, the array has no more than {end}")
    return index


def _no_members(value: Any, token: str) -> str:
    return f"{token!r} is looked for in a value that is neither object nor array ({type(value).__name__})"
