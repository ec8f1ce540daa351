"""Work that a driver starts beside itself: waited for, given up, cleaned up."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import anyio
import pytest

from handrail.run import RunDriver, RunScope, drive
from handrail.run._child import Child
from handrail.run._loops import Children, children

from ._kit import PATIENCE, Completed, Said, elsewhere, soon, turns


def child(group: Children, work: Any, told: list[str], section: AbstractContextManager[object] | None = None) -> Any:
    return Child(group, work, name="work", section=section or nullcontext(), on_end=lambda _: told.append("ended"))


async def five() -> int:
    await turns(2)
    return 5


async def test_leaving_waits_for_all_children() -> None:
    """R-93, R-77: a child that ended is there to look at; `on_end` was called once for each."""
    told: list[str] = []

    async def broken() -> int:
        await turns(2)
        raise ValueError("x")

    with anyio.fail_after(PATIENCE):
        async with children() as group:
            good, bad = child(group, five, told), child(group, broken, told)
            assert (good.ended, bad.ended) == (None, None)
    assert told == ["ended", "ended"]
    assert (good.ended.value, good.ended.error) == (5, None)
    assert bad.ended.value is None
    assert str(bad.ended.error) == "x"


async def test_a_child_that_is_given_up_is_heard_of_no_more() -> None:
    """R-76: it is cancelled, the driver goes on at once, and leaving waits for its clean-up."""
    told: list[str] = []
    cleaned: list[str] = []

    async def slow() -> int:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await turns(5)
            cleaned.append("cleaned")
        return 1

    with anyio.fail_after(PATIENCE):
        async with children() as group:
            slow_child = child(group, slow, told)
            await turns()
            slow_child.give_up()
            slow_child.give_up()
            assert cleaned == []
    assert cleaned == ["cleaned"]
    assert told == []
    assert slow_child.ended is None
    assert slow_child.is_given_up


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_a_child_that_is_given_up_before_its_first_step(library: str) -> None:
    """R-76, R-94: it never begins, its section is never opened, and leaving does not wait for it for ever."""
    told: list[str] = []
    begun: list[str] = []

    async def work() -> None:
        begun.append("begun")

    async def main() -> object:
        async with children() as group:
            early = child(group, work, told)
            early.give_up()
        return early.ended

    assert elsewhere(lambda: anyio.run(main, backend=library)) is None  # a thread that is stuck fails the test
    assert begun == []
    assert told == []


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_leaving_by_an_exception_cancels_children_that_have_not_begun(library: str) -> None:
    """R-94: and the exception comes out, alone or in a group."""

    async def main() -> None:
        async with children() as group:
            child(group, anyio.sleep_forever, [])
            raise LookupError("mine")

    with pytest.raises((LookupError, ExceptionGroup)):
        elsewhere(lambda: anyio.run(main, backend=library))


async def test_leaving_by_an_exception_cancels_the_others() -> None:
    """R-94, R-93"""
    ended: list[str] = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("closed")

    async def use() -> None:
        async with children() as group:
            child(group, work, [])
            child(group, work, [])
            await turns()
            raise LookupError("mine")

    with anyio.fail_after(PATIENCE / 4), pytest.raises((LookupError, ExceptionGroup)):
        await use()
    assert ended == ["closed", "closed"]


async def test_a_cancelled_parent_cancels_its_children_and_waits_for_them() -> None:
    """R-91, R-93: the cancellation goes on when they have let go of what they held."""
    order: list[str] = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await turns(5)
            order.append("child")

    with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
        try:
            async with children() as group:
                child(group, work, [])
                await turns()
                scope.cancel()
        finally:
            order.append("parent")
    assert scope.cancelled_caught
    assert order == ["child", "parent"]


def test_a_stray_cancelled_error_is_how_a_child_failed() -> None:
    """R-92"""
    told: list[str] = []

    async def stray() -> None:
        raise asyncio.CancelledError("from user code")

    async def main() -> Any:
        async with children() as group:
            failed = child(group, stray, told)
        return failed.ended.error

    assert isinstance(asyncio.run(main()), asyncio.CancelledError)
    assert told == ["ended"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_what_is_no_exception_is_handed_to_the_driver(error: type[BaseException]) -> None:
    """R-87: it is for the driver to let it through."""

    async def leaving() -> None:
        await turns(1)
        raise error

    with anyio.fail_after(PATIENCE):
        async with children() as group:
            failed = child(group, leaving, [])
    assert type(failed.ended.error) is error


async def test_a_child_keeps_its_run_from_being_drained() -> None:
    """R-76, R-72: its section is the driver's, and ends when it has really stopped."""
    stopped: list[bool] = []

    async def tool() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await turns(10)
            stopped.append(run.drained.is_set)

    async def body(driver: RunDriver[Said]) -> None:
        async with children() as group:
            work = child(group, tool, [], driver.work("tool"))
            await turns(3)
            assert driver.run.open_work[1:] == ("tool",)
            work.give_up()
            driver.finish(Completed())

    async with RunScope():
        run = drive(body)
        await soon(run.result)
        assert not run.drained.is_set
        await soon(run.drained)
    assert stopped == [False]
