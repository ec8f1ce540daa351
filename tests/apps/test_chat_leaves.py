"""A long Markdown text in leaves: bounded in all that a screen has to do for one, whatever the text is."""

from __future__ import annotations

import re

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from handrail.apps._visible import visible
from handrail.apps.chat._conversation import parser
from handrail.apps.chat._leaves import Leaves

PARSER = parser()

LONGEST_LEAF = 4_700  # characters
MOST_LINES = 62
MOST_WIDGETS = 100

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


def widgets_of(text: str) -> int:
    """How many widgets Textual makes of a Markdown text, by the tokens of its parser."""
    each = {"list_item_open": 3, "td_open": 1, "th_open": 1, "hr": 1, "fence": 1, "code_block": 1, "heading_open": 1}
    each |= dict.fromkeys(("paragraph_open", "blockquote_open", "bullet_list_open", "ordered_list_open"), 1)
    return sum(each.get(token.type, 0) for token in PARSER.parse(text))


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_of_any_shape_is_cut_into_leaves_of_bounded_size(kind: str) -> None:
    """F-17: what a redraw parses and mounts is bounded, however long the answer is and whatever it never closes."""
    text = (KINDS[kind] * SIZE)[:SIZE]
    leaves = leaves_of(text, 1_501)
    assert max(map(len, leaves)) <= LONGEST_LEAF
    assert max(leaf.count("\n") for leaf in leaves) <= MOST_LINES
    assert max(map(widgets_of, leaves)) <= MOST_WIDGETS


@settings(max_examples=80, deadline=None, derandomize=True, phases=[Phase.generate])
@given(st.lists(st.tuples(st.sampled_from(BLOCKS), st.integers(1, 30)), max_size=12))
def test_no_mixture_of_blocks_makes_a_leaf_of_many_widgets(bits: list[tuple[str, int]]) -> None:
    """F-17: by the parser's own account, not by the guess that the leaves are cut by."""
    for leaf in leaves_of("".join(block * times for block, times in bits), 5_000):
        assert widgets_of(leaf) <= MOST_WIDGETS


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
    assert all(leaf.startswith("```python\n") for leaf in leaves.all)
    assert leaves.all[-1].endswith("```\nafter")


def test_a_list_is_numbered_on() -> None:
    leaves = leaves_of("1. same\n" * 12, 5)
    assert [leaf.split(".")[0] for leaf in leaves] == ["1", "5", "9"]


def test_what_belongs_to_an_item_stays_with_it() -> None:
    item = "1. first\n\n   ```sh\n   ls\n   ```\n\n   more of it\n\n"
    for leaf in leaves_of(item * 20, 11):
        assert re.match(r"\d+\. first", leaf)


def test_what_is_nested_begins_at_the_margin_where_there_is_no_other_way() -> None:
    leaves = leaves_of("- all\n" + "      - nested\n" * 30, 13)
    assert len(leaves) > 2
    assert all(leaf.startswith("- ") for leaf in leaves)


def test_code_in_an_item_stays_code() -> None:
    leaves = leaves_of("- ```python\n" + "  x = 1\n" * 100 + "  ```\n- next\n", 17)
    assert leaves[1].startswith("```python\n")
    [fence] = [token for token in parser().parse(leaves[1]) if token.type == "fence"]
    assert "next" not in fence.content


def test_blocks_that_are_parted_are_parted_by_a_line_and_items_by_none() -> None:
    items = leaves_of("- a\n\n" * 9, 4)
    assert not any(leaf.endswith("\n\n") for leaf in items[:-1])
    assert leaves_of("# h\n" * 50, 4)[0].endswith("# h\n\n")


def test_another_text_gets_leaves_of_its_own() -> None:
    leaves = Leaves()
    leaves.grow("first " * 1_000, is_whole=True)
    assert leaves.grow("other", is_whole=True) == 0
    assert leaves.all == ["other"]
