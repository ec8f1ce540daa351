"""An agent of ours that is made to be harmed: it says what it was asked, what its tools did, and how its runs ended.

The scenarios are those of `tests.live`. Each frame is a write of its own, so that an answer always has the same layout.
A request may name in `forwardedProps.hold` how many frames of its thread are sent at most: then the next one is held
back for ever, and so is the run, which waits before every step of its model and in its tools until all that it has
said is on its way. So a run that is held at a frame is in the middle of what that frame tells.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import anyio
import uvicorn
from ag_ui.core import RunAgentInput, ToolMessage, UserMessage
from tests.faults.forker import say
from tests.live.handrail_server import SCENARIOS
from tests.paced import Paced

from handrail import Loop, Tool, ToolContext
from handrail.errors import Refuse
from handrail.loop import LoopRun
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, pair, text


@dataclass
class Visit:
    """One request for a run: the thread it is on, and how many frames of that thread it lets through."""

    thread_id: str | None = None
    hold: int | None = None


_visit: ContextVar[Visit] = ContextVar("visit")


class Told:
    """A loop that says when it is run: not every request comes to that."""

    def __init__(self, loop: Loop, given: RunAgentInput) -> None:
        self._loop = loop
        self._given = given

    def run(self, *messages: Any, **options: Any) -> LoopRun:
        say(what="began", thread=self._given.thread_id, run=self._given.run_id)
        return self._loop.run(*messages, **options)


class Agent:
    """The ASGI app: the endpoint, frame by frame, and at `/left` what is open in this process."""

    def __init__(self) -> None:
        self.endpoint = agui_app(self.loop_for, busy="queue", on_finish=self.ran, on_warning=lambda record: None)
        self._sent: Counter[str | None] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/left":
            await _answer(send, left())
            return
        visit = Visit()
        _visit.set(visit)
        await self.endpoint(scope, receive, self._frame_by_frame(visit, send))

    def _frame_by_frame(self, visit: Visit, send: Any) -> Any:
        async def send_frames(message: Any) -> None:
            if message["type"] != "http.response.body":
                await send(message)
                return
            *frames, rest = message["body"].split(b"\n\n")
            for frame in frames:
                await self._allowed(visit)
                await send({"type": "http.response.body", "body": frame + b"\n\n", "more_body": True})
                self._sent[visit.thread_id] += 1
            if not message.get("more_body"):
                await self._allowed(visit)
                await send({"type": "http.response.body", "body": rest, "more_body": False})

        return send_frames

    async def _allowed(self, visit: Visit) -> None:
        if visit.hold is not None and self._sent[visit.thread_id] >= visit.hold:
            say(what="held", thread=visit.thread_id)
            await anyio.sleep_forever()

    # -- what it serves ----------------------------------------------------------------------------------------------

    def loop_for(self, given: RunAgentInput, principal: object) -> Told:
        """The scenario that is the first word of the last turn or, once its calls are answered, the end of it."""
        visit = _visit.get()
        props: Any = given.forwarded_props or {}
        visit.thread_id, visit.hold = given.thread_id, props.get("hold")
        turn = max(index for index, message in enumerate(given.messages) if isinstance(message, UserMessage))
        results = [message.content for message in given.messages[turn:] if isinstance(message, ToolMessage)]
        first_word = str(given.messages[turn].content).partition(" ")[0]
        goes_on = bool(results or given.resume)
        if not goes_on and first_word not in SCENARIOS:
            raise Refuse(422, f"There is no scenario {first_word!r}.")
        steps = [text(*(f"It said {result}. " for result in results), "Done.")] if goes_on else SCENARIOS[first_word]

        async def in_step() -> None:
            if visit.hold is not None:
                await self._caught_up(given.run_id)

        async def get_weather(city: str, context: ToolContext) -> str:
            say(what="tool", thread=given.thread_id, call=context.call_id)
            await in_step()
            return f"18C in {city}"

        async def delete_file(path: str, context: ToolContext) -> str:
            say(what="tool", thread=given.thread_id, call=context.call_id)
            await in_step()
            return f"deleted {path}"

        tools = [Tool(get_weather), Tool(delete_file, needs_approval=True)]
        return Told(Loop([Paced(ScriptedBackend(steps), in_step)], tools), given)

    async def _caught_up(self, run_id: str) -> None:
        """Wait until all that a run has said is sent: until its reader stands there and waits for more."""
        tape = self.endpoint._runs.find(run_id, None).tape  # pyright: ignore[reportPrivateUsage]  # no reader is told this
        while not tape.waiters.wakers:  # noqa: ASYNC110  # nobody is told when a reader has nothing left to send
            await anyio.sleep(0.001)

    def ran(self, given: RunAgentInput, outcome: Any) -> None:
        say(what="ran", thread=given.thread_id, run=given.run_id, outcome=outcome.outcome)


def left() -> dict[str, int]:
    """What is open in this process."""
    return {
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "files": len(os.listdir("/dev/fd")),
    }


async def _answer(send: Any, value: Any) -> None:
    body = json.dumps(value).encode()
    head = [(b"content-type", b"application/json"), (b"connection", b"close"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


class _Server(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        say(what="up", port=self.servers[0].sockets[0].getsockname()[1])


def play(port: int = 0) -> None:
    """Serve at a port of this machine until killed."""
    _Server(uvicorn.Config(Agent(), port=port, log_config=None, access_log=False, ws="none")).run()


def warm() -> None:
    """Load all that serving loads, by a conversation in memory."""

    async def converse() -> None:
        async with pair(Loop([ScriptedBackend([text("hello")])])) as session:
            assert (await session.send("hello?")).ok

    uvicorn.Config(Agent(), log_config=None).load()
    anyio.run(converse)
