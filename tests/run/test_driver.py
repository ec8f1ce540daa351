"""The driving seam: plain calls from anywhere."""

from __future__ import annotations

import asyncio
import gc
import inspect
import types
import typing
from typing import Any

import pytest
import trio

import handrail.run
from handrail.errors import UsageError
from handrail.run import Outcome, Run, RunDriver, RunScope, Settled, drive

from ._kit import Completed, Said, check_order, elsewhere


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
