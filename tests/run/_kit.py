"""What the tests of the handle share: events, threads that report, child processes, counters."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, ClassVar

import anyio
import anyio.lowlevel

from handrail.run import Outcome, RunDriver

#: Seconds after which a test calls something stuck. Never a synchronisation: nothing waits this long when all is well.
PATIENCE = 20.0

#: How much longer than on a quiet machine a bound may take.
LOADED = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """An event that is stamped."""

    text: str = ""
    run_id: str | None = None
    seq: int | None = None
    ends: ClassVar[str | None] = None

    def stamped(self, run_id: str, seq: int) -> Said:
        return dataclasses.replace(self, run_id=run_id, seq=seq)


@dataclasses.dataclass(frozen=True, slots=True)
class Completed(Said):
    ends: ClassVar[str | None] = "completed"


@dataclasses.dataclass(frozen=True, slots=True)
class Failed(Said):
    ends: ClassVar[str | None] = "failed"


@dataclasses.dataclass(frozen=True, slots=True)
class Cancelled(Said):
    ends: ClassVar[str | None] = "cancelled"


TERMINALS = (Completed, Failed, Cancelled)


def check_order(events: Iterable[Said], run_id: str) -> None:
    """One run, no gap, and one terminal event at the very end."""
    events = list(events)
    assert [e.seq for e in events] == list(range(len(events)))
    assert {e.run_id for e in events} == {run_id}
    assert [e.seq for e in events if e.ends is not None] == [len(events) - 1]


def ended(count: int, *, terminal: Said | None = None, run_id: str | None = None) -> RunDriver[Said]:
    """A driver whose run has said `count` things and the terminal event."""
    driver: RunDriver[Said] = RunDriver(run_id=run_id)
    for number in range(count):
        driver.emit(Said(f"e{number}"))
    driver.finish(terminal or Completed("end"))
    return driver


def texts(events: Any) -> list[str]:
    return [event.text for event in events]


def finished(terminal: Any = None, **parts: Any) -> Outcome:
    """The outcome of a run that ended with these parts."""
    driver: RunDriver[Any] = RunDriver()
    if terminal is None:
        parts.setdefault("outcome", "completed")
    assert driver.finish(terminal, **parts) is True
    return driver.run.result.value


async def endless(driver: RunDriver[Said]) -> None:
    await anyio.sleep_forever()


async def speak(driver: RunDriver[Said]) -> None:
    driver.emit(Said("a"))
    await turns(1)
    driver.emit(Said("b"))
    driver.finish(Completed("end"), final="ab")


class Crew:
    """Threads that hand back what they returned and do not keep an exception to themselves.

    They are daemons: one that is stuck fails its test and holds up nothing else.
    """

    def __init__(self) -> None:
        self._members: list[tuple[threading.Thread, list[Any], list[BaseException]]] = []

    def start(self, fn: Callable[..., Any], *args: Any) -> threading.Thread:
        values: list[Any] = []
        errors: list[BaseException] = []

        def main() -> None:
            try:
                values.append(fn(*args))
            except BaseException as error:  # handed to the test below
                errors.append(error)

        thread = threading.Thread(target=main, daemon=True)
        self._members.append((thread, values, errors))
        thread.start()
        return thread

    def join(self) -> list[Any]:
        for thread, _, _ in self._members:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a thread is stuck"
        for _, _, errors in self._members:
            if errors:
                raise errors[0]
        return [values[0] for _, values, _ in self._members]


def elsewhere(fn: Callable[..., Any], *args: Any) -> Any:
    """What `fn` returns on a thread of its own, where no event loop runs."""
    crew = Crew()
    crew.start(fn, *args)
    return crew.join()[0]


async def soon(awaitable: Awaitable[Any]) -> Any:
    """The value, or a failed test."""
    with anyio.fail_after(PATIENCE):
        return await awaitable


async def listed(stream: Any) -> list[Any]:
    """All a reader gets."""
    with anyio.fail_after(PATIENCE):
        return [event async for event in stream]


async def set_by_a_thread(event: threading.Event) -> None:
    """Wait for an event of the threads without blocking the loop."""
    with anyio.fail_after(PATIENCE):
        while not event.is_set():  # noqa: ASYNC110 - an event of another kind
            await anyio.sleep(0.001)


async def turns(count: int = 10) -> None:
    """Let everything that is ready run."""
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


def child(source: str, *options: str, watched: bool = True, timeout: float = 40.0) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own; stuck means a failed test with the stacks of its threads.

    A program whose forked children exit in the ordinary way must not be watched: they would wait for the watchdog.
    """
    watchdog = f"import faulthandler; faulthandler.dump_traceback_later({timeout - 5}, exit=True)\n" if watched else ""
    return subprocess.run(
        [sys.executable, *options, "-c", watchdog + textwrap.dedent(source)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def python_calls(fn: Callable[[], object]) -> int:
    """How many Python functions one call of `fn` enters on this thread: a cost no load can move."""
    count = 0

    def profile(_frame: object, kind: str, _arg: object) -> None:
        nonlocal count
        count += kind == "call"

    gc.disable()
    sys.setprofile(profile)
    try:
        fn()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count - 1


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts the callbacks it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.callbacks = 0

    def call_soon(self, *args: Any, **kwargs: Any) -> asyncio.Handle:
        self.callbacks += 1
        return super().call_soon(*args, **kwargs)

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:
        self.callbacks += 1
        return super().call_soon_threadsafe(*args, **kwargs)
