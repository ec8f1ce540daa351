"""What becomes of a run whose agent is another framework's, behind its recipe in docs/recipes.md.

    python -m tests.live.wrapped.scenarios FRAMEWORK     one line of JSON: the findings, by scenario

Runs in the framework's own environment. The recipe's `start` is taken from the page as it stands; the agents are made
by the framework's module beside this one, of a play that all three understand.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import pages

from handrail import Run, RunDriver

PAGE = Path(__file__).resolve().parents[3] / "docs" / "recipes.md"
PATIENCE = 2.0
"""Seconds after which a run that is not drained counts as waiting for its tool."""


@dataclass
class Play:
    """A model that says two words, and a tool that it calls first if there is one; what they do, and what they did."""

    model: str = "answers"
    tool: str | None = None
    is_counted: bool = True
    has_section: bool = False
    is_closed: bool = False
    is_at_work: bool = False
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: int = 0
    _free: asyncio.Event = field(default_factory=asyncio.Event)
    _free_thread: threading.Event = field(default_factory=threading.Event)

    @property
    def is_cancelled(self) -> bool:
        """Whether the run comes to a place where nothing but a cancel ends it."""
        return self.model == "stalls" or self.tool in ("asleep", "stubborn", "plain")

    def has_call(self) -> bool:
        """Whether this request is answered with a call."""
        self._asked += 1
        return self.tool is not None and self._asked == 1

    async def words(self) -> AsyncIterator[str]:
        try:
            yield "Hello, "
            if self.model == "stalls":
                self.reached.set()
                await self._free.wait()
            if self.model == "breaks":
                raise ValueError("broken")
            yield "Ada."
        finally:
            self.is_closed = True

    async def work(self, driver: RunDriver[Any]) -> str:
        """The tool where it is `async`."""
        if self.tool == "cancels itself":
            raise asyncio.CancelledError
        with self._working(driver):
            self.reached.set()
            try:
                await self._free.wait()
            except asyncio.CancelledError:
                if self.tool != "stubborn":
                    raise
                await self._free.wait()
        return "done"

    def block(self, driver: RunDriver[Any], loop: asyncio.AbstractEventLoop) -> str:
        """The tool where it is a plain function."""
        with self._working(driver):
            loop.call_soon_threadsafe(self.reached.set)
            self._free_thread.wait()
        return "done"

    @contextmanager
    def _working(self, driver: RunDriver[Any]) -> Iterator[None]:
        with driver.work("tool") if self.has_section else nullcontext():
            self.is_at_work = True
            try:
                yield
            finally:
                self.is_at_work = False

    def release(self) -> None:
        """Let go of the tool."""
        self._free.set()
        self._free_thread.set()


SCENARIOS = {
    "answers": Play(),
    "counts nothing": Play(is_counted=False),
    "breaks": Play("breaks"),
    "asks": Play(tool="asks"),
    "cancels itself": Play(tool="cancels itself"),
    "stalls": Play("stalls"),
    "asleep": Play(tool="asleep"),
    "stubborn": Play(tool="stubborn"),
    "stubborn, in a section": Play(tool="stubborn", has_section=True),
    "plain function": Play(tool="plain"),
    "plain function, in a section": Play(tool="plain", has_section=True),
}


async def played(start: Callable[..., Run[Any]], play: Play, agent: tuple[Any, ...]) -> dict[str, Any]:
    """What there is to say of one run, from its start until nothing of it is left."""
    others = asyncio.all_tasks()
    run = start(agent[0], "Hi, I am Ada.", *agent[1:])
    if play.is_cancelled:
        await play.reached.wait()
        run.cancel()
    outcome = await run.result
    found: dict[str, Any] = {
        "outcome": outcome.outcome,
        "ok": outcome.ok,
        "final": outcome.final,
        "error": outcome.error,
        "questions": len(outcome.interrupts),
        "complete": None if outcome.spent is None else outcome.spent.complete,
        "open_work": run.open_work,
    }
    drained = asyncio.ensure_future(asyncio.to_thread(run.drained.wait))
    await asyncio.wait([drained], timeout=PATIENCE)
    if not drained.done():
        play.release()
        await drained
        found["waits"] = not play.is_at_work
    else:
        found["waits"] = False
        found["left_at_work"] = play.is_at_work
        found["tasks_left"] = len(asyncio.all_tasks() - others)
    play.release()
    if left := asyncio.all_tasks() - others:
        await asyncio.wait(left)
    return {**found, "closed": play.is_closed}


async def findings(framework: str) -> dict[str, Any]:
    module = importlib.import_module(f"tests.live.wrapped.{framework}")
    start = start_of(module.MARK)
    return {name: await played(start, play, module.agent(play)) for name, play in SCENARIOS.items()}


def start_of(mark: str) -> Callable[..., Run[Any]]:
    """The `start` of the recipe that has `mark` in it."""
    recipe = next(code for code in pages.BLOCK.findall(PAGE.read_text()) if mark in code)
    namespace: dict[str, Any] = {}
    exec(compile(recipe.partition("\noutcome = await")[0], str(PAGE), "exec"), namespace)
    return namespace["start"]


if __name__ == "__main__":
    sys.modules.update(pages.modules(PAGE))
    with redirect_stdout(io.StringIO()):
        said = asyncio.run(findings(sys.argv[1]))
    print(json.dumps(said))
