"""A client of ours that is made to be killed: it keeps its session in a file at every change, and stops where told."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from tests.faults.conversation import Compass, ignored, talk
from tests.faults.forker import say

from handrail import AgentSession, HttpAgent


class Points:
    """The places where it can be killed: each time something new is on screen, and behind each event."""

    def __init__(self, session: AgentSession, stop_at: int | None, file: Path) -> None:
        self._session = session
        self._stop_at = stop_at
        self._file = file
        self._events = 0
        self._number = 0

    def shown(self, transcript: object) -> None:
        """Keep the session; what was there is replaced whole or not at all."""
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self._session.dump()))
        os.replace(new, self._file)
        self._reach()

    def heard(self, event: object) -> None:
        self._events += 1
        self._reach()

    def _reach(self) -> None:
        say(what="point", number=self._number, events=self._events)
        if self._number == self._stop_at:
            signal.pause()  # for ever: the event loop stands still, as the process will
        self._number += 1


async def _converse(url: str, scenario: str, file: str, stop_at: int | None, hold: int | None) -> None:
    compass = Compass(lambda call: say(what="tool", call=call))
    options: dict[str, Any] = {"thread_id": Path(file).stem, "on_warning": ignored}
    async with (
        HttpAgent(url, close_grace=0.1) as agent,
        AgentSession(agent, tools=[compass.get_location], **options) as session,
    ):
        points = Points(session, stop_at, Path(file))
        session.subscribe(points.shown)
        session.subscribe_events(points.heard)
        await talk(session, scenario, hold)
    say(what="ended")


def play(url: str, scenario: str, file: str, stop_at: int | None = None, hold: int | None = None) -> None:
    """Have a conversation, kept in `file`, whose name is that of the thread; stop dead at a point of it."""
    anyio.run(partial(_converse, url, scenario, file, stop_at, hold))


def warm() -> None:
    """Load all that a conversation loads, by one with nobody."""

    async def call_nobody() -> None:
        async with HttpAgent("http://127.0.0.1:1/") as agent, AgentSession(agent) as session:
            assert not (await session.send("hello?")).ok
            session.dump()

    anyio.run(call_nobody)
