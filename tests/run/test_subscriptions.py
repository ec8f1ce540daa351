"""Callbacks: delivered in order, on threads of ours, and unable to disturb anybody."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import logging
import random
import threading

import pytest

from handrail.run import RunDriver

from ._kit import PATIENCE, Completed, Crew, Said, check_order, soon

whose: contextvars.ContextVar[str] = contextvars.ContextVar("whose", default="nobody's")


class Collector:
    """A callback that can be waited for."""

    def __init__(self, until: int | None = None) -> None:
        self.events: list[Said] = []
        self.threads: set[int] = set()
        self.until = until
        self.done = threading.Event()
        self._busy = threading.Lock()

    def __call__(self, event: Said) -> None:
        assert self._busy.acquire(blocking=False), "two calls at a time"
        self.events.append(event)
        self.threads.add(threading.get_ident())
        self._busy.release()
        if event.ends or len(self.events) == self.until:
            self.done.set()

    def wait(self) -> list[Said]:
        assert self.done.wait(PATIENCE), f"only {len(self.events)} events came"
        return self.events


async def test_a_callback_gets_the_run_in_order_off_the_home_thread() -> None:
    """R-48: from seq 0, one call at a time, whenever it was subscribed."""
    driver: RunDriver[Said] = RunDriver()
    early, middle, late = Collector(), Collector(), Collector()
    driver.run.events.subscribe(early)
    crew = Crew()
    for _ in range(2):
        crew.start(lambda: [driver.emit(Said()) for _ in range(200)])
    driver.run.events.subscribe(middle)
    crew.join()
    driver.finish(Completed())
    driver.run.events.subscribe(late)
    expected = list(driver.run.events)
    assert len(expected) == 401
    for collector in (early, middle, late):
        assert collector.wait() == expected
        assert threading.get_ident() not in collector.threads
    check_order(expected, driver.run.id)


def test_a_callback_may_use_the_run_and_the_driver() -> None:
    """R-48, R-1: emit, cancel, read, subscribe and finish from inside, without a deadlock."""
    driver: RunDriver[Said] = RunDriver()
    inner = Collector()
    seen: list[object] = []

    def callback(event: Said) -> None:
        if event.text == "go":
            seen.append(driver.emit(Said("from inside")))
            driver.run.cancel()
            seen.append(driver.run.status)
            seen.append(len(driver.run.events.so_far()))
            driver.run.events.subscribe(inner)
            seen.append(driver.finish(Completed()))

    driver.run.events.subscribe(callback)
    driver.emit(Said("go"))
    assert [event.text for event in inner.wait()] == ["go", "from inside", ""]
    assert seen == [True, "cancelling", 2, True]


def test_ending_a_subscription() -> None:
    """R-48: idempotent; the events before were delivered, those behind are not."""
    driver: RunDriver[Said] = RunDriver()
    collector, other = Collector(until=2), Collector()
    end = driver.run.events.subscribe(collector)
    driver.emit(Said("a"))
    driver.emit(Said("b"))
    collector.wait()
    assert end() is None
    assert end() is None
    driver.run.events.subscribe(other)
    driver.emit(Said("c"))
    driver.finish(Completed())
    assert len(other.wait()) == 4
    assert [event.text for event in collector.events] == ["a", "b"]
    end()


def test_ending_a_subscription_from_inside_the_callback() -> None:
    """R-48: it does not wait for itself, and that call was the last."""
    driver: RunDriver[Said] = RunDriver()
    calls: list[str] = []
    ready, returned = threading.Event(), threading.Event()

    def callback(event: Said) -> None:
        assert ready.wait(PATIENCE)
        calls.append(event.text)
        end()
        end()
        returned.set()

    end = driver.run.events.subscribe(callback)
    driver.emit(Said("a"))
    driver.emit(Said("b"))
    ready.set()
    assert returned.wait(PATIENCE)
    other = Collector()
    driver.run.events.subscribe(other)
    driver.finish(Completed())
    other.wait()
    assert calls == ["a"]


def test_no_new_call_begins_after_the_end_has_returned() -> None:
    """R-48: two hundred races; no event behind the end is delivered, and at most a call on its way is still seen."""
    dice = random.Random(7)
    for _ in range(200):
        driver: RunDriver[Said] = RunDriver()
        over, some = threading.Event(), threading.Event()
        after: list[Said] = []

        def callback(
            event: Said, over: threading.Event = over, some: threading.Event = some, after: list[Said] = after
        ) -> None:
            if over.is_set():
                after.append(event)
            some.set()

        end = driver.run.events.subscribe(callback)
        crew = Crew()
        crew.start(lambda driver=driver: [driver.emit(Said()) for _ in range(100)])
        assert some.wait(PATIENCE)
        for _ in range(dice.randrange(50)):  # another moment each time, without sleeping
            driver.run.events.so_far()
        end()
        over.set()
        accepted = len(driver.run.events.so_far())
        crew.join()
        driver.emit(Said("behind"))
        driver.finish(Completed())
        last = Collector()
        driver.run.events.subscribe(last)
        last.wait()
        assert len(after) <= 1
        assert all(event.seq is not None and event.seq < accepted for event in after)


def test_a_coroutine_function_is_refused() -> None:
    """R-48: with a sentence that names `async for`, and nothing is subscribed."""
    driver: RunDriver[Said] = RunDriver()

    async def callback(event: Said) -> None:
        raise AssertionError

    class Holder:
        async def method(self, event: Said) -> None:
            raise AssertionError

    for wrong in (callback, Holder().method, functools.partial(callback)):
        with pytest.raises(TypeError, match="async for"):
            driver.run.events.subscribe(wrong)
    driver.finish(Completed())


def test_a_callback_that_raises_loses_that_one_event(caplog: pytest.LogCaptureFixture) -> None:
    """R-49: the exception is logged once with its traceback; the next event is delivered."""
    driver: RunDriver[Said] = RunDriver()
    for text in ("a", "b", "c"):
        driver.emit(Said(text))
    counting, heard = Collector(), []
    done = threading.Event()

    def callback(event: Said) -> None:
        if event.text == "a":
            raise RuntimeError("a bad reader")
        heard.append(event.text)
        if event.ends:
            done.set()

    with caplog.at_level(logging.DEBUG, logger="handrail.run"):
        driver.run.events.subscribe(callback)
        driver.run.events.subscribe(counting)
        driver.finish(Completed("end"))
        assert done.wait(PATIENCE)
        counting.wait()
    assert heard == ["b", "c", "end"]
    assert len(counting.events) == 4
    assert driver.run.status == "completed"
    records = [record for record in caplog.records if record.exc_info]
    assert [record.name for record in records] == ["handrail.run"]
    assert records[0].levelno >= logging.WARNING
    exc_info = records[0].exc_info
    assert exc_info
    assert str(exc_info[1]) == "a bad reader"
    assert exc_info[2] is not None


async def test_a_callback_that_blocks_delays_only_itself(gate: threading.Event) -> None:
    """R-50, R-75: it waits on a gate; one subscribed later gets everything, and `drained` is set."""
    driver: RunDriver[Said] = RunDriver()
    stuck_in = threading.Event()
    calls: list[Said] = []

    def stuck(event: Said) -> None:
        calls.append(event)
        stuck_in.set()
        gate.wait(PATIENCE)

    driver.run.events.subscribe(stuck)
    driver.emit(Said("a"))
    assert stuck_in.wait(PATIENCE)
    later = Collector()
    driver.run.events.subscribe(later)
    driver.emit(Said("b"))
    driver.run.cancel()
    await soon(driver.run.cancellation)
    driver.finish(Completed("end"))
    await soon(driver.run.result)
    await soon(driver.run.drained)
    assert [event.text for event in later.wait()] == ["a", "b", "end"]
    assert len(calls) == 1


def test_many_stuck_callbacks_do_not_use_up_the_threads(gate: threading.Event) -> None:
    """R-50: forty of them, and the forty-first is served."""
    driver: RunDriver[Said] = RunDriver()
    entered = threading.Semaphore(0)

    def stuck(event: Said) -> None:
        entered.release()
        gate.wait(PATIENCE)

    driver.emit(Said("a"))
    for _ in range(40):
        driver.run.events.subscribe(stuck)
    for _ in range(40):
        assert entered.acquire(timeout=PATIENCE)
    served = Collector()
    driver.run.events.subscribe(served)
    driver.finish(Completed())
    assert len(served.wait()) == 2
    assert driver.run.drained.is_set


def test_a_stuck_reader_does_not_hold_up_a_hundred_thousand_events(gate: threading.Event) -> None:
    """R-50: the producer never waits for a reader."""
    driver: RunDriver[int] = RunDriver()
    driver.run.events.subscribe(lambda _event: gate.wait(PATIENCE))
    reader = iter(driver.run.events)
    driver.emit(0)
    assert next(reader) == 0
    for number in range(1, 100_000):
        driver.emit(number)
    driver.finish(None, outcome="completed")
    assert driver.run.drained.is_set
    assert next(reader) == 1
    assert sum(1 for _ in driver.run.events) == 100_000


def test_a_subscription_stays_when_its_handle_is_dropped() -> None:
    """R-104: until it was ended or the run is over."""
    driver: RunDriver[Said] = RunDriver()
    collector = Collector()
    driver.run.events.subscribe(collector)
    gc.collect()
    driver.emit(Said("a"))
    gc.collect()
    driver.finish(Completed())
    assert len(collector.wait()) == 2


def test_a_subscription_of_a_run_nobody_holds_is_served_to_its_end() -> None:
    """R-104, R-52: the run object is dropped while the callback is still at its first event."""
    driver: RunDriver[Said] = RunDriver()
    collector, first = Collector(), threading.Event()
    may_go = threading.Event()

    def callback(event: Said) -> None:
        first.set()
        may_go.wait(PATIENCE)
        collector(event)

    driver.run.events.subscribe(callback)
    driver.emit(Said("a"))
    assert first.wait(PATIENCE)
    driver.emit(Said("b"))
    driver.finish(Completed())
    del driver
    gc.collect()
    may_go.set()
    assert len(collector.wait()) == 3


def test_threads_of_subscriptions_end_with_the_run() -> None:
    """R-103: a hundred runs with a subscription each leave no hundred threads."""
    before = set(threading.enumerate())
    for _ in range(100):
        driver: RunDriver[Said] = RunDriver()
        collector = Collector()
        driver.run.events.subscribe(collector)
        driver.finish(Completed())
        collector.wait()
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(0.2)
    assert sum(thread.is_alive() for thread in left) <= 10


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(1)], ids=lambda e: type(e).__name__
)
def test_what_is_no_exception_costs_a_callback_one_event_too(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """R-49: the next event is delivered, whatever was raised on this one."""
    driver: RunDriver[Said] = RunDriver()
    got: list[str] = []
    done = threading.Event()

    def callback(event: Said) -> None:
        got.append(event.text)
        if event.text == "end":
            done.set()
        elif event.text == "a":
            raise error

    driver.emit(Said("a"))
    driver.emit(Said("b"))
    driver.run.events.subscribe(callback)
    driver.finish(Completed("end"))
    assert done.wait(PATIENCE)
    assert got == ["a", "b", "end"]
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]


async def test_a_callback_has_the_context_variables_of_whoever_subscribed() -> None:
    """R-48: what logs and traces, as callbacks do, finds there for whom; what it sets there stays there."""
    driver: RunDriver[Said] = RunDriver()
    seen: list[str] = []
    over = threading.Event()

    def look(event: Said) -> None:
        seen.append(whose.get())
        whose.set("the callback's")
        if event.ends:
            over.set()

    whose.set("the subscriber's")
    driver.run.events.subscribe(look)
    driver.emit(Said())
    driver.finish(Completed())
    assert over.wait(PATIENCE)
    assert (seen, whose.get()) == (["the subscriber's", "the callback's"], "the subscriber's")
