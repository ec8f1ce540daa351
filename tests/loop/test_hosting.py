"""Where a loop's run lives, and what its host can do to it."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
import weakref
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from handrail import Loop, Tool, UsageError, events, user
from handrail.loop import LoopRun
from handrail.testing import Gate, ScriptedBackend, call, collect, gate, stall, text

from .kit import checked, event, look, roles


def test_the_event_loop_ends_with_the_run_unfinished() -> None:
    """R-91, R-100, L-20: `asyncio.run` cancels it: cancelled, with what it has, and everything closed."""
    backend = ScriptedBackend([[text("one"), call("look", id="c")], [text("half"), stall()]])

    async def main() -> LoopRun:
        run = Loop(backends=[backend], tools=[look]).run("hi")
        await event(run, events.Token, 2)
        return run

    run = asyncio.run(main())
    assert run.is_done
    assert not run.is_cancelled
    outcome = run.result.value
    assert (outcome.outcome, outcome.final) == ("cancelled", "one")
    assert [m.role for m in outcome.messages] == ["user", "assistant", "tool"]
    assert [e.kind for e in run.events][-3:] == ["attempt-failed", "turn-discarded", "run-cancelled"]
    assert backend.closed == 2
    assert run.drained.is_set


@pytest.mark.parametrize("where", ["a tool", "a stream", "a thread", "a question"])
def test_an_event_loop_that_is_just_closed(where: str) -> None:
    """R-100: nothing can run on it any more; the run ends as failed and says why, calls answered."""
    held = Gate()

    async def forever() -> str:
        await anyio.sleep_forever()
        return "never"

    async def ask(interrupt: Any) -> bool:
        await anyio.sleep_forever()
        return True

    tools = [
        forever,
        Tool(lambda: held.wait(20), name="blocks"),
        Tool(look, name="asks", needs_approval=True),
    ]
    script = {
        "a tool": [call("forever", id="c")],
        "a stream": [[text("half"), stall()]],
        "a thread": [call("blocks", id="c")],
        "a question": [call("asks", id="c")],
    }[where]
    sign = events.Token if where == "a stream" else events.AskPending if where == "a question" else events.ToolStarted
    loop = asyncio.new_event_loop()

    async def main() -> LoopRun:
        run = Loop(backends=[ScriptedBackend(script)], tools=tools, ask=ask).run("hi")
        await event(run, sign)
        await asyncio.sleep(0.01)
        return run

    run = loop.run_until_complete(main())
    loop.close()
    gc.collect()
    outcome = run.result.wait(5)
    held.open()
    assert outcome.outcome == "failed"
    assert outcome.error == "the event loop closed before the run ended"
    assert [m.role for m in outcome.messages] == (["user"] if where == "a stream" else ["user", "assistant", "tool"])
    run.drained.wait(5)


@pytest.mark.parametrize("broken", ["new_id", "clock"])
async def test_a_run_ends_even_if_its_own_end_raises(broken: str, caplog: pytest.LogCaptureFixture) -> None:
    """L-20, R-86: an injected id or clock that begins to raise takes the events along, and not the result."""
    from handrail.testing import FakeClock

    caplog.set_level("CRITICAL")
    left = [6]

    class Clock(FakeClock):
        def now(self) -> Any:
            left[0] -= broken == "clock"
            if left[0] < 0:
                raise OSError("no time")
            return super().now()

    def new_id() -> str:
        left[0] -= broken == "new_id"
        if left[0] < 0:
            raise OSError("no ids")
        return f"id{left[0]}"

    backend = ScriptedBackend([[call("look", id=f"c{n}") for n in range(9)], text("never")])
    async with Loop(backends=[backend], tools=[look], clock=Clock(), new_id=new_id) as loop:
        run = loop.run("hi")
        outcome = await run.result
        await run.drained
    assert outcome.outcome == "failed"
    assert "OSError" in str(outcome.error)


async def test_a_tool_that_ends_the_program_ends_the_run_first() -> None:
    """R-87: an exception that is no `Exception` fails the run, closed and answered, and goes on to the host."""

    class Ends(BaseException):
        pass

    async def ends() -> str:
        raise Ends("now")

    runs: list[LoopRun] = []
    with pytest.raises((Ends, BaseExceptionGroup)):  # noqa: PT012
        async with Loop(backends=[ScriptedBackend([call("ends", id="c"), text("x")])], tools=[ends]) as loop:
            runs.append(loop.run("hi"))
            await runs[0].result
            await anyio.sleep_forever()
    got = checked(await collect(runs[0]))
    assert got.outcome.outcome == "failed"
    assert "Ends" in str(got.outcome.error)
    assert roles(got) == ["user", "assistant", "tool"]


def test_from_threads_with_no_event_loop() -> None:
    """L-1, L-8 (case 142): any thread, any number of times, all at once."""
    loop = Loop(
        backends=[ScriptedBackend([[call("look", id=f"c{n}"), text("x")] if n % 2 else text("ok") for n in range(40)])],
        tools=[Tool(look)],
    )
    finals: list[Any] = []

    def work() -> None:
        finals.extend([loop.run("hi").result.wait(20).outcome for _ in range(2)])

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert finals == ["completed"] * 10


def test_a_cancel_from_another_thread_races_with_the_end() -> None:
    """R-65 (case 112): 200 times; one terminal event, last, that agrees with the result."""
    ended: set[str] = set()
    for number in range(200):
        run = Loop(backends=[ScriptedBackend([text("token")])]).run("hi")
        if number % 3:
            threading.Event().wait((number % 7) * 0.0003)
        run.cancel()
        outcome = run.result.wait(10)
        seen = list(run.events)
        assert [e.is_terminal for e in seen] == [False] * (len(seen) - 1) + [True]
        assert seen[-1].ends == outcome.outcome
        assert [e.seq for e in seen] == list(range(len(seen)))
        ended.add(outcome.outcome)
    assert ended <= {"completed", "cancelled"}


async def test_a_finished_run_is_collected() -> None:
    """R-103: nothing of the loop keeps it."""
    async with Loop(backends=[ScriptedBackend([call("look"), text("ok")])], tools=[look]) as loop:
        run = loop.run("hi")
        await run.drained
        await anyio.wait_all_tasks_blocked()
        gone = weakref.ref(run)
        del run
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
            gc.collect()
        assert gone() is None


async def test_a_failed_run_that_nobody_looks_at_makes_no_noise(caplog: pytest.LogCaptureFixture) -> None:
    """R-21: dropped and collected."""
    from handrail.testing import fail

    async with Loop(backends=[ScriptedBackend([fail("misuse")])]) as loop:
        loop.run("hi")
    gc.collect()
    assert caplog.records == []


async def test_a_scope_that_is_cancelled_at_once() -> None:
    """R-91, L-20: a host that lets it take no step, or one, still ends it, with its messages."""
    runs: list[LoopRun] = []
    with anyio.CancelScope() as scope:
        async with Loop(backends=[ScriptedBackend([text("never")])]) as loop:
            scope.cancel()
            runs.append(loop.run([user("hi")]))
    got = checked(await collect(runs[0]))
    assert got.outcome.outcome == "cancelled"
    assert [m.content for m in got.outcome.messages] == ["hi"]
    assert runs[0].drained.is_set


async def test_a_cancelled_scope_does_not_wait_for_a_thread() -> None:
    """R-91, R-94: only the blocking thread is left behind; drained says so."""
    held = Gate()

    def blocks() -> str:
        held.wait(20)
        return "late"

    runs: list[LoopRun] = []
    with anyio.move_on_after(20) as scope:
        async with Loop(backends=[ScriptedBackend([call("blocks")])], tools=[blocks]) as loop:
            runs.append(loop.run("hi"))
            await held.reached
            scope.cancel()
            await anyio.sleep_forever()
    run = runs[0]
    assert run.result.value.outcome == "cancelled"
    assert run.open_work == ("tool blocks",)
    held.open()
    await run.drained


@pytest.mark.slow
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_blocking_tool_does_not_hold_up_the_exit(cancelled: bool) -> None:
    """R-101: the process ends within seconds of its main, code 0, nothing on stderr."""
    program = f"""
        import time
        from handrail import Loop
        from handrail.testing import ScriptedBackend, call

        def sleeps() -> str:
            time.sleep(60)
            return "never"

        run = Loop(backends=[ScriptedBackend([call("sleeps")])], tools=[sleeps]).run("hi")
        for event in run.events:
            if event.kind == "tool-started":
                break
        {"run.cancel(); print(run.result.wait(5).outcome)" if cancelled else "print('left')"}
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=40, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == ("cancelled" if cancelled else "left")


async def test_a_gate_in_a_tool_holds_up_nobody_else() -> None:
    """L-1, L-88: another run of the same loop goes on meanwhile."""
    held = gate()

    async def waits() -> str:
        await held
        return "x"

    loop = Loop(backends=[ScriptedBackend([call("waits"), text("second"), text("first")])], tools=[waits])
    async with loop:
        first = loop.run("one")
        await held.reached
        assert (await loop.run("two").result).final == "second"
        held.open()
        assert (await first.result).final == "first"


async def test_leaving_a_loop_in_another_task_says_so() -> None:
    """L-8: a scope is the task's that entered it; the error names that, and the one who entered can still leave."""
    loop = Loop(backends=[ScriptedBackend([text("ok")])])

    async def leave() -> None:
        with pytest.raises(UsageError, match="left in the task that entered it"):
            await loop.__aexit__(None, None, None)

    async with loop:
        async with anyio.create_task_group() as group:
            group.start_soon(leave)
        assert (await loop.run("hi").result).ok


async def test_a_backend_named_twice_is_closed_once() -> None:
    """L-8: leaving closes each backend."""

    class Closes(ScriptedBackend):
        times = 0

        async def aclose(self) -> None:
            self.times += 1

    backend = Closes()
    async with Loop(backends=[backend, backend]):
        pass
    assert backend.times == 1
