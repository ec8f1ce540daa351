"""A long Markdown text in leaves: bounded in all that a screen has to do for one, whatever the text is."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from handrail.apps._visible import visible
from handrail.apps.chat._leaves import Leaves
from handrail.apps.chat._rows import Code, Grid, Margin, Row, pieces

LONGEST_LEAF = 4_700  # characters
MOST_LINES = 62
MOST_CELLS = 1_000

SIZE = 16_000
KINDS = {
    "a paragraph": "All **work** and *no* `play` makes [an](http://a.b) agent dull. ",
    "one word": "x",
    "lines": "a line of text\n",
    "paragraphs": "a\n\n",
    "a list": "- item\n",
    "a loose list": "1. item\n\n",
    "a nested list": "".join("  " * depth + "- x\n" for depth in range(11)),
    "lists in an item": "- - - - - - - - x\n",
    "one item": "- a\n" + "    - b\n" * 2_000,
    "a table": "| a | b | c |\n|---|---|---|\n" + "| 1 | 2 | 3 |\n" * 1_500,
    "a table with cells left out": "|a|b|c|d|e|f|g|h|\n|-|-|-|-|-|-|-|-|\n" + "x\n" * 2_000,
    "a wide table": f"|{'a|' * 300}\n|{'-|' * 300}\n|{'b|' * 300}\n",
    "quotes": "> quoted text that goes on\n",
    "deep quotes": "> " * 11 + "deep\n\n",
    "quotes without end": "> ",
    "a list in quotes": "> - a\n> - b\n",
    "an open fence": "```python\n" + "x = 1\n" * 3_000,
    "headings": "# h\n",
    "rules": "---\n\n",
    "stars": "*a **b ",
    "brackets": "[",
    "bars": "|",
    "emoji": "👩‍👩‍👧‍👦 ",
    "right to left": "مرحبا שלום ",
    "escapes": "\x1b[2J",
    "html": "<div>\n<b>x</b>\n",
}
BITS = ["a", "\n", "\r\n", "```\n", "~~~", "|", " ", "\r", "word " * 300, "é\u202e", "- b\n", "2. c\n", "  - d\n", "> "]
BLOCKS = [
    *(
        "- a\n",
        "  - b\n",
        "    - c\n",
        "1. d\n",
        "1) e",
        "-\n",
        "*\t- + x\n",
        "\n",
        "\n\n",
        "> q\n",
        "> > r\n",
        ">> - s\n",
    ),
    *("| a | b |\n", "|---|---|\n", "|-|-|-|-|-|-|-|-|\n", "|a|b|c|d|e|f|g|h|\n", "x\n", "text ", "# h\n", "---\n"),
    *("```\n", "   ```python\n", "~~~~\n", "    code\n", "word " * 100, "|" * 40, "> " * 20, "- " * 20, "<b>\n", "\\"),
]


def leaves_of(text: str, cut: int) -> list[str]:
    leaves = Leaves()
    for end in range(cut, len(text), cut):
        leaves.grow(text[:end], is_whole=False)
    leaves.grow(text, is_whole=True)
    while leaves.is_behind:
        leaves.grow(text, is_whole=True)
    return leaves.all


def cells_of(text: str) -> int:
    """How many cells the tables of a text have, by its parser."""
    return sum(len(row) for piece in pieces(text) if isinstance(piece, Grid) for row in piece.rows)


def drawn(leaves: Iterable[str]) -> list[tuple[int, str, str]]:
    """The rows that are not blank: how deep they are, the marker, the words."""
    rows = [row for leaf in leaves for row in pieces(leaf) if isinstance(row, Row) and (row.first or row.words)]
    return [(len(row.first), plain(row.first).strip(), words(row)) for row in rows]


def plain(margin: Margin) -> str:
    return "".join(text for text, _ in margin)


def words(row: Row) -> str:
    return row.words if isinstance(row.words, str) else row.words.content


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_of_any_shape_is_cut_into_leaves_of_bounded_size(kind: str) -> None:
    """F-17: what a redraw parses and mounts is bounded, however long the answer is and whatever it never closes."""
    text = (KINDS[kind] * SIZE)[:SIZE]
    leaves = leaves_of(text, 1_501)
    assert max(map(len, leaves)) <= LONGEST_LEAF
    assert max(leaf.count("\n") for leaf in leaves) <= MOST_LINES
    assert max(map(cells_of, leaves)) <= MOST_CELLS


@settings(max_examples=80, deadline=None, derandomize=True, phases=[Phase.generate])
@given(st.lists(st.tuples(st.sampled_from(BLOCKS), st.integers(1, 30)), max_size=12))
def test_no_mixture_of_blocks_makes_a_leaf_of_many_cells(bits: list[tuple[str, int]]) -> None:
    """F-17: by the parser's own account, not by the guess that the leaves are cut by."""
    for leaf in leaves_of("".join(block * times for block, times in bits), 5_000):
        assert cells_of(leaf) <= MOST_CELLS


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(BITS), max_size=60), st.integers(1, 12))
def test_leaves_do_not_depend_on_how_the_text_arrives(bits: list[str], cut: int) -> None:
    text = "".join(bits)
    assert leaves_of(text, cut) == leaves_of(text, max(1, len(text)))


@pytest.mark.parametrize("kind", ["a paragraph", "one word", "lines", "paragraphs", "quotes", "emoji", "escapes"])
def test_nothing_is_lost_between_the_leaves(kind: str) -> None:
    text = (KINDS[kind] * SIZE)[:SIZE]
    assert re.sub(r"\n+", "\n", "".join(leaves_of(text, 999))) == re.sub(r"\n+", "\n", visible(text))


def test_a_leaf_that_was_drawn_is_final_and_code_stays_code() -> None:
    leaves = Leaves()
    leaves.grow("```python\n" + "a = 1\n" * 1_000, is_whole=False)
    drawn = list(leaves.all)
    stands = leaves.grow("```python\n" + "a = 1\n" * 1_500 + "```\nafter", is_whole=True)
    assert stands == len(drawn) - 1
    assert leaves.all[:stands] == drawn[:-1]
    assert all(leaf.startswith("```python") for leaf in leaves.all)
    assert leaves.all[-1].endswith("```\nafter")


def nested(steps: Iterable[tuple[int, str]]) -> str:
    """A list with lists in it: each step is how many levels to go out before the next item, one in for -1."""
    inside: list[int] = [0]
    lines: list[str] = []
    for number, (out, marker) in enumerate(steps):
        del inside[max(len(inside) - out, 1) :]
        lines.append(f"{' ' * inside[-1]}{marker} item {number}\n")
        if out < 0 and len(inside) < 8:
            inside.append(inside[-1] + len(marker) + 1)
    return "".join(lines)


@settings(max_examples=60, deadline=None, derandomize=True, phases=[Phase.generate])
@given(st.lists(st.tuples(st.integers(-1, 2), st.sampled_from(["-", "*", "1.", "2)"])), min_size=90, max_size=300))
def test_lists_go_on_over_the_leaves_as_they_were(steps: list[tuple[int, str]]) -> None:
    """Every item as deep and with the marker that it has where the text is not cut, numbers included."""
    text = nested(steps)
    leaves = leaves_of(text, 777)
    assert len(leaves) > 1
    assert drawn(leaves) == drawn([text])


def test_a_list_is_numbered_on() -> None:
    leaves = leaves_of("1. same\n" * 120, 5)
    assert len(leaves) > 2
    assert [marker for _, marker, _ in drawn(leaves)] == [f"{number}." for number in range(1, 121)]


def test_what_belongs_to_an_item_stays_in_it() -> None:
    leaves = leaves_of("1. first\n\n   ```sh\n   ls\n   ```\n\n   more of it\n\n" * 20, 11)
    assert len(leaves) > 2
    items = [row for number in range(1, 21) for row in ((1, f"{number}.", "first"), (1, "", "more of it"))]
    assert [row for row in drawn(leaves) if row[2]] == items
    code = [piece for leaf in leaves for piece in pieces(leaf) if isinstance(piece, Code)]
    assert "".join(piece.text for piece in code) == "ls\n" * 20
    assert {plain(piece.rest).strip() for piece in code} == {""}


def test_the_text_of_an_item_goes_on_as_far_in() -> None:
    """On the next leaf, be it cut in a line or between two."""
    text = "- all\n  1. nested " + "word " * 2_000 + "\n\n     a second paragraph\n" + "     line\n" * 100
    rows = drawn(leaves_of(text, 999))
    assert rows[:2] == [(1, "•", "all"), (2, "1.", rows[1][2])]
    assert {(depth, marker) for depth, marker, _ in rows[2:]} == {(2, "")}
    assert " ".join(said for _, _, said in rows).split() == [word for word in text.split() if word not in "-1."]


def test_what_is_nested_too_far_in_is_moved_out() -> None:
    leaves = leaves_of("- all\n" + "      - nested\n" * 300, 13)
    assert len(leaves) > 2
    assert not any(isinstance(piece, Code) for leaf in leaves for piece in pieces(leaf))


def test_code_goes_on_without_a_seam() -> None:
    leaves = leaves_of("- a\n  - ```python\n" + "    x = 1\n\n\n" * 200 + "    ```\n- next\n", 17)
    assert len(leaves) > 10
    code = [piece for leaf in leaves for piece in pieces(leaf) if isinstance(piece, Code)]
    assert "".join(piece.text for piece in code) == "x = 1\n\n\n" * 200
    assert {(piece.language, plain(piece.rest)) for piece in code} == {("python", "    ")}
    assert [piece.goes_on for piece in code] == [False, *[True] * (len(code) - 1)]
    assert [piece.is_open for piece in code] == [*[True] * (len(code) - 1), False]
    assert drawn(leaves)[-1] == (1, "•", "next")


@pytest.mark.parametrize("bars", ["> ", "> > ", "  > ", ">"])
def test_code_in_a_quote_stays_code(bars: str) -> None:
    lines = [f"{bars}```sh", *[f"{bars}ls", f"{bars}", f"{bars}# > ```"] * 30, f"{bars}```", f"{bars}after", "", "end"]
    leaves = leaves_of("- all\n\n" * bars.startswith(" ") + "\n".join(lines), 17)
    code = [piece for leaf in leaves for piece in pieces(leaf) if isinstance(piece, Code)]
    assert len(code) > 2
    assert "".join(piece.text for piece in code) == "ls\n\n# > ```\n" * 30
    assert {piece.language for piece in code} == {"sh"}
    assert {plain(piece.rest).count("▌") for piece in code} == {bars.count(">")}
    assert [said for _, _, said in drawn(leaves)][-2:] == ["after", "end"]


def test_a_line_of_code_in_a_quote_that_is_cut_stays_in_it() -> None:
    leaves = leaves_of("> ```\n> " + "x " * 4_000 + "\n> y\n> ```\n", 500)
    found = [piece for leaf in leaves for piece in pieces(leaf)]
    assert len(found) > 1
    assert {(type(piece), plain(piece.rest)) for piece in found} == {(Code, "▌ ")}


def test_code_ends_with_the_quote_that_it_is_in() -> None:
    leaves = leaves_of("> ```\n" + "> x\n" * 40 + "# out\n" + "> y\n" * 40, 17)
    assert next(said for _, _, said in drawn(leaves)) == "out"
    assert sum(piece.text.count("x") for leaf in leaves for piece in pieces(leaf) if isinstance(piece, Code)) == 40


def test_a_table_in_an_item_stays_a_table_and_stays_in_it() -> None:
    leaves = leaves_of("1. | a | b |\n   |---|---|\n" + "   | 1 | 2 |\n" * 100 + "2. next\n", 17)
    tables = [piece for leaf in leaves for piece in pieces(leaf) if isinstance(piece, Grid)]
    assert [len(table.rows) for table in tables] == [59, 43]
    assert {plain(table.rest) for table in tables} == {"    "}
    assert drawn(leaves)[-1] == (1, "2.", "next")


def test_blocks_that_are_parted_are_parted_by_a_line_and_items_by_none() -> None:
    items = leaves_of("- a\n\n" * 9, 4)
    assert not any(leaf.endswith("\n\n") for leaf in items[:-1])
    assert leaves_of("# h\n" * 50, 4)[0].endswith("# h\n\n")


def test_another_text_gets_leaves_of_its_own() -> None:
    leaves = Leaves()
    leaves.grow("first " * 1_000, is_whole=True)
    assert leaves.grow("other", is_whole=True) == 0
    assert leaves.all == ["other"]
