"""`handrail chat`: the chat in a terminal, from its first screen to the exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from handrail.apps._load import AnyTool
from handrail.apps._once import once, say
from handrail.apps._remote import headers_of
from handrail.apps._visible import one_line
from handrail.apps.chat._garbage import short_collections
from handrail.apps.chat._target import agent_named, tools_with_consent
from handrail.client import Agent, AgentSession
from handrail.errors import UsageError
from handrail.transcript import Failed

if TYPE_CHECKING:
    from handrail.apps.chat._app import ChatApp, Opening

__all__ = ["chat", "command", "require_terminal"]

_FRAMES = "120"
"""A second, at most. Textual asks the environment for it, and takes 60: a key that comes behind a long frame would
then wait for two of them, 33 ms. There are no more frames than something changes.
"""

_CLOSING_GRACE = 0.5  # seconds; closing a connection takes a moment, a stuck tool takes for ever


def command(name: str, *, headers: Sequence[str] = (), tools: str | None, text: str | None, as_json: bool) -> int:
    """What `handrail chat` does. Raises `UsageError` for what cannot be started."""
    agent = agent_named(name, headers_of(headers))
    if text is not None:
        if tools is not None:
            raise UsageError("--once runs no --tools: there is nobody to consent.")
        return once(agent, say(text), as_json=as_json)
    if as_json:
        raise UsageError("--json goes with --once.")
    return chat(agent, title=name, tools=tools_with_consent(tools) if tools else ())


def chat(
    agent: Agent,
    *,
    title: str,
    tools: Sequence[AnyTool] = (),
    opening: Opening | None = None,
    new_session: Callable[..., AgentSession] = AgentSession,
) -> int:
    """Hold a conversation with `agent` on the whole screen; returns when the person leaves.

    What was still going on then is stopped and named. What does not end in half a second is left to the end of the
    process, which comes from in here. Raises `UsageError` where there is no terminal, or no Textual.
    """
    require_terminal()
    os.environ.setdefault("TEXTUAL_FPS", _FRAMES)
    try:
        from handrail.apps.chat._app import ChatApp
    except ModuleNotFoundError as missing:
        raise UsageError(f"The chat needs {missing.name}: pip install 'handrail[chat]'.") from missing
    app = ChatApp(agent, title=title, tools=tools, opening=opening, new_session=new_session)
    runner = asyncio.Runner()
    with short_collections():
        left = runner.run(_until_left(app))
    if left is None:
        runner.close()
        return 0
    print(left, flush=True)
    sys.stderr.flush()
    os._exit(0)


def require_terminal() -> None:
    """Raises `UsageError` where there is none."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError('The chat needs a terminal; without one, say something with --once "text".')


async def _until_left(app: ChatApp) -> str | None:
    """Run the app; what is still running when it was left, or None."""
    await app.run_async()
    session = app.session
    for line in _farewell(app):
        print(line)
    try:
        await session.aclose(_CLOSING_GRACE)
    except TimeoutError:
        running = session.still_running()
        names = ", ".join(one_line(name) or "unnamed" for name in running) or "the agent's run"
        return f"Left behind, still running: {names}."
    return None


def _farewell(app: ChatApp) -> Iterator[str]:
    session = app.session
    run = session.transcript.run
    if app.left_at_work:
        yield "The run that was going on has been stopped."
    if isinstance(run, Failed) and run.kind != "cancelled":
        yield f"The last run failed: {one_line(run.message)}"
    if asked := len(session.pending_interrupts):
        yield f"Questions left open: {asked}."
