"""The result: always there, never raised, and said by the terminal event."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from typing import Any

import anyio
import pytest

from handrail.errors import UsageError
from handrail.run import RunDriver, RunScope, drive

from ._kit import PATIENCE, TERMINALS, Completed, Crew, Failed, Said, finished, listed, soon


async def test_awaiting_the_result_raises_for_none_of_the_three_outcomes() -> None:
    """R-20"""

    async def fine(driver: RunDriver[Said]) -> None:
        driver.finish(Completed())

    async def broken(driver: RunDriver[Said]) -> None:
        raise RuntimeError("boom")

    async def endless(driver: RunDriver[Said]) -> None:
        await anyio.sleep_forever()

    async with RunScope():
        runs = [drive(fine), drive(broken), drive(endless)]
        runs[2].cancel()
        outcomes = [(await soon(run.result)).outcome for run in runs]
    assert outcomes == ["completed", "failed", "cancelled"]
    assert [run.result.value.outcome for run in runs] == outcomes


def test_a_failed_run_nobody_looks_at_makes_no_noise(
    unraisable: list[object], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """R-21: no loop exception handler, no unraisable hook, nothing logged as an error, nothing on stderr."""
    handled: list[dict[str, Any]] = []

    async def broken(driver: RunDriver[Said]) -> None:
        driver.emit(Said())
        await asyncio.sleep(0)
        raise RuntimeError("nobody will see this")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: handled.append(context))
        for _ in range(20):
            drive(broken)
            driver: RunDriver[Said] = RunDriver()
            driver.finish(Failed(), error="neither this")
            del driver
        for _ in range(10):
            await asyncio.sleep(0)
        gc.collect()

    with caplog.at_level(logging.ERROR, logger="asyncio"):
        asyncio.run(main())
        gc.collect()
    assert handled == []
    assert unraisable == []
    assert [record for record in caplog.records if record.name == "asyncio"] == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("terminal", TERMINALS)
def test_the_outcome_comes_from_the_terminal_event(terminal: type[Said]) -> None:
    """R-22: by default from the class attribute `ends`."""
    assert finished(terminal()).outcome == terminal.ends
    assert finished(terminal(), error="text").outcome == terminal.ends


def test_a_verdict_reads_events_of_any_type() -> None:
    """R-22, R-80: strings and dictionaries of another library."""
    driver: RunDriver[str] = RunDriver(verdict={"done": "completed", "broke": "failed"}.get)
    assert driver.emit("hello") is True
    with pytest.raises(UsageError):
        driver.emit("done")
    with pytest.raises(UsageError):
        driver.finish("hello")
    assert driver.finish("broke") is True
    assert driver.run.result.value.outcome == "failed"
    assert list(driver.run.events) == ["hello", "broke"]


def test_without_verdict_or_ends_no_event_is_terminal() -> None:
    """R-80: foreign events are ordinary ones."""
    driver: RunDriver[object] = RunDriver()
    for event in ("text", 5, {"kind": "end"}, None):
        if event is not None:
            with pytest.raises(UsageError):
                driver.finish(event)
        assert driver.emit(event) is True
    driver.finish(None, outcome="completed")
    assert list(driver.run.events) == ["text", 5, {"kind": "end"}, None]


def test_only_the_class_says_what_ends_a_run() -> None:
    """R-22, R-80: a foreign event may have a field of that name, which says nothing about the run."""

    class Meeting:
        def __init__(self) -> None:
            self.ends = "completed"

    driver: RunDriver[Meeting] = RunDriver()
    assert driver.emit(Meeting()) is True
    with pytest.raises(UsageError):
        driver.finish(Meeting())
    driver.finish(None, outcome="completed")


def test_a_verdict_that_raises_is_the_callers_and_nothing_has_happened() -> None:
    """R-80, R-40: like a stamp that raises."""

    def judge(event: str) -> None:
        raise LookupError(event)

    driver: RunDriver[str] = RunDriver(verdict=judge)
    with pytest.raises(LookupError):
        driver.emit("a")
    with pytest.raises(LookupError):
        driver.finish("b")
    assert driver.run.status == "running"
    assert driver.run.events.so_far() == ()
    driver.finish(None, outcome="failed")


def test_a_verdict_wins_over_ends() -> None:
    """R-22: `outcome` is `verdict(terminal)` where one is given."""
    driver: RunDriver[Said] = RunDriver(verdict=lambda event: "failed" if event.text == "end" else None)
    assert driver.emit(Completed("not the end here")) is True
    driver.finish(Completed("end"))
    assert driver.run.status == "failed"


@pytest.mark.parametrize("outcome", ["completed", "failed", "cancelled"])
def test_an_outcome_beside_a_terminal_event_is_refused(outcome: str) -> None:
    """R-22: also the same one, and nothing happens."""
    driver: RunDriver[Said] = RunDriver()
    with pytest.raises(UsageError):
        driver.finish(Completed(), outcome=outcome)
    assert driver.run.status == "running"
    assert driver.run.events.so_far() == ()
    driver.finish(Completed())


@pytest.mark.parametrize("outcome", ["completed", "failed", "cancelled"])
def test_a_run_can_end_without_a_terminal_event(outcome: str) -> None:
    """R-23: readers of every kind simply end; the form needs an outcome."""
    driver: RunDriver[Said] = RunDriver()
    got: list[Said] = []
    driver.run.events.subscribe(got.append)
    crew = Crew()
    crew.start(list, driver.run.events)
    crew.start(anyio.run, listed, driver.run.events)
    driver.emit(Said("last words"))
    with pytest.raises(UsageError):
        driver.finish(None)
    assert not driver.run.is_done
    assert driver.finish(None, outcome=outcome, final="f") is True
    assert driver.run.status == outcome
    assert [[e.text for e in events] for events in crew.join()] == [["last words"]] * 2
    assert driver.run.result.value.final == "f"


def test_who_sees_the_terminal_event_sees_the_result() -> None:
    """R-24: a subscriber, a thread and an event loop look without waiting, in a thousand runs."""
    seen: list[bool] = []
    told = threading.Semaphore(0)

    async def read(run: Any) -> bool:
        async for event in run.events:
            if event.ends:
                return run.result.is_set and run.is_done
        return False

    def iterate(run: Any) -> bool:
        return next(run.result.is_set and run.is_done for event in run.events if event.ends)

    async def main() -> None:
        for number in range(1000):
            driver: RunDriver[Said] = RunDriver()
            run = driver.run
            finished = Crew()

            def look(event: Said, run: Any = run) -> None:
                if event.ends:
                    seen.append(run.result.is_set)
                    told.release()

            run.events.subscribe(look)
            reader = asyncio.create_task(read(run))
            await asyncio.sleep(0)
            if number % 10 == 0:
                finished.start(iterate, run)
            finished.start(driver.finish, Completed())
            assert await reader
            assert all(finished.join())

    asyncio.run(main())
    for _ in range(1000):
        assert told.acquire(timeout=PATIENCE)
    assert seen == [True] * 1000
