"""Hosts: what they cancel, what they keep, and how many runs they take."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import warnings
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trio

from handrail.errors import UsageError
from handrail.run import Run, RunDriver, RunScope, _hosting, drive
from handrail.run._threads import start_thread

from ._kit import LOADED, PATIENCE, Completed, Crew, Said, elsewhere, endless, set_by_a_thread, soon, speak, turns

# --- the host's own cancellations -------------------------------------------------------------------------------


def test_asyncio_run_that_ends_with_a_live_run_cancels_it(unraisable: list[object]) -> None:
    """R-91, R-100: cancelled with what it has, `is_cancelled` False, and nothing printed."""
    runs: list[Run[Said]] = []

    async def body(driver: RunDriver[Said]) -> None:
        driver.emit(Said("so far"))
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            driver.finish(None, outcome="cancelled", final="so far")

    async def main() -> None:
        runs.extend([drive(endless), drive(body)])
        await turns()
        runs.append(drive(endless))  # has not begun

    asyncio.run(main())
    assert [run.result.value.outcome for run in runs] == ["cancelled"] * 3
    assert [run.is_cancelled for run in runs] == [False] * 3
    assert [run.cancellation.is_set for run in runs] == [False] * 3
    assert all(run.drained.is_set for run in runs)
    assert runs[1].result.value.final == "so far"
    assert runs[0].result.value.error is None


def test_a_cancelled_host_task_is_a_cancelled_task() -> None:
    """R-91 and case 121: the cancellation goes on to the host."""

    async def main() -> tuple[str, bool, bool]:
        before = asyncio.all_tasks()
        run = drive(endless)
        await turns()
        (host,) = asyncio.all_tasks() - before
        host.cancel()
        outcome = await soon(run.result)
        await asyncio.wait([host])
        return outcome.outcome, host.cancelled(), run.is_cancelled

    assert asyncio.run(main()) == ("cancelled", True, False)


async def test_a_cancelled_scope_round_the_run_scope_cancels_its_runs() -> None:
    """R-91, R-94: nobody called `cancel()`, so `is_cancelled` stays False; the scope outside sees its cancellation."""
    runs: list[Run[Said]] = []
    with anyio.CancelScope() as outside:
        async with RunScope():
            runs.extend([drive(endless), drive(endless)])
            await turns()
            outside.cancel()
            await anyio.sleep_forever()
    assert outside.cancelled_caught
    assert [run.result.value.outcome for run in runs] == ["cancelled"] * 2
    assert all(run.drained.is_set for run in runs)
    assert [run.is_cancelled for run in runs] == [False] * 2


def test_teardown_does_not_wait_for_a_blocking_thread(gate: threading.Event) -> None:
    """R-91: `asyncio.run` is over at once; the thread is left behind and holds `drained` open."""
    entered = threading.Event()
    runs: list[Run[Said]] = []

    async def body(driver: RunDriver[Said]) -> None:
        def tool() -> None:
            with driver.work("tool"):
                entered.set()
                gate.wait(PATIENCE)

        await start_thread(tool)

    async def main() -> None:
        runs.append(drive(body))
        await set_by_a_thread(entered)

    before = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - before < 1.0 * LOADED
    run = runs[0]
    assert run.result.value.outcome == "cancelled"
    assert not run.drained.is_set
    assert run.open_work == ("tool",)
    gate.set()
    run.drained.wait(PATIENCE)


@pytest.mark.parametrize("hosted", ["task", "scope", "shared"])
def test_a_stray_cancelled_error_is_an_ordinary_failure(hosted: str) -> None:
    """R-92: raised by user code, nobody cancelled anything; the host goes on."""

    async def body(driver: RunDriver[Said]) -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError("from user code")

    async def on_a_task() -> Any:
        return await soon(drive(body).result)

    async def in_scope() -> Any:
        async with RunScope():
            outcome = await soon(drive(body).result)
            await turns()
            assert (await soon(drive(speak).result)).ok
            return outcome

    if hosted == "shared":
        outcome = drive(body).result.wait(PATIENCE)
        assert drive(speak).result.wait(PATIENCE).ok
    else:
        outcome = asyncio.run(on_a_task() if hosted == "task" else in_scope())
    assert (outcome.outcome, outcome.error) == ("failed", "CancelledError: from user code")


async def test_a_cancellation_that_a_nursery_has_wrapped(anyio_backend_name: str) -> None:
    """R-91: a body with tasks of its own that is cancelled with its host is cancelled, and has not failed."""

    async def body(driver: RunDriver[Said]) -> None:
        if anyio_backend_name == "trio":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                await trio.sleep_forever()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(20))

    runs: list[Any] = []
    with anyio.CancelScope() as outside:
        async with RunScope():
            runs.append(drive(body))
            await turns(5)
            outside.cancel()
            await anyio.sleep_forever()
    assert (runs[0].status, runs[0].is_cancelled) == ("cancelled", False)

    async with RunScope():
        asked = drive(body)
        await turns(5)
        asked.cancel()
        assert (await soon(asked.result)).outcome == "cancelled"


def test_where_no_thread_can_be_started_the_call_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-101: at the exit of the interpreter; and the next call waits for no thread that never came."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as at_exit, warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        at_exit.setattr(_hosting, "_shared", None)
        at_exit.setattr(threading.Thread, "start", start)
        for _ in range(2):
            with pytest.raises(UsageError, match="exit of the interpreter"):
                drive(speak)
        gc.collect()
    assert drive(speak).result.wait(PATIENCE).ok


# --- what the body opened ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["completes", "fails", "is cancelled", "loses its readers", "its host is cancelled"])
async def test_what_was_opened_is_closed_once_in_the_same_task(how: str) -> None:
    """R-93: five ways to end."""
    story: list[object] = []
    opened = anyio.Event()
    may_end = anyio.Event()

    @asynccontextmanager
    async def connection() -> AsyncIterator[None]:
        story.append(anyio.get_current_task().id)
        try:
            yield
        finally:
            story.append(anyio.get_current_task().id)

    async def body(driver: RunDriver[Said]) -> None:
        async with connection():
            driver.emit(Said())
            opened.set()
            await may_end.wait()
            if how == "fails":
                raise RuntimeError
            driver.finish(Completed())

    with anyio.CancelScope() as outside:
        async with RunScope():
            run = drive(body)
            await opened.wait()
            if how == "is cancelled":
                run.cancel()
            elif how == "its host is cancelled":
                outside.cancel()
            elif how == "loses its readers":
                async for _ in run.events:
                    break
                with anyio.move_on_after(0.001):
                    await run.result
            if how in ("completes", "fails", "loses its readers"):
                may_end.set()
    await soon(run.drained)
    assert len(story) == 2
    assert story[0] == story[1]
    assert run.status == {"fails": "failed", "is cancelled": "cancelled", "its host is cancelled": "cancelled"}.get(
        how, "completed"
    )


def test_the_host_task_is_held_until_the_run_is_drained() -> None:
    """Section 8, R-104: nobody holds anything, the collector runs, and the run goes to its end."""
    ended = []

    async def body(driver: RunDriver[Said]) -> None:
        await asyncio.sleep(0.01)
        driver.finish(Completed())
        ended.append(driver.run.id)

    async def main() -> None:
        for _ in range(10):
            drive(body)
        gc.collect()
        with anyio.fail_after(PATIENCE):
            while len(ended) < 10:
                gc.collect()
                await asyncio.sleep(0.005)

    asyncio.run(main())


def test_runs_and_drivers_of_drive_are_collected() -> None:
    """R-103: on a task, in scopes and on the shared thread; no registry keeps a finished run."""
    refs: list[weakref.ref[object]] = []

    async def body(driver: RunDriver[Said]) -> None:
        driver.emit(Said())
        driver.finish(Completed())

    async def on_a_task() -> None:
        await one()

    async def in_scope() -> None:
        async with RunScope():
            await one()

    async def one() -> None:
        run = drive(body)
        refs.append(weakref.ref(run))
        await run.drained

    asyncio.run(on_a_task())
    asyncio.run(in_scope())
    trio.run(in_scope)
    shared = drive(body)
    shared.drained.wait(PATIENCE)
    refs.append(weakref.ref(shared))
    del shared
    drive(body).drained.wait(PATIENCE)  # the shared loop has gone on
    deadline = time.monotonic() + PATIENCE
    while any(ref() is not None for ref in refs) and time.monotonic() < deadline:
        gc.collect()
    assert [ref() for ref in refs] == [None] * 4


def test_a_living_loop_keeps_nothing_of_runs_that_are_over() -> None:
    """R-103: neither the runs nor the tasks that hosted them, on a loop that goes on and on the shared one."""

    def left() -> int:
        gc.collect()
        return sum(isinstance(thing, (asyncio.Task, Run, RunDriver)) for thing in gc.get_objects())

    async def main() -> tuple[int, int]:
        await drive(speak).drained
        await turns()
        before = left()
        for _ in range(100):
            await drive(speak).drained
        await turns()
        return before, left()

    def shared() -> tuple[int, int]:
        drive(speak).drained.wait(PATIENCE)
        before = left()
        for _ in range(100):
            drive(speak).drained.wait(PATIENCE)
        return before, left()

    for before, after in (asyncio.run(main()), shared()):
        assert after - before < 20


# --- threads and processes --------------------------------------------------------------------------------------


def test_runs_on_the_shared_thread_are_concurrent() -> None:
    """R-95: twenty bodies wait for each other, all on one daemon thread of the process."""
    threads: set[int] = set()
    arrived = 0

    async def body(driver: RunDriver[Said]) -> None:
        nonlocal arrived
        threads.add(threading.get_ident())
        assert threading.current_thread().daemon
        arrived += 1
        while arrived < 20:  # noqa: ASYNC110 - what is waited for is the other bodies
            await asyncio.sleep(0.001)
        driver.finish(Completed())

    crew = Crew()
    for _ in range(4):
        crew.start(lambda: [drive(body) for _ in range(5)])
    runs = [run for five in crew.join() for run in five]
    assert [run.result.wait(PATIENCE).ok for run in runs] == [True] * 20
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_waiting_inside_a_body_on_the_shared_thread_is_refused() -> None:
    """R-16, R-80: home is the host's; its own run and its events."""

    async def body(driver: RunDriver[Said]) -> None:
        refused = []
        for wait in (driver.run.result.wait, driver.run.drained.wait, lambda: next(iter(driver.run.events))):
            try:
                wait()
            except UsageError as error:
                refused.append("await" in str(error) or "async for" in str(error))
        driver.finish(None, outcome="completed", final=str(refused))

    assert drive(body).result.wait(PATIENCE).final == "[True, True, True]"


async def test_waiting_on_the_hosts_thread_is_refused() -> None:
    """R-16, R-80: the same for a scope and for the task that called `drive`."""
    async with RunScope():
        run = drive(endless)
        with pytest.raises(UsageError, match="await"):
            run.result.wait()
        with pytest.raises(UsageError, match="async for"):
            next(iter(run.events))
        run.cancel()


def test_two_asyncio_runs_one_after_the_other() -> None:
    """R-96: the same scope, the same half-driven run and `drive` itself; nothing of the first loop is kept."""
    driver: RunDriver[Said] = RunDriver()
    scope = RunScope()
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def main(word: str) -> str:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        driver.emit(Said(word))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(driver.run.result, 0.001)
        reader = aiter(driver.run.events)
        assert (await anext(reader)).text == "one"
        async with scope:
            inside = await soon(drive(speak).result)
        return inside.final + (await soon(drive(speak).result)).final

    assert asyncio.run(main("one")) == "abab"
    assert asyncio.run(main("two")) == "abab"
    assert elsewhere(lambda: asyncio.run(main("three"))) == "abab"
    driver.finish(Completed())
    assert len(driver.run.events.so_far()) == 4
    gc.collect()
    assert [loop() for loop in loops[:2]] == [None, None]


async def test_an_open_run_is_one_task() -> None:
    """F-12: at most two tasks, in the scope's group or on the loop."""
    async with RunScope():

        def count() -> int:
            return len(anyio.get_running_tasks())

        before = count()
        runs = [drive(endless) for _ in range(10)]
        await turns()
        assert count() - before <= 20
        for run in runs:
            run.cancel()
        for run in runs:
            await soon(run.drained)
        await turns()
        assert count() == before
