"""What becomes of keys: none that a person pressed is lost, and none does more than it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.apps.chatting import APPROVAL, Agent, calls, chat, finished, screen, shows, started, until, write
from textual.events import Paste

from handrail.apps.chat._app import ChatApp
from handrail.apps.chat._composer import Composer

SMALL = (80, 24)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def asking() -> ChatApp:
    """A chat whose agent asks whether it may."""
    asked = {"id": "i1", "reason": "tool_call", "message": "May I?", "toolCallId": "c1", "responseSchema": APPROVAL}
    return ChatApp(Agent([started(), *calls("c1", "send", "{}"), finished(interrupts=[asked])]), title="test")


async def test_the_composer_is_the_first_to_have_the_keys() -> None:
    app = chat()
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press(*"Hello")
        assert app.query_one(Composer).text == "Hello"


@pytest.mark.parametrize("written", ["typed", "pasted"])
async def test_what_is_written_while_a_card_has_the_focus_goes_into_the_message(written: str) -> None:
    app = chat([started(), *calls("c1", "look", "{}", "seen"), finished()])
    async with app.run_test(size=SMALL) as pilot:
        await write(pilot, "go")
        await shows(pilot, "look  ✓ complete", "✓ finished")
        await pilot.press("tab")
        assert app.focused is not app.query_one(Composer)
        if written == "typed":
            await pilot.press(*"typed é")
        else:
            app.post_message(Paste("pasted"))
        await until(pilot, lambda: app.query_one(Composer).text == {"typed": "typed é", "pasted": "pasted"}[written])


async def test_a_paste_into_the_composer_is_there_once() -> None:
    app = chat()
    async with app.run_test(size=SMALL) as pilot:
        app.post_message(Paste("pasted"))
        await pilot.pause()
        await pilot.press("x")
        assert app.query_one(Composer).text == "pastedx"


async def test_a_letter_on_a_page_is_no_part_of_a_message() -> None:
    app = chat()
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("f1", "x")
        await shows(pilot, "Keys and commands")
        assert app.query_one(Composer).text == ""


async def test_an_interrupt_says_how_to_leave_and_copies_what_is_selected() -> None:
    app = chat()
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await pilot.press("ctrl+c")
        await shows(pilot, "Ctrl+Q leaves, and Esc stops a run.")
        await pilot.press(*"abc", "shift+left", "ctrl+c")
        await until(pilot, lambda: app.clipboard == "c")


async def test_an_interrupt_copies_what_is_selected_in_the_conversation() -> None:
    app = chat([started(), finished()])
    async with app.run_test(size=SMALL) as pilot:
        await write(pilot, "said here")
        await shows(pilot, "✓ finished")
        app.query_one(".said").text_select_all()
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app.clipboard == "said here")


@pytest.mark.parametrize(("keys", "chosen"), [([], "approve"), (["right", "right"], "deny"), (["left"], "abandon")])
async def test_space_never_chooses_something_else(keys: list[str], chosen: str) -> None:
    app = asking()
    async with app.run_test(size=SMALL) as pilot:
        await write(pilot, "go")
        await shows(pilot, "May I?")
        await pilot.press(*keys, "space", "space")
        await shows(pilot, f"(•) {chosen}")


async def test_a_command_that_can_do_nothing_says_why(tmp_path: Path) -> None:
    app = chat()
    async with app.run_test(size=(200, 24), notifications=True) as pilot:
        await write(pilot, "/abandon")
        await shows(pilot, "There is no open question to give up.")
        await write(pilot, f"/save {tmp_path}/no/x")
        await shows(pilot, "/no/x cannot be written: No such file or directory")
        await write(pilot, "/open /no/y")
        await shows(pilot, "/no/y cannot be read: ")
        await write(pilot, "/save ~no-such-one/x")
        await shows(pilot, "~no-such-one/x: there is no such")


@pytest.mark.parametrize("around", ["\n{}", "{}\n", "\n\n{}\n"])
async def test_empty_lines_around_a_command_or_a_message_are_no_part_of_it(around: str) -> None:
    agent: Any = Agent([started(), finished()])
    app = ChatApp(agent, title="test")
    async with app.run_test(size=SMALL) as pilot:
        await write(pilot, around.format("/help"))
        await shows(pilot, "Keys and commands")
        await pilot.press("escape")
        await until(pilot, lambda: "Keys and commands" not in screen(app))
        await write(pilot, around.format("  two\nlines"))
        await shows(pilot, "✓ finished")
        assert agent.inputs[0].messages[-1].content == "  two\nlines"
