"""The end of event loops, processes and threads, each in a process of its own."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time

import pytest

from handrail.run import Run, RunDriver, drive

from ._kit import LOADED, PATIENCE, Said, child, turns

pytestmark = pytest.mark.slow  # each test starts a process; together they take a while

PRELUDE = """
import asyncio, atexit, gc, os, sys, threading, time
from handrail.run import Run, RunDriver, RunScope, drive
from handrail.run._threads import start_thread

entered = threading.Event()

async def blocking(driver):
    def tool():
        with driver.work("tool"):
            entered.set()
            time.sleep(60)
    await start_thread(tool)

async def endless(driver):
    entered.set()
    await asyncio.sleep(3600)
"""


def exits_quietly(source: str, *, seconds: float = 3.0, watched: bool = True) -> str:
    """Run it; what it printed. The clock starts when it prints "end of main", which each does last."""
    done = child(f"{PRELUDE}\n{source}\nprint('end of main', time.time(), flush=True)\n", watched=watched)
    gone = time.time()
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    lines = done.stdout.splitlines()
    assert gone - float(lines[-1].split()[-1]) < seconds * LOADED
    return "\n".join(lines[:-1])


@pytest.mark.parametrize("cancelled", [False, True], ids=["left alone", "cancelled"])
@pytest.mark.parametrize("body", ["blocking", "endless"])
def test_exit_with_a_live_run_on_the_shared_thread(body: str, cancelled: bool) -> None:
    """R-101: a tool asleep for 60 s holds nothing up; code 0, and stderr is empty."""
    exits_quietly(f"run = drive({body})\nassert entered.wait(20)\n{'run.cancel()' if cancelled else ''}")


@pytest.mark.parametrize("cancelled", [False, True], ids=["left alone", "cancelled"])
@pytest.mark.parametrize("scope", [False, True], ids=["task", "scope"])
def test_exit_with_a_blocking_tool_under_asyncio_run(scope: bool, cancelled: bool) -> None:
    """R-101, R-91: the loop is torn down, the thread left behind."""
    printed = exits_quietly(
        f"""
async def main():
    run = drive(blocking)
    while not entered.is_set():
        await asyncio.sleep(0.001)
    if {cancelled}:
        run.cancel()
        await run.result
    return run

async def scoped():
    try:
        async with RunScope():
            global run
            run = await main()
            raise LookupError
    except LookupError:
        return run

run = asyncio.run(scoped() if {scope} else main())
assert run.result.value.outcome == "cancelled", run.result.value
assert not run.drained.is_set
assert scoped and run.open_work == ("tool",)
print(run.status)
"""
    )
    assert printed == "cancelled"


def test_live_runs_are_cancelled_and_their_results_awaited_at_exit() -> None:
    """R-101: the body's asynchronous clean-up is granted its time."""
    done = child(
        PRELUDE
        + """
async def tidy(driver):
    entered.set()
    try:
        await asyncio.sleep(3600)
    finally:
        with anyio.CancelScope(shield=True):
            await asyncio.sleep(0.1)
        print("tidied", driver.run.is_cancelled, flush=True)

import anyio
run = drive(tidy)
assert entered.wait(20)
"""
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "tidied True\n")


def test_many_stubborn_runs_have_two_seconds_together() -> None:
    """R-101: ten bodies that do not let themselves be cancelled do not add up."""
    exits_quietly(
        """
async def stubborn(driver):
    if driver.run.id.endswith("9"):
        entered.set()
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

runs = [drive(stubborn, run_id=f"r{n}") for n in range(10)]
assert entered.wait(20)
"""
    )


def test_waiters_and_readers_in_other_threads_print_nothing() -> None:
    """R-102: daemon threads that wait for the result, for drained, for the next event, and an event loop of theirs."""
    exits_quietly(
        """
run = drive(blocking)
assert entered.wait(20)
waiting = threading.Barrier(6)

def wait(fn):
    waiting.wait(20)
    fn()

async def awaiting():
    await run.result

for fn in (run.result.wait, run.drained.wait, lambda: list(run.events), run.cancellation.wait,
           lambda: asyncio.run(awaiting())):
    threading.Thread(target=wait, args=(fn,), daemon=True).start()
run.events.subscribe(print)
waiting.wait(20)
"""
    )


def test_a_thread_that_is_no_daemon_gets_its_outcome_at_exit() -> None:
    """R-102: the interpreter waits for such a thread, so somebody must end the run it waits for: the thread itself."""
    printed = exits_quietly(
        """
run = drive(endless)
assert entered.wait(20)

def other():
    run.cancel()
    outcome = run.result.wait(20)
    os.write(1, outcome.outcome.encode() + b"\\n")

thread = threading.Thread(target=other)
thread.start()
thread.join()
"""
    )
    assert printed == "cancelled"


def test_a_lost_driver_at_exit_prints_nothing() -> None:
    """R-83, R-102: a global driver that nobody finished, without warnings switched on."""
    exits_quietly("driver = RunDriver()\ndriver.emit(1)\nreader = iter(driver.run.events)\nnext(reader)")


def test_exit_right_after_the_start() -> None:
    """R-101: the shared thread has hardly begun."""
    exits_quietly("run = drive(endless)")


def test_exit_with_finished_runs_only_is_quick() -> None:
    """R-101: nothing is waited for when nothing lives."""
    exits_quietly(
        """
async def brief(driver):
    driver.finish(None, outcome="completed")

for _ in range(20):
    drive(brief).drained.wait(20)
""",
        seconds=1.0,
    )


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_the_end_of_an_event_loop_with_live_runs_is_quiet(library: str) -> None:
    """R-100, R-21: with every warning an error too; and the results are there."""
    done = child(
        PRELUDE
        + f"""
import anyio
runs = []

async def main():
    with anyio.move_on_after(0.05):
        async with RunScope():
            async def endless(driver):
                await anyio.sleep_forever()
            runs.extend(drive(endless) for _ in range(5))
    if {library == "asyncio"}:
        runs.extend(drive(endless) for _ in range(5))
        await anyio.sleep(0.01)
        runs.extend(drive(endless) for _ in range(5))

anyio.run(main, backend={library!r})
gc.collect()
print(sorted({{run.result.value.outcome for run in runs}}), all(run.drained.is_set for run in runs))
""",
        "-W",
        "error",
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "['cancelled'] True\n")


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("how", ["closing the coroutine", "closing the loop"])
def test_a_loop_that_is_closed_under_a_live_run(
    asked: bool, how: str, unraisable: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    """R-100: its run still ends, cancelled if that was asked for, else failed with the quoted error."""
    loop = asyncio.new_event_loop()

    async def body(driver: RunDriver[Said]) -> None:
        driver.emit(Said())
        await asyncio.sleep(PATIENCE)

    async def begin() -> list[Run[Said]]:
        runs = [drive(body)]
        await turns()
        return [*runs, drive(body)]  # the second has not begun

    runs = loop.run_until_complete(begin())
    if asked:
        for run in runs:
            run.cancel()
    tasks = asyncio.all_tasks(loop)
    loop.close()
    if how == "closing the coroutine":
        for task in tasks:
            task.get_coro().close()  # type: ignore[union-attr]
        del task
    del tasks, loop
    gc.collect()
    for run in runs:
        outcome = run.result.value
        assert outcome.outcome == ("cancelled" if asked else "failed")
        assert outcome.error == (None if asked else "the event loop closed before the run ended")
        assert run.drained.is_set
        assert run.is_cancelled is asked
    assert unraisable == []
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 warns of fork beside threads, on stderr")
def test_a_forked_child_starts_its_own_thread() -> None:
    """R-95: the child's next run is hosted, and the parent's runs go on."""
    printed = exits_quietly(
        """
async def brief(driver):
    await asyncio.sleep(0.01)
    driver.finish(None, outcome="completed", final=str(os.getpid()))

async def waiting(driver):
    entered.set()
    while not may_end.is_set():
        await asyncio.sleep(0.001)
    driver.finish(None, outcome="completed")

may_end = threading.Event()
parents = drive(waiting)
assert entered.wait(20)
pid = os.fork()
if pid == 0:
    outcome = drive(brief).result.wait(20)
    os.write(1, f"child {outcome.final == str(os.getpid())}\\n".encode())
    sys.stdout.flush()
    os._exit(0)
_, status = os.waitpid(pid, 0)
assert status == 0
may_end.set()
assert parents.result.wait(20).ok
assert drive(brief).result.wait(20).final == str(os.getpid())
print("parent", True)
"""
    )
    assert printed == "child True\nparent True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 warns of fork beside threads, on stderr")
def test_a_forked_child_exits_in_the_ordinary_way() -> None:
    """R-95, R-101: it waits neither for the parent's live runs nor for a thread that is not there."""
    printed = exits_quietly(
        """
parents = drive(endless)
assert entered.wait(20)
pid = os.fork()
if pid == 0:
    before = time.monotonic()
    atexit.register(lambda: os.write(1, f"child {time.monotonic() - before < 1.5}\\n".encode()))
    sys.exit(0)
_, status = os.waitpid(pid, 0)
assert status == 0
parents.cancel()
assert parents.result.wait(20).outcome == "cancelled"
""",
        watched=False,
    )
    assert printed == "child True"


def test_two_asyncio_runs_in_one_process_with_warnings_as_errors() -> None:
    """R-96, R-100: the second loop knows nothing of the first; nothing warns."""
    done = child(
        PRELUDE
        + """
async def speak(driver):
    for number in range(5):
        driver.emit(number)
        await asyncio.sleep(0)
    driver.finish(None, outcome="completed")

async def main():
    left = drive(endless)
    run = drive(speak)
    got = [event async for event in run.events]
    assert (await run.result).ok
    return got, left

for _ in range(2):
    got, left = asyncio.run(main())
    assert got == [0, 1, 2, 3, 4]
    assert left.result.value.outcome == "cancelled"
""",
        "-W",
        "error",
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_keyboard_interrupt_in_main_with_a_live_run() -> None:
    """R-101: the traceback of the interrupt and nothing else; the process is gone in time."""
    done = child(
        PRELUDE
        + """
import signal
run = drive(blocking)
assert entered.wait(20)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    run.result.wait()
except KeyboardInterrupt:
    print("interrupted", run.status)
"""
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "interrupted running\n")
