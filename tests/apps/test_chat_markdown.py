"""An answer on the screen: drawn by few widgets, as whoever reads it expects, and still text to select."""

from __future__ import annotations

import re

import pytest
from tests.apps.chatting import chat, finished, says, screen, shows, started, until, write
from textual.pilot import Pilot
from textual.selection import SELECT_ALL
from textual.strip import Strip
from textual.widget import Widget

from handrail.apps.chat._app import ChatApp
from handrail.apps.chat._conversation import Conversation
from handrail.apps.chat._prose import Prose
from handrail.apps.chat._rows import Row, pieces
from handrail.apps.chat._sheet import Block
from handrail.testing import ScriptedAgent, gate

WIDE, NARROW = (80, 60), (24, 40)
END = "The end."
LONG = "words that go on until they do not fit on one line of the screen any more"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def agent(text: str, *, piece: int = 7) -> ChatApp:
    pieces = [text[start : start + piece] for start in range(0, len(text), piece)]
    return chat([started(), *says("m1", *pieces, f"\n\n{END}"), finished()])


async def answer(pilot: Pilot[None]) -> list[str]:
    """The lines of the answer, from its left edge on."""
    await write(pilot, "go")
    await shows(pilot, "✓ finished", END)
    _, _, drawn = screen(pilot.app).partition(" agent\n")
    return [line[3:].rstrip() for line in drawn.partition(END)[0].rstrip().splitlines()]


SHAPES = {
    "bullets": ("- one\n- two\n", ["• one", "• two"]),
    "numbers": ("9. nine\n1. ten\n", ["  9. nine", " 10. ten"]),
    "a list that begins with another number": ("3) three\n4) four\n", [" 3. three", " 4. four"]),
    "nested": (
        "- a\n  - b\n    - c\n  1. d\n     - e\n- f\n",
        ["• a", "  ▪ b", "    ‣ c", "   1. d", "      ▪ e", "• f"],
    ),
    "lists at once": ("- - - deep\n- 1. x\n", ["• ▪ ‣ deep", "•  1. x"]),
    "loose": ("- a\n\n- b\n\n\n- c\n", ["• a", "• b", "• c"]),
    "paragraphs in an item": ("- a\n\n  b\n\n  - c\n- d\n", ["• a", "", "  b", "  ▪ c", "• d"]),
    "an item without text": ("- a\n-\n- c\n", ["• a", "•", "• c"]),
    "a hard break": ("- a\\\n  b\n- c\n", ["• a", "  b", "• c"]),
    "what is wrapped": (
        f"1. {LONG} {LONG}\n   - {LONG}\n",
        [
            " 1. words that go on until they do not fit on one line of the screen any",
            "    more words that go on until they do not fit on one line of the screen",
            "    any more",
            "    • words that go on until they do not fit on one line of the screen any",
            "      more",
        ],
    ),
    "tasks": ("- [ ] open\n- [x] done\n", ["• [ ] open", "• [x] done"]),
    "a heading and a rule in an item": ("- # head\n  ***\n  text\n", ["• head", "  " + "─" * 20, "  text"]),
    "a quote": (f"> {LONG} and more\n", [f"▌ {LONG}", "▌ and more"]),
    "quotes in each other": ("> a\n> > b\n>\n> c\n", ["▌ a", "▌", "▌ ▌ b", "▌", "▌ c"]),
    "an empty quote": (">\n\nx\n", ["▌", "", "x"]),
    "a list in a quote": ("> - a\n> - b\n", ["▌ • a", "▌ • b"]),
    "a quote in a list": ("- a\n\n  > b\n- c\n", ["• a", "", "  ▌ b", "• c"]),
    "right to left": ("- مرحبا\n- שלום\n", ["• مرحبا", "• שלום"]),
    "wide characters": (f"- {'한국어 ' * 13}\n", ["• " + "한국어 " * 9 + "한국어", "  한국어 한국어 한국어"]),
    "two lists": ("- a\n\n1. b\n", ["• a", "", " 1. b"]),
    "code": ("a\n```python\nx = 1\n\ny = 2\n```\nb\n", ["a", "", "", "  x = 1", "", "  y = 2", "", "", "b"]),
    "code without a language, and indented": (
        "```\nx\n```\n\n    y\n",
        ["", "  x", "", "", "", "  y"],
    ),
    "code that is wide": ("```\n" + "x" * 80 + "\n```\n", ["", "  " + "x" * 72, "  " + "x" * 8]),
    "blank lines in code": ("```\n\nx\n\n\n```\ny\n", ["", "", "  x", "", "", "", "", "y"]),
    "code in an item": ("- a:\n  ```\n  x\n  ```\n  b\n\n  c\n", ["• a:", "", "    x", "", "  b", "", "  c"]),
    "an item that is code": ("- ```\n  x\n  ```\n", ["•", "    x"]),
    "code in a quote": ("> a:\n> ```\n> x\n> ```\n> > ```\n> > y\n", ["▌ a:", "▌", "▌   x", "▌", "▌ ▌", "▌ ▌   y"]),
    "a table": (
        "| name | n |\n|---|---|\n| **ab** | `1` |\n| 한 |\n",
        ["┌──────┬───┐", "│ name │ n │", "├──────┼───┤", "│ ab   │ 1 │", "│ 한   │   │", "└──────┴───┘"],
    ),
    "a table that is wide": (
        f"| a | b |\n|---|---|\n| x | {LONG} and on |\n",
        [
            "┌───┬" + "─" * 70 + "┐",
            "│ a │ b" + " " * 68 + "│",
            "├───┼" + "─" * 70 + "┤",
            "│ x │ words that go on until they do not fit on one line of the screen any │",
            "│   │ more and on" + " " * 58 + "│",
            "└───┴" + "─" * 70 + "┘",
        ],
    ),
    "a table without room": (
        f"|{'a|' * 24}\n|{'-|' * 24}\n|{'b|' * 24}\n",
        [
            "─" * 76,
            "| " + "a | " * 18 + "a",
            "| " + "a | " * 4 + "a |",
            "─" * 76,
            "| " + "b | " * 18 + "b",
            "| " + "b | " * 4 + "b |",
            "─" * 76,
        ],
    ),
    "a table with more columns than there is room for lines": (
        f"|{'a|' * 28}\n|{'-|' * 28}\n",
        ["─" * 76, "| " + "a | " * 18 + "a", "| " + "a | " * 8 + "a |", "─" * 76],
    ),
    "a table in an item": (
        "1. | a |\n   |---|\n   | 1 |\n2. b\n",
        [" 1. ┌───┐", "    │ a │", "    ├───┤", "    │ 1 │", "    └───┘", " 2. b"],
    ),
    "definitions of links": (
        '[to][1] it\n\n[1]: http://a.b/c "C"\n[2]: <http://d.e>\n\n- [3]: /f\n',
        ["to it", "", '[1]: http://a.b/c "C"', "[2]: http://d.e", "", "• [3]: /f"],
    ),
    "headings": ("# One\n## Two\nwords\n### Three\n", ["One", "", "Two", "", "words", "", "Three"]),
    "paragraphs": ("one\n\ntwo\nand\n\n\nthree\n", ["one", "", "two and", "", "three"]),
    "a rule": ("a\n\n***\nb\n", ["a", "", "─" * 20, "", "b"]),
    "what is around": ("before\n\n- a\n\nafter\n", ["before", "", "• a", "", "after"]),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_is_listed_and_quoted_is_laid_out(shape: str) -> None:
    text, expected = SHAPES[shape]
    async with agent(text).run_test(size=WIDE) as pilot:
        assert await answer(pilot) == expected


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_comes_bit_by_bit_is_drawn_as_what_comes_at_once(shape: str) -> None:
    text, _ = SHAPES[shape]
    async with agent(text, piece=len(text)).run_test(size=WIDE) as pilot:
        whole = await answer(pilot)
    async with agent(text, piece=1).run_test(size=WIDE) as pilot:
        assert await answer(pilot) == whole


async def test_all_of_a_leaf_takes_one_widget() -> None:
    listed = "".join(f"{'  ' * (n % 4)}- item **{n}**\n" for n in range(9))
    app = agent(f"# Head\n\nwords\n\n{listed}\n> quoted\n\n|a|\n|-|\n|b|\n\n```\nx\n```\n")
    async with app.run_test(size=WIDE) as pilot:
        await answer(pilot)
        assert not list(app.query_one(Prose).walk_children(Widget))


async def test_at_any_width_there_are_as_many_rows_as_there_is_height_and_none_is_wider() -> None:
    tabs = "- > - `a\tb` and **`c\td`** `\te`\n- > - > ```\n\tx\n"
    async with ChatApp(ScriptedAgent(), title="test").run_test(size=WIDE) as pilot:
        prose = Prose(Block("leaf", "prose", "\n\n".join([*(text for text, _ in SHAPES.values()), tabs])))
        await pilot.app.query_one(Conversation).mount(prose)
        for width in (1, 2, 3, 4, 5, 8, 13, 30):
            drawn = [(line, line.seen(prose, width)) for line in prose._lines]  # pyright: ignore
            assert all(len(strips) == line.get_height(prose.styles, width) for line, strips in drawn)
            assert max(strip.cell_length for _, strips in drawn for strip in strips) == width


async def test_what_is_kept_of_a_shorter_text_is_what_a_fresh_one_draws() -> None:
    text = "\n\n".join(text for text, _ in SHAPES.values())
    async with ChatApp(ScriptedAgent(), title="test").run_test(size=WIDE) as pilot:
        grown, fresh = Prose(Block("grown", "prose", "")), Prose(Block("fresh", "prose", text))
        await pilot.app.query_one(Conversation).mount_all([grown, fresh])

        def drawn(prose: Prose) -> list[Strip]:
            return [strip for line in prose._lines for strip in line.seen(prose, 50)]  # pyright: ignore

        for end in (*range(0, len(text), 43), len(text)):
            grown.draw(Block("grown", "prose", text[:end]))
            drawn(grown)
        assert drawn(grown) == drawn(fresh)


async def test_a_text_that_grows_stays_in_its_widget_and_selected() -> None:
    start, content, end = says("m1", "- alpha\n")
    more = {**content, "delta": "- beta\n\n> gamma\n\nThe end."}
    goes_on = gate()
    app = chat([started(), start, content, goes_on, more, end, finished()])
    async with app.run_test(size=WIDE) as pilot:
        await write(pilot, "go")
        await shows(pilot, "• alpha")
        before = app.query_one(Prose)
        await pilot.mouse_down(Prose, offset=(2, 0))
        await pilot.hover(Prose, offset=(6, 0))
        await pilot.mouse_up(Prose, offset=(6, 0))
        goes_on.open()
        await shows(pilot, "The end.")
        assert app.query_one(Prose) is before
        assert app.screen.get_selected_text() == "alpha"


async def test_nothing_is_lost_where_there_is_no_room() -> None:
    text = "".join(f"{'  ' * depth}- word{depth}\n" for depth in range(15))
    async with agent(text).run_test(size=NARROW) as pilot:
        drawn = "".join(await answer(pilot)).replace(" ", "")
        assert [int(found) for found in re.findall(r"word(\d+)", drawn)] == list(range(15))


async def test_what_is_written_in_an_item_keeps_its_style() -> None:
    app = agent("- **bold** *slanted* `code` ~~gone~~ [link](http://a.b)\n")
    async with app.run_test(size=WIDE) as pilot:
        await answer(pilot)
        styles = {
            segment.text: segment.style
            for strip in app.query_one(Prose).render_lines(app.query_one(Prose).size.region)
            for segment in strip
            if segment.style
        }
        assert styles["bold"].bold
        assert styles["slanted"].italic
        assert styles["gone"].strike
        assert styles["code"].bgcolor != styles["bold"].bgcolor
        assert styles["• "].color != styles["bold"].color
        assert styles["link"].underline


async def test_a_link_in_an_item_is_followed() -> None:
    app = agent("- an item\n  - with [a link](http://a.b/c) in it\n")
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        lines = await answer(pilot)
        assert lines[1].startswith("  ▪ with a link")
        await pilot.click(Prose, offset=(lines[1].index("a link") + 1, 1))
        await shows(pilot, "Copied the link http://a.b/c")


@pytest.mark.parametrize(
    ("start", "end", "selected"),
    [
        ((0, 0), (4, 2), "• alpha beta\n  ▪ gamma\n• del"),
        ((2, 0), (6, 0), "alpha"),
        ((4, 1), (8, 1), "gamma"),
    ],
)
async def test_what_is_selected_is_what_is_copied(start: tuple[int, int], end: tuple[int, int], selected: str) -> None:
    app = agent("- alpha beta\n  - gamma\n- delta\n")
    async with app.run_test(size=WIDE) as pilot:
        await answer(pilot)
        await pilot.mouse_down(Prose, offset=start)
        await pilot.hover(Prose, offset=end)
        await pilot.mouse_up(Prose, offset=end)
        assert app.screen.get_selected_text() == selected


async def test_a_wrapped_item_is_selected_from_line_to_line() -> None:
    app = agent(f"- {LONG} {LONG}\n")
    async with app.run_test(size=WIDE) as pilot:
        lines = await answer(pilot)
        await pilot.mouse_down(Prose, offset=(2, 1))
        await pilot.hover(Prose, offset=(len(lines[1]), 1))
        await pilot.mouse_up(Prose, offset=(len(lines[1]), 1))
        assert app.screen.get_selected_text() == lines[1].strip()


@pytest.mark.parametrize(
    ("text", "copied"),
    [
        ("a\n\n- b\n  - c\n\n> d\n", "a\n\n• b\n  ▪ c\n\n▌ d"),
        ("- x:\n  ```\n  if y:\n      z\n  ```\n", "• x:\n\nif y:\n    z\n"),
        ("| a | b |\n|---|---|\n| 1 | `2` |\n", "\n| a | b |\n|---|---|\n| 1 | 2 |\n"),
    ],
)
async def test_all_of_it_is_copied_as_text(text: str, copied: str) -> None:
    app = agent(text)
    async with app.run_test(size=WIDE) as pilot:
        await answer(pilot)
        [rows] = app.query(Prose)
        selected = rows.get_selection(SELECT_ALL)
        assert selected == (f"{copied}\n\n{END}", "\n")


async def test_a_cell_is_selected_where_it_is() -> None:
    app = agent(f"| a | b |\n|---|---|\n| x | {LONG} and on |\n")
    async with app.run_test(size=WIDE) as pilot:
        await answer(pilot)
        await pilot.mouse_down(Prose, offset=(6, 4))
        await pilot.hover(Prose, offset=(9, 4))
        await pilot.mouse_up(Prose, offset=(9, 4))
        assert app.screen.get_selected_text() == "more"


async def test_a_link_in_a_table_is_followed() -> None:
    app = agent("| a |\n|---|\n| [there](http://a.b/c) |\n")
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await answer(pilot)
        await pilot.click(Prose, offset=(3, 3))
        await shows(pilot, "Copied the link http://a.b/c")


async def test_where_a_link_leads_is_copied_as_it_was_written() -> None:
    """Unquoted, it would lead elsewhere."""
    app = agent("[there](http://a.b/c%20d?e=%26f)\n")
    async with app.run_test(size=WIDE) as pilot:
        await answer(pilot)
        await pilot.click(Prose, offset=(1, 0))
        await until(pilot, lambda: app.clipboard == "http://a.b/c%20d?e=%26f")


async def test_no_language_is_guessed() -> None:
    """Looking through all there are takes a second."""
    app = agent(
        "```\nimport this\n```\n\n```no-such-language\nimport this\n```\n\n```python title=x\nimport this\n```\n"
    )
    async with app.run_test(size=WIDE) as pilot:
        await answer(pilot)
        [rows] = app.query(Prose)
        colours = [
            {segment.style.color for segment in strip if segment.style and segment.text.strip()}
            for strip in rows.render_lines(rows.size.region)
            if "import" in strip.text
        ]
        assert list(map(len, colours)) == [1, 1, 2]


async def test_lists_follow_the_theme() -> None:
    app = agent("- a\n\n> b\n")
    async with app.run_test(size=WIDE) as pilot:
        await answer(pilot)

        def colours() -> list[object]:
            return [
                app.query_one(Conversation).get_visual_style(name).foreground
                for name in ("bullet", "bar", "code", "h1")
            ]

        dark = colours()
        await pilot.press("ctrl+t")
        await until(pilot, lambda: colours() != dark)


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "ansi-dark", "ansi-light"])
async def test_nothing_has_the_colour_of_what_it_stands_on(theme: str) -> None:
    """Nor has code a ground of its own where the terminal says which colours there are."""
    app = agent("# One\n\n- `code` **bold**\n\n> a\n\n|`b`|\n|-|\n|c|\n\n```python\ndef f(x): ?$ # comment\n```\n")
    async with app.run_test(size=WIDE) as pilot:
        app.theme = theme
        await answer(pilot)
        rows = app.query_one(Prose)
        styles = [
            segment.style for strip in rows.render_lines(rows.size.region) for segment in strip if segment.text.strip()
        ]
        colours = {(style.color, style.bgcolor) for style in styles if style and style.color}
        assert len(colours) > 4
        assert not [colour for colour, ground in colours if colour == ground and colour.name != "default"]
        if theme.startswith("ansi"):
            assert {ground.name for _, ground in colours if ground} == {"default"}


async def test_a_leaf_that_is_gone_can_be_drawn() -> None:
    """Textual may do so once more."""
    app = agent("a\n\nb\n\nc\n")
    async with app.run_test(size=WIDE) as pilot:
        await answer(pilot)
        prose = app.query_one(Prose)
        assert prose.render_line(2).text.startswith("b")
        await prose.remove()
        assert not prose.render_line(2).text.strip()


def test_what_is_nested_deeper_than_is_laid_out_stays_text() -> None:
    """Nothing of it is lost."""
    for text in ("> " * 60 + "deep\n", "- " * 60 + "deep\n"):
        rows = [piece for piece in pieces(text) if isinstance(piece, Row)]
        assert any("deep" in (row.words if isinstance(row.words, str) else row.words.content) for row in rows)
