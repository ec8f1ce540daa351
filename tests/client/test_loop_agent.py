"""A loop behind the interface of an agent: what it says, how it ends, and that nothing of it is left behind."""

from __future__ import annotations

import asyncio
import copy
import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from ag_ui.core import RunAgentInput, ToolMessage
from tests.client.transports import types_of

from handrail import AgentRun, AgentSession, Loop, LoopAgent, LoopRun, RunScope, Tool, approve, events
from handrail.errors import BackendError, LocalProtocolError, UsageError
from handrail.run import RunDriver, Settled
from handrail.run._settled import settle, when_set
from handrail.testing import Gate, ScriptedBackend, call, cancel_everywhere, fail, gate, reasoning, stall, text

ASKED = {
    "threadId": "t1",
    "runId": "r1",
    "messages": [{"id": "u1", "role": "user", "content": "Hello"}],
    "state": {"seen": 1},
}
DECLARED = {"name": "locate", "description": "Where the user is.", "parameters": {"type": "object", "properties": {}}}


class Watched:
    """Anything with `run`; keeps the handles of its runs."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.runs: list[LoopRun] = []

    def run(self, *given: Any, **options: Any) -> LoopRun:
        self.runs.append(self.loop.run(*given, **options))
        return self.runs[-1]


def loop_of(*steps: Any, **options: Any) -> Loop:
    return Loop(backends=[ScriptedBackend(steps)], **options)


async def ended(loop: Any, given: Any = ASKED, **options: Any) -> AgentRun:
    async with RunScope():
        run = LoopAgent(loop, **options).start(given)
        await run.result
        await run.drained
    return run


async def test_an_answer() -> None:
    """P-75, P-2, P-86, S-157: the loop's words as checked events, its conversation as the outcome's."""
    watched = Watched(loop_of([reasoning("Hm."), text("It is ", "warm.")]))
    run = await ended(watched)
    assert types_of(run) == [
        "RUN_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    outcome, loops = run.result.value, watched.runs[0].result.value
    assert (outcome.outcome, outcome.final, outcome.error) == ("completed", "It is warm.", None)
    assert [(m.id, m.role, m.content) for m in outcome.messages] == [(m.id, m.role, m.content) for m in loops.messages]
    assert (run.id, run.report.thread_id, run.report.run_id, watched.runs[0].id) == ("r1", "t1", "r1", "r1")
    assert run.report.verdict == "success"
    assert run.report.state == {"seen": 1}
    assert run.report.warnings == ()


async def test_the_input_is_copied() -> None:
    """P-66, S-157: a model and a dict are taken, and both stay as they are."""
    as_dict = copy.deepcopy(ASKED) | {"tools": [DECLARED]}
    as_model = RunAgentInput.model_validate(as_dict)
    for given in (as_dict, as_model):
        before = copy.deepcopy(given)
        run = await ended(loop_of(text("Hi.")), given)
        assert run.result.value.ok
        assert given == before


async def test_tools_of_the_client_are_declared_and_not_executed() -> None:
    """S-157, P-62: success, and the call is pending."""
    loop = loop_of([text("Let me look."), call("locate", {}, id="c1")])
    run = await ended(loop, ASKED | {"tools": [DECLARED], "context": [{"description": "City", "value": "Rome"}]})
    assert run.report.verdict == "success"
    assert run.report.pending_tool_calls == run.result.value.pending_calls == ("c1",)
    request = loop._setting.backends[0].requests[0]
    assert [tool.name for tool in request.tools] == ["locate"]
    assert "Rome" in str(request.messages[0].content)


async def test_approvals_and_answers() -> None:
    """S-157: an approval without `ask` is an interrupt, and `resume` is its answer."""
    done: list[str] = []

    def erase(name: str) -> str:
        done.append(name)
        return "gone"

    loop = loop_of(call("erase", {"name": "a.txt"}, id="c1"), text("Erased."), tools=[Tool(erase, needs_approval=True)])
    first = await ended(loop)
    assert first.report.verdict == "interrupt"
    assert [one.id for one in first.result.value.interrupts] == ["c1"]
    assert done == []
    entry = {"interruptId": "c1", "status": "resolved", "payload": {"approved": True}}
    history = [message.model_dump(by_alias=True, exclude_none=True) for message in first.result.value.messages]
    second = await ended(loop, {"threadId": "t1", "runId": "r2", "messages": history, "resume": [entry]})
    assert second.result.value.final == "Erased."
    assert done == ["a.txt"]
    answered = [message for message in second.result.value.messages if isinstance(message, ToolMessage)]
    assert [(message.tool_call_id, message.content) for message in answered] == [("c1", "gone")]
    assert approve(first.result.value.interrupts[0]).interrupt_id == "c1"


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (fail(ValueError("boom: secret")), "run-failed"),
        (fail(BackendError("too long", "overflow")), "context-exhausted"),
    ],
)
async def test_a_failure_is_run_error(failure: Any, code: str) -> None:
    """S-157, P-91, P-4: with its code; the exception's own words stay inside."""
    run = await ended(loop_of(failure))
    assert types_of(run) == ["RUN_STARTED", "RUN_ERROR"]
    assert (run.report.verdict, run.report.failure, run.report.code) == ("error", "agent", code)
    assert run.result.value.outcome == "failed"
    assert run.result.value.reason == (None if code == "run-failed" else code)
    assert "secret" not in str(run.result.value.error)


async def test_a_failure_in_words_of_ones_own() -> None:
    """P-92: as a server may have them; nothing else leaks."""
    run = await ended(loop_of(fail("http", status=401, message="no key")), error_text=lambda outcome: outcome.error)
    assert (run.report.code, run.result.value.error) == ("run-failed", "BackendError (401): no key")


async def test_cancel_is_passed_on() -> None:
    """P-75, P-74: the run ends cancelled at once, and the loop's with it."""
    watched = Watched(loop_of([text("It is "), stall()]))
    async with RunScope():
        run = LoopAgent(watched).start(ASKED)
        async for event in run.events:
            if event.type.value == "TEXT_MESSAGE_CONTENT":
                break
        run.cancel()
        outcome = await run.result
    assert outcome.outcome == run.status == "cancelled"
    assert (run.report.verdict, run.report.failure, run.report.code) == (None, "cancelled", "CANCELLED")
    assert types_of(run)[-1] == "TEXT_MESSAGE_CONTENT"
    assert outcome.final == "It is "
    assert watched.runs[0].status == "cancelled"
    assert watched.runs[0].drained.is_set


async def test_cancelled_before_it_began() -> None:
    """P-74, P-3: no model is asked, and there is a report."""
    loop = loop_of(text("never"))
    async with RunScope():
        run = LoopAgent(loop).start(ASKED)
        run.cancel()
        await run.result
    assert run.report.failure == "cancelled"
    assert loop._setting.backends[0].requests == []


async def test_drained_waits_for_the_loop() -> None:
    """P-75, S-157: a tool in a blocking thread keeps `drained` open, and the result does not wait for it."""
    held = Gate()

    def block() -> str:
        held.wait(20)
        return "late"

    watched = Watched(loop_of(call("block"), tools=[block]))
    async with RunScope():
        run = LoopAgent(watched).start(ASKED)
        await held.reached
        run.cancel()
        with anyio.fail_after(5):
            assert (await run.result).outcome == "cancelled"
            assert (await watched.runs[0].result).outcome == "cancelled"
        assert not run.drained.is_set
        assert run.open_work == ("loop", "run", "tool block")
        held.open()
        await run.drained
    assert run.open_work == ()
    assert watched.runs[0].drained.is_set


async def test_a_session_names_what_its_loop_has_left_running() -> None:
    """S-46, L-20: by the names of the tools, as it does its own."""
    held = Gate()

    def block() -> str:
        held.wait(20)
        return "late"

    async with RunScope(), AgentSession(LoopAgent(loop_of(call("block"), tools=[block]))) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(session.send, "Hello")
            await held.reached
            session.stop()
        assert session.still_running() == ("block",)
        held.open()
        with anyio.fail_after(5):
            await session.aclose()
        assert session.still_running() == ()


async def test_cancelled_at_each_event() -> None:
    """P-74, P-75: whatever the loop is doing, the run ends, drains and leaves nothing behind."""

    def scenario() -> AgentRun:
        loop = loop_of([reasoning("Hm."), text("Hi."), call("nap")], [gate(), text("Done.")], tools=[nap])
        return LoopAgent(loop).start(ASKED)

    assert await cancel_everywhere(scenario) == 17


async def test_a_cancel_by_others() -> None:
    """P-75, P-47: whoever cancels the loop's run makes it the agent's own verdict."""
    held = gate()
    watched = Watched(loop_of([text("It is "), held]))
    async with RunScope():
        run = LoopAgent(watched).start(ASKED)
        await held.reached
        watched.runs[0].cancel()
        outcome = await run.result
    assert (run.report.verdict, run.report.failure, run.report.code) == ("cancelled", None, None)
    assert outcome.outcome == "cancelled"
    assert not run.is_cancelled
    assert types_of(run)[-1] == "RUN_FINISHED"


async def test_several_at_once() -> None:
    """S-157, P-66: one agent, many runs, none in the other's way."""
    agent = LoopAgent(loop_of(*[text(f"answer {n}") for n in range(5)]))
    async with RunScope():
        runs = [agent.start(ASKED | {"threadId": f"t{n}", "runId": f"r{n}"}) for n in range(5)]
        outcomes = [await run.result for run in runs]
    assert sorted(outcome.final for outcome in outcomes) == [f"answer {n}" for n in range(5)]
    assert [run.report.thread_id for run in runs] == [f"t{n}" for n in range(5)]


async def test_an_input_that_the_loop_does_not_take() -> None:
    """P-75: no message at all is a failure of the client, and no model is asked."""
    run = await ended(loop_of(text("never")), ASKED | {"messages": []})
    assert types_of(run) == []
    assert run.report.failure == "client"
    assert isinstance(run.report.cause, LocalProtocolError)
    assert "no message" in str(run.result.value.error)


async def test_a_loop_that_cannot_be_started(caplog: pytest.LogCaptureFixture) -> None:
    """S-157, P-91: it is a failed run, as it is behind a server, and the log has the reason."""
    twice = [{"interruptId": "i1", "status": "cancelled"}] * 2
    run = await ended(loop_of(text("never")), ASKED | {"resume": twice})
    assert types_of(run) == ["RUN_STARTED", "RUN_ERROR"]
    assert (run.report.failure, run.report.code) == ("agent", "run-failed")
    assert "could not be started" in caplog.text


async def test_a_malformed_input_raises() -> None:
    """P-25, P-66: from `start`, with the path, before anything is asked."""
    agent = LoopAgent(loop_of(text("never")))
    with pytest.raises(LocalProtocolError) as raised:
        agent.start({"threadId": 7, "runId": "r1", "messages": []})
    assert raised.value.path == "/threadId"


class Scripted:
    """A loop of another make: says what it is told, whatever the protocol thinks of it."""

    def __init__(self, *said: events.RunEvent, end: str = "completed") -> None:
        self.said = said
        self.end = end

    def run(self, messages: Any, **options: Any) -> Any:
        driver = RunDriver[events.RunEvent](run_id=options["run_id"])
        for one in self.said:
            driver.emit(one)
        driver.finish(None, outcome=self.end, messages=messages)  # type: ignore[arg-type]
        return driver.run


def tool_call(**fields: Any) -> events.ToolCall:
    given: dict[str, Any] = {"id": "c1", "name": "f", "arguments": "{}", "parent_id": "m1", "round": 1}
    return events.ToolCall(**given | fields)


async def test_a_loop_without_terminal_event() -> None:
    """P-75: anything with `run` will do; how it ended is taken from its outcome."""
    for end, verdict in (("completed", "success"), ("failed", "error"), ("cancelled", "cancelled")):
        run = await ended(Scripted(end=end))
        assert run.report.verdict == verdict
        assert types_of(run)[0] == "RUN_STARTED"


async def test_a_loop_that_breaks_the_protocol(caplog: pytest.LogCaptureFixture) -> None:
    """P-85, P-90: what may not be sent ends the run as `internal-error`, and the log says why."""
    run = await ended(Scripted(events.RunStarted(message_count=1), tool_call(id=7)))
    assert types_of(run) == ["RUN_STARTED", "RUN_ERROR"]
    assert run.report.code == "internal-error"
    assert "what the loop says cannot be sent" in caplog.text


def test_what_cannot_work() -> None:
    """P-75: misuse is named at once."""
    with pytest.raises(TypeError, match="anything with a method run"):
        LoopAgent(object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='"stand" or "fail"'):
        LoopAgent(loop_of(), late_run_error="perhaps")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="error_text is a function of an outcome"):
        LoopAgent(loop_of(), error_text="It failed.")  # type: ignore[arg-type]
    assert "scripted" in repr(LoopAgent(loop_of()))


def test_in_a_thread_with_no_event_loop() -> None:
    """P-66: the shared thread hosts it; the call returns at once."""
    run = LoopAgent(loop_of([text("Hi."), call("nap")], text("Done."), tools=[nap])).start(ASKED)
    assert run.result.wait(10).final == "Done."
    run.drained.wait(10)


def nap() -> str:
    threading.Event().wait(0.01)
    return "slept"


def test_trio_without_a_scope() -> None:
    """P-66: refused with the way out, and no model asked."""

    async def main() -> None:
        with pytest.raises(UsageError, match="RunScope"):
            LoopAgent(loop_of(text("never"))).start(ASKED)

    anyio.run(main, backend="trio")


async def test_a_run_that_is_awaited_first() -> None:
    """P-75: whoever has to look something up before there is a loop may make `run` async."""

    class Later:
        async def run(self, *given: Any, **options: Any) -> LoopRun:
            await anyio.lowlevel.checkpoint()
            return loop_of(text("It is warm.")).run(*given, **options)

    run = await ended(Later())
    assert (run.result.value.outcome, run.result.value.final) == ("completed", "It is warm.")


def test_a_torn_down_event_loop_leaves_a_report() -> None:
    """P-3, P-75: `asyncio.run` that ends with the run going on cancels both, and both say so."""
    watched = Watched(loop_of([text("It is "), stall()]))

    async def main() -> AgentRun:
        run = LoopAgent(watched).start(ASKED)
        async for event in run.events:
            if event.type.value == "TEXT_MESSAGE_CONTENT":
                break
        return run

    run = asyncio.run(main())
    assert run.result.value.outcome == "cancelled"
    assert run.report.failure == "cancelled"
    assert watched.runs[0].result.value.outcome == "cancelled"
    assert run.drained.is_set


@pytest.mark.parametrize("is_early", [True, False])
def test_when_set_calls_once(is_early: bool) -> None:
    """P-75: what `drained` of the loop sets off is done once, before or behind the setting."""
    settled, calls = Settled[int](), list[str]()
    if not is_early:
        settle(settled, 1)
    when_set(settled, lambda: calls.append("called"))
    assert calls == ([] if is_early else ["called"])
    settle(settled, 2)
    settle(settled, 3)
    assert calls == ["called"]
