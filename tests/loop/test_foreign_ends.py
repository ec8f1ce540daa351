"""Ends of a tool, a stream or a question that nobody in the loop asked for: each fails its own work and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from handrail import AbortRun, BackendError, FinishDelta, Loop, RetryPolicy, TextDelta, Tool
from handrail.events import AskAnswered, ToolAbandoned, ToolResult
from handrail.loop import LoopRun, _stream
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


@pytest.mark.parametrize("wrapped", [False, True])
async def test_abort_run_and_backend_error_are_found_in_a_group(wrapped: bool) -> None:
    """L-86, L-40: they mean in a group what they mean alone: the end of the run, and the class of the failure."""

    def raised(error: Exception) -> Any:
        async def end() -> None:
            raise group(ValueError("beside"), group(error)) if wrapped else error

        return end

    got = await play(asking(raised(AbortRun("the disk is gone"))))
    assert (got.outcome.outcome, got.outcome.error) == ("failed", "the disk is gone")
    denied = Ending(raised(BackendError("denied", "http", status=401)))
    got = await play(Loop(backends=[denied, ScriptedBackend([text("never")])], retry=PATIENT))
    (attempt,) = got.outcome.attempts
    assert (attempt.error_class, attempt.status, attempt.disposition) == ("http", 401, "abort")


class Scoped(Ending):
    """A backend with tasks of its own round its stream; `refusal` is raised by one of them, if there is one."""

    refusal: Exception | None = None

    @asynccontextmanager
    async def stream(self, request: Any) -> AsyncIterator[AsyncIterator[Any]]:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.watch)
                yield self.deltas()
                tasks.cancel_scope.cancel()
        finally:
            self.closed += 1

    async def watch(self) -> None:
        if self.refusal is not None:
            raise self.refusal
        await anyio.sleep_forever()


async def test_a_backend_may_have_tasks_of_its_own_round_its_stream(caplog: pytest.LogCaptureFixture) -> None:
    """L-37: its scopes are left in their order, by its end, by a failure of its own, by a cancel, by a silence."""
    whole = Scoped(anyio.lowlevel.checkpoint)
    assert (await play(Loop(backends=[whole]))).outcome.final == "half"

    refused = Scoped(anyio.sleep_forever)
    refused.refusal = BackendError("denied", "http", status=401)
    got = await play(Loop(backends=[refused], retry=PATIENT))
    assert [a.status for a in got.outcome.attempts] == [401]

    silent = Scoped(anyio.sleep_forever)
    got = await play(Loop(backends=[silent, ScriptedBackend([text("ok")])], retry=ONCE, idle_timeout=0.1))
    assert (got.outcome.final, got.outcome.attempts[0].error_class) == ("ok", "timeout")

    endless = Scoped(anyio.sleep_forever)
    async with Loop(backends=[endless]) as loop:
        run = loop.run("hi")
        async for event in run.events:
            if event.kind == "token":
                run.cancel()
        with anyio.fail_after(20):
            await run.drained
    assert run.status == "cancelled"
    assert [backend.closed for backend in (whole, refused, silent, endless)] == [1, 1, 1, 1]
    assert [record.message for record in caplog.records if "cancel scope" in str(record.exc_info)] == []


class Lingering(Ending):
    """A backend whose stream fails, and whose closing does not come to an end."""

    @asynccontextmanager
    async def stream(self, request: Any) -> AsyncIterator[AsyncIterator[Any]]:
        try:
            yield self.deltas()
        finally:
            try:
                await anyio.sleep_forever()
            finally:
                self.closed += 1


async def test_closing_behind_a_failure_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-37: it is cut short after a grace, and the failure is what it was."""
    monkeypatch.setattr(_stream, "CLOSE_GRACE", 0.1)

    async def deny() -> None:
        raise BackendError("denied", "http", status=401)

    lingering = Lingering(deny)
    got = await play(Loop(backends=[lingering], retry=PATIENT))
    assert [a.status for a in got.outcome.attempts] == [401]
    assert lingering.closed == 1
