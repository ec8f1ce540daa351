"""What waits on an event loop that is closed: it is closed where it stands, in order, whatever that raises (R-100)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from handrail.run import Run, RunDriver, RunScope, drive
from handrail.run._loops import children, closed_with_loop

from ._kit import PATIENCE, Said, turns

T = TypeVar("T")


def left_behind(begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(asyncio.wait_for(begin(), PATIENCE))
    finally:
        loop.close()


def test_what_was_entered_first_is_closed_first(unraisable: list[object]) -> None:
    """R-100: each clears up, also where one before it raised in that."""
    story: list[str] = []

    async def waiting(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            story.append(name)
            if name == "two":
                raise LookupError(name)

    async def begin() -> list[asyncio.Task[None]]:
        tasks = [asyncio.ensure_future(closed_with_loop(waiting(name))) for name in ("one", "two", "three")]
        await turns()
        return tasks

    tasks = left_behind(begin)
    assert story == ["one", "two", "three"]
    del tasks
    gc.collect()
    assert story == ["one", "two", "three"]
    assert unraisable == []


def test_clean_up_that_waits_is_cut_short(unraisable: list[object]) -> None:
    """R-100: at each of its waits, and at the hundredth it is left."""
    waits: list[str] = []

    async def patient() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await asyncio.sleep(0)
            finally:
                waits.append("patient")

    async def stubborn() -> None:
        while len(waits) < 1_000:
            try:
                await asyncio.sleep(0)
            except GeneratorExit:
                waits.append("stubborn")

    async def begin() -> list[asyncio.Task[None]]:
        tasks = [asyncio.ensure_future(closed_with_loop(work())) for work in (patient, stubborn)]
        await turns()
        return tasks

    tasks = left_behind(begin)
    assert waits == ["patient"] + ["stubborn"] * 100
    waits += ["enough"] * 1_000
    for task in tasks:
        task.get_coro().close()  # type: ignore[union-attr]
    del task, tasks
    gc.collect()
    assert unraisable == []


def test_what_is_over_is_not_kept() -> None:
    """R-103: neither a coroutine nor what it gave; and what it raises goes on."""

    async def gives() -> str:
        await asyncio.sleep(0)
        return "value"

    async def raises() -> None:
        raise LookupError("mine")

    async def begin() -> Coroutine[Any, Any, str]:
        coro = gives()
        assert await closed_with_loop(coro) == "value"
        with pytest.raises(LookupError, match="mine"):
            await closed_with_loop(raises())
        return coro

    coro = left_behind(begin)
    assert coro.cr_frame is None  # type: ignore[attr-defined]
    assert gc.get_referrers(coro) == []


def test_children_are_closed_and_their_sections_end(unraisable: list[object], caplog: pytest.LogCaptureFixture) -> None:
    """R-100, R-77: nobody is left to hold `drained` open."""
    story: list[str] = []

    async def body(driver: RunDriver[Said]) -> None:
        async def work() -> None:
            with driver.work("child"):
                try:
                    await asyncio.Event().wait()
                finally:
                    story.append("closed")

        async with children() as group:
            group.start(work, "one")
            group.start(work, "two")
            await asyncio.Event().wait()

    async def begin() -> Run[Said]:
        run = drive(body)
        await turns(30)
        assert run.open_work == ("run", "child", "child")
        return run

    run = left_behind(begin)
    assert run.result.value.error == "the event loop closed before the run ended"
    assert run.drained.is_set
    assert story == ["closed", "closed"]
    gc.collect()
    assert unraisable == []
    assert not any("name='one'" in record.message or "name='two'" in record.message for record in caplog.records)


def test_runs_of_a_scope_are_closed() -> None:
    """R-100: the scope's tasks are left on the loop like any."""

    async def body(driver: RunDriver[Said]) -> None:
        await asyncio.Event().wait()

    runs: list[Run[Said]] = []

    async def scoped() -> None:
        async with RunScope():
            runs.append(drive(body))
            await asyncio.Event().wait()

    async def begin() -> asyncio.Task[None]:
        task = asyncio.ensure_future(scoped())
        await turns()
        return task

    task = left_behind(begin)
    assert runs[0].result.value.error == "the event loop closed before the run ended"
    assert runs[0].drained.is_set
    assert not task.done()
