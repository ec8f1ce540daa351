"""Cases made of public reports, played to a session: what it shows, what it says, and what it sends next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from ag_ui.core import RunAgentInput
from tests.client.kit import ids, texts
from tests.transcript.reading import calls

from handrail import (
    AgentSession,
    Failed,
    Finished,
    InterruptedThreadError,
    ResumeError,
    RunIdReusedError,
    RunParams,
    ToolCallPart,
    Transcript,
    abandon,
    approve,
    tool,
)
from handrail.client._agent_run import AgentDriver, AgentRun
from handrail.errors import HttpError
from handrail.testing import Gate, gate


class Wire:
    """An agent that answers with bytes, one body for each start; a gate behind a body keeps it open."""

    close_grace = 0.0

    def __init__(self, *bodies: bytes | Exception | tuple[bytes, Gate]) -> None:
        self._bodies = list(bodies)
        self.inputs: list[RunAgentInput] = []
        self.runs: list[AgentRun] = []

    def start(self, input: RunAgentInput, /) -> AgentRun:
        driver = AgentDriver(input, close_grace=self.close_grace)
        self.inputs.append(input)
        body = self._bodies.pop(0)

        async def read() -> None:
            await anyio.lowlevel.checkpoint()
            content, held = body if isinstance(body, tuple) else (body, None)
            if isinstance(content, Exception):
                driver.inbound.fail(content)  # type: ignore[arg-type]  # a WireError
                return
            driver.publish(driver.inbound.feed(content))
            if held is not None:
                await held
            driver.publish(driver.inbound.end())

        self.runs.append(driver.start(read))
        return self.runs[-1]


class Case:
    """One case: its files, and a session made of its request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.expected: dict[str, Any] = json.loads((folder / "expected.json").read_text())
        self.codes: list[str] = []

    def body(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def session(self, agent: Wire, **options: Any) -> AgentSession:
        request = self.folder / "request.json"
        given = RunAgentInput.model_validate_json(request.read_text()) if request.exists() else None
        thread_id = given.thread_id if given else f"th-{self.folder.name[4:]}"
        return AgentSession(
            agent,
            thread_id=thread_id,
            messages=given.messages if given else (),
            state=given.state if given else None,
            on_warning=lambda warning: self.codes.append(warning.code),
            **options,
        )


@pytest.fixture
def case(request: pytest.FixtureRequest, shared: Path) -> Case:
    [folder] = shared.glob(f"cases/{request.param}-*")
    return Case(folder)


def is_like(expected: Any, actual: Any) -> bool:
    """Whether a value is as expected: objects by the keys named, "*" is any string, `_absent` keys are not there."""
    if expected == "*":
        return isinstance(actual, str)
    if isinstance(expected, dict):
        absent = expected.get("_absent", [])
        named = {key: value for key, value in expected.items() if key != "_absent"}
        return not any(actual.get(key) is not None for key in absent) and all(
            key in actual and is_like(value, actual[key]) for key, value in named.items()
        )
    if isinstance(expected, list):
        return len(expected) == len(actual) and all(map(is_like, expected, actual))
    return expected == actual


def wire(given: RunAgentInput) -> dict[str, Any]:
    return given.model_dump(by_alias=True, mode="json")


def assert_calls(expected: Sequence[dict[str, Any]], transcript: Transcript) -> None:
    shown = calls(transcript)
    assert [one["id"] for one in expected] == list(shown)
    for one in expected:
        part: ToolCallPart = shown[one["id"]]
        assert (part.name, part.arguments) == (one["name"], one["args"])
        assert (part.result is not None) == (one["status"] == "answered")
        assert part.arguments_complete == (one["status"] != "incomplete")
        if "result" in one:
            assert part.result == one["result"]


STREAMS = ["023", "038", "054", "056", "057", "060", "074", "083"]


@pytest.mark.parametrize("case", STREAMS, indirect=True)
async def test_a_stream(case: Case) -> None:
    """S-10, S-11, S-13, S-17, S-54, S-57, S-82: state, screen, warnings, and the request that follows."""
    agent = Wire(case.body("stream.sse"), b"")
    session = case.session(agent)
    request = json.loads((case.folder / "request.json").read_text())
    state = await session.run(RunParams(run_id=request["runId"]))
    expected = case.expected
    if expected["run"]["state"] == "finished":
        assert isinstance(state, Finished)
        assert state.outcome == expected["run"]["outcome"]
    else:
        assert isinstance(state, Failed)
        assert state.kind == expected["run"]["failure"]["kind"]
        assert expected["run"]["failure"].get("message_has", "") in state.message
    shown = {
        (part.message_id, part.text) for m in session.transcript.messages for part in m.parts if hasattr(part, "text")
    }
    for message_id, _, words, _ in expected["transcript"]:
        assert (message_id, words) in shown
    assert_calls(expected["tool_calls"], session.transcript)
    assert session.state == expected["state"]
    assert {"no": not case.codes, "yes": bool(case.codes), "any": True}[expected["warnings"]]
    if "pending_tool_calls" in expected:
        assert list(session.pending_tool_calls) == expected["pending_tool_calls"]
    if "pending_interrupts" in expected:
        assert [i.id for i in session.pending_interrupts] == expected["pending_interrupts"]
    if "answer" in expected:
        session.answer_tool_call(expected["pending_tool_calls"][0], expected["answer"])
    elif "history_after_answer" in expected:
        session.answer_tool_call(expected["pending_tool_calls"][0], "unparsable", error="the arguments are not JSON")
    await session.run()
    sent = wire(agent.inputs[1])
    assert is_like(expected.get("history_after_answer", expected.get("history")), sent["messages"])
    if "next_request_state" in expected:
        assert sent["state"] == expected["next_request_state"]


@pytest.mark.parametrize("case", ["030"], indirect=True)
async def test_a_refusal_by_http(case: Case) -> None:
    """S-12, S-35: a value with the status in its cause; the turn stays."""
    refusal = HttpError("HTTP 401: token expired at noon", status=401)
    session = case.session(Wire(refusal))
    state = await session.run()
    assert isinstance(state, Failed)
    assert (state.kind, state.code) == ("http", "CLIENT_ERROR")
    assert isinstance(state.cause, HttpError)
    assert state.cause.status == 401
    assert texts(session.transcript) == ["Hello"]


@pytest.mark.parametrize("case", ["085"], indirect=True)
async def test_a_resume_covers_everything(case: Case) -> None:
    """S-85, S-92, S-104: one answer for two questions is refused; a call given up is answered before the next turn."""
    agent = Wire(case.body("run1.sse"), case.body("run2.sse"), b"")
    session = case.session(agent)
    first, _, third = case.expected["steps"]
    await session.send("Pay both", RunParams(run_id="r1"))
    assert [i.id for i in session.pending_interrupts] == first["pending_interrupts"]
    assert_calls(first["tool_calls"], session.transcript)
    with pytest.raises(ResumeError, match="i2"):
        await session.resume([approve("i1")])
    assert len(agent.inputs) == 1
    await session.resume([approve("i1"), abandon("i2")], RunParams(run_id="r2"))
    assert is_like(third["request"], wire(agent.inputs[1]))
    assert session.pending_interrupts == ()
    await session.send("next")
    assert is_like(third["history_before_next_turn"], wire(agent.inputs[2])["messages"][:-1])


@pytest.mark.parametrize("case", ["087"], indirect=True)
async def test_an_answer_to_an_older_question(case: Case) -> None:
    """S-85"""
    agent = Wire(case.body("run1.sse"), case.body("run2.sse"))
    session = case.session(agent)
    await session.send("x", RunParams(run_id="r1"))
    await session.resume([approve("i1")], RunParams(run_id="r2"))
    for given in ([approve("i1")], [approve("i2"), approve("i1")]):
        with pytest.raises(ResumeError, match="i1"):
            await session.resume(given)
    assert len(agent.inputs) == 2


def _event(kind: str, **fields: Any) -> bytes:
    return f"data: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _run(thread: str, run: str, *between: bytes, **end: Any) -> bytes:
    ids_of = {"threadId": thread, "runId": run}
    return _event("RUN_STARTED", **ids_of) + b"".join(between) + _event("RUN_FINISHED", **ids_of, **end)


def _asks(*ids_of: str) -> dict[str, Any]:
    return {"outcome": {"type": "interrupt", "interrupts": [{"id": one, "reason": "confirmation"} for one in ids_of]}}


async def test_a_question_and_the_ways_past_it() -> None:
    """S-27, S-37, S-83: a resume has a run id of its own; nothing goes past an open question but an answer."""
    agent = Wire(_run("t", "r1", **_asks("i1")), _run("t", "r2"), _run("t", "r3"))
    session = AgentSession(agent, thread_id="t", on_warning=lambda warning: None)
    await session.send("go", RunParams(run_id="r1"))
    with pytest.raises(RunIdReusedError):
        await session.resume([approve("i1")], RunParams(run_id="r1"))
    for refused in (session.send("never mind"), session.run()):
        with pytest.raises(InterruptedThreadError):
            await refused
    assert texts(session.transcript) == ["go"]
    await session.resume([abandon("i1")], RunParams(run_id="r2"))
    [entry] = wire(agent.inputs[1])["resume"]
    assert entry == {"interruptId": "i1", "status": "cancelled"}
    assert (await session.send("next", RunParams(run_id="r3"))).ok


@pytest.mark.parametrize("case", ["093"], indirect=True)
async def test_the_result_in_the_run_behind_the_approval(case: Case) -> None:
    """S-103"""
    agent = Wire(case.body("run1.sse"), case.body("run2.sse"), b"")
    session = case.session(agent)
    await session.send("Mail Sam", RunParams(run_id="r1"))
    await session.resume([approve("i1")], RunParams(run_id="r2"))
    assert_calls(case.expected["steps"][0]["tool_calls"], session.transcript)
    assert case.codes == []
    await session.send("Thanks")
    assert is_like(case.expected["steps"][1]["history"], wire(agent.inputs[2])["messages"])


@pytest.mark.parametrize("case", ["094"], indirect=True)
async def test_a_client_tool_waits_for_the_end_of_the_run(case: Case) -> None:
    """S-64, S-65, S-76"""
    ran: list[str] = []

    def delete_file(path: str) -> str:
        ran.append(path)
        return "gone"

    thread = "th-client-tool-waits-for-run-end"
    agent = Wire(case.body("run1.sse"))
    session = case.session(agent, tools=[delete_file])
    await session.send("x", RunParams(run_id="r1"))
    assert_calls(case.expected["steps"][0]["tool_calls"], session.transcript)
    assert (ran, len(agent.inputs)) == ([], 1)
    asking = Wire(case.body("run2.sse"), _run(thread, "r2"), _run(thread, "r3"))
    session = case.session(asking, tools=[delete_file])
    await session.send("x", RunParams(run_id="r1"))
    assert (ran, [i.id for i in session.pending_interrupts]) == ([], ["i1"])
    await session.resume([approve("i1")], RunParams(run_id="r2"))
    assert ran == ["a.txt"]


@pytest.mark.parametrize("case", ["095"], indirect=True)
async def test_parallel_client_tools(case: Case) -> None:
    """S-68, S-80: concurrently, answered in call order, a failure is an answer."""
    third = anyio.Event()

    @tool(parallel=True)
    async def get_size(id: int) -> Any:
        if id == 1:
            await third.wait()
            return "10"
        if id == 2:
            raise ValueError("no such id")
        third.set()
        return {"w": 3}

    agent = Wire(case.body("run1.sse"), case.body("run2.sse"))
    session = case.session(agent, tools=[get_size])
    with anyio.fail_after(10):
        state = await session.send("sizes", RunParams(run_id="r1"))
    [step] = case.expected["steps"]
    assert state.ok
    assert len(agent.inputs) == step["requests_sent"]
    sent = wire(agent.inputs[1])["messages"]
    sent[-1]["content"] = sent[-1]["content"].replace(": ", ":")
    assert is_like(step["second_request"]["messages"], sent)
    assert "no such id" in sent[-2]["error"]


@pytest.mark.parametrize("case", ["106"], indirect=True)
async def test_a_server_that_numbers_anew(case: Case) -> None:
    """S-126: glued on the wire, apart on the screen, and warned."""
    agent = Wire(case.body("run1.sse"), case.body("run2.sse"), b"")
    session = case.session(agent)
    await session.send("one", RunParams(run_id="r1"))
    await session.send("two", RunParams(run_id="r2"))
    assert "message-id-reused" in case.codes
    assert texts(session.transcript) == ["one", "Hello.", "two", "World."]
    await session.send("three")
    assert is_like(case.expected["steps"][0]["history"], wire(agent.inputs[2])["messages"])


@pytest.mark.parametrize("case", ["108"], indirect=True)
async def test_the_turn_behind_an_abort(case: Case) -> None:
    """S-41, S-57"""
    held = gate()
    agent = Wire((case.body("run1.sse"), held), b"")
    session = case.session(agent)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(session.send, "test", RunParams(run_id="r1"))
            await held.reached
            scope.cancel()
    [step] = case.expected["steps"]
    assert isinstance(session.transcript.run, Failed)
    assert session.transcript.run.kind == step["run"]["failure"]["class"]
    await session.send("test")
    assert is_like(step["history"], wire(agent.inputs[1])["messages"])


async def test_a_session_outlives_its_event_loops() -> None:
    """S-49, S-28: the ids of earlier requests stay, whatever loop they were made on."""
    agent = Wire(*(_run("t", f"r{number}") for number in range(3)))
    session = AgentSession(agent, thread_id="t", on_warning=lambda warning: None)
    for number in range(3):
        await anyio.to_thread.run_sync(lambda number=number: session.send_sync("x", RunParams(run_id=f"r{number}")))
    assert ids(agent.inputs[2])[:2] == ids(agent.inputs[1])
