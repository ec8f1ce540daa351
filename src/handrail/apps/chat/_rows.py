r"""A Markdown text as rows, so that one widget draws all of it.

A widget takes 2 to 3 ms, and Textual mounts one for a paragraph and four for an item. So the tokens are folded:

| what is written                             | what it becomes                                               |
|---------------------------------------------|---------------------------------------------------------------|
| a paragraph, a heading                      | a row: its words, and what stands in front of its lines       |
| a rule, an item or a quote without anything | a row                                                         |
| a table                                     | a grid: the cells of its rows                                 |
| code                                        | code                                                          |
| a definition of a link                      | a row: its name, where it leads                               |
| a list, a quote                             | what is in it, with a marker or a bar in front                |

Pure. The marker of an item stands in front of its first line, and as much room in front of the lines below: a row is
built for the innermost block, and each block around it adds what it has to on the left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.token import Token

__all__ = ["DEEPEST", "REOPENED", "Code", "Grid", "Margin", "Piece", "Row", "pieces"]

DEEPEST = 40
"""How deep blocks may be in each other; a list with its item counts as two."""

REOPENED = "\u2063"
"""Says that something goes on from another text: in front of the numbers of items that are open already, and are not
drawn again; behind the language of code. It is a character that a text made visible has no more.
"""

_BULLETS = "•▪‣⭑◦"
_RULE = "─" * 20
_PARTED = {"paragraph_open", "heading_open", "blockquote_open", "table_open"}
"""What a row is left blank in front of in an item or a quote, unless it is behind code, which ends with one."""

Margin: TypeAlias = tuple[tuple[str, str], ...]
"""What stands in front of a line: pieces of text, each with the name of its style."""

_BAR: Margin = (("▌ ", "bar"),)


class Row(NamedTuple):
    """Words, the inline token of them or plain; what stands in front of their first line and of the others; a style."""

    words: Token | str
    first: Margin = ()
    rest: Margin = ()
    style: str = ""


class Grid(NamedTuple):
    """A table: the inline tokens of each row, the one of its head first; and what stands in front of its lines."""

    rows: Sequence[Sequence[Token]]
    first: Margin = ()
    rest: Margin = ()


class Code(NamedTuple):
    """Code, in a language if that was named; whether it goes on from another text, and whether it may go on."""

    text: str
    language: str = ""
    goes_on: bool = False
    is_open: bool = False
    first: Margin = ()
    rest: Margin = ()


Piece: TypeAlias = Row | Grid | Code


def pieces(text: str) -> list[Piece]:
    """What a text is drawn by. HTML is shown as it was written, not dropped; what is too deep stays text."""
    found: list[Piece] = []
    reopened: Sequence[int] = ()
    before = ""
    for block in _blocks(_parsed(text)):
        if block[0].type == "paragraph_open" and block[1].content.startswith(REOPENED):
            reopened = [int(number) for number in block[1].content.removeprefix(REOPENED).split()]
            continue
        inside = _pieces(block, 0, reopened)
        is_apart = found and inside and {before, block[0].type} != {"definition"}
        found += [Row(""), *inside] if is_apart else inside
        reopened, before = (), block[0].type
    return found


_parser = cache(partial(MarkdownIt, "gfm-like", {"html": False, "maxNesting": DEEPEST, "inline_definitions": True}))


def _parsed(text: str) -> Sequence[Token]:
    """The tokens of a text. The parser leaves out what is in a block that is as deep as may be; its lines are kept
    as they were written, as the content of the block.
    """
    tokens, lines = _parser().parse(text), text.splitlines()
    for opening, closing in pairwise(tokens):
        if opening.level >= DEEPEST - 1 and (opening.nesting, closing.nesting) == (1, -1) and opening.map:
            opening.content = "\n".join(lines[slice(*opening.map)])
    return tokens


def _blocks(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The tokens of each block at the outermost level."""
    start = depth = 0
    for end, token in enumerate(tokens, 1):
        depth += token.nesting
        if depth == 0:
            yield tokens[start:end]
            start = end


def _pieces(block: Sequence[Token], bullets: int, reopened: Sequence[int]) -> Sequence[Piece]:
    """What a block is drawn by, inside of so many lists with bullets."""
    opening = block[0]
    match opening.type:
        case "paragraph_open":
            return [Row(block[1])]
        case "heading_open":
            return [Row(block[1], style=opening.tag)]
        case "hr":
            return [Row(_RULE)]
        case "table_open":
            return [_grid(block)]
        case "bullet_list_open" | "ordered_list_open":
            return list(_items(block, bullets, reopened))
        case "blockquote_open":
            return list(_behind(_BAR, _BAR, _inside(block, bullets, ()) or [Row("")]))
        case "fence" | "code_block":
            return [_code(opening)]
        case "definition":
            return [Row(_definition(opening))]
        case _:
            return [Row(" ".join(filter(None, (token.content for token in block))))]


def _grid(block: Sequence[Token]) -> Grid:
    rows: list[list[Token]] = []
    for token in block:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(token)
    return Grid(rows)


def _code(token: Token) -> Code:
    lines = token.content.count("\n")
    is_open = token.type == "fence" and token.map is not None and token.map[1] - token.map[0] < lines + 2
    language, *_ = [*token.info.replace(REOPENED, "").split(), ""]
    return Code(token.content, language, REOPENED in token.info, is_open)


def _definition(token: Token) -> Token:
    """Where a link leads that is named in another place, which may be on another leaf."""
    title = f' "{token.meta["title"]}"' if token.meta["title"] else ""
    [words] = _parser().parseInline(f"[{token.meta['label']}]: {token.meta['url']}{title}")
    return words


def _inside(block: Sequence[Token], bullets: int, reopened: Sequence[int]) -> list[Piece]:
    """What a quote or an item has in it."""
    pieces: list[Piece] = []
    for inner in _blocks(block[1:-1]):
        if inner[0].type in _PARTED and not inner[0].hidden and pieces and not isinstance(pieces[-1], Code):
            pieces.append(Row(""))
        pieces += _pieces(inner, bullets, reopened)
        reopened = ()
    return pieces or [Row(words) for words in block[0].content.splitlines()]


def _items(block: Sequence[Token], bullets: int, reopened: Sequence[int]) -> Iterator[Piece]:
    """A list: its items with their markers, and the first one without, if it is open already."""
    items = list(_blocks(block[1:-1]))
    is_ordered = block[0].type == "ordered_list_open"
    start = reopened[0] if reopened else int(items[0][0].info or 0)
    width = len(f" {start + len(items) - 1}. ")
    for number, item in enumerate(items, start):
        marker = f"{number}. ".rjust(width) if is_ordered else f"{_BULLETS[bullets % len(_BULLETS)]} "
        room = ((" " * len(marker), ""),)
        inside = _inside(item, bullets + (not is_ordered), reopened[1:])
        if not reopened:
            inside = inside or [Row("")]
        yield from _behind(room if reopened else ((marker, "bullet"),), room, inside)
        reopened = ()


def _behind(first: Margin, rest: Margin, pieces: Sequence[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        yield piece._replace(first=first + piece.first, rest=rest + piece.rest)
        first = rest
