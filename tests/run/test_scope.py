"""`RunScope`: a task group for runs."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import anyio
import pytest

from handrail.errors import UsageError
from handrail.run import Run, RunDriver, RunScope, drive
from handrail.run._threads import start_thread

from ._kit import PATIENCE, Completed, Said, elsewhere, endless, set_by_a_thread, soon, turns


async def test_leaving_normally_waits_until_every_run_is_drained() -> None:
    """R-94: nothing is stopped that nobody asked to stop."""
    may_end = anyio.Event()
    left = False

    async def body(driver: RunDriver[Said]) -> None:
        await may_end.wait()
        driver.finish(Completed())

    async def use() -> None:
        nonlocal left
        async with RunScope():
            runs.extend([drive(body), drive(body)])
        left = True

    runs: list[Run[Said]] = []
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(use)
            await turns(20)
            assert not left
            assert [run.status for run in runs] == ["running"] * 2
            may_end.set()
    assert left
    assert [run.status for run in runs] == ["completed"] * 2
    assert not any(run.is_cancelled for run in runs)


async def test_leaving_normally_waits_for_a_blocking_thread_too(gate: threading.Event) -> None:
    """R-94, R-76: the run has its result, its thread still works, and the scope waits for `drained`."""
    entered = threading.Event()
    left = False

    async def body(driver: RunDriver[Said]) -> None:
        def tool() -> None:
            with driver.work("tool"):
                entered.set()
                gate.wait(PATIENCE)

        start_thread(tool)
        await set_by_a_thread(entered)
        driver.finish(Completed())

    async def use() -> None:
        nonlocal left
        async with RunScope():
            runs.append(drive(body))
        left = True

    runs: list[Run[Said]] = []
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(use)
            while not runs:
                await turns()
            await runs[0].result
            await turns(20)
            assert not left
            assert runs[0].open_work == ("tool",)
            gate.set()
    assert left
    assert runs[0].drained.is_set


async def test_leaving_by_an_exception_cancels_the_runs() -> None:
    """R-94: the exception comes out as it was, and the asynchronous work is over."""
    closed: list[str] = []

    async def body(driver: RunDriver[Said]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await turns(3)
            closed.append(driver.run.id)

    runs: list[Run[Said]] = []

    async def use() -> None:
        async with RunScope():
            runs.extend([drive(body), drive(body)])
            await turns()
            runs.append(drive(endless))  # has not begun
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await soon(use())
    assert [run.result.value.outcome for run in runs] == ["cancelled"] * 3
    assert all(run.drained.is_set for run in runs)
    assert sorted(closed) == sorted(run.id for run in runs[:2])


async def test_leaving_by_an_exception_calls_the_hooks_of_the_runs() -> None:
    """R-94, R-62: the scope cancels them as anybody would, so a driver that reacts to its hook hears of it."""
    hooked: list[str] = []

    async def use() -> None:
        async with RunScope():
            drive(endless, on_cancel=lambda: hooked.append("hook"))
            await turns()
            raise LookupError

    with pytest.raises(LookupError):
        await soon(use())
    assert hooked == ["hook"]


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")  # anyio's, for what its task group never began
def test_a_task_that_is_cancelled_before_its_first_step() -> None:
    """R-91, R-94: by asyncio's own means, which a scope cannot see; the run ends and is drained all the same."""

    async def main() -> Run[Said]:
        before = asyncio.all_tasks()
        async with RunScope():
            run = drive(endless)
            for task in asyncio.all_tasks() - before:
                task.cancel()
        return run

    run: Run[Said] = asyncio.run(main())
    gc.collect()
    assert run.result.value.outcome == "cancelled"
    assert run.drained.is_set
    assert not run.is_cancelled


async def test_leaving_by_an_exception_leaves_blocking_threads_behind(gate: threading.Event) -> None:
    """R-94, R-91: it does not wait for them; `drained` tells the truth."""
    entered = threading.Event()

    async def body(driver: RunDriver[Said]) -> None:
        def tool() -> None:
            with driver.work("tool"):
                entered.set()
                gate.wait(PATIENCE)

        await start_thread(tool)

    runs: list[Run[Said]] = []

    async def use() -> None:
        async with RunScope():
            runs.append(drive(body))
            await set_by_a_thread(entered)
            raise LookupError

    with pytest.raises(LookupError):
        await soon(use())
    (run,) = runs
    assert run.result.value.outcome == "cancelled"
    assert not run.drained.is_set
    assert run.open_work == ("tool",)
    gate.set()
    await soon(run.drained)


async def test_leaving_by_a_cancellation_cancels_the_runs() -> None:
    """R-94: a scope round it runs out while it waits for its runs."""
    with anyio.move_on_after(0.01) as outside:
        async with RunScope():
            run = drive(endless)
    assert outside.cancelled_caught
    assert run.result.value.outcome == "cancelled"
    assert run.drained.is_set


async def test_a_run_that_fails_disturbs_neither_scope_nor_siblings() -> None:
    """R-94, R-20: failure is data, not an exception in the task group."""

    async def failing(driver: RunDriver[Said]) -> None:
        await turns(2)
        raise RuntimeError("boom")

    async def fine(driver: RunDriver[Said]) -> None:
        await turns(20)
        driver.finish(Completed())

    async with RunScope():
        bad, good = drive(failing), drive(fine)
    assert (bad.status, good.status) == ("failed", "completed")


async def test_the_innermost_scope_hosts() -> None:
    """R-94: leaving the inner one waits for its own runs and not for those of the outer one."""
    may_end = anyio.Event()

    async def waiting(driver: RunDriver[Said]) -> None:
        await may_end.wait()
        driver.finish(Completed())

    async def brief(driver: RunDriver[Said]) -> None:
        driver.finish(Completed())

    with anyio.fail_after(PATIENCE):
        async with RunScope():
            outer = drive(waiting)
            async with RunScope():
                inner = drive(brief)
            assert inner.drained.is_set
            assert outer.status == "running"
            late = drive(waiting)  # the outer one hosts again
            may_end.set()
    assert (outer.status, late.status) == ("completed", "completed")


async def test_an_inner_scope_that_breaks_leaves_the_outer_one_alone() -> None:
    """R-94"""
    inner: list[Run[Said]] = []

    async def use() -> None:
        async with RunScope():
            inner.append(drive(endless))
            raise LookupError

    with anyio.fail_after(PATIENCE):
        async with RunScope():
            outer = drive(endless)
            with pytest.raises(LookupError):
                await use()
            assert inner[0].result.value.outcome == "cancelled"
            await turns()
            assert outer.status == "running"
            outer.cancel()


async def test_tasks_of_the_body_start_runs_in_its_scope() -> None:
    """Section 8: a child task, an async helper; both find it."""

    async def fine(driver: RunDriver[Said]) -> None:
        await turns(3)
        driver.finish(Completed())

    async def helper() -> None:
        runs.append(drive(fine))

    runs: list[Run[Said]] = []
    async with RunScope():
        async with anyio.create_task_group() as group:
            group.start_soon(helper)
            group.start_soon(helper)
        await helper()
    assert [run.drained.is_set for run in runs] == [True] * 3


async def test_a_run_may_start_a_run() -> None:
    """Section 8: from inside a body, also while the scope is being left."""

    async def inner(driver: RunDriver[Said]) -> None:
        await turns(3)
        driver.finish(Completed())

    async def outer(driver: RunDriver[Said]) -> None:
        await turns(3)
        runs.append(drive(inner))
        driver.finish(Completed())

    runs: list[Run[Said]] = []
    with anyio.fail_after(PATIENCE):
        async with RunScope():
            runs.append(drive(outer))
    assert [run.status for run in runs] == ["completed"] * 2
    assert all(run.drained.is_set for run in runs)


def test_a_scope_hosts_only_on_its_own_loop() -> None:
    """Section 8: a thread that inherited the context has no loop, so the shared thread hosts there."""

    async def where(driver: RunDriver[Said]) -> None:
        driver.finish(None, outcome="completed", final=threading.current_thread().name)

    async def main() -> tuple[str, str]:
        async with RunScope():
            here = (await soon(drive(where).result)).final
            there = (await start_thread(lambda: drive(where).result.wait(PATIENCE).final)).unwrap()
            return here, there

    here, there = asyncio.run(main())
    assert here == threading.current_thread().name
    assert there != here


async def test_outside_of_its_block_a_scope_hosts_nothing(anyio_backend_name: str) -> None:
    """Section 8: before and behind the block it is as if it were not there."""
    scope = RunScope()
    async with scope:
        pass
    for _ in range(2):
        if anyio_backend_name == "trio":
            with pytest.raises(UsageError):
                drive(endless)
        else:
            run = drive(endless)
            run.cancel()
            await soon(run.drained)
        async with scope:  # it may be entered again, and hosts again
            run = drive(endless)
            run.cancel()
        assert run.drained.is_set


async def test_entering_a_scope_twice_at_once_is_refused() -> None:
    """Section 10: with a sentence, and the first entry goes on."""
    scope = RunScope()
    async with scope:
        with pytest.raises(UsageError):
            await scope.__aenter__()
        run = drive(endless)
        run.cancel()
    assert run.drained.is_set


async def test_a_scope_is_what_as_gives() -> None:
    """R-94: `async with RunScope() as scope`."""
    scope: Any = RunScope()
    async with scope as entered:
        assert entered is scope


async def test_a_run_in_a_scope_can_be_watched_from_a_thread() -> None:
    """R-11, R-44: reader and waiter on a thread beside the loop."""

    async def speaking(driver: RunDriver[Said]) -> None:
        for word in "abc":
            driver.emit(Said(word))
            await turns(1)
        driver.finish(Completed("end"))

    async with RunScope():
        run = drive(speaking)
        texts = (await soon(start_thread(lambda: [event.text for event in run.events]))).unwrap()
    assert texts == ["a", "b", "c", "end"]
    assert elsewhere(run.result.wait).ok


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt()], ids=lambda e: type(e).__name__)
async def test_what_the_body_raises_comes_out_as_it_is(error: BaseException) -> None:
    """R-94: not in an exception group, so that `sys.exit(3)` in a scope still exits with 3."""
    runs: list[Run[Said]] = []

    async def use() -> None:
        async with RunScope():
            runs.append(drive(endless))
            await turns()
            raise error

    with pytest.raises(type(error)) as caught:
        await use()
    assert caught.value is error
    run = runs[0]
    assert run.result.value.outcome == "cancelled"
    assert run.drained.is_set


async def test_a_scope_that_was_left_does_not_hide_the_one_round_it() -> None:
    """Section 8, R-94: a task that was started in the inner scope goes on in the outer one."""
    may_go = anyio.Event()
    runs: list[Run[Said]] = []

    async def body(driver: RunDriver[Said]) -> None:
        driver.finish(Completed())

    async def later() -> None:
        await may_go.wait()
        runs.append(drive(body))

    async with RunScope():
        async with anyio.create_task_group() as group:
            async with RunScope():
                group.start_soon(later)
                await turns()
            may_go.set()
        assert runs
    assert runs[0].drained.is_set
