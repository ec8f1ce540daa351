"""The driving seam: plain calls from anywhere, and a driver that gets lost."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import types
import typing
import warnings
import weakref
from typing import Any

import anyio
import pytest
import trio

import handrail.run
from handrail.errors import UsageError
from handrail.run import Outcome, Run, RunDriver, RunScope, Settled, drive

from ._kit import PATIENCE, Completed, Crew, Said, check_order, child, elsewhere, listed, soon, turns


def test_the_signatures_are_those_of_the_design() -> None:
    """R-80, R-81: names, order and defaults, which tests and users of others stand on."""
    assert list(inspect.signature(RunDriver).parameters) == ["run_id", "on_cancel", "verdict"]
    finish = inspect.signature(RunDriver.finish).parameters
    assert {name: p.default for name, p in finish.items() if p.kind is p.KEYWORD_ONLY} == {
        "final": "",
        "messages": (),
        "error": None,
        "attempts": (),
        "reason": None,
        "interrupts": (),
        "spent": None,
        "outcome": None,
    }
    assert list(finish)[:2] == ["self", "terminal"]
    assert list(inspect.signature(Settled.wait).parameters) == ["self", "timeout"]
    assert list(inspect.signature(handrail.run.drive).parameters) == ["body", "run_id", "on_cancel", "verdict"]
    for cls in (Run, RunDriver, Settled, handrail.run.EventStream):
        assert typing.get_origin(cls[int]) is cls
    assert set(Outcome.__dataclass_fields__) >= {"outcome", "final", "messages", "error"}
    assert set(handrail.run.__all__) >= {
        *("EventStream", "Outcome", "Run", "RunDriver", "RunScope", "Settled", "Spend", "Verdict", "drive"),
    }


def test_every_public_name_says_what_it_is_for() -> None:
    """R-52, R-6: a docstring on every public class, method and function of the handle."""
    for name in handrail.run.__all__:
        thing = getattr(handrail.run, name)
        if not inspect.isclass(thing) and not inspect.isfunction(thing):
            continue
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if not member.startswith("_") and callable(getattr(value, "fget", value)):
                    assert inspect.getdoc(value), f"{name}.{member}"


def test_a_driver_needs_no_event_loop() -> None:
    """R-82: made in one thread, used in others, read in a third, and no loop anywhere."""
    driver: RunDriver[Said] = elsewhere(RunDriver)
    assert elsewhere(driver.begin_work, "w") is True
    assert elsewhere(driver.emit, Said("a")) is True
    elsewhere(driver.run.cancel)
    assert elsewhere(driver.finish, Completed()) is True
    elsewhere(driver.end_work)
    assert elsewhere(list, driver.run.events) == list(driver.run.events)
    assert driver.run.drained.is_set


@pytest.mark.parametrize("run_loop", [asyncio.run, trio.run], ids=["asyncio", "trio"])
def test_home_is_the_thread_and_loop_it_is_made_on(run_loop: typing.Any) -> None:
    """R-80, R-16: refused there and nowhere else; made where no loop runs, it has no home."""
    homeless: RunDriver[Said] = RunDriver()

    async def main() -> None:
        driver: RunDriver[Said] = RunDriver()
        with pytest.raises(UsageError):
            driver.run.result.wait(0.01)
        with pytest.raises(UsageError):
            next(iter(driver.run.events))
        with pytest.raises(TimeoutError):
            homeless.run.result.wait(0.01)

        def beside() -> None:
            with pytest.raises(TimeoutError):
                driver.run.result.wait(0.01)

        elsewhere(beside)
        driver.finish(None, outcome="completed")

    run_loop(main() if run_loop is asyncio.run else main)
    homeless.finish(None, outcome="completed")


def test_a_subclass_hands_out_its_own_handle() -> None:
    """R-80: what `Loop` and `HttpAgent` do; the handle is a Run all the same."""

    class ToolRun(Run[Said]):
        __slots__ = ("tool",)

    class ToolDriver(RunDriver[Said]):
        handle = ToolRun

        def __init__(self, tool: str) -> None:
            super().__init__(run_id="r")
            self.run.tool = tool

    driver = ToolDriver("hammer")
    assert isinstance(driver.run, ToolRun)
    assert driver.run.tool == "hammer"
    assert "r" in repr(driver.run)
    assert driver.emit(Said()) is True
    driver.finish(Completed())
    check_order(driver.run.events, "r")


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


def test_a_finaliser_that_runs_inside_the_critical_section() -> None:
    """R-84, R-61: what is collected while an event is being stamped ends work, cancels, emits, finishes."""
    hooked: list[bool] = []
    answers: list[object] = []

    class Dying:
        def __init__(self, *asks: typing.Callable[[], object]) -> None:
            self.asks = asks

        def __del__(self) -> None:
            answers.extend(ask() for ask in self.asks)

    class Collecting(Said):
        def stamped(self, run_id: str, seq: int) -> Said:
            doomed.clear()
            gc.collect()
            return Said(self.text, run_id, seq)

    class CollectingEnd(Completed):
        def stamped(self, run_id: str, seq: int) -> Said:
            doomed.clear()
            gc.collect()
            return Completed(self.text, run_id, seq)

    driver: RunDriver[Said] = RunDriver(on_cancel=lambda: hooked.append(elsewhere(driver.emit, Said("hook"))))
    driver.begin_work("a")
    driver.begin_work("b")
    doomed = [Dying(driver.end_work, driver.run.cancel, lambda: driver.emit(Said("from __del__")))]
    assert driver.emit(Collecting("a")) is True
    assert answers == [None, None, True]
    assert driver.run.open_work == ("a",)
    assert driver.run.is_cancelled
    assert hooked == [True]
    assert {event.text for event in driver.run.events.so_far()} == {"a", "from __del__", "hook"}

    answers.clear()
    doomed = [Dying(driver.end_work, driver.run.cancel, lambda: driver.finish(None, outcome="failed"))]
    assert driver.finish(CollectingEnd("end")) is True
    assert answers == [None, None, False]
    assert driver.run.status == "completed"
    assert driver.run.drained.is_set
    check_order(driver.run.events, driver.run.id)


def test_a_finaliser_that_finishes_while_an_event_is_stamped() -> None:
    """R-84, R-1: the event was accepted first; one end, and both callers are told the truth."""
    answers: list[bool] = []

    class Dying:
        def __del__(self) -> None:
            answers.append(driver.finish(Completed("end")))
            answers.append(driver.emit(Said("late")))
            answers.append(driver.begin_work("late"))

    class Collecting(Said):
        def stamped(self, run_id: str, seq: int) -> Said:
            doomed.clear()
            return Said(self.text, run_id, seq)

    driver: RunDriver[Said] = RunDriver()
    doomed = [Dying()]
    assert driver.emit(Collecting("a")) is True
    assert answers == [True, False, False]
    assert [event.text for event in driver.run.events] == ["a", "end"]
    check_order(driver.run.events, driver.run.id)
    assert driver.run.drained.is_set


async def test_what_a_finaliser_asks_inside_the_critical_section_wakes_those_who_wait() -> None:
    """R-84, R-11: the result, `drained`, the cancellation and the next event, though the ask was carried out later."""

    class Dying:
        def __del__(self) -> None:
            driver.run.cancel()
            driver.emit(Said("from __del__"))
            driver.finish(Completed("end"))
            driver.end_work()

    class Collecting(Said):
        def stamped(self, run_id: str, seq: int) -> Said:
            doomed.clear()
            return Said(self.text, run_id, seq)

    driver: RunDriver[Said] = RunDriver()
    driver.begin_work("w")
    doomed = [Dying()]
    run, woken = driver.run, []

    async def wait(name: str) -> None:
        await soon(getattr(run, name))
        woken.append(name)

    async def read() -> None:
        woken.extend([event.text for event in await listed(run.events)])

    async with anyio.create_task_group() as group:
        for name in ("result", "drained", "cancellation"):
            group.start_soon(wait, name)
        group.start_soon(read)
        await turns()
        assert driver.emit(Collecting("a")) is True
    assert sorted(woken) == sorted(["result", "drained", "cancellation", "a", "from __del__", "end"])


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


def test_collecting_run_and_reader_stops_nothing() -> None:
    """R-104: the driver goes on, its events are accepted, and a later look at `driver.run` sees them."""
    driver: RunDriver[Said] = RunDriver()
    reader = iter(driver.run.events)
    driver.emit(Said())
    next(reader)
    del reader
    gc.collect()
    assert driver.emit(Said()) is True
    assert driver.run.status == "running"
    driver.finish(Completed())
    assert len(driver.run.events.so_far()) == 3


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


async def test_an_exception_that_cannot_say_what_it_is_still_fails_its_run() -> None:
    """R-20, R-86: failed, with the class as the error."""

    async def body(driver: RunDriver[Said]) -> None:
        raise Wordless

    async with RunScope():
        outcome = await drive(body).result
    assert (outcome.outcome, outcome.error) == ("failed", "Wordless")


def test_only_a_method_of_the_class_stamps() -> None:
    """R-40, R-80: data of that name, and objects that answer to every name, are published as they are."""

    class Letter:
        stamped = True

    class Mapped(dict[str, Any]):
        def __getattr__(self, name: str) -> Any:
            return self[name]

    driver: RunDriver[Any] = RunDriver(verdict=lambda event: None)
    events = [Letter(), Mapped(a=1), types.SimpleNamespace(), types.SimpleNamespace(stamped=lambda *_: "other")]
    assert [driver.emit(event) for event in events] == [True] * 4
    assert all(got is event for got, event in zip(driver.run.events.so_far(), events, strict=True))
    driver.finish(None, outcome="completed")
