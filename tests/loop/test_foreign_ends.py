"""Ends of a tool, a stream or a question that nobody in the loop asked for: each fails its own work and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest

from handrail import FinishDelta, Loop, RetryPolicy, TextDelta, Tool
from handrail.events import AskAnswered, ToolAbandoned, ToolResult
from handrail.loop import LoopRun
from handrail.testing import Collected, ScriptedBackend, call, collect, gate, text

from .kit import answers, checked, play

ONCE = RetryPolicy(max_attempts=1)
PATIENT = RetryPolicy(backoff_cap=0)


class Ending:
    """A backend whose stream ends in the middle in the manner of `end`; `closed` counts."""

    model = "ending"
    max_tokens = None

    def __init__(self, end: Callable[[], Any]) -> None:
        self.end = end
        self.closed = 0

    @asynccontextmanager
    async def stream(self, request: Any) -> AsyncIterator[AsyncIterator[Any]]:
        try:
            yield self.deltas()
        finally:
            self.closed += 1

    async def deltas(self) -> AsyncIterator[Any]:
        yield TextDelta("half")
        await self.end()
        yield FinishDelta("stop")


async def cancel_myself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


async def leave_the_generator() -> None:
    raise GeneratorExit


def asking(end: Callable[[], Any], ask: Any = None, parallel: bool = False) -> Loop:
    """A loop with one tool, `t`, that is called once."""
    tool = Tool(end, name="t", needs_approval=ask is not None, parallel=parallel)
    return Loop(backends=[ScriptedBackend([call("t", id="c"), text("fin")])], tools=[tool], ask=ask)


def alone(work: Callable[[], Any]) -> Any:
    """Under asyncio only: only there a task can be cancelled by whoever sees it."""

    async def bounded() -> Any:
        with anyio.fail_after(20):
            return await work()

    return asyncio.run(bounded())


@pytest.mark.parametrize("parallel", [False, True])
def test_a_tool_that_cancels_its_own_task(parallel: bool) -> None:
    """L-20, L-86, R-92: the call gets an error result and the run goes on."""
    got: Collected[Any] = alone(lambda: play(asking(cancel_myself, parallel=parallel)))
    assert (got.outcome.outcome, got.outcome.final) == ("completed", "fin")
    assert [(e.is_error, e.content) for e in got.of(ToolResult)] == [(True, "CancelledError")]


def test_a_stream_that_cancels_its_own_task() -> None:
    """L-38, R-92: a failed attempt, and the next backend answers."""
    broken = Ending(cancel_myself)
    got: Collected[Any] = alone(lambda: play(Loop(backends=[broken, ScriptedBackend([text("ok")])], retry=ONCE)))
    assert got.outcome.final == "ok"
    assert [a.error_class for a in got.outcome.attempts] == ["other", None]
    assert broken.closed == 1


def test_a_question_that_cancels_its_own_task() -> None:
    """L-123, R-92: a denial."""

    async def ask(interrupt: Any) -> None:
        await cancel_myself()

    got: Collected[Any] = alone(lambda: play(asking(lambda: 1, ask)))
    assert got.outcome.final == "fin"
    assert [e.reason for e in got.of(ToolAbandoned)] == ["denied"]


def test_a_timeout_that_is_still_counted() -> None:
    """L-86, R-92: a cancellation that a tool swallowed long ago makes no later error one that somebody sent."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1)
        raise asyncio.CancelledError

    got: Collected[Any] = alone(lambda: play(asking(work)))
    assert (got.outcome.final, answers(got)) == ("fin", {"c": "CancelledError"})


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("name", ["tool", "stream"])
def test_application_code_cancels_tasks_of_a_run(name: str, steps: int) -> None:
    """L-20, L-38, L-86: at whatever step it does, also before the first, the run goes on."""
    held = gate()

    async def work() -> None:
        await anyio.sleep_forever()

    async def main() -> LoopRun:
        script = [call("work"), text("fin")] if name == "tool" else [[text("fin"), held]] * 2
        run = Loop(backends=[ScriptedBackend(script)], tools=[work], idle_timeout=None, retry=PATIENT).run("hi")
        found: list[asyncio.Task[Any]] = []
        for _ in range(100):
            if found := [task for task in asyncio.all_tasks() if task.get_name().startswith(name)]:
                break
            await asyncio.sleep(0)
        for _ in range(steps):
            await asyncio.sleep(0)
        found[0].cancel()
        held.open()
        checked(await collect(run, 20))
        return run

    run: LoopRun = alone(main)
    assert run.result.wait(0).outcome == "completed"
    assert run.result.wait(0).final == "fin"


async def test_a_tool_that_raises_generator_exit() -> None:
    """L-20, L-86: an error result, whether it is async or lives in a thread."""

    def leave() -> None:
        raise GeneratorExit

    for end in (leave, leave_the_generator):
        got = await play(asking(end))
        assert (got.outcome.final, answers(got)) == ("fin", {"c": "GeneratorExit"})


async def test_a_stream_that_raises_generator_exit() -> None:
    """L-37, L-38: a failed attempt, and the stream is closed all the same."""
    broken = Ending(leave_the_generator)
    got = await play(Loop(backends=[broken, ScriptedBackend([text("ok")])], retry=ONCE))
    assert got.outcome.final == "ok"
    assert got.outcome.attempts[0].error_class == "other"
    assert broken.closed == 1


async def test_a_question_that_raises_generator_exit() -> None:
    """L-123: a denial, whether it is async or lives in a thread."""

    def ask(interrupt: Any) -> None:
        raise GeneratorExit

    async def ask_async(interrupt: Any) -> None:
        raise GeneratorExit

    for one in (ask, ask_async):
        got = await play(asking(lambda: 1, one))
        assert got.outcome.final == "fin"
        assert [e.reason for e in got.of(ToolAbandoned)] == ["denied"]
        (said,) = got.of(AskAnswered)
        assert said.answer is not None


def group(*errors: BaseException) -> BaseExceptionGroup:
    return BaseExceptionGroup("unhandled errors in a TaskGroup", errors)


HARMLESS = {
    "a group": (group(ValueError("bad id"), KeyError("k")), "ValueError: bad id; KeyError: 'k'"),
    "a group of no Exception": (group(GeneratorExit(), asyncio.CancelledError()), "GeneratorExit"),
    "a group in a group": (group(group(asyncio.CancelledError("mine"))), "CancelledError: mine"),
    "asyncio's, on any event loop": (asyncio.CancelledError("mine"), "CancelledError: mine"),
}


@pytest.mark.parametrize(("error", "told"), HARMLESS.values(), ids=HARMLESS)
@pytest.mark.parametrize("parallel", [False, True])
async def test_a_group_is_what_it_is_made_of(error: BaseException, told: str, parallel: bool) -> None:
    """L-86, R-92: what each of its exceptions would be, and the model is told each."""

    async def broken() -> None:
        raise error

    def broken_too() -> None:
        raise error

    for end in (broken, broken_too):
        got = await play(asking(end, parallel=parallel))
        assert got.outcome.final == "fin"
        assert told in answers(got)["c"]


@pytest.mark.parametrize("error", [error for error, _ in HARMLESS.values()], ids=HARMLESS)
async def test_a_stream_that_raises_a_group(error: BaseException) -> None:
    """L-38: a failed attempt."""

    async def broken() -> None:
        raise error

    got = await play(Loop(backends=[Ending(broken), ScriptedBackend([text("ok")])], retry=ONCE))
    assert (got.outcome.final, got.outcome.attempts[0].error_class) == ("ok", "other")


async def test_a_group_with_the_end_of_the_program_in_it() -> None:
    """R-87, L-20: the run fails, its call is answered, and the host gets it."""
    runs: list[LoopRun] = []

    async def serve() -> None:
        async with asking(end_the_program) as loop:
            runs.append(loop.run("hi"))
            await anyio.sleep(20)

    with pytest.raises(BaseExceptionGroup) as raised:
        await serve()
    assert raised.group_contains(SystemExit)
    outcome = runs[0].result.value
    assert (outcome.outcome, [m.role for m in outcome.messages]) == ("failed", ["user", "assistant", "tool"])


async def end_the_program() -> None:
    raise group(ValueError("x"), SystemExit(3))
