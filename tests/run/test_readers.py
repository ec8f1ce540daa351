"""Readers: everybody gets the whole run, whenever they come and however they leave."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading

import anyio
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.errors import UsageError
from handrail.run import EventStream, Run, RunDriver, RunScope, drive

from ._kit import PATIENCE, Completed, Crew, Said, check_order, ended, listed, soon, texts, turns


def test_ten_readers_after_a_run_that_ended_at_once() -> None:
    """R-43: three threads, an asyncio loop and a trio loop, two readers each, one after the other and at once."""
    driver = ended(50)
    run = driver.run
    expected = list(run.events)

    async def on_a_loop() -> list[list[Said]]:
        lists = [await listed(run.events)]

        async def second() -> None:
            lists.append(await listed(run.events))

        async with anyio.create_task_group() as group:
            group.start_soon(second)
        return lists

    crew = Crew()
    for _ in range(3):
        crew.start(lambda: [list(run.events), list(run.events)])
    crew.start(asyncio.run, on_a_loop())
    crew.start(trio.run, on_a_loop)
    lists = [events for two in crew.join() for events in two]
    assert len(lists) == 10
    assert all(events == expected for events in lists)


def test_ten_readers_of_a_run_that_is_driven_in_a_millisecond() -> None:
    """R-43, R-40: the readers come when the driver on the shared thread may or may not be done; one order for all."""

    async def body(driver: RunDriver[Said]) -> None:
        for number in range(20):
            driver.emit(Said(f"e{number}"))
            await asyncio.sleep(0)
        driver.finish(Completed())

    for _ in range(20):
        run = drive(body)
        crew = Crew()
        for _ in range(6):
            crew.start(list, run.events)
        for _ in range(2):
            crew.start(asyncio.run, listed(run.events))
            crew.start(trio.run, listed, run.events)
        lists = crew.join()
        check_order(lists[0], run.id)
        assert len(lists[0]) == 21
        assert all(events == lists[0] for events in lists)


async def test_readers_before_during_and_after() -> None:
    """R-43: each gets the whole run from its first event."""
    driver: RunDriver[Said] = RunDriver()
    lists: list[list[Said]] = []

    async def read() -> None:
        lists.append(await listed(driver.run.events))

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await turns()
        driver.emit(Said("a"))
        await turns()
        group.start_soon(read)
        await turns()
        driver.emit(Said("b"))
        driver.finish(Completed("end"))
    await read()
    assert [texts(events) for events in lists] == [["a", "b", "end"]] * 3


@settings(max_examples=40, deadline=None, derandomize=True)
@given(script=st.lists(st.sampled_from(["emit", "join", "turn"]), max_size=25))
def test_any_interleaving_of_readers_and_events(script: list[str]) -> None:
    """R-43, R-44: readers that start anywhere in the life of a run all end with the same list."""

    async def main() -> None:
        driver: RunDriver[Said] = RunDriver()
        readers = []
        for step in script:
            if step == "emit":
                driver.emit(Said())
            elif step == "join":
                readers.append(asyncio.create_task(listed(driver.run.events)))
            else:
                await asyncio.sleep(0)
        driver.finish(Completed())
        expected = list(driver.run.events)
        check_order(expected, driver.run.id)
        assert len(expected) == script.count("emit") + 1
        for reader in readers:
            assert await reader == expected

    asyncio.run(main())


async def test_each_iteration_is_a_new_reader() -> None:
    """R-44: of the same stream object, half read or not, in a task and in a thread."""
    run = ended(3).run
    stream = run.events
    assert isinstance(stream, EventStream)
    iterator = iter(stream)
    next(iterator)
    assert texts(stream) == ["e0", "e1", "e2", "end"]
    assert texts(iterator) == ["e1", "e2", "end"]
    reader = aiter(stream)
    await anext(reader)
    assert texts(await listed(stream)) == ["e0", "e1", "e2", "end"]
    assert [event.text async for event in reader] == ["e1", "e2", "end"]
    assert iter(iterator) is iterator
    assert aiter(reader) is reader


async def test_a_finished_reader_stays_finished() -> None:
    """R-42, R-44"""
    run = ended(1).run
    reader, iterator = aiter(run.events), iter(run.events)
    assert len([event async for event in reader]) == len(list(iterator)) == 2
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
        assert next(iterator, None) is None


async def test_a_thread_may_iterate_while_a_task_does() -> None:
    """R-44"""
    driver: RunDriver[Said] = RunDriver()
    crew = Crew()
    crew.start(list, driver.run.events)
    got: list[Said] = []

    async def read() -> None:
        got.extend(await listed(driver.run.events))

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        for _ in range(50):
            driver.emit(Said())
            await turns(1)
        driver.finish(Completed())
    assert crew.join() == [got]


async def test_after_starts_behind_a_seq() -> None:
    """R-44: everything, a part, and nothing of a finished run, read both ways."""
    run = ended(3).run
    for seq, expected in ((-1, ["e0", "e1", "e2", "end"]), (0, ["e1", "e2", "end"]), (2, ["end"]), (3, []), (9, [])):
        stream = run.events.after(seq)
        assert isinstance(stream, EventStream)
        assert texts(stream) == expected
        assert texts(await listed(stream)) == expected


async def test_after_of_a_live_run_waits_for_the_next() -> None:
    """R-44"""
    driver: RunDriver[Said] = RunDriver()
    for number in range(3):
        driver.emit(Said(f"e{number}"))
    got: list[str] = []

    async def read() -> None:
        async for event in driver.run.events.after(2):
            got.append(event.text)  # noqa: PERF401 - one at a time is what is tested

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await turns()
        assert got == []
        driver.emit(Said("e3"))
        await turns()
        assert got == ["e3"]
        driver.finish(Completed("end"))
    assert got == ["e3", "end"]


async def test_a_reader_that_was_cut_off_goes_on_where_it_was() -> None:
    """R-44: every place of a run, by the seq of the last event seen."""
    run = ended(6).run
    whole = await listed(run.events)
    for event in whole:
        assert event.seq is not None
        assert whole[: event.seq + 1] + await listed(run.events.after(event.seq)) == whole


async def test_a_blocking_reader_on_the_home_thread_is_refused_when_it_would_wait() -> None:
    """R-45: what is there is read; then the sentence names `async for`."""
    driver: RunDriver[Said] = RunDriver()
    driver.emit(Said("a"))
    reader = iter(driver.run.events)
    assert next(reader).text == "a"
    with pytest.raises(UsageError, match="async for"):
        next(reader)
    assert driver.run.status == "running"
    driver.finish(Completed("end"))
    assert texts(driver.run.events) == ["a", "end"]


async def test_a_blocking_reader_beside_the_home_loop_waits() -> None:
    """R-45: only the home thread is refused."""
    driver: RunDriver[Said] = RunDriver()
    crew = Crew()
    reading = threading.Event()

    def read() -> list[str]:
        got = []
        for event in driver.run.events:
            got.append(event.text)
            reading.set()
        return got

    crew.start(read)
    driver.emit(Said("a"))
    assert reading.wait(PATIENCE)
    driver.emit(Said("b"))
    driver.finish(Completed("end"))
    assert crew.join() == [["a", "b", "end"]]


async def stumble(run: Run[Said]) -> None:
    """A reader whose own code breaks at the first event."""
    async for _ in run.events:
        raise KeyError


async def test_leaving_early_stops_only_the_watching() -> None:
    """R-46: break, exception and a cancelled task; the run completes."""
    goes_on = anyio.Event()

    async def body(driver: RunDriver[Said]) -> None:
        driver.emit(Said("first"))
        await goes_on.wait()
        driver.emit(Said("second"))
        driver.finish(Completed())

    async with RunScope():
        run = drive(body)
        async for _ in run.events:
            break
        with pytest.raises(KeyError):
            await stumble(run)
        with anyio.move_on_after(0.01):
            async for _ in run.events:
                pass
        assert run.status == "running"
        assert not run.is_cancelled
        goes_on.set()
        assert (await soon(run.result)).outcome == "completed"
        assert len(await listed(run.events)) == 3


@pytest.mark.filterwarnings("error")
async def test_a_half_read_reader_can_be_dropped(unraisable: list[object]) -> None:
    """R-46: nothing has to be closed, nothing warns, and no async generator crosses the border."""
    driver: RunDriver[Said] = RunDriver()
    driver.emit(Said())
    reader, iterator = aiter(driver.run.events), iter(driver.run.events)
    assert not inspect.isasyncgen(reader)
    assert not inspect.isasyncgen(driver.run.events)
    assert not inspect.isgenerator(iterator)
    await anext(reader)
    next(iterator)
    waiting = anext(reader)
    with anyio.move_on_after(0.001):
        await waiting
    del reader, iterator, waiting
    gc.collect()
    assert unraisable == []
    driver.finish(Completed())


async def test_a_cancelled_wait_loses_no_event() -> None:
    """R-46, R-12: a reader whose waiting was cancelled goes on with the next event."""
    driver: RunDriver[Said] = RunDriver()
    reader = aiter(driver.run.events)
    got: list[str] = []
    for number in range(20):
        with anyio.move_on_after(0.0001):
            got.append((await anext(reader)).text)
        driver.emit(Said(f"e{number}"))
    driver.finish(Completed("end"))
    got.extend([event.text async for event in reader])
    assert got == [*(f"e{n}" for n in range(20)), "end"]


def test_so_far_does_not_wait() -> None:
    """R-47: a tuple of what was accepted until now; it stays what it was."""
    driver: RunDriver[Said] = RunDriver()
    empty = driver.run.events.so_far()
    driver.emit(Said("a"))
    one = driver.run.events.so_far()
    driver.finish(Completed("b"))
    assert empty == ()
    assert texts(one) == ["a"]
    assert isinstance(one, tuple)
    assert texts(driver.run.events.so_far()) == ["a", "b"]


async def test_a_reader_that_keeps_up_can_be_cancelled() -> None:
    """R-46: reading what is there is still a point where a cancellation arrives."""
    driver = ended(10_000)
    got = 0
    with anyio.CancelScope() as scope:
        scope.cancel()
        async for _ in driver.run.events:
            got += 1
    assert scope.cancelled_caught
    assert got < 10_000


def test_the_log_lives_as_long_as_a_reader() -> None:
    """R-52: the reader goes on when run and driver are gone; without readers the run keeps its events."""
    driver = ended(3)
    assert len(driver.run.events.so_far()) == 4
    reader = iter(driver.run.events)
    next(reader)
    del driver
    gc.collect()
    assert texts(reader) == ["e1", "e2", "end"]


def test_the_price_is_stated() -> None:
    """R-52: whoever reads the documentation of the stream learns that a run keeps its events."""
    text = inspect.getdoc(EventStream) or ""
    assert "memory" in text.lower() or "keep" in text.lower() or "as long as" in text.lower()
