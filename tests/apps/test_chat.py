"""The chat as a person has it: keys in, a screen out. Textual is asyncio's, so these run on asyncio only."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.apps.chatting import APPROVAL, Agent, calls, chat, finished, says, screen, shows, started, until, write
from textual.dom import NoScreen

from handrail.apps.chat._app import ChatApp
from handrail.apps.chat._composer import Composer
from handrail.client import LoopAgent
from handrail.loop import Loop
from handrail.testing import ScriptedBackend, call, gate
from handrail.tools import tool

SMALL, LARGE = (80, 24), (200, 50)
USAGE = [{"inputTokens": 61, "outputTokens": 24}]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def asks(number: int) -> dict[str, Any]:
    return {
        "id": f"i{number}",
        "reason": "tool_call",
        "message": f"May I do number {number}?",
        "toolCallId": f"c{number}",
        "responseSchema": APPROVAL,
    }


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_an_answer_streams_in_and_the_line_says_how_it_ended(size: tuple[int, int]) -> None:
    opened = gate()
    text = says("m1", "# Hello\n\nIt is ", "**warm**.")
    app = chat([started(), *text[:2], opened, *text[2:], *calls("c1", "weather", '{"city": "Rome"}', "21 degrees"),
                finished(usage=USAGE)])  # fmt: skip
    async with app.run_test(size=size) as pilot:
        await write(pilot, "how is Rome?")
        await shows(pilot, "how is Rome?", "It is", "● running · Esc stops")
        opened.open()
        await shows(pilot, "It is warm.", "weather  ✓ complete", '→ {"city": "Rome"}', "← 21 degrees")
        await shows(pilot, "✓ finished · 61 tokens in, 24 out · cost unknown")


async def test_what_was_not_reported_is_unknown() -> None:
    app = chat([started(), *says("m1", "Hi."), finished()])
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "hello")
        await shows(pilot, "✓ finished · tokens unknown · cost unknown")


async def test_reasoning_is_folded_away_and_unfolds() -> None:
    thought = [
        {"type": "REASONING_START", "messageId": "s"},
        {"type": "REASONING_MESSAGE_START", "messageId": "t1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "t1", "delta": "a secret thought"},
        {"type": "REASONING_MESSAGE_END", "messageId": "t1"},
        {"type": "REASONING_END", "messageId": "s"},
    ]
    app = chat([started(), *thought, *says("m1", "Hi."), finished()])
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "hello")
        await shows(pilot, "▸ reasoning, 16 characters", "Hi.", "✓ finished")
        assert "secret" not in screen(app)
        await pilot.click(".thought")
        await shows(pilot, "▾ reasoning, 16 characters", "a secret thought")


async def test_escape_stops_at_once_and_what_waited_comes_back() -> None:
    app = chat([started(), *says("m1", "half an")[:2], gate()])
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "go on and on")
        await shows(pilot, "half an")
        await write(pilot, "and another thing")
        await shows(pilot, "waits: and another thing")
        await pilot.press("escape")
        await shows(pilot, "■ stopped · Ctrl+R asks again", "half an")
        assert app.query_one(Composer).text == "and another thing"
        assert "waits:" not in screen(app)


async def test_an_answer_that_was_stopped_is_marked_for_good(tmp_path: Path) -> None:
    agent = Agent(
        [started(), *says("m1", "half an")[:2], gate()],
        *([started(), *says(f"m{number}", "whole"), finished()] for number in (2, 3)),
    )
    app = ChatApp(agent, title="test")
    kept = tmp_path / "kept"
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "go on and on")
        await shows(pilot, "half an")
        await pilot.press("escape")
        await shows(pilot, "■ stopped · Ctrl+R asks again")
        await write(pilot, f"/save {kept}")
        await until(pilot, kept.exists)
        await write(pilot, "shorter")
        await shows(pilot, "half an\n   ■ stopped\n", "whole", "✓ finished")
        await write(pilot, f"/open {kept}")
        await until(pilot, lambda: "whole" not in screen(app))
        await write(pilot, "shorter, please")
        await shows(pilot, "half an\n   ■ stopped\n", "whole", "✓ finished")


async def test_a_message_that_waited_is_sent_when_the_run_has_ended() -> None:
    opened = gate()
    agent = Agent([started(), opened, *says("m1", "one"), finished()], [started(), *says("m2", "two"), finished()])
    app = ChatApp(agent, title="test")
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "first")
        await until(pilot, lambda: opened.reached.is_set)
        await write(pilot, "second")
        await shows(pilot, "waits: second")
        opened.open()
        await shows(pilot, "two", "✓ finished")
        assert [m.content for m in agent.inputs[1].messages if m.role == "user"] == ["first", "second"]


async def test_a_retry_says_nothing_twice() -> None:
    agent = Agent(
        [started(), {"type": "RUN_ERROR", "message": "upstream is down", "code": "DOWN"}],
        [started(), *says("m1", "up again"), finished()],
    )
    app = ChatApp(agent, title="test")
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "are you there?")
        await shows(pilot, "✗ failed (DOWN): upstream is down · Ctrl+R asks again")
        await pilot.press("ctrl+r")
        await shows(pilot, "✗ failed (DOWN): upstream is down", "up again", "✓ finished")
        assert screen(app).count("are you there?") == 1
        assert [m.content for m in agent.inputs[1].messages] == ["are you there?"]


async def test_questions_are_answered_together_each_in_its_way() -> None:
    two = [*calls("c1", "send", '{"to": "a"}'), *calls("c2", "send", '{"to": "b"}')]
    agent = Agent(
        [started(), *two, finished(interrupts=[asks(1), asks(2)])], [started(), *says("m1", "done"), finished()]
    )
    app = ChatApp(agent, title="test")
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "send both")
        await shows(pilot, "1 of 2: May I do number 1?", "2 of 2: May I do number 2?", "? 2 waiting for your answer")
        await pilot.press("ctrl+s")
        await shows(pilot, "choose one, with the arrows")
        await pilot.press("right")
        await shows(pilot, "(•) approve")
        await pilot.press("tab", "right", "right")
        await shows(pilot, "(•) deny", "reason (may stay empty)")
        await pilot.press("tab", *"too loud", "ctrl+s")
        await shows(pilot, "done", "✓ finished")
        assert [(entry.status, entry.payload) for entry in agent.inputs[1].resume or ()] == [
            ("resolved", {"approved": True}),
            ("resolved", {"approved": False, "reason": "too loud"}),
        ]
        assert "✗ denied" in screen(app)


async def test_arguments_are_edited_in_the_form_and_what_is_no_json_is_told() -> None:
    agent = Agent(
        [started(), *calls("c1", "send", '{"to": "a"}'), finished(interrupts=[asks(1)])],
        [started(), *says("m1", "done"), finished()],
    )
    app = ChatApp(agent, title="test")
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "send it")
        await shows(pilot, "May I do number 1?")
        await pilot.press("left", "left")
        await shows(pilot, "(•) edit", '"to": "a"')
        entry: Any = app.query_one(".entry")
        entry.text = '{"to": '
        await pilot.press("ctrl+s")
        await shows(pilot, "the arguments: not JSON")
        entry.text = '{"to": "b"}'
        await pilot.press("ctrl+s")
        await shows(pilot, "done", "✓ finished")
        assert (agent.inputs[1].resume or [])[0].payload == {"approved": True, "editedArgs": {"to": "b"}}


async def test_a_conversation_is_kept_with_its_questions_and_opened_again(tmp_path: Path) -> None:
    """S-153."""
    file = tmp_path / "kept.json"
    first = chat([started(), *calls("c1", "send", "{}"), finished(interrupts=[asks(1)])])
    async with first.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "send it")
        await shows(pilot, "May I do number 1?")
        await write(pilot, f"/save {file}")
        await until(pilot, file.exists)
    assert json.loads(file.read_text())["pending_interrupts"]
    assert file.stat().st_mode & 0o077 == 0
    agent = Agent([started(), *says("m1", "sent"), finished()])
    second = ChatApp(agent, title="test")
    async with second.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, f"/open {file}")
        await shows(pilot, "send it", "May I do number 1?")
        await pilot.press("right", "ctrl+s")
        await shows(pilot, "sent", "✓ finished")
        assert (agent.inputs[0].resume or [])[0].payload == {"approved": True}


async def test_no_other_file_is_written_over_or_opened(tmp_path: Path) -> None:
    file = tmp_path / "other.txt"
    file.write_text("precious")
    app = chat()
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, f"/save {file}")
        await shows(pilot, "Not saved", "is no kept")
        await write(pilot, f"/open {file}")
        await shows(pilot, "Not opened")
    assert file.read_text() == "precious"
    assert os.listdir(tmp_path) == ["other.txt"]


@pytest.mark.parametrize(("keys", "answer"), [(["right"], "ran with 3"), (["right", "right"], "Denied by the user")])
async def test_a_tool_on_this_side_runs_when_the_person_consents(keys: list[str], answer: str) -> None:
    @tool(needs_approval=True)
    def double(n: int) -> str:
        return f"ran with {n}"

    agent = Agent(
        [started(), *calls("c1", "double", '{"n": 3}'), finished()], [started(), *says("m1", "ok"), finished()]
    )
    app = ChatApp(agent, title="test", tools=[double])
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "double three")
        await shows(pilot, "May the tool double be run with")
        await pilot.press(*keys, "ctrl+s")
        await shows(pilot, answer, "ok", "✓ finished")
        assert [m.content for m in agent.inputs[1].messages if m.role == "tool"] == [answer]


async def test_escape_while_a_tool_waits_for_consent_takes_the_question_away() -> None:
    @tool(needs_approval=True)
    def double(n: int) -> str:
        raise AssertionError("nobody consented")

    app = chat([started(), *calls("c1", "double", '{"n": 3}'), finished()], tools=[double])
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "double three")
        await shows(pilot, "May the tool double be run with")
        await pilot.press("escape")
        await until(pilot, lambda: "May the tool" not in screen(app))
        await shows(pilot, "double  ✗ the run ended before its result")


async def test_escape_before_the_question_of_a_tool_is_drawn_leaves_none_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is decided later is then about the questions of the agent."""

    @tool(needs_approval=True)
    def double(n: int) -> str:
        raise AssertionError("nobody consented")

    app = chat([started(), *calls("c1", "double", '{"n": 3}'), finished()], tools=[double])

    async def never_drawn(*given: object) -> None:
        if app._consents:  # pyright: ignore
            await anyio.sleep_forever()

    monkeypatch.setattr(app, "_show_questions", never_drawn)
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "double three")
        await until(pilot, lambda: app._consents)  # pyright: ignore
        await pilot.press("escape")
        await until(pilot, lambda: not app.session.busy)
        assert not app._consents  # pyright: ignore


async def test_what_a_loop_has_left_running_is_named() -> None:
    released = threading.Event()

    @tool
    def sleep_on() -> str:
        released.wait()
        return "woken"

    app = ChatApp(LoopAgent(Loop([ScriptedBackend([call("sleep_on")])], tools=[sleep_on])), title="test")
    async with app.run_test(size=LARGE, notifications=True) as pilot:
        await write(pilot, "go")
        await shows(pilot, "sleep_on  … waiting for its result")
        await pilot.press("escape")
        try:
            await shows(pilot, "■ stopped", "still running: sleep_on")
        finally:
            released.set()
        await until(pilot, lambda: "still running" not in screen(app))


async def test_who_leaves_in_the_middle_of_a_redraw_hears_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app = chat([started(), *says("m1", "hello"), finished()])
    reached = anyio.Event()

    async def torn(blocks: object) -> bool:
        reached.set()
        while app.is_running:  # nothing tells of it
            await anyio.lowlevel.checkpoint()
        raise NoScreen("node has no screen")

    async with app.run_test(size=SMALL, notifications=True) as pilot:
        monkeypatch.setattr(app._conversation, "show", torn)
        await write(pilot, "hi")
        await reached.wait()


async def test_copying_an_answer() -> None:
    app = chat([started(), *says("m1", "the **answer**"), finished()])
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await write(pilot, "hello")
        await shows(pilot, "✓ finished")
        await pilot.press("ctrl+y")
        await until(pilot, lambda: app.clipboard == "the **answer**")
        await write(pilot, "/copy 2")
        await shows(pilot, "There is no answer 2 to copy")


async def test_keys_and_commands_are_shown_and_a_mistyped_one_is_told() -> None:
    app = chat()
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await shows(pilot, "Send", "Stop", "Quit", "Help")
        await pilot.press("f1")
        await shows(pilot, "Ctrl+R", "/save FILE")
        await pilot.press("escape")
        await write(pilot, "/sve x")
        await shows(pilot, "There is no command /sve")
        assert app.query_one(Composer).text == "/sve x"


@pytest.mark.parametrize("keys", [[], ["ctrl+t"]], ids=["dark", "light"])
@pytest.mark.parametrize("colour", ["colour", "NO_COLOR"])
async def test_no_sign_is_made_of_colour_alone(keys: list[str], colour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if colour == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    broken = {"type": "RUN_ERROR", "message": "no luck"}
    app = chat([started(), *says("m1", "Hi."), *calls("c1", "look", "{}", "seen"), *calls("c2", "try", "{}"), broken])
    async with app.run_test(size=SMALL, notifications=True) as pilot:
        await pilot.press(*keys)
        assert app.no_color is (colour == "NO_COLOR")
        assert app.current_theme.dark is not bool(keys)
        await write(pilot, "hello")
        await shows(pilot, "look  ✓ complete", "try  ✗ the run ended before", "✗ failed: no luck")
