"""A driver that gets lost ends its run, and what is over can be collected."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
import weakref

import pytest

from handrail.run import Run, RunDriver

from ._kit import PATIENCE, Completed, Crew, Said, child, listed, soon


@pytest.mark.parametrize("sections", [(), ("w",), ("w", "v")])
def test_a_lost_driver_ends_its_run(sections: tuple[str, ...]) -> None:
    """R-83: failed, with the quoted error, a ResourceWarning that names the run, and drained."""
    driver: RunDriver[Said] = RunDriver(run_id="run-lost")
    run = driver.run
    driver.emit(Said("last words"))
    for name in sections:
        driver.begin_work(name)
    reader = Crew()
    reader.start(list, run.events)
    held = [driver]
    del driver
    with pytest.warns(ResourceWarning, match="run-lost"):
        held.clear()
    assert run.result.value.outcome == "failed"
    assert run.result.value.error == "the driver of this run was lost"
    assert run.status == "failed"
    assert run.drained.is_set
    assert run.open_work == ()
    assert [event.text for event in reader.join()[0]] == ["last words"]


def test_a_lost_driver_whose_paired_section_is_open_ends_it() -> None:
    """R-83: sections of either form are ended, and the section's own end does nothing then."""
    driver: RunDriver[Said] = RunDriver()
    run = driver.run
    section = driver.work("w")
    section.__enter__()
    held = [driver]
    del driver
    with pytest.warns(ResourceWarning, match=run.id):
        held.clear()
    assert run.drained.is_set
    section.__exit__(None, None, None)
    assert run.open_work == ()


def test_a_lost_driver_ends_its_run_where_warnings_are_errors(unraisable: list[object]) -> None:
    """R-83: as under `python -W error`; the warning cannot be raised from there, but the run must end."""
    driver: RunDriver[Said] = RunDriver()
    run = driver.run
    driver.begin_work("w")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del driver
        gc.collect()
    assert run.result.value.error == "the driver of this run was lost"
    assert run.drained.is_set
    assert len(unraisable) == 1


def test_a_finished_driver_is_collected_in_silence() -> None:
    """R-83: nothing to warn about; sections that are open stay so, since what they stand for still works."""
    driver: RunDriver[Said] = RunDriver()
    run = driver.run
    driver.finish(Completed())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del driver
        gc.collect()
    assert run.drained.is_set


def test_a_lost_driver_wakes_whoever_waits() -> None:
    """R-83, R-11: in a thread and on a loop; the driver is in a reference cycle, so the collector ends it."""
    driver: RunDriver[Said] = RunDriver()
    run = driver.run
    cycle: list[object] = [driver]
    cycle.append(cycle)
    waiting = threading.Event()

    async def awaiting() -> str:
        task = asyncio.ensure_future(soon(run.result))
        await asyncio.sleep(0)
        waiting.set()
        return (await task).outcome

    crew = Crew()
    crew.start(lambda: run.result.wait(PATIENCE).outcome)
    crew.start(asyncio.run, awaiting())
    assert waiting.wait(PATIENCE)
    del driver, cycle
    with pytest.warns(ResourceWarning):
        gc.collect()
    assert crew.join() == ["failed", "failed"]


@pytest.mark.slow
def test_a_run_that_loses_its_driver_anywhere_in_its_own_methods() -> None:
    """R-84: the collector runs at every allocation while the run is read; nothing deadlocks and the run ends."""
    done = child(
        """
        import asyncio, gc, threading, warnings
        from handrail.run import RunDriver

        warnings.simplefilter("ignore", ResourceWarning)
        ended = []

        def use(run):
            stream = run.events
            asks = [
                lambda: repr(run), lambda: stream.so_far(), lambda: run.cancel(), lambda: run.open_work,
                lambda: next(iter(stream)), lambda: stream.subscribe(len), lambda: stream.after(0).so_far(),
                lambda: run.status,
            ]
            for ask in asks:
                ask()

        for number in range(300):
            driver = RunDriver()
            driver.emit([number])
            driver.begin_work("w")
            run = driver.run
            cycle = [driver]
            cycle.append(cycle)
            gc.set_threshold(1 + number % 7)
            del driver, cycle
            try:
                use(run)
            finally:
                gc.set_threshold(700, 10, 10)
            gc.collect()
            assert run.result.value.error == "the driver of this run was lost"
            assert run.drained.is_set
            ended.append(run.id)
        print(len(set(ended)))
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "300\n", ""), done.stderr


def test_drained_runs_can_be_collected() -> None:
    """R-103: weak references are dead after the collector, whatever was done with the run."""
    alive: list[weakref.ref[object]] = []
    for number in range(20):
        driver: RunDriver[Said] = RunDriver(on_cancel=lambda: None)
        run = driver.run
        driver.emit(Said())
        if number % 2:
            run.cancel()
        if number % 3 == 0:
            asyncio.run(_look(run))
        with driver.work("w"):
            driver.finish(Completed())
        list(run.events)
        alive += [weakref.ref(run), weakref.ref(driver)]
        del driver, run
    gc.collect()
    assert [ref() for ref in alive if ref() is not None] == []


async def _look(run: Run[Said]) -> None:
    """Give up waiting for a result and for an event."""
    for wait in (soon(run.result), listed(run.events)):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wait, 0.001)
