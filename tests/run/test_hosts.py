"""`drive`: anything asynchronous behind a Run, wherever it is called."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio

from handrail.errors import UsageError
from handrail.run import Run, RunDriver, RunScope, drive

from ._kit import (
    LOADED,
    PATIENCE,
    Completed,
    Said,
    check_order,
    elsewhere,
    listed,
    set_by_a_thread,
    soon,
    speak,
    turns,
)

place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")


def in_a_scope(start: Callable[[], Run[Said]]) -> Callable[[], Awaitable[Any]]:
    async def main() -> Any:
        async with RunScope():
            run = start()
            return (await soon(run.result)).final, [event.text for event in await listed(run.events)]

    return main


def on_a_task(start: Callable[[], Run[Said]]) -> Callable[[], Awaitable[Any]]:
    async def main() -> Any:
        run = start()
        return (await soon(run.result)).final, [event.text for event in await listed(run.events)]

    return main


@pytest.mark.parametrize(
    "host",
    [
        lambda start: asyncio.run(on_a_task(start)()),
        lambda start: asyncio.run(in_a_scope(start)()),
        lambda start: trio.run(in_a_scope(start)),
        lambda start: (start().result.wait(PATIENCE).final, ["a", "b", "end"]),
        lambda start: elsewhere(lambda: (start().result.wait(PATIENCE).final, ["a", "b", "end"])),
    ],
    ids=["asyncio task", "asyncio scope", "trio scope", "no loop", "no loop, another thread"],
)
def test_the_table_of_hosts(host: Callable[[Callable[[], Run[Said]]], Any]) -> None:
    """R-85 and section 8: the same body in every place."""
    runs: list[Run[Said]] = []

    def start() -> Run[Said]:
        runs.append(drive(speak, run_id="r"))
        return runs[0]

    assert host(start) == ("ab", ["a", "b", "end"])
    check_order(runs[0].events, "r")
    assert runs[0].drained.is_set


def test_trio_without_a_scope_is_refused() -> None:
    """Section 8, R-85: the sentence names `async with`, and the body is never called."""
    called = []

    async def body(driver: RunDriver[Said]) -> None:
        called.append(driver)

    async def main() -> None:
        with pytest.raises(UsageError, match="async with"):
            drive(body)
        await turns()

    trio.run(main)
    gc.collect()
    assert called == []


def test_an_argument_that_is_no_function_is_refused() -> None:
    """Section 10: `TypeError` at once, wherever it is called."""
    for wrong in (None, "body", 5):
        with pytest.raises(TypeError):
            drive(wrong)  # type: ignore[arg-type]
    for wrong in ({"run_id": 5}, {"on_cancel": 5}, {"verdict": 5}):
        with pytest.raises(TypeError):
            drive(speak, **wrong)  # type: ignore[arg-type]
    gc.collect()


async def test_the_call_returns_before_the_body_has_awaited_anything() -> None:
    """R-90: in well under 50 ms, with the run open, though the body would take 0.4 s."""
    stepped = False

    async def body(driver: RunDriver[Said]) -> None:
        nonlocal stepped
        await turns(1)
        stepped = True
        await anyio.sleep(0.4)
        driver.finish(Completed())

    async with RunScope():
        before = time.monotonic()
        run = drive(body)
        assert time.monotonic() - before < 0.05 * LOADED
        assert not run.is_done
        assert not stepped
        assert run.status == "running"
        run.cancel()


def test_the_call_returns_at_once_without_a_loop_too() -> None:
    """R-90: also the first one, which starts the shared thread; the body is held by a gate."""
    may_go = threading.Event()

    async def body(driver: RunDriver[Said]) -> None:
        await set_by_a_thread(may_go)
        driver.finish(Completed())

    before = time.monotonic()
    run = drive(body)
    assert time.monotonic() - before < 0.05 * LOADED
    assert not run.is_done
    may_go.set()
    assert run.result.wait(PATIENCE).ok


async def test_context_variables_reach_the_body() -> None:
    """R-85: a task sees what its caller had set, on every host."""
    token = place.set("here")
    seen: list[str] = []

    async def body(driver: RunDriver[Said]) -> None:
        seen.append(place.get())
        place.set("inside")
        driver.finish(Completed())

    try:
        async with RunScope():
            await soon(drive(body).result)
        assert place.get() == "here"
    finally:
        place.reset(token)
    assert seen == ["here"]


def test_context_variables_reach_the_shared_thread() -> None:
    """R-85"""
    token = place.set("here")

    async def body(driver: RunDriver[Said]) -> None:
        driver.finish(None, outcome="completed", final=place.get())

    try:
        assert drive(body).result.wait(PATIENCE).final == "here"
    finally:
        place.reset(token)
