"""`drive`: how a body ends, and its run with it."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Awaitable

import anyio
import pytest
import trio

from handrail.run import Run, RunDriver, RunScope, drive
from handrail.run._threads import start_thread

from ._kit import (
    PATIENCE,
    TERMINALS,
    Completed,
    Crew,
    Said,
    check_order,
    endless,
    listed,
    set_by_a_thread,
    soon,
    speak,
    turns,
)


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
        (ExceptionGroup("several", [OSError("one")]), "ExceptionGroup: several (1 sub-exception): OSError: one"),
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


async def test_a_plain_function_is_named_as_the_mistake() -> None:
    """R-86: it can only be seen when it is called; the error says what `drive` takes."""
    async with RunScope():
        outcome = await drive(lambda driver: None).result  # type: ignore[arg-type, return-value]
    assert outcome.outcome == "failed"
    assert "async function" in str(outcome.error)
