"""Daemon worker threads, for tools that block."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
import trio

from handrail.run import Settled
from handrail.run._hosting import is_cancelled_from_outside
from handrail.run._threads import start_thread

from ._kit import PATIENCE, Crew, soon, turns

place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")


async def test_the_value_comes_when_the_thread_returns(gate: threading.Event) -> None:
    """R-76: a Settled that several can await; the thread is a daemon."""
    threads: list[threading.Thread] = []

    def tool(one: int, two: int) -> int:
        threads.append(threading.current_thread())
        gate.wait(PATIENCE)
        return one + two

    ended = start_thread(tool, 1, 2)
    assert isinstance(ended, Settled)
    await turns()
    assert not ended.is_set
    gate.set()
    got = await soon(ended)
    assert (got.value, got.error) == (3, None)
    assert await soon(ended) is got
    assert threads[0].daemon
    assert threads[0] is not threading.current_thread()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, asyncio.CancelledError])
async def test_an_exception_is_data(error: type[BaseException], unraisable: list[object]) -> None:
    """R-76: nothing is raised by awaiting, nothing printed by the thread, whatever the class."""

    def tool() -> None:
        raise error("from the thread")

    got = await soon(start_thread(tool))
    assert got.value is None
    assert type(got.error) is error
    assert str(got.error) == "from the thread"


async def test_context_variables_are_the_callers() -> None:
    """R-76: read there as here, and what is set there stays there."""
    token = place.set("here")

    def tool() -> str:
        before = place.get()
        place.set("there")
        return before

    try:
        assert (await soon(start_thread(tool))).value == "here"
        assert place.get() == "here"
    finally:
        place.reset(token)


async def test_leaving_the_wait_leaves_the_thread(gate: threading.Event) -> None:
    """R-76, R-12: the waiter is cancelled at once; the thread returns later and its value is there."""

    def tool() -> str:
        gate.wait(PATIENCE)
        return "late"

    ended = start_thread(tool)
    with anyio.move_on_after(0.001) as scope:
        await ended
    assert scope.cancelled_caught
    gate.set()
    assert (await soon(ended)).value == "late"


def test_any_number_of_threads_at_once(gate: threading.Event) -> None:
    """R-76: no pool that a few blocked tools could use up."""
    entered = threading.Semaphore(0)

    def tool(number: int) -> int:
        entered.release()
        gate.wait(PATIENCE)
        return number

    all_ended = [start_thread(tool, number) for number in range(60)]
    for _ in range(60):
        assert entered.acquire(timeout=PATIENCE)
    gate.set()
    assert [ended.wait(PATIENCE).value for ended in all_ended] == list(range(60))


@pytest.mark.parametrize("here", ["asyncio", "trio"])
@pytest.mark.parametrize("there", ["asyncio", "trio"])
def test_a_tool_may_run_an_event_loop_of_its_own(here: str, there: str) -> None:
    """R-76: what the caller's loop says of itself in a context variable is not true of the thread."""

    async def inner() -> str:
        await anyio.sleep(0.001)
        return "inner"

    def tool() -> str:
        return _run(there, inner)

    async def main() -> str:
        return (await soon(start_thread(tool))).unwrap()

    assert anyio.run(main, backend=here) == "inner"


def _run(library: str, main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """As somebody does it who knows the library and not anyio."""
    return asyncio.run(main()) if library == "asyncio" else trio.run(main)


def test_a_stray_cancelled_error_is_told_from_a_real_cancellation() -> None:
    """R-92: asyncio: nobody cancelled the task, somebody did."""

    async def main() -> list[bool]:
        answers = []
        try:
            raise asyncio.CancelledError
        except asyncio.CancelledError:
            answers.append(is_cancelled_from_outside())

        async def victim() -> None:
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                answers.append(is_cancelled_from_outside())
                raise

        task = asyncio.create_task(victim())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return answers

    assert asyncio.run(main()) == [False, True]


def test_a_cancelled_scope_is_a_real_cancellation() -> None:
    """R-92: anyio scopes on both event loops."""

    async def main() -> list[bool]:
        answers = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await anyio.sleep(PATIENCE)
            except anyio.get_cancelled_exc_class():
                answers.append(is_cancelled_from_outside())
                raise
        return answers

    crew = Crew()
    crew.start(asyncio.run, main())
    crew.start(trio.run, main)
    assert crew.join() == [[True], [True]]
