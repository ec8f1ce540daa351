"""A model that keeps nothing, and the tools it calls.

What it says next follows from the conversation: the last user turn names a script, and the answers behind it say how
far the script is. So one loop takes any number of runs, one after the other and at once, and so does one server.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
from ag_ui.core import AssistantMessage, Interrupt, UserMessage

from handrail import BackendRequest, Limits, Loop, RetryPolicy, Tool, ToolContext, approve
from handrail.testing import ScriptedBackend, Step, call, fail, reasoning, stall, text

ROUNDS = 5
"""The most that a run has; the script "endless" wants more."""

SCRIPTS: dict[str, Callable[[int, int], Step]] = {
    # what is asked for: the answer that is number n (from 0), at attempt m (from 1)
    "talk": lambda n, m: [reasoning("Hm."), text("It ", "is ", "warm.")],
    "look": lambda n, m: [call("look", {"n": 1}), call("glance", {"n": 2})] if n == 0 else text("Done."),
    "break": lambda n, m: [call("crash"), call("nothing_of_this_name"), call("look", "{")] if n == 0 else text("Oh."),
    "refuse": lambda n, m: fail("http", status=400),
    "flaky": lambda n, m: [text("Al"), fail("http", status=503)] if m == 1 else text("Almost."),
    "stall": lambda n, m: [text("One", "moment"), stall()],
    "block": lambda n, m: [call("block")],
    "hold": lambda n, m: [call("hold")],
    "slow": lambda n, m: [call("lull")] if n == 0 else text("Too late."),
    "endless": lambda n, m: [call("look", {"n": n})],
    "delete": lambda n, m: [call("delete", {"n": 1}), call("look", {"n": 1})] if n == 0 else text("Gone."),
    "client": lambda n, m: [call("here", {"n": 1}), call("there", {"n": 2})] if n == 0 else text("Thanks."),
}


class Model:
    """Plays the script that was asked for."""

    model = "scripted"
    max_tokens = None

    def stream(self, request: BackendRequest) -> AbstractAsyncContextManager[AsyncIterator[Any]]:
        asked = max(at for at, message in enumerate(request.messages) if isinstance(message, UserMessage))
        answered = sum(isinstance(message, AssistantMessage) for message in request.messages[asked:])
        step = SCRIPTS[str(request.messages[asked].content)](answered, request.attempt)
        return ScriptedBackend([step]).stream(request)


def look(n: int) -> str:
    return "found"


async def glance(n: int, context: ToolContext) -> str:
    context.progress(1, 2)
    return "seen"


def crash() -> str:
    raise RuntimeError("no luck")


def block(context: ToolContext) -> str:
    """Goes on until its run is over, and then a little."""
    while not context.cancelled:
        threading.Event().wait(0.001)
    return "late"


async def hold() -> str:
    """Swallows the cancellation that ends it."""
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        return "not me"
    return ""


async def lull() -> str:
    await anyio.sleep_forever()
    return ""


def delete(n: int) -> str:
    return "deleted"


def new_loop(*, asks: bool) -> Loop:
    """A loop over the model; `asks`: approvals are given in process, or end the run."""

    def consent(interrupt: Interrupt) -> Any:
        return approve(interrupt)

    return Loop(
        backends=[Model()],
        tools=[look, glance, crash, block, hold, Tool(lull, timeout=0.002), Tool(delete, needs_approval=True)],
        system="Be brief.",
        limits=Limits(max_rounds=ROUNDS),
        retry=RetryPolicy(max_attempts=2, backoff_cap=0.0, jitter=0.0),
        ask=consent if asks else None,
    )
