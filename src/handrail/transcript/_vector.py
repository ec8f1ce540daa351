"""A sequence whose every version stays as it was, and whose next version costs no more than what it changes.

The items stand in leaves of 32; full leaves hang in a tree whose nodes have 32 branches, and what was added last stands
in a leaf of its own, the tail. Adding or replacing copies one leaf and the few nodes above it, so two versions share
all the rest. What happens on a screen happens at its end, hence mostly in the tail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from handrail.transcript._source import Source

__all__ = ["Vector"]

T = TypeVar("T")

_BITS = 5
_WIDTH = 1 << _BITS
_MASK = _WIDTH - 1

_Node = tuple[Any, ...]


class Vector(Source, Generic[T]):
    """An immutable sequence: `appended` and `replaced` give the next version and leave this one alone."""

    __slots__ = ("_height", "_in_tree", "_read", "_root", "_tail")

    def __init__(self, items: Iterable[T] = ()) -> None:
        given = tuple(items)
        self._in_tree = max(len(given) - 1, 0) & ~_MASK
        self._tail: tuple[T, ...] = given[self._in_tree :]
        leaves: _Node = tuple(given[start : start + _WIDTH] for start in range(0, self._in_tree, _WIDTH))
        self._height = _BITS
        while len(leaves) > _WIDTH:
            leaves = tuple(leaves[start : start + _WIDTH] for start in range(0, len(leaves), _WIDTH))
            self._height += _BITS
        self._root = leaves
        self._read: tuple[T, ...] | None = None

    def read(self) -> tuple[T, ...]:
        if self._read is None:
            self._read = tuple(self)
        return self._read

    def __len__(self) -> int:
        return self._in_tree + len(self._tail)

    def __getitem__(self, index: int) -> T:
        if index >= self._in_tree:
            return self._tail[index - self._in_tree]
        node = self._root
        for level in range(self._height, 0, -_BITS):
            node = node[(index >> level) & _MASK]
        return node[index & _MASK]

    def __iter__(self) -> Iterator[T]:
        yield from _items(self._root, self._height)
        yield from self._tail

    def appended(self, item: T) -> Vector[T]:
        """This sequence with one item more at its end."""
        if len(self._tail) < _WIDTH:
            return self._version(self._root, self._height, self._in_tree, (*self._tail, item))
        root, height = self._root, self._height
        if self._in_tree == _WIDTH << height:
            root, height = (root,), height + _BITS
        root = _with_leaf(root, height, self._in_tree, self._tail)
        return self._version(root, height, self._in_tree + _WIDTH, (item,))

    def replaced(self, index: int, item: T) -> Vector[T]:
        """This sequence with another item at `index`."""
        at = index - self._in_tree
        if at >= 0:
            tail = self._tail
            return self._version(self._root, self._height, self._in_tree, (*tail[:at], item, *tail[at + 1 :]))
        root = _with_item(self._root, self._height, index, item)
        return self._version(root, self._height, self._in_tree, self._tail)

    def _version(self, root: _Node, height: int, in_tree: int, tail: tuple[T, ...]) -> Vector[T]:
        new: Vector[T] = object.__new__(type(self))
        new._root = root
        new._height = height
        new._in_tree = in_tree
        new._tail = tail
        new._read = None
        return new

    def __repr__(self) -> str:
        return f"Vector({list(self)!r})"


def _items(node: _Node, level: int) -> Iterator[Any]:
    if level == 0:
        yield from node
        return
    for child in node:
        yield from _items(child, level - _BITS)


def _with_leaf(node: _Node, level: int, index: int, leaf: _Node) -> _Node:
    """`node` with `leaf` hung in at `index`, the first place behind all that it holds."""
    if level == 0:
        return leaf
    at = (index >> level) & _MASK
    child: _Node = node[at] if at < len(node) else ()
    return (*node[:at], _with_leaf(child, level - _BITS, index, leaf))


def _with_item(node: _Node, level: int, index: int, item: Any) -> _Node:
    at = (index >> level) & _MASK
    child = item if level == 0 else _with_item(node[at], level - _BITS, index, item)
    return (*node[:at], child, *node[at + 1 :])
