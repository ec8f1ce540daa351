"""Work sections, and what `drained` says."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import ExitStack, nullcontext

import anyio
import pytest

from handrail.run import RunDriver, RunScope, drive
from handrail.run._threads import start_thread

from ._kit import LOADED, PATIENCE, Completed, Crew, Said, elsewhere, set_by_a_thread, soon, turns


def test_a_run_without_sections_is_drained_as_it_finishes() -> None:
    """R-71, R-70"""
    driver: RunDriver[Said] = RunDriver()
    assert not driver.run.drained.is_set
    driver.finish(Completed())
    assert driver.run.drained.is_set
    assert driver.run.drained.value is None


def test_drained_waits_for_the_last_section() -> None:
    """R-70: closed and every section ended, in whatever order; never before the result."""
    driver: RunDriver[Said] = RunDriver()
    assert driver.begin_work("a") is True
    assert driver.begin_work("b") is True
    driver.end_work()
    driver.end_work()
    assert not driver.run.drained.is_set
    driver.begin_work("c")
    driver.finish(Completed())
    assert driver.run.result.is_set
    assert not driver.run.drained.is_set
    driver.end_work()
    assert driver.run.drained.is_set


def test_drained_is_never_set_before_the_result() -> None:
    """R-70: a thread that sees `drained` sees the result, two hundred times."""
    for _ in range(200):
        driver: RunDriver[Said] = RunDriver()
        driver.begin_work()

        def watch(driver: RunDriver[Said] = driver) -> bool:
            driver.run.drained.wait(PATIENCE)
            return driver.run.result.is_set and driver.run.is_done

        crew = Crew()
        crew.start(watch)
        crew.start(driver.end_work)
        driver.finish(Completed())
        assert crew.join()[0] is True


async def test_the_result_of_a_driven_run_is_followed_by_drained_without_a_pause() -> None:
    """R-71, R-77: a plain `await run.result` finds `drained` set when nothing really works any more."""

    async def finishing(driver: RunDriver[Said]) -> None:
        await turns(3)
        driver.finish(Completed())

    async def returning(driver: RunDriver[Said]) -> None:
        await turns(3)

    async def raising(driver: RunDriver[Said]) -> None:
        await turns(3)
        raise RuntimeError("x")

    async with RunScope():
        for body in (finishing, returning, raising):
            run = drive(body)
            await soon(run.result)
            assert run.drained.is_set
            assert run.open_work == ()


def test_the_same_under_plain_asyncio() -> None:
    """R-71: without a scope."""

    async def body(driver: RunDriver[Said]) -> None:
        await asyncio.sleep(0)
        driver.finish(Completed())

    async def main() -> bool:
        run = drive(body)
        await run.result
        return run.drained.is_set

    assert asyncio.run(main())


def test_begin_work_on_a_closed_run_is_refused_and_not_paired() -> None:
    """R-72: nothing is counted, so a section that is still open stays so."""
    driver: RunDriver[Said] = RunDriver()
    driver.begin_work("tool")
    driver.finish(Completed())
    assert driver.begin_work("late") is False
    assert driver.run.open_work == ("tool",)
    with driver.work("later") as opened:
        assert opened is False
        assert driver.run.open_work == ("tool",)
    assert driver.run.open_work == ("tool",)
    assert not driver.run.drained.is_set
    driver.end_work()
    assert driver.run.drained.is_set
    with driver.work() as opened:
        assert opened is False
    assert driver.run.open_work == ()


def test_end_work_ends_the_newest() -> None:
    """R-72, R-74"""
    driver: RunDriver[Said] = RunDriver()
    for name in ("a", "b", "c"):
        driver.begin_work(name)
    driver.end_work()
    assert driver.run.open_work == ("a", "b")
    driver.begin_work("d")
    assert driver.run.open_work == ("a", "b", "d")
    driver.end_work()
    driver.end_work()
    assert driver.run.open_work == ("a",)
    driver.end_work()
    driver.finish(Completed())


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt, asyncio.CancelledError])
def test_work_ends_its_section_on_every_path(error: type[BaseException] | None) -> None:
    """R-72: and lets the exception through."""
    driver: RunDriver[Said] = RunDriver()

    def work() -> None:
        with driver.work("tool") as opened:
            assert opened is True
            assert driver.run.open_work == ("tool",)
            if error is not None:
                raise error

    with nullcontext() if error is None else pytest.raises(error):
        work()
    assert driver.run.open_work == ()
    driver.finish(Completed())


def test_work_ends_its_own_section_whichever_order() -> None:
    """R-72: two paired sections that do not nest, and unpaired calls beside them."""
    driver: RunDriver[Said] = RunDriver()
    with ExitStack() as second:
        with driver.work("first"):
            second.enter_context(driver.work("second"))
            driver.begin_work("unpaired")
            assert driver.run.open_work == ("first", "second", "unpaired")
        assert driver.run.open_work == ("second", "unpaired")
        driver.end_work()
        assert driver.run.open_work == ("second",)
        driver.end_work()  # what `work` opened is not for `end_work` to end
        assert driver.run.open_work == ("second",)
    assert driver.run.open_work == ()
    driver.finish(Completed())


def test_sections_of_the_same_name_are_counted() -> None:
    """R-74, R-72"""
    driver: RunDriver[Said] = RunDriver()
    with driver.work("tool"), driver.work("tool"):
        assert driver.run.open_work == ("tool", "tool")
        driver.finish(Completed())
    assert driver.run.drained.is_set


def test_a_work_section_that_outlives_the_run_drains_it() -> None:
    """R-70, R-72: opened while open, closed behind the end."""
    driver: RunDriver[Said] = RunDriver()
    with driver.work("tool"):
        driver.finish(Completed())
        assert not driver.run.drained.is_set
        assert driver.run.open_work == ("tool",)
    assert driver.run.drained.is_set


def test_end_work_too_often_does_nothing() -> None:
    """R-73: on an open run, on a closed one, from another thread, and with the home loop closed."""

    async def make() -> RunDriver[Said]:
        return RunDriver()

    driver = asyncio.run(make())
    for _ in range(3):
        assert driver.end_work() is None
    driver.begin_work("tool")
    assert driver.run.open_work == ("tool",)
    driver.finish(Completed())
    assert not driver.run.drained.is_set
    elsewhere(driver.end_work)
    assert driver.run.drained.is_set
    for _ in range(3):
        elsewhere(driver.end_work)
        driver.end_work()
    assert driver.run.open_work == ()


def test_unnamed_sections_are_listed_too() -> None:
    """R-74: an application can say what it is waiting for, in opening order."""
    driver: RunDriver[Said] = RunDriver()
    assert driver.run.open_work == ()
    driver.begin_work()
    driver.begin_work("model gpt")
    with driver.work():
        assert driver.run.open_work == ("", "model gpt", "")
    driver.finish(Completed())
    driver.end_work()
    assert driver.run.open_work == ("",)
    driver.end_work()


def test_sections_from_many_threads_balance() -> None:
    """R-73, R-1: eight threads open and close a thousand; nothing is lost."""
    driver: RunDriver[Said] = RunDriver()

    def work() -> None:
        for number in range(250):
            if number % 2:
                with driver.work("paired") as opened:
                    assert opened
            else:
                assert driver.begin_work("unpaired")
                driver.end_work()

    crew = Crew()
    for _ in range(8):
        crew.start(work)
    crew.join()
    assert driver.run.open_work == ()
    driver.finish(Completed())
    assert driver.run.drained.is_set


async def test_the_drivers_own_section_is_the_outermost() -> None:
    """R-77, R-85: open when `drive` returns, after `finish`, and until the body has let go of everything."""
    order: list[str] = []
    may_leave = anyio.Event()

    async def body(driver: RunDriver[Said]) -> None:
        assert len(driver.run.open_work) == 1
        with driver.work("inner"):
            assert driver.run.open_work[1:] == ("inner",)
        try:
            driver.finish(Completed())
            order.append(f"drained {driver.run.drained.is_set}")
            await may_leave.wait()
        finally:
            order.append("let go")

    async with RunScope():
        run = drive(body)
        assert len(run.open_work) == 1
        await soon(run.result)
        await turns()
        assert not run.drained.is_set
        assert len(run.open_work) == 1
        may_leave.set()
        await soon(run.drained)
        order.append("drained")
    assert order == ["drained False", "let go", "drained"]


async def test_streams_are_let_go_before_the_run_finishes() -> None:
    """R-77: in the body's epilogue the handles go first, then the result is there, then `drained`."""
    order: list[str] = []

    class Stream:
        async def __aenter__(self) -> Stream:
            return self

        async def __aexit__(self, *_: object) -> None:
            order.append(f"closed, result {run.result.is_set}, drained {run.drained.is_set}")

    async def body(driver: RunDriver[Said]) -> None:
        async with Stream():
            await anyio.sleep_forever()

    async with RunScope():
        run = drive(body)
        await turns()
        run.cancel()
        await soon(run.drained)
    assert order == ["closed, result False, drained False"]


async def test_a_cancelled_run_with_a_blocking_tool(gate: threading.Event, unraisable: list[object]) -> None:
    """R-76, F-13 and case 113: the result is prompt, `drained` honest, and what comes late is refused and consumed."""
    entered = threading.Event()
    late: list[object] = []
    ticks = 0

    async def body(driver: RunDriver[Said]) -> None:
        def tool() -> None:
            with driver.work("tool") as opened:
                assert opened
                entered.set()
                gate.wait(PATIENCE)
                late.append(driver.emit(Said("late")))
                raise RuntimeError("too late to tell anybody")

        driver.begin_work("call")
        thread = start_thread(tool)

        def returned() -> None:
            thread.wait(PATIENCE)
            driver.end_work()

        crew.start(returned)
        await thread
        raise AssertionError

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.005)
            ticks += 1

    crew = Crew()
    async with RunScope(), anyio.create_task_group() as group:
        group.start_soon(tick)
        run = drive(body)
        await set_by_a_thread(entered)
        before, ticked = time.monotonic(), ticks
        run.cancel()
        outcome = await soon(run.result)
        assert time.monotonic() - before < 0.1 * LOADED
        assert outcome.outcome == "cancelled"
        await anyio.sleep(0.05)
        assert ticks > ticked
        assert not run.drained.is_set
        assert "tool" in run.open_work
        gate.set()
        await soon(run.drained)
        assert late == [False]
        assert run.result.value is outcome
        assert run.events.so_far() == ()
        group.cancel_scope.cancel()
    crew.join()
