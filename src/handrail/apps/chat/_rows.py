r"""A Markdown text as rows, so that one widget draws all of it but for code and tables.

A widget takes 2 to 3 ms, and Textual mounts one for a paragraph and four for an item. So the tokens are folded:

| what is written                   | what it becomes                                                       |
|-----------------------------------|-----------------------------------------------------------------------|
| a paragraph, a heading            | a row: its words, and what stands in front of its lines               |
| a rule, an item without text      | a row                                                                 |
| a list, a quote                   | the rows of what is in it, with a marker or a bar in front            |
| code, a table, anything else      | an inset: tokens as they are, between the rows, as far in as they are |

Pure. The marker of an item stands in front of its first line, and as much room in front of the lines below: a row is
built for the innermost block, and each block around it adds what it has to on the left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from markdown_it.rules_core import StateCore
from markdown_it.token import Token

__all__ = ["DEEPEST", "REOPENED", "Margin", "Row", "fold"]

DEEPEST = 40
"""How deep blocks may be in each other; a list with its item counts as two."""

REOPENED = "\u2063"
"""One for each item, in front of a list that goes on from another text: those are open already, and get no marker."""

_BULLETS = "•▪‣⭑◦"
_RULE = "─" * 20
_PARTED = {"paragraph_open", "heading_open", "blockquote_open"}
"""What a row is left blank in front of in an item or a quote, behind other rows; an inset brings its own margin."""

Margin: TypeAlias = tuple[tuple[str, str], ...]
"""What stands in front of a line: pieces of text, each with the name of its style."""

_BAR: Margin = (("▌ ", "bar"),)


class Row(NamedTuple):
    """Words, the inline token of them or plain; what stands in front of their first line and of the others; a style."""

    words: Token | str
    first: Margin = ()
    rest: Margin = ()
    style: str = ""


class Inset(NamedTuple):
    """Tokens of what takes a widget of its own, and what stands on the left of it."""

    tokens: Sequence[Token]
    rest: Margin = ()


Piece: TypeAlias = Row | Inset


def fold(state: StateCore) -> None:
    """A rule of the parser: put tokens "rows", with rows in `meta["rows"]`, in the place of all but code and tables.

    Each stands for as many blocks as there are between two insets. A list or a quote with insets in it becomes a quote,
    of rows and of quotes with an inset each, which have its margin in `meta["margin"]`.
    """
    _keep_what_is_too_deep(state)
    reopened = 0
    tokens: list[Token] = []
    for block in _blocks(state.tokens):
        if block[0].type == "paragraph_open" and set(block[1].content) == {REOPENED}:
            reopened = len(block[1].content)
            continue
        pieces = _joined(_pieces(block, 0, reopened))
        lines = list(block[0].map or (0, 0))
        match pieces:
            case [list(rows)] if tokens and tokens[-1].type == "rows":
                tokens[-1].meta["rows"] += [Row(""), *rows]
                tokens[-1].map = [(tokens[-1].map or lines)[0], lines[1]]
            case [list(rows)]:
                tokens.append(Token("rows", "", 0, map=[0 if reopened else lines[0], lines[1]], meta={"rows": rows}))
            case [Inset(rest=())]:
                tokens += block
            case _:
                tokens.append(Token("blockquote_open", "", 1, map=[0 if reopened else lines[0], lines[1]]))
                tokens += (token for piece in pieces for token in _inset(piece))
                tokens.append(Token("blockquote_close", "", -1))
        reopened = 0
    state.tokens = tokens


def _keep_what_is_too_deep(state: StateCore) -> None:
    """The parser leaves out what is in a block that is as deep as may be; its lines are kept as they were written."""
    lines = state.src.splitlines()
    for opening, closing in pairwise(state.tokens):
        if opening.level >= DEEPEST - 1 and (opening.nesting, closing.nesting) == (1, -1) and opening.map:
            opening.content = "\n".join(lines[slice(*opening.map)])


def _blocks(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens of each block at the outermost level."""
    start = depth = 0
    for end, token in enumerate(tokens, 1):
        depth += token.nesting
        if depth == 0:
            yield tokens[start:end]
            start = end


def _joined(pieces: Sequence[Piece]) -> list[list[Row] | Inset]:
    """Rows that follow each other as one list."""
    joined: list[list[Row] | Inset] = []
    for piece in pieces:
        if isinstance(piece, Inset):
            joined.append(piece)
        elif joined and isinstance(joined[-1], list):
            joined[-1].append(piece)
        else:
            joined.append([piece])
    return joined


def _inset(piece: list[Row] | Inset) -> Iterator[Token]:
    if isinstance(piece, list):
        yield Token("rows", "", 0, level=1, meta={"rows": piece})
        return
    yield Token("blockquote_open", "", 1, level=1, meta={"margin": piece.rest})
    yield from piece.tokens
    yield Token("blockquote_close", "", -1, level=1)


def _pieces(block: Sequence[Token], bullets: int, reopened: int) -> Sequence[Piece]:
    """What a block is drawn by, inside of so many lists with bullets."""
    opening = block[0]
    match opening.type:
        case "paragraph_open":
            return [Row(block[1])]
        case "heading_open":
            return [Row(block[1], style=opening.tag)]
        case "hr":
            return [Row(_RULE)]
        case "bullet_list_open" | "ordered_list_open":
            return list(_items(block, bullets, reopened))
        case "blockquote_open":
            return list(_behind(_BAR, _BAR, _inside(block, bullets, 0) or [Row("")]))
        case _:
            return [Inset(block)]


def _inside(block: Sequence[Token], bullets: int, reopened: int) -> list[Piece]:
    """What a quote or an item has in it."""
    pieces: list[Piece] = []
    for inner in _blocks(block[1:-1]):
        if inner[0].type in _PARTED and not inner[0].hidden and pieces and isinstance(pieces[-1], Row):
            pieces.append(Row(""))
        pieces += _pieces(inner, bullets, reopened)
        reopened = 0
    return pieces or [Row(words) for words in block[0].content.splitlines()]


def _items(block: Sequence[Token], bullets: int, reopened: int) -> Iterator[Piece]:
    """A list: its items with their markers, and the first one without, if it is open already."""
    items = list(_blocks(block[1:-1]))
    is_ordered = block[0].type == "ordered_list_open"
    start = int(items[0][0].info) if is_ordered else 0
    width = len(f" {start + len(items) - 1}. ")
    for number, item in enumerate(items, start):
        marker = f"{number}. ".rjust(width) if is_ordered else f"{_BULLETS[bullets % len(_BULLETS)]} "
        room = ((" " * len(marker), ""),)
        inside = _inside(item, bullets + (not is_ordered), max(reopened - 1, 0))
        if not reopened and not (inside and isinstance(inside[0], Row)):
            inside.insert(0, Row(""))
        yield from _behind(room if reopened else ((marker, "bullet"),), room, inside)
        reopened = 0


def _behind(first: Margin, rest: Margin, pieces: Sequence[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        if isinstance(piece, Row):
            yield piece._replace(first=first + piece.first, rest=rest + piece.rest)
        else:
            yield piece._replace(rest=rest + piece.rest)
        first = rest
