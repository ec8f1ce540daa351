"""The same run, cancelled at each of its events.

A run has as many places to be cancelled in as it has events, and most faults of cancelling live in one of them. So the
scenario runs once to its end, to count them, and then once for each of them; the checkers then say whether it ended as
every run must.

*On that event* is exact: a reader would come late, so the cancel is called where the event is accepted, inside the very
call that emits it, before the driver does anything else.

*Gates* that a scenario makes hold a run in silence. Each is opened here when it was reached and every task has come to
rest. In the run that cancels on the event before that silence, the cancel comes there instead: in a model that says
nothing, in a tool that blocks. Behind the result all gates are opened, because what drains a run may wait in one.

*Left-overs* are tasks that were not there before, and threads that this package started, once the run has drained.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
from ag_ui.core import AssistantMessage, ToolMessage

from handrail.events import ToolCall
from handrail.run import Run, RunScope
from handrail.run._loops import current_home
from handrail.testing._check_messages import check_messages
from handrail.testing._check_run import check_run
from handrail.testing._collect import Collected
from handrail.testing._steps import Gate, gates_made

__all__ = ["cancel_everywhere"]

T = TypeVar("T")
Scenario = Callable[[], Run[Any] | Awaitable[Run[Any]]]

_SHARED_THREAD = "handrail runs"  # one for the process, and for good
_POLL = 0.005


async def cancel_everywhere(scenario: Scenario, timeout: float = 30) -> int:
    """Run a scenario to its end, then once for each of its events with a cancel on that event; check every run.

    `scenario` is a function, plain or async, that makes everything afresh and returns a run it has just started; gates
    that it makes are opened here. Returns the number of points tried. Raises `AssertionError`, naming the point and
    what was wrong, where a run breaks a promise of `check_run` or `check_messages`, does not end or drain within
    `timeout` seconds each, or leaves a task or thread behind.
    """
    silences: set[int] = set()
    whole = await _tried(scenario, _Point(None, silences), timeout)
    for index in range(len(whole)):
        await _tried(scenario, _Point(index, silences), timeout)
    return len(whole)


class _Point:
    """Where one run is cancelled: on event `index` (None: nowhere), or in the silence behind it if there is one.

    `silences` are the events behind which the run came to rest in a gate, found by the run that is not cancelled.
    """

    def __init__(self, index: int | None, silences: set[int]) -> None:
        self._index = index
        self._silences = silences
        self._run: Run[Any] | None = None

    def watch(self, run: Run[Any]) -> None:
        self._run = run
        if self._index is not None and self._index not in self._silences:
            self.wake()

    def wake(self) -> None:
        """Called by the run in the call that accepted an event; registered anew each time, as a waker is."""
        assert self._run is not None
        assert self._index is not None
        log = self._run._core.log  # pyright: ignore[reportPrivateUsage]  # no reader comes as early as its wakers
        if len(log.items) > self._index:
            self._run.cancel()
        else:
            log.waiters.wakers[self] = True

    def at_rest(self, held: Gate) -> None:
        """The run is held in a gate and nothing moves."""
        assert self._run is not None
        last = len(self._run.events.so_far()) - 1
        if self._index is None:
            self._silences.add(last)
        if self._index == last:
            self._run.cancel()
        elif not self._run.is_cancelled:
            held.open()

    def __str__(self) -> str:
        return "run to its end" if self._index is None else f"cancelled at event {self._index}"


async def _tried(scenario: Scenario, point: _Point, timeout: float) -> Collected[Any]:
    before = await _alive()
    made: list[Gate] = []
    async with _place_to_live():
        run = await _started(scenario, made)
        point.watch(run)
        got = await _until(timeout, lambda: _read(run, point, made), f"{point}: did not end", run)
        for held in made:
            held.open()
        await _until(timeout, lambda: run.drained, f"{point}: did not drain", run)
    wrong = [*check_run(got, got.outcome), *check_messages(got.outcome.messages, _open_calls(got))]
    wrong += await _left_over(before, timeout)
    if wrong:
        raise AssertionError("\n  ".join([f"{point} ({', '.join(got.kinds())}):", *wrong]))
    return got


def _open_calls(got: Collected[Any]) -> set[str]:
    """The calls that are to have no answer: those that the end of the run names.

    A run that failed or was cancelled names none, and calls that waited in its input may go on waiting: they are those
    of the conversation that it did not announce itself.
    """
    named = {*(i.tool_call_id or i.id for i in got.outcome.interrupts), *getattr(got.terminal, "pending_calls", ())}
    if got.outcome.outcome == "completed":
        return named
    messages = got.outcome.messages
    made = {call.id for m in messages if isinstance(m, AssistantMessage) for call in m.tool_calls or ()}
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    return named | made - answered - {event.id for event in got.of(ToolCall)}


def _place_to_live() -> AbstractAsyncContextManager[object]:
    """Trio runs nothing outside a scope. Elsewhere a run is on its own, so that one that never ends holds up nobody."""
    home = current_home()
    return RunScope() if home is not None and home.name == "trio" else nullcontext()


async def _started(scenario: Scenario, made: list[Gate]) -> Run[Any]:
    token = gates_made.set(made)
    try:
        started = scenario()
        return await started if inspect.isawaitable(started) else started
    finally:
        gates_made.reset(token)


async def _read(run: Run[Any], point: _Point, made: list[Gate]) -> Collected[Any]:
    events: list[Any] = []
    async with anyio.create_task_group() as group:
        for held in made:
            group.start_soon(_come_to_rest, point, held)
        events += [event async for event in run.events]
        group.cancel_scope.cancel()
    return Collected(events, await run.result)


async def _come_to_rest(point: _Point, held: Gate) -> None:
    await held.reached
    await anyio.wait_all_tasks_blocked()
    point.at_rest(held)


async def _until(timeout: float, wait: Callable[[], Awaitable[T]], failed: str, run: Run[Any]) -> T:
    with anyio.move_on_after(timeout):
        return await wait()
    raise AssertionError(f"{failed} within {timeout} s; still working: {', '.join(run.open_work) or 'nothing'}")


async def _alive() -> set[Any]:
    await anyio.lowlevel.checkpoint()
    threads = {t for t in threading.enumerate() if t.name.startswith("handrail") and t.name != _SHARED_THREAD}
    return {*(task.id for task in anyio.get_running_tasks()), *threads}


async def _left_over(before: set[Any], timeout: float) -> list[str]:
    """Threads and tasks that are new and stay; a thread that has just done its work gets the time to go."""
    with anyio.move_on_after(min(timeout, 5)):
        while await _alive() - before:  # noqa: ASYNC110  # nobody tells when a thread is gone
            await anyio.sleep(_POLL)
        return []
    names = {task.id: task.name for task in anyio.get_running_tasks()}
    return [f"left behind: {names.get(one, one)}" for one in await _alive() - before]
