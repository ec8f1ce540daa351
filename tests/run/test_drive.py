"""`drive`: anything asynchronous behind a Run, wherever it is called."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trio

from handrail.errors import UsageError
from handrail.run import Run, RunDriver, RunScope, drive
from handrail.run._threads import start_thread

from ._kit import (
    LOADED,
    PATIENCE,
    TERMINALS,
    Completed,
    Crew,
    Said,
    check_order,
    elsewhere,
    listed,
    set_by_a_thread,
    soon,
    turns,
)

Body = Callable[[RunDriver[Said]], Awaitable[object]]

place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")


async def endless(driver: RunDriver[Said]) -> None:
    await anyio.sleep_forever()


async def speak(driver: RunDriver[Said]) -> None:
    driver.emit(Said("a"))
    await turns(1)
    driver.emit(Said("b"))
    driver.finish(Completed("end"), final="ab")


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


# --- the table of hosts -----------------------------------------------------------------------------------------


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


async def test_the_call_returns_before_the_body_has_awaited_anything(anyio_backend: str) -> None:
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


# --- how a body ends --------------------------------------------------------------------------------------------


async def test_a_foreign_iterator_behind_a_run() -> None:
    """R-85, R-23: the example of the specification; the events keep their own type."""

    async def stream() -> AsyncIterator[str]:
        for word in ("one", "two"):
            await turns(1)
            yield word

    async def body(driver: RunDriver[str]) -> None:
        async for word in stream():
            driver.emit(word)
        driver.finish(None, outcome="completed", final="two")

    async with RunScope():
        run = drive(body)
        assert len(run.open_work) == 1
        assert await listed(run.events) == ["one", "two"]
        assert (await soon(run.result)).final == "two"


async def test_a_body_that_returns_without_finishing() -> None:
    """R-86: failed, with the quoted error, and no terminal event."""

    async def body(driver: RunDriver[Said]) -> None:
        driver.emit(Said("only this"))

    async with RunScope():
        run = drive(body)
        outcome = await soon(run.result)
    assert (outcome.outcome, outcome.error) == ("failed", "the driver ended without finishing the run")
    assert [event.text for event in await listed(run.events)] == ["only this"]


async def test_a_body_that_was_asked_and_returns_is_cancelled() -> None:
    """R-86: it noticed by itself and swallowed the cancellation; that is an answer to the ask."""

    async def body(driver: RunDriver[Said]) -> None:
        await driver.run.cancellation

    async def swallowing(driver: RunDriver[Said]) -> None:
        with anyio.CancelScope() as scope:
            try:
                await anyio.sleep_forever()
            finally:
                scope.cancel()

    async with RunScope():
        for each in (body, swallowing):
            run = drive(each)
            await turns()
            run.cancel()
            outcome = await soon(run.result)
            assert (outcome.outcome, outcome.error) == ("cancelled", None)
            assert run.is_cancelled


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such model\nand more"), "ValueError: no such model"),
        (KeyError("name"), "KeyError: 'name'"),
        (RuntimeError("boom"), "RuntimeError: boom"),
        (ExceptionGroup("several", [OSError("one")]), "ExceptionGroup: several (1 sub-exception)"),
    ],
)
async def test_a_body_that_raises(error: Exception, text: str) -> None:
    """R-86, R-20 and case 121: its class and the first line of its text; awaiting raises nothing."""

    async def body(driver: RunDriver[Said]) -> None:
        driver.emit(Said())
        await turns(1)
        raise error

    async with RunScope():
        run = drive(body)
        outcome = await soon(run.result)
        await soon(run.drained)
    assert (outcome.outcome, outcome.error) == ("failed", text)
    assert len(run.events.so_far()) == 1


async def test_a_body_that_raises_without_a_text_or_at_once() -> None:
    """R-86: before its first await, and with nothing to say."""

    async def body(driver: RunDriver[Said]) -> None:
        raise ValueError

    def no_coroutine(driver: RunDriver[Said]) -> Awaitable[object]:
        raise LookupError("not even a coroutine")

    async with RunScope():
        assert ((await soon(drive(body).result)).error or "").startswith("ValueError")
        outcome = await soon(drive(no_coroutine).result)
    assert outcome.error == "LookupError: not even a coroutine"


@pytest.mark.parametrize("terminal", TERMINALS)
async def test_what_a_body_finished_stands(terminal: type[Said]) -> None:
    """R-86, R-10: it may raise, hang until it is cancelled, or return afterwards."""

    async def returning(driver: RunDriver[Said]) -> None:
        driver.finish(terminal(), final="kept")

    async def raising(driver: RunDriver[Said]) -> None:
        driver.finish(terminal(), final="kept")
        raise RuntimeError("behind the end")

    async with RunScope():
        for body in (returning, raising):
            run = drive(body)
            await soon(run.drained)
            assert run.status == terminal.ends
            assert run.result.value.final == "kept"
            check_order(run.events, run.id)


async def test_a_body_that_is_busy_with_itself_after_the_end_is_not_drained() -> None:
    """R-70, R-77, R-64: it works on behind `finish`; a cancel is too late to reach it."""
    may_leave = anyio.Event()

    async def body(driver: RunDriver[Said]) -> None:
        driver.finish(Completed())
        await may_leave.wait()

    async with RunScope():
        run = drive(body)
        await soon(run.result)
        run.cancel()
        await turns()
        assert not run.drained.is_set
        assert not run.is_cancelled
        may_leave.set()
        await soon(run.drained)


async def test_cancel_reaches_the_body_where_it_awaits() -> None:
    """R-86, R-62: the hook of the caller is called first, once; then the body sees a cancellation."""
    order: list[str] = []

    async def body(driver: RunDriver[Said]) -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            order.append("body")
            raise

    async with RunScope():
        run = drive(body, on_cancel=lambda: order.append(f"hook {run.is_cancelled}"))
        await turns()
        run.cancel()
        run.cancel()
        assert (await soon(run.result)).outcome == "cancelled"
    assert order == ["hook True", "body"]


@pytest.mark.parametrize("start", ["task", "thread"])
async def test_cancel_from_another_thread(start: str) -> None:
    """R-61, R-86: the body sleeps and nothing else happens on its loop."""
    async with RunScope():
        run = drive(endless) if start == "task" else await soon(_from_a_thread())
        await turns()
        crew = Crew()
        crew.start(run.cancel)
        assert (await soon(run.result)).outcome == "cancelled"
        crew.join()
        await soon(run.drained)


async def _from_a_thread() -> Run[Said]:
    return (await start_thread(lambda: drive(endless))).unwrap()


async def test_a_verdict_is_passed_on() -> None:
    """R-85, R-80"""

    async def body(driver: RunDriver[str]) -> None:
        driver.emit("hello")
        driver.finish("bye")

    async with RunScope():
        run = drive(body, run_id="named", verdict=lambda event: "completed" if event == "bye" else None)
        assert run.id == "named"
        assert await listed(run.events) == ["hello", "bye"]
        assert run.status == "completed"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_exception_that_is_no_exception_goes_on_to_the_host(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """R-87, R-21: the run is failed, and `asyncio.run` raises it as it would have without us; once is enough."""
    runs: list[Run[Said]] = []

    async def body(driver: RunDriver[Said]) -> None:
        await asyncio.sleep(0)
        raise error("stop")

    async def main() -> None:
        runs.append(drive(body))
        await asyncio.sleep(PATIENCE)

    with pytest.raises(error):
        asyncio.run(main())
    assert runs[0].result.value.outcome == "failed"
    assert (runs[0].result.value.error or "").startswith(error.__name__)
    assert runs[0].drained.is_set
    gc.collect()
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


def test_the_same_in_a_scope() -> None:
    """R-87: trio hands it out of the scope, in a group or bare."""
    runs: list[Run[Said]] = []

    async def body(driver: RunDriver[Said]) -> None:
        await turns(1)
        raise KeyboardInterrupt

    async def main() -> None:
        async with RunScope():
            runs.append(drive(body))
            await anyio.sleep_forever()

    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)):
        trio.run(main)
    assert runs[0].result.value.outcome == "failed"


def test_a_plain_callback_of_a_loop_may_start_a_run() -> None:
    """Section 8: the loop runs there, though no task does; it hosts."""

    async def main() -> tuple[str, int]:
        loop = asyncio.get_running_loop()
        started: asyncio.Future[Run[Said]] = loop.create_future()
        threads: list[int] = []

        async def body(driver: RunDriver[Said]) -> None:
            threads.append(threading.get_ident())
            driver.finish(Completed())

        loop.call_soon(lambda: started.set_result(drive(body)))
        run = await soon(started)
        await soon(run.drained)
        return run.status, threads[0]

    assert asyncio.run(main()) == ("completed", threading.get_ident())


def test_the_shared_thread_survives_a_body_that_exits(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-87, R-95: one run raises SystemExit; those beside it and behind it are hosted all the same."""
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    may_go = threading.Event()

    async def leaving(driver: RunDriver[Said]) -> None:
        await asyncio.sleep(0)
        raise SystemExit(3)

    async def staying(driver: RunDriver[Said]) -> None:
        await set_by_a_thread(may_go)
        driver.finish(Completed())

    beside = drive(staying)
    assert drive(leaving).result.wait(PATIENCE).outcome == "failed"
    assert drive(speak).result.wait(PATIENCE).ok
    may_go.set()
    assert beside.result.wait(PATIENCE).ok


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
