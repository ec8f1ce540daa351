"""What a tool knows of its run, and what it may say."""

from __future__ import annotations

import json
import threading
from typing import Any

import anyio
import pytest

from handrail import Loop, ToolContext, events, tool
from handrail.testing import ScriptedBackend, call, collect, text

from .kit import checked, play, roles


async def test_what_a_context_knows_and_says() -> None:
    """L-80, L-97: filled in and not declared; progress and logs are events of the run that started the call."""
    seen: dict[str, Any] = {}

    def f(x: int, context: ToolContext) -> str:
        seen.update({name: getattr(context, name) for name in ("call_id", "name", "arguments", "round", "thread_id")})
        seen["run_id"] = context.run_id
        seen["told"] = (context.progress(1, 2, "half"), context.log({"a": 1}, "warning"), context.cancelled)
        with pytest.raises(ValueError, match="level"):
            context.log("x", "loud")  # type: ignore[arg-type]
        return "ok"

    backend = ScriptedBackend([call("f", '{"x": 1}', id="c"), text("done")])
    got = await play(Loop(backends=[backend], tools=[f]))
    assert "context" not in str(backend.requests[0].tools[0].parameters)
    assert seen.pop("run_id") == got.events[0].run_id
    assert seen.pop("told") == (True, True, False)
    assert seen == {"call_id": "c", "name": "f", "arguments": '{"x": 1}', "round": 1, "thread_id": None}
    (progress,) = got.of(events.ToolProgress)
    assert (progress.id, progress.progress, progress.total, progress.message) == ("c", 1, 2, "half")
    (log,) = got.of(events.Log)
    assert (log.level, log.data) == ("warning", {"a": 1})


async def test_what_it_says_can_be_written_down() -> None:
    """L-11, L-97: half a character, as the names of files may have one, is told as U+FFFD; a number is finite."""
    refused: list[float] = []

    def f(context: ToolContext) -> None:
        context.log("caf\udce9.txt")
        context.progress(1, message="caf\udce9.txt")
        for number in (10**400, -(10**400), float("inf"), float("nan")):
            with pytest.raises(ValueError, match="finite"):
                context.progress(number)
            refused.append(number)

    got = await play(Loop(backends=[ScriptedBackend([call("f"), text("done")])], tools=[f]))
    assert len(refused) == 4
    for event in got.of((events.Log, events.ToolProgress)):
        assert "caf\ufffd.txt" in json.dumps(event.to_dict(), ensure_ascii=False)


async def test_threads_that_poll_see_a_cancel() -> None:
    """L-97: three parallel threads polling every 10 ms; drained within 0.3 s, on a loaded machine within five times."""
    arrived = threading.Semaphore(0)

    @tool(parallel=True)
    def polls(context: ToolContext) -> str:
        arrived.release()
        pause = threading.Event()
        while not context.cancelled:
            pause.wait(0.01)
        return "seen"

    calls = [call("polls", id=f"c{n}") for n in range(3)]
    async with Loop(backends=[ScriptedBackend([calls])], tools=[polls]) as loop:
        run = loop.run("hi")
        for _ in range(3):
            while not arrived.acquire(blocking=False):  # noqa: ASYNC110  # threads arrive, not tasks
                await anyio.sleep(0.001)
        run.cancel()
        with anyio.fail_after(1.5):
            await run.drained
    assert run.result.value.outcome == "cancelled"
    assert roles(checked(await collect(run)))[-3:] == ["tool"] * 3
