"""One order of events, fixed when they are accepted."""

from __future__ import annotations

import copy
import threading
import types
from typing import Any

import anyio
import pytest

from handrail.run import RunDriver

from ._kit import (
    PATIENCE,
    TERMINALS,
    Completed,
    Crew,
    Failed,
    Said,
    check_order,
    elsewhere,
    ended,
    listed,
    texts,
    turns,
)


@pytest.mark.parametrize("terminal", TERMINALS)
def test_seq_is_the_place_in_the_log(terminal: type[Said]) -> None:
    """R-40: from 0 without gaps, the terminal event highest; run id on every event."""
    run = ended(5, terminal=terminal(), run_id="r").run
    check_order(run.events, "r")
    assert len(list(run.events)) == 6


def test_the_callers_object_is_never_changed() -> None:
    """R-40: what is published is what `stamped` returns; without it, the event itself."""
    event = Said("mine")
    before = copy.copy(event)
    plain = types.SimpleNamespace(text="plain", seq=None, run_id=None)
    driver: RunDriver[Any] = RunDriver()
    driver.emit(event)
    driver.emit(event)
    driver.emit(plain)
    driver.finish(None, outcome="completed")
    assert event == before
    assert vars(plain) == {"text": "plain", "seq": None, "run_id": None}
    first, second, third = driver.run.events
    assert (first.seq, second.seq) == (0, 1)
    assert first is not event
    assert third is plain


def test_stamped_may_return_something_else() -> None:
    """R-40"""

    class Wrapped(Said):
        def stamped(self, run_id: str, seq: int) -> Any:
            return (run_id, seq, self.text)

    driver: RunDriver[Any] = RunDriver(run_id="r")
    driver.emit(Wrapped("a"))
    driver.finish(Completed())
    assert next(iter(driver.run.events)) == ("r", 0, "a")
    assert driver.run.status == "completed"


def test_stamped_that_raises_is_the_callers_and_nothing_has_happened() -> None:
    """R-40: for `emit` and for `finish`; the run goes on afterwards, also from another thread."""

    class Bad(Completed):
        def stamped(self, run_id: str, seq: int) -> Said:
            raise ValueError(f"no stamp for {seq}")

    class BadWord(Bad):
        ends = None

    driver: RunDriver[Said] = RunDriver(on_cancel=lambda: None)
    driver.emit(Said("a"))
    with pytest.raises(ValueError, match="no stamp for 1"):
        driver.emit(BadWord())
    with pytest.raises(ValueError, match="no stamp for 1"):
        driver.finish(Bad(), final="lost")
    assert driver.run.status == "running"
    assert not driver.run.result.is_set
    assert not driver.run.drained.is_set
    assert texts(driver.run.events.so_far()) == ["a"]
    assert elsewhere(driver.emit, Said("b")) is True
    driver.finish(Completed("end"), final="kept")
    assert driver.run.result.value.final == "kept"
    check_order(driver.run.events, driver.run.id)


def test_four_threads_emitting_and_one_finishing() -> None:
    """R-41, R-42: a hundred times; one terminal, last, no gap, and the race did take place."""
    accepted_in_all, refused_in_all = 0, 0
    for number in range(100):
        driver: RunDriver[Said] = RunDriver()
        start = threading.Barrier(5)
        some = threading.Event()

        def produce(
            name: str, driver: RunDriver[Said] = driver, start: threading.Barrier = start, some: threading.Event = some
        ) -> int:
            start.wait(PATIENCE)
            accepted = 0
            while driver.emit(Said(name)):
                accepted += 1
                if accepted == 5:
                    some.set()
            return accepted

        crew = Crew()
        for name in "abcd":
            crew.start(produce, name)
        start.wait(PATIENCE)
        assert some.wait(PATIENCE)
        for _ in range(number % 10):  # another moment each time, without sleeping
            driver.run.events.so_far()
        assert driver.finish(Completed()) is True
        accepted = crew.join()
        events = list(driver.run.events)
        check_order(events, driver.run.id)
        for name, count in zip("abcd", accepted, strict=True):
            assert sum(event.text == name for event in events) == count
        assert sum(accepted) >= 5
        accepted_in_all += sum(accepted)
        refused_in_all += 4
        assert driver.emit(Said("late")) is False
        assert len(driver.run.events.so_far()) == len(events)
    assert accepted_in_all >= 500
    assert refused_in_all == 400


def test_several_threads_finish_at_once_and_one_wins() -> None:
    """R-41, R-10: the terminal event, the result and the True belong to the same one, a hundred times."""
    for _ in range(100):
        driver: RunDriver[Said] = RunDriver()
        start = threading.Barrier(4)

        def end(name: str, driver: RunDriver[Said] = driver, start: threading.Barrier = start) -> bool:
            start.wait(PATIENCE)
            return driver.finish(Failed(name), error=name)

        crew = Crew()
        for name in "abcd":
            crew.start(end, name)
        won = [name for name, first in zip("abcd", crew.join(), strict=True) if first]
        assert len(won) == 1
        assert texts(driver.run.events) == won
        assert driver.run.result.value.error == won[0]


def test_nothing_after_the_terminal_event() -> None:
    """R-42"""
    driver = ended(2)
    before = driver.run.events.so_far()
    assert driver.emit(Said("late")) is False
    assert driver.finish(Failed("late")) is False
    assert driver.run.events.so_far() == before
    assert driver.run.status == "completed"


@pytest.mark.parametrize("terminal", TERMINALS)
async def test_a_stream_ends_normally_whatever_the_outcome(terminal: type[Said]) -> None:
    """R-42: reader on a loop, reader in a thread, error in the outcome or not."""
    driver: RunDriver[Said] = RunDriver()
    crew = Crew()
    crew.start(list, driver.run.events)
    got: list[Said] = []

    async def read() -> None:
        got.extend(await listed(driver.run.events))

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await turns()
        driver.emit(Said("x"))
        await turns()
        driver.finish(terminal(), error="bad" if terminal is Failed else None)
    assert got == crew.join()[0]
    check_order(got, driver.run.id)
