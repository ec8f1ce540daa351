"""Makes the picture of the chat that README shows: `python -m docs.picture` writes docs/images/chat.svg.

What is in it happens: a scripted model, a real loop, and the chat itself with its keys pressed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual.pilot import Pilot

from handrail import Budget, Loop, tool
from handrail.apps.chat._app import ChatApp
from handrail.client import LoopAgent
from handrail.testing import ScriptedBackend, call, reasoning, text, usage

PICTURE = Path(__file__).parent / "images" / "chat.svg"
SIZE = (96, 32)
TITLE = "handrail chat"

ANSWER = """Bergen will be **wet**: heavy showers, 18 mm, at most 11 °C.

| day | sky           | rain  |
|-----|---------------|-------|
| Sat | heavy showers | 18 mm |
| Sun | clearing      | 2 mm  |

I would move the hike to Sunday, if I may.
"""


@tool
def forecast(city: str) -> dict[str, object]:
    """The weather of the weekend."""
    return {"city": city, "sat": "heavy showers", "sun": "clearing"}


@tool(needs_approval=True)
def move_event(title: str, to: str) -> str:
    """Move an event in the calendar."""
    return f"{title} is on {to} now"


def scripted_loop() -> Loop:
    """An agent that looks at the weather, and asks before it changes anything."""
    looks = [reasoning("The weather decides, so look first."), call("forecast", {"city": "Bergen"})]
    asks = [text(ANSWER), call("move_event", {"title": "Hike", "to": "Sunday"})]
    answers = [[*looks, usage(prompt=212, completion=31)], [*asks, usage(prompt=301, completion=96)]]
    model = ScriptedBackend(answers)
    return Loop([model], tools=[forecast, move_event], budget=Budget())


async def picture() -> str:
    """The chat at a question of the agent, as SVG."""
    app = ChatApp(LoopAgent(scripted_loop()), title="https://example.org/agent")
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*"Will the hike on Saturday be dry?", "enter")
        await _until_asked(pilot, app)
        app._took = 2.4  # pyright: ignore[reportPrivateUsage]  # the time is never the same twice
        app._look()  # pyright: ignore[reportPrivateUsage]
        await pilot.pause(0.5)
        return app.export_screenshot(title=TITLE)


async def _until_asked(pilot: Pilot[None], app: ChatApp) -> None:
    while app.session.busy or not app.session.pending_interrupts:
        await pilot.pause(0.05)
    await pilot.press("right")
    await pilot.pause(1)


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(asyncio.run(picture()), encoding="utf-8")
