"""What the chat lays out, without a screen: leaves of a long text, and the blocks of a transcript."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apps.chatting import Agent, calls, finished, says, started

from handrail import AgentSession
from handrail.apps._visible import visible
from handrail.apps.chat._leaves import Leaves
from handrail.apps.chat._sheet import Block, Sheet
from handrail.messages import user
from handrail.testing import ScriptedAgent
from handrail.transcript import Transcript

LONGEST_LEAF = 12_000
BITS = ["a", "\n", "\r\n", "```\n", "~~~", "|", " ", "\r", "word " * 300, "é\u202e"]


def leaves_of(text: str, cut: int) -> list[str]:
    leaves = Leaves()
    for end in range(cut, len(text), cut):
        leaves.grow(text[:end], is_whole=False)
    leaves.grow(text, is_whole=True)
    return leaves.all


@pytest.mark.parametrize(
    "text",
    [
        "word " * 20_000,
        "x" * 100_000,
        "line\n" * 20_000,
        "para\n\n" * 5_000,
        "```python\n" + "code = 1\n" * 5_000,
        "- item\n" * 5_000,
        "|" * 20_000 + "\n" + "|-" * 10_000 + "|\n",
        "> " * 5_000,
        "\x1b[2J" * 10_000,
        "🙂" * 20_000,
    ],
    ids=["words", "one word", "lines", "paragraphs", "open fence", "list", "wide table", "quotes", "escapes", "emoji"],
)
def test_a_text_of_any_shape_is_cut_into_leaves_of_bounded_size(text: str) -> None:
    leaves = leaves_of(text, 7_001)
    assert max(map(len, leaves)) <= LONGEST_LEAF
    assert max(leaf.count("\n") for leaf in leaves) <= 62
    assert max(leaf.count("|") for leaf in leaves) <= 1_000
    joined = "".join([leaves[0], *(re.sub(r"\A```python\n", "", leaf) for leaf in leaves[1:])])
    assert joined == visible(text)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(
        st.sampled_from(["a", "\n", "\r\n", "```\n", "~~~", "|", " ", "\r", "word " * 300, "é\u202e"]), max_size=60
    )
)
def test_leaves_do_not_depend_on_how_the_text_arrives(bits: list[str]) -> None:
    text = "".join(bits)
    assert leaves_of(text, 3) == leaves_of(text, max(1, len(text)))


def test_a_leaf_that_was_drawn_is_final_and_code_stays_code() -> None:
    leaves = Leaves()
    leaves.grow("```python\n" + "a = 1\n" * 1_000, is_whole=False)
    drawn = list(leaves.all)
    leaves.grow("```python\n" + "a = 1\n" * 1_500 + "```\nafter", is_whole=True)
    assert leaves.all[: len(drawn) - 1] == drawn[:-1]
    assert all(leaf.startswith("```python\n") for leaf in leaves.all)
    assert leaves.all[-1].endswith("```\nafter")


def test_another_text_gets_leaves_of_its_own() -> None:
    leaves = Leaves()
    leaves.grow("first " * 1_000, is_whole=True)
    leaves.grow("other", is_whole=True)
    assert leaves.all == ["other"]


async def shown(*stream: object, said: str = "hi") -> tuple[Transcript, list[Block]]:
    session = AgentSession(Agent([started(), *stream, finished()]))  # pyright: ignore
    await session.send(said)
    return session.transcript, Sheet().blocks(session.transcript)


def texts(blocks: list[Block]) -> list[tuple[str, str]]:
    return [(block.look, block.text) for block in blocks]


async def test_a_turn_is_drawn_in_order_of_arrival() -> None:
    _, blocks = await shown(*says("m1", "Let me look."), *calls("c1", "weather", '{"city": "Rome"}', "warm"))
    assert texts(blocks) == [
        ("speaker", "you"),
        ("said", "hi"),
        ("speaker", "agent"),
        ("prose", "Let me look."),
        ("good", 'weather  ✓ complete\n→ {"city": "Rome"}\n← warm'),
    ]


async def test_nothing_that_is_drawn_can_command_a_terminal() -> None:
    evil = "\x1b]0;title\x07\x1b[2J\u202egnp\x9b1m"
    _, blocks = await shown(*says("m1", evil), *calls("c1", evil, f'{{"a": "{evil}"}}', evil * 200), said=evil)
    drawn = "".join(f"{block.text}{block.more}" for block in blocks)
    assert drawn == visible(drawn)
    assert r"\x1b]0;title\x07" in drawn


async def test_what_did_not_change_is_the_same_object() -> None:
    session = AgentSession(
        Agent([started(), *says("m1", "one"), finished()], [started(), *says("m2", "two"), finished()]),
    )
    sheet = Sheet()
    await session.send("a")
    first = sheet.blocks(session.transcript)
    await session.send("b")
    second = sheet.blocks(session.transcript)
    assert all(before is after for before, after in zip(first, second[: len(first)], strict=True))


async def test_what_left_the_transcript_is_forgotten() -> None:
    sheet = Sheet()
    session = AgentSession(ScriptedAgent(), messages=[user("x" * 10)])
    sheet.blocks(session.transcript)
    assert sheet.blocks(AgentSession(ScriptedAgent()).transcript) == []
    assert sheet._parts == sheet._pages == sheet._leaves == {}  # pyright: ignore
