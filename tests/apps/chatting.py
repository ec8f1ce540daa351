"""What the tests of the chat share: streams of an agent, and a screen as text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ag_ui.core import RunAgentInput
from textual.app import App
from textual.pilot import Pilot

from handrail.apps.chat._app import ChatApp
from handrail.client import AgentRun
from handrail.testing import ScriptedAgent

Lines = list[dict[str, Any]]

SCREENS = Path(__file__).parent / "screens"

ANY = "*"
"""As the thread and run of an event: those of the request."""

APPROVAL: dict[str, Any] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""What the answer to a question may be, where the question is about a call."""


class Agent(ScriptedAgent):
    """A scripted agent whose runs have the ids they were asked for."""

    def start(self, input: RunAgentInput, /) -> AgentRun:  # pyright: ignore
        asked = {"threadId": input.thread_id, "runId": input.run_id}
        if self._streams:
            self._streams[0] = tuple(
                {**line, **{key: value for key, value in asked.items() if line.get(key) == ANY}}
                if isinstance(line, dict)
                else line
                for line in self._streams[0]
            )
        return super().start(input)


def started(run: str = ANY) -> dict[str, Any]:
    return {"type": "RUN_STARTED", "threadId": ANY, "runId": run}


def finished(run: str = ANY, *, usage: Any = None, interrupts: Any = None) -> dict[str, Any]:
    event: dict[str, Any] = {"type": "RUN_FINISHED", "threadId": ANY, "runId": run}
    if usage:
        event["usage"] = usage
    if interrupts:
        event["outcome"] = {"type": "interrupt", "interrupts": interrupts}
    return event


def says(message: str, *deltas: str) -> Lines:
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"},
        *({"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": delta} for delta in deltas),
        {"type": "TEXT_MESSAGE_END", "messageId": message},
    ]


def calls(call: str, name: str, arguments: str, result: str | None = None) -> Lines:
    lines: Lines = [
        {"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": name},
        {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": arguments},
        {"type": "TOOL_CALL_END", "toolCallId": call},
    ]
    if result is not None:
        lines.append({"type": "TOOL_CALL_RESULT", "messageId": f"{call}-result", "toolCallId": call, "content": result})
    return lines


async def until(pilot: Pilot[None], holds: Callable[[], object], seconds: float = 10.0) -> None:
    """Let the app go on until `holds`; fail with the screen where it never does."""
    for _ in range(int(seconds / 0.05)):
        if holds():
            return
        await pilot.pause(0.05)
    raise AssertionError(f"did not come about on this screen:\n{screen(pilot.app)}")


async def shows(pilot: Pilot[None], *texts: str) -> None:
    """Wait until all of these are on the screen."""
    await until(pilot, lambda: all(text in screen(pilot.app) for text in texts))


async def write(pilot: Pilot[None], text: str) -> None:
    """Type a text and send it."""
    composer = pilot.app.query_one("#composer")
    composer.focus()
    composer.insert(text)  # pyright: ignore
    await pilot.press("enter")


def chat(*streams: Any, **options: Any) -> ChatApp:
    """A chat with an agent that plays these streams."""
    return ChatApp(Agent(*streams), title="test", **options)


def screen(app: App[Any]) -> str:
    """What is on the screen, as text, without what is blank at the end of lines."""
    width, _ = app.size
    strips = app.screen._compositor.render_strips()  # pyright: ignore
    assert {strip.cell_length for strip in strips} == {width}
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


async def check_screen(pilot: Pilot[None], name: str) -> None:
    """The screen comes to be the one that is kept under this name, but for the time.

    HANDRAIL_KEEP_SCREENS=1 keeps it anew.
    """

    def shown() -> str:
        return re.sub(r"\b\d+(\.\d)? s\b", "N s", screen(pilot.app)) + "\n"

    kept = SCREENS / f"{name}.txt"
    if os.environ.get("HANDRAIL_KEEP_SCREENS"):
        await pilot.pause(1)
        kept.write_text(shown(), encoding="utf-8")
    expected = kept.read_text(encoding="utf-8")
    try:
        await until(pilot, lambda: shown() == expected)
    except AssertionError:
        assert shown() == expected
