"""An agent behind HTTP: the request, the answer, where it runs, and what it reports."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import logging
import subprocess
import sys
import threading
import weakref
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from ag_ui.core import RunAgentInput
from tests.agui.wires import bytewise, sse
from tests.client.sockets import head, hostile
from tests.client.transports import ASKED, Body, Server, agent_of, ended, serve, types_of

from handrail import CANCELLED_CODE, CLIENT_ERROR_CODE, AgentRun, HttpAgent, Outcome, RunScope, WarningRecord
from handrail.errors import (
    HttpError,
    LocalProtocolError,
    NotSettled,
    RemoteDecodeError,
    RemoteProtocolError,
    TransportError,
    TruncatedError,
    UsageError,
    WireError,
)

STARTED: dict[str, Any] = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
FINISHED: dict[str, Any] = {"type": "RUN_FINISHED", "threadId": "t1", "runId": "r1"}
SAID: list[dict[str, Any]] = [
    {"type": "TEXT_MESSAGE_START", "messageId": "m1", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m1", "delta": "Hi."},
    {"type": "TEXT_MESSAGE_END", "messageId": "m1"},
]
CALLED: list[dict[str, Any]] = [
    {"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "f", "parentMessageId": "m1"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{}"},
    {"type": "TOOL_CALL_END", "toolCallId": "c1"},
]


def answering(*payloads: dict[str, Any]) -> Server:
    """A server that answers with these events, in one read."""
    return serve(sse(payloads))


# -- what is sent ----------------------------------------------------------------------------------------------------


async def test_the_request() -> None:
    """P-68, P-28: one POST with one JSON object; what was not given is not there."""
    server = answering(STARTED, FINISHED)
    await ended(server, headers={"ACCEPT": "text/html", "content-TYPE": "text/plain", "X-Key": "k"})
    (request,) = server.requests
    assert (request.method, str(request.url)) == ("POST", "http://agent/agui")
    assert request.headers.get_list("accept") == ["text/event-stream"]
    assert request.headers.get_list("content-type") == ["application/json"]
    assert request.headers["x-key"] == "k"
    of_the_client = {"host", "user-agent", "connection", "accept-encoding", "content-length"}
    assert set(request.headers) - of_the_client == {"accept", "content-type", "x-key"}
    assert json.loads(request.content) == ASKED | {
        "protocolVersion": "1.0",
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }


async def test_what_was_given_goes_out() -> None:
    """P-68, P-66: state, parent, resume, tools and props; a model and a dict of the wire's shape alike."""
    given = ASKED | {
        "state": {"n": 0},
        "parentRunId": "r0",
        "tools": [{"name": "f", "description": "", "parameters": {"type": "object"}}],
        "context": [{"description": "d", "value": "v"}],
        "forwardedProps": {"deep": [1, None]},
        "resume": [{"interruptId": "i1", "status": "cancelled"}],
    }
    for form in (given, RunAgentInput.model_validate(given)):
        before, server = copy.deepcopy(form), answering(STARTED, FINISHED)
        await ended(server, form)
        assert server.sent == given | {"protocolVersion": "1.0"}
        assert form == before


async def test_null_state_is_left_out() -> None:
    """P-68, P-27: null is no state; `lenient`, for old servers, sends {}."""
    for lenient in (False, True):
        server = answering(STARTED, FINISHED)
        await ended(server, ASKED | {"state": None}, lenient=lenient)
        assert server.sent.get("state") == ({} if lenient else None)
        assert ("state" in server.sent) is lenient


async def test_what_is_unknown_is_not_sent() -> None:
    """P-25, P-6: it is removed with an `outgoing` warning, told to whoever asks after `start`, and to nobody else."""
    server = answering(STARTED, FINISHED)
    told: list[WarningRecord] = []
    async with RunScope():
        run = agent_of(server).start(ASKED | {"future": 1})
        run.on_warning(told.append)
        await run.result
    assert "future" not in server.sent
    assert [(record.code, record.path) for record in told] == [("outgoing", "/future")]
    assert run.report.warnings == tuple(told)


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        pytest.param({"messages": [{"id": "u1", "role": "user", "content": 7}]}, "/messages/0/content", id="content"),
        pytest.param({"threadId": None}, "/threadId", id="thread"),
        pytest.param({"resume": [{"status": "cancelled"}]}, "/resume/0/interruptId", id="resume"),
    ],
)
async def test_a_malformed_input(wrong: dict[str, Any], path: str) -> None:
    """P-25, P-5: raised by `start` before a byte leaves, with the path."""
    server = answering()
    with pytest.raises(LocalProtocolError) as raised:
        agent_of(server).start(ASKED | wrong)
    assert (raised.value.rule, raised.value.path, raised.value.kind) == ("P-25", path, "local")
    assert server.requests == []


async def test_an_input_of_no_kind() -> None:
    """P-66: what is no input at all is a `TypeError`; what JSON cannot hold is P-25."""
    agent = agent_of(answering())
    with pytest.raises(TypeError, match="RunAgentInput"):
        agent.start("Hello")  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="JSON"):
        agent.start(ASKED | {"forwardedProps": {"now": object()}})


async def test_headers_are_made_for_each_request() -> None:
    """P-67: by a function, sync or async; by a mapping they are the same every time."""
    numbers = iter(range(10))

    async def later() -> dict[str, str]:
        await anyio.lowlevel.checkpoint()
        return {"x-n": str(next(numbers))}

    for maker in (lambda: {"x-n": str(next(numbers))}, later):
        server = answering(STARTED, FINISHED)
        agent = agent_of(server, headers=maker)
        async with RunScope():
            for _ in range(2):
                await agent.start(ASKED).result
        first, second = (int(request.headers["x-n"]) for request in server.requests)
        assert second == first + 1


async def test_headers_that_cannot_be_made() -> None:
    """P-67: nothing is sent, and the failure is in the report with its cause."""

    def broken() -> dict[str, str]:
        raise KeyError("no token")

    server = answering(STARTED, FINISHED)
    run = await ended(server, headers=broken)
    assert server.requests == []
    cause = run.report.cause
    assert isinstance(cause, TransportError)
    assert cause.phase == "send"
    assert isinstance(cause.__cause__, KeyError)
    assert "no token" in str(cause)


async def test_timeouts_of_the_request() -> None:
    """P-70: ours replace those of the client; None is no limit."""
    client = httpx.AsyncClient(transport=(server := answering(STARTED, FINISHED)), timeout=0.001)
    async with RunScope():
        await HttpAgent("http://agent/", client=client, connect_timeout=3, idle_timeout=None).start(ASKED).result
        await HttpAgent("http://agent/", client=client).start(ASKED).result
    first, second = (request.extensions["timeout"] for request in server.requests)
    assert first == {"connect": 3, "read": None, "write": 30.0, "pool": 10.0}
    assert second == {"connect": 10.0, "read": 600.0, "write": 30.0, "pool": 10.0}


async def test_encodings_that_are_accepted() -> None:
    """P-71: only those that are understood are asked for, whatever the client has installed."""
    for asked, sent in (("gzip, br, zstd", "gzip"), ("br", "identity"), ("identity", "identity")):
        server = answering(STARTED, FINISHED)
        await ended(server, headers={"accept-encoding": asked})
        assert server.requests[0].headers["accept-encoding"] == sent


# -- construction and clients ----------------------------------------------------------------------------------------


def test_what_cannot_work() -> None:
    """P-67: misuse is named at once."""
    for url in ("agent/agui", "ftp://agent/agui", "/agui"):
        with pytest.raises(ValueError, match="http or https URL"):
            HttpAgent(url)
    with pytest.raises(ValueError, match="names a host"):
        HttpAgent("http://")
    with pytest.raises(ValueError, match="a port of at most 65535"):
        HttpAgent("http://agent:65536/")
    for wrong in (
        {"close_grace": -1},
        {"max_event_bytes": 0},
        {"connect_timeout": 0},
        {"idle_timeout": -1.0},
        {"late_run_error": "perhaps"},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            HttpAgent("http://agent/", **wrong)  # type: ignore[arg-type]
    agent = HttpAgent("http://me:secret@agent/agui?key=secret", close_grace=0.5)
    assert agent.close_grace == 0.5
    assert repr(agent) == "<HttpAgent http://agent/agui>"


async def test_a_client_that_was_given_stays_open() -> None:
    """P-67: it is used and never closed, also when its owner gave it a base URL."""
    server = answering(STARTED, FINISHED)
    client = httpx.AsyncClient(transport=server, base_url="http://base/", headers={"x-of-the-client": "1"})
    async with RunScope(), HttpAgent("/agui", client=client) as agent:
        await agent.start(ASKED).result
    assert not client.is_closed
    assert str(server.requests[0].url) == "http://base/agui"
    assert server.requests[0].headers["x-of-the-client"] == "1"
    await client.aclose()


async def test_a_client_of_our_own_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-67: one is made on the first run, and closed by `async with`; after that the agent makes another."""
    made: list[httpx.AsyncClient] = []
    init = httpx.AsyncClient.__init__

    def noted(self: httpx.AsyncClient, *args: Any, **options: Any) -> None:
        made.append(self)
        init(self, *args, **options)

    monkeypatch.setattr(httpx.AsyncClient, "__init__", noted)
    with hostile(head(), sse([STARTED, FINISHED]), "close") as server:
        agent = HttpAgent(server.url)
        for number in (1, 2):
            async with agent, RunScope():
                for _ in range(3):
                    assert (await agent.start(ASKED).result).ok
            assert [client.is_closed for client in made] == [True] * number
        await agent.aclose()
    assert len(server.visits) == 6


async def test_no_cookies_and_no_kept_connections() -> None:
    """P-66, P-68: a run owes nothing to the one before; each has a connection of its own."""
    answer = sse([STARTED, FINISHED])
    with hostile(head(set_cookie="s=1", content_length=str(len(answer))), answer) as server:
        async with HttpAgent(server.url) as agent, RunScope():
            for _ in range(2):
                assert (await agent.start(ASKED).result).ok
        assert all(visit.over.wait(5) for visit in server.visits)
    assert len(server.visits) == 2
    assert b"cookie" not in server.visits[1].request.lower()


# -- where it runs ---------------------------------------------------------------------------------------------------


def test_two_event_loops_one_after_the_other() -> None:
    """P-67, R-96: one agent in two `asyncio.run`, in trio, and in threads with no loop; nothing is kept of any."""
    with hostile(head(), sse([STARTED, *SAID, FINISHED]), "close") as server:
        agent = HttpAgent(server.url)

        async def ask() -> Outcome:
            async with RunScope():
                return await agent.start(ASKED).result

        for backend in ("asyncio", "asyncio", "trio"):
            assert anyio.run(ask, backend=backend).final == "Hi."
        assert agent.start(ASKED).result.wait(10).final == "Hi."
        finals: list[str] = []
        threads = [
            threading.Thread(target=lambda: finals.append(agent.start(ASKED).result.wait(10).final)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert finals == ["Hi."] * 4


def test_cancel_from_another_thread() -> None:
    """P-74, P-66: a run on the shared thread is cancelled by whoever holds it."""
    with hostile(head(), sse([STARTED, *SAID])) as server:
        run = HttpAgent(server.url).start(ASKED)
        assert [number for number, _ in zip(range(4), run.events, strict=False)] == [0, 1, 2, 3]
        run.cancel()
        assert run.result.wait(5).outcome == "cancelled"
        run.drained.wait(5)
        assert server.visits[0].over.wait(5)
    assert run.result.value.final == "Hi."


def test_nothing_keeps_a_run_that_is_over() -> None:
    """R-103: the handle, its driver and its messages can be collected."""
    server = answering(STARTED, *SAID, FINISHED)
    agent = agent_of(server)

    async def main() -> weakref.ref[AgentRun]:
        run = agent.start(ASKED)
        await run.result
        await run.drained
        return weakref.ref(run)

    kept = asyncio.run(main())
    gc.collect()
    assert kept() is None


def test_a_client_without_httpx() -> None:
    """P-67: sessions and agents in process need no httpx; `HttpAgent` says what to install."""
    script = """
import sys
sys.modules["httpx"] = None
from handrail import AgentSession, LoopAgent
try:
    from handrail import HttpAgent
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'handrail[client]'" in done.stdout


def test_trio_without_a_scope() -> None:
    """P-66: refused with the way out, and nothing is sent."""
    server = answering(STARTED, FINISHED)

    async def main() -> None:
        with pytest.raises(UsageError, match="RunScope"):
            agent_of(server).start(ASKED)

    anyio.run(main, backend="trio")
    assert server.requests == []


async def test_many_at_once() -> None:
    """P-66: an agent keeps nothing of a run, so any number go on together; `start` returns before anything is sent."""
    server = Server([Body([sse([STARTED | {"runId": f"r{n}"}, FINISHED | {"runId": f"r{n}"}])]) for n in range(120)])
    agent = agent_of(server)
    async with RunScope():
        runs = [agent.start(ASKED | {"runId": f"r{n}"}) for n in range(120)]
        assert server.requests == []
        assert [run.status for run in runs] == ["running"] * 120
        await runs[-1].result
    assert [run.result.value.outcome for run in runs] == ["completed"] * 120
    assert [run.id for run in runs] == [f"r{n}" for n in range(120)]


async def test_cancelled_before_it_began() -> None:
    """P-74, P-3: nothing is sent, and there is a report."""
    server = answering(STARTED, FINISHED)
    async with RunScope():
        run = agent_of(server).start(ASKED)
        run.cancel()
        await run.result
    assert server.requests == []
    assert (run.report.failure, run.report.code) == ("cancelled", CANCELLED_CODE)


async def test_a_scope_that_is_left_before_it_began() -> None:
    """P-3, R-91: a host that ends the run itself leaves a report, too."""
    server = answering(STARTED, FINISHED)
    with anyio.CancelScope() as outer:
        async with RunScope():
            run = agent_of(server).start(ASKED)
            outer.cancel()
    assert run.result.value.outcome == "cancelled"
    assert run.report.failure == "cancelled"
    assert not run.is_cancelled


def test_a_torn_down_event_loop_leaves_a_report() -> None:
    """P-3, P-73, R-91: `asyncio.run` ends with the run going on; the response is closed in it."""
    server = serve(sse([STARTED, *SAID]), ends="never")

    async def main() -> AgentRun:
        run = agent_of(server).start(ASKED)
        await server.bodies[0].reading.wait()
        return run

    run = asyncio.run(main())
    assert run.result.value.outcome == "cancelled"
    assert run.result.value.final == "Hi."
    assert run.report.failure == "cancelled"
    assert server.bodies[0].is_closed
    assert run.drained.is_set


def test_a_closed_event_loop_leaves_a_report() -> None:
    """P-3, R-100: a loop that is closed without a word fails the run, and the report says why."""
    server = serve(sse([STARTED, *SAID]), ends="never")
    loop = asyncio.new_event_loop()

    async def main() -> AgentRun:
        run = agent_of(server).start(ASKED)
        await server.bodies[0].reading.wait()
        return run

    run = loop.run_until_complete(main())
    loop.close()
    assert run.result.wait(5).outcome == "failed"
    assert "the event loop closed before the run ended" in str(run.result.value.error)
    assert run.report.failure == "client"
    assert isinstance(run.report.cause, TransportError)


async def test_a_reader_that_crashes(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """P-73: a fault of our own ends the run as failed, closes the response, and is logged."""
    from handrail.agui._fold import Fold

    def broken(self: Fold, event: Any) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(Fold, "apply", broken)
    server = serve(sse([STARTED]), ends="never")
    run = await ended(server)
    assert (run.report.failure, run.report.code) == ("client", CLIENT_ERROR_CODE)
    assert "ZeroDivisionError: ours" in str(run.report.cause)
    assert server.bodies[0].is_closed
    assert "the reader itself raised" in caplog.text


async def test_nobody_has_to_read() -> None:
    """P-74: a reader that stops reading stops nothing."""
    server = serve(*bytewise(sse([STARTED, *SAID, FINISHED])))
    async with RunScope():
        run = agent_of(server).start(ASKED)
        async for _ in run.events:
            break
        assert (await run.result).ok
    assert len(run.events.so_far()) == 5


# -- events, report, outcome -----------------------------------------------------------------------------------------


async def test_nothing_is_made_up() -> None:
    """P-2, P-44: a body that just ends is a failed run, and neither RUN_FINISHED nor RUN_ERROR is anywhere."""
    run = await ended(answering(STARTED, SAID[0]))
    assert types_of(run) == ["RUN_STARTED", "TEXT_MESSAGE_START"]
    assert [event async for event in run.events] == list(run.events.so_far())
    outcome, report = run.result.value, run.report
    assert (outcome.outcome, report.verdict, report.failure) == ("failed", None, "client")
    assert report.code == CLIENT_ERROR_CODE
    cause = report.cause
    assert isinstance(cause, TruncatedError)
    assert cause.run_started
    assert any("m1" in item for item in cause.open_items)
    assert outcome.error == str(cause) == "Stream ended before RUN_FINISHED: it ended without a terminal event"


async def test_there_is_no_report_before_the_result() -> None:
    """P-3: reading it early raises; a subscriber to the result finds it."""
    server = serve(sse([STARTED]), ends="never")
    async with RunScope():
        run = agent_of(server).start(ASKED)
        await server.bodies[0].reading.wait()
        with pytest.raises(NotSettled, match="result"):
            _ = run.report
        run.cancel()
        await run.result
        assert run.report.run_id == "r1"


async def test_a_success() -> None:
    """P-3, P-4, P-47, P-62: what the agent said, and what the run left behind."""
    usage = [{"inputTokens": 3, "outputTokens": 4}, {"totalTokens": 10, "cachedInputTokens": 2}]
    finished = FINISHED | {"result": {"n": 1}, "usage": usage}
    state = {"type": "STATE_SNAPSHOT", "snapshot": {"k": 1}}
    run = await ended(answering(STARTED, *SAID, *CALLED, state, finished))
    report, outcome = run.report, run.result.value
    assert (report.thread_id, report.run_id) == ("t1", "r1")
    assert (report.verdict, report.failure, report.code, report.cause) == ("success", None, None, None)
    assert (report.result, report.state) == ({"n": 1}, {"k": 1})
    assert (report.late_error, report.rejected, report.warnings) == (None, None, ())
    assert report.pending_tool_calls == outcome.pending_calls == ("c1",)
    assert [message.id for message in report.messages] == ["u1", "m1"]
    assert outcome.messages == report.messages
    assert (outcome.outcome, outcome.final, outcome.error, outcome.reason) == ("completed", "Hi.", None, None)
    assert (outcome.attempts, outcome.interrupts, outcome.ok) == ((), (), True)
    spent = outcome.spent
    assert (spent.total_tokens, spent.complete, spent.prompt_tokens) == (17, True, 3)
    assert (spent.completion_tokens, spent.cached_prompt_tokens, spent.cost) == (4, 2, None)
    assert spent.wall_clock > 0
    assert [entry.total_tokens for entry in report.usage] == [None, 10]


@pytest.mark.parametrize(
    ("usage", "total", "complete"),
    [
        pytest.param(None, None, None, id="absent"),
        pytest.param([{"model": "m"}], None, None, id="no count"),
        pytest.param([{"totalTokens": 0}], 0, True, id="zero"),
        pytest.param([{"inputTokens": 5}], 5, False, id="one half"),
        pytest.param([{"totalTokens": 5}, {"model": "m"}], 5, False, id="one of two"),
        pytest.param([{"cachedInputTokens": 5}], 0, False, id="cached only"),
    ],
)
async def test_unknown_is_not_zero(usage: Any, total: int | None, complete: bool | None) -> None:
    """P-4: without a count nothing is spent as far as anybody knows; an incomplete sum says so."""
    run = await ended(answering(STARTED, FINISHED | ({} if usage is None else {"usage": usage})))
    spent = run.result.value.spent
    assert (spent and spent.total_tokens, spent and spent.complete) == (total, complete)


async def test_an_interrupt() -> None:
    """P-4: it completes, with something left to ask."""
    asks = {"type": "interrupt", "interrupts": [{"id": "i1", "reason": "tool_call"}]}
    run = await ended(answering(STARTED, *SAID, FINISHED | {"outcome": asks}))
    outcome = run.result.value
    assert (run.report.verdict, outcome.outcome, outcome.ok) == ("interrupt", "completed", False)
    assert [one.id for one in outcome.interrupts] == ["i1"]


async def test_cancelled_by_the_agent() -> None:
    """P-4, P-47, P-61: neither success nor failure; a result with it is kept, its calls are answered."""
    finished = FINISHED | {"outcome": {"type": "cancelled"}, "result": 1}
    run = await ended(answering(STARTED, *SAID, *CALLED, finished))
    outcome = run.result.value
    assert (run.report.verdict, run.report.failure, run.report.code) == ("cancelled", None, None)
    assert run.report.result == 1
    assert (outcome.outcome, outcome.error, outcome.pending_calls) == ("cancelled", None, ())
    assert not run.is_cancelled


@pytest.mark.parametrize("code", ["context-exhausted", "budget-exhausted", "completion-truncated", "E1", None])
async def test_an_error_of_the_agent(code: str | None) -> None:
    """P-4, P-61: its message and code; the code is the reason where it is one, and calls are answered."""
    error = {"type": "RUN_ERROR", "message": "boom"} | ({} if code is None else {"code": code})
    run = await ended(answering(STARTED, *SAID, *CALLED, error))
    outcome = run.result.value
    assert (run.report.verdict, run.report.failure, run.report.code) == ("error", "agent", code)
    assert run.report.cause is None
    assert (outcome.outcome, outcome.error) == ("failed", "boom")
    assert outcome.reason == (code if code not in ("E1", None) else None)
    assert [message.role for message in outcome.messages] == ["user", "assistant", "tool"]
    assert outcome.messages[-1].error is not None
    assert [message.role for message in run.report.messages] == ["user", "assistant"]


async def test_cancelled_by_the_caller_keeps_what_was_said() -> None:
    """P-74, P-43, P-61: delivered is delivered; a call that was cut off is not in the history."""
    server = serve(sse([STARTED, *SAID, *CALLED[:2]]), ends="never")
    async with RunScope():
        run = agent_of(server).start(ASKED)
        await server.bodies[0].reading.wait()
        run.cancel()
        outcome = await run.result
    assert (outcome.outcome, outcome.final, outcome.error) == ("cancelled", "Hi.", None)
    assert run.report.code == CANCELLED_CODE
    assert outcome.pending_calls == ()
    assert len(run.events.so_far()) == 6
    assert server.bodies[0].is_closed


async def test_a_cancel_between_any_two_reads() -> None:
    """P-74, P-43, P-45: what was read stands; behind the verdict it only ends the grace."""
    stream = [STARTED, *SAID, *CALLED, FINISHED]
    for place in range(len(stream) + 1):
        held: list[AgentRun] = []
        lines: list[Any] = [sse([payload]) for payload in stream]
        lines.insert(place, lambda held=held: held[0].cancel())
        server = serve(*lines, ends="never")
        async with RunScope():
            held.append(agent_of(server, close_grace=60).start(ASKED))
            outcome = await held[0].result
        run = held[0]
        is_late = place == len(stream)
        assert outcome.outcome == ("completed" if is_late else "cancelled")
        assert run.report.failure == (None if is_late else "cancelled")
        assert len(run.events.so_far()) == place
        assert (outcome.pending_calls == ("c1",)) is is_late
        assert server.bodies[0].is_closed
        assert run.drained.is_set


# -- failures of the client ------------------------------------------------------------------------------------------


async def test_an_order_that_is_broken() -> None:
    """P-5, P-7, P-42: rule, event, index and ids are named, and nothing behind it is read."""
    stray = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m9", "delta": "x"}
    run = await ended(answering(STARTED, *SAID, stray, FINISHED))
    cause = run.report.cause
    assert isinstance(cause, RemoteProtocolError)
    assert isinstance(cause, WireError)
    assert (cause.kind, cause.event_type, cause.index) == ("protocol", "TEXT_MESSAGE_CONTENT", 4)
    assert cause.rule.startswith("P-")
    assert "the agent" in str(cause)
    assert "m9" in str(cause)
    assert types_of(run)[-1] == "TEXT_MESSAGE_END"
    assert run.result.value.final == "Hi."


async def test_a_shape_that_is_broken() -> None:
    """P-5, P-24: with the path into the event."""
    run = await ended(answering(STARTED, SAID[0] | {"messageId": 7}))
    cause = run.report.cause
    assert isinstance(cause, RemoteProtocolError)
    assert (cause.event_type, cause.path, cause.index) == ("TEXT_MESSAGE_START", "/messageId", 1)


async def test_a_payload_that_is_no_object() -> None:
    """P-5, P-16: with an excerpt of at most 200 characters."""
    run = await ended(serve(sse([STARTED]), b"data: [" + b"1," * 500 + b"1]\n\n"))
    cause = run.report.cause
    assert isinstance(cause, RemoteDecodeError)
    assert (cause.kind, cause.index) == ("decode", 1)
    assert 0 < len(cause.excerpt) <= 200


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b'{"detail": "no token"}', "no token", id="detail"),
        pytest.param(b'{"message": "no token"}', "no token", id="message"),
        pytest.param(b'{"error": "no token"}', "no token", id="error"),
        pytest.param(b'{"error": {"code": "x", "message": "no token"}}', "no token", id="error with a message"),
        pytest.param(b'{"detail": [{"msg": "x"}]}', '{"detail": [{"msg": "x"}]}', id="no text in it"),
        pytest.param(b"<h1>no token</h1>", "<h1>no token</h1>", id="no JSON"),
        pytest.param(b"x" * 1_000, "x" * 500, id="long"),
        pytest.param(b"\xff\xfe", "\ufffd\ufffd", id="no text"),
        pytest.param(b"", "Unauthorized", id="nothing"),
    ],
)
async def test_a_status_that_is_not_200(body: bytes, text: str) -> None:
    """P-69, P-5: the status, and what the body says of it."""
    run = await ended(serve(body, status=401, headers={"content-type": "application/json", "location": "/login"}))
    cause = run.report.cause
    assert isinstance(cause, HttpError)
    assert (cause.kind, cause.status, cause.content_type, cause.location) == ("http", 401, "application/json", "/login")
    assert cause.body == body
    assert str(cause) == run.result.value.error == f"HTTP 401: {text}"
    assert run.report.code == CLIENT_ERROR_CODE
    assert types_of(run) == []


async def test_the_payload_of_an_error() -> None:
    """P-5: parsed where it is JSON, of whatever kind."""
    for body, payload in ((b'{"detail": "x"}', {"detail": "x"}), (b"[1]", [1]), (b"no", None)):
        run = await ended(serve(body, status=500, headers={}))
        assert run.report.cause.payload == payload


@pytest.mark.parametrize(
    ("content_type", "is_stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("text/html", False),
        ("application/x-ndjson", False),
        ("text/event-stream-like", False),
        ("", False),
    ],
)
async def test_content_types(content_type: str, is_stream: bool) -> None:
    """P-69: case and parameters do not count; another type is an error that names it."""
    run = await ended(serve(sse([STARTED, FINISHED]), headers={"content-type": content_type}))
    assert run.result.value.ok is is_stream
    if not is_stream:
        cause = run.report.cause
        assert isinstance(cause, HttpError)
        assert (cause.status, cause.content_type) == (200, content_type)
        assert str(cause).startswith(f"HTTP 200: the answer is {content_type}")


async def test_no_content_type() -> None:
    """P-69: it is read as an event stream, with a warning."""
    run = await ended(serve(sse([STARTED, FINISHED]), headers={}))
    assert run.result.value.ok
    assert [record.code for record in run.report.warnings] == ["encoding"]


async def test_a_redirect_is_not_followed() -> None:
    """P-68, P-69: also where the client would; the place is named, and nothing is sent twice."""
    for status in (301, 302, 303, 307, 308):
        server = serve(b"", status=status, headers={"location": "http://elsewhere/agui"})
        client = httpx.AsyncClient(transport=server, follow_redirects=True)
        async with RunScope():
            run = HttpAgent("http://agent/agui", client=client).start(ASKED)
            await run.result
        assert (run.report.cause.status, run.report.cause.location) == (status, "http://elsewhere/agui")
        assert len(server.requests) == 1


async def test_a_request_is_never_repeated() -> None:
    """P-68: whatever it failed with."""
    for failure in (httpx.ConnectError("refused"), httpx.ReadError("reset"), httpx.PoolTimeout("full"), OSError("odd")):
        run = await ended(Failing(failure, asked := []))
        assert len(asked) == 1
        assert isinstance(run.report.cause, TransportError)
        assert run.report.cause.__cause__ is failure


class Failing(httpx.AsyncBaseTransport):
    """A connection that fails before there is an answer."""

    def __init__(self, failure: Exception, asked: list[httpx.Request]) -> None:
        self.failure = failure
        self.asked = asked

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        await anyio.lowlevel.checkpoint()
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "phase"),
    [
        (httpx.ConnectError("refused"), "connect"),
        (httpx.ConnectTimeout("slow"), "connect"),
        (httpx.PoolTimeout("full"), "connect"),
        (httpx.ProxyError("proxy"), "connect"),
        (httpx.WriteError("broken pipe"), "send"),
        (httpx.WriteTimeout("slow"), "send"),
        (httpx.LocalProtocolError("bad header"), "send"),
        (httpx.ReadError("reset"), "read"),
        (httpx.RemoteProtocolError("no HTTP"), "read"),
        (httpx.ReadTimeout("silent"), "idle"),
        (OSError("odd"), "read"),
    ],
)
async def test_phases(failure: Exception, phase: str) -> None:
    """P-5, P-71: what went wrong, and when; said of the connection and not of the agent."""
    run = await ended(Failing(failure, []))
    cause = run.report.cause
    assert isinstance(cause, TransportError)
    assert (cause.kind, cause.phase, cause.__cause__) == ("transport", phase, failure)
    assert str(failure) in str(cause)
    assert "connection" in str(cause)


async def test_a_reset_keeps_what_arrived() -> None:
    """P-71, P-43: the events, the text and the state."""
    run = await ended(serve(sse([STARTED, *SAID]), httpx.ReadError("reset")))
    assert (run.report.failure, run.report.cause.kind) == ("client", "transport")
    assert len(run.events.so_far()) == 4
    assert run.result.value.final == "Hi."


async def test_silence_in_memory() -> None:
    """P-70: the limit does not depend on who carries the bytes."""
    server = serve(sse([STARTED]), ends="never")
    with anyio.fail_after(5):
        run = await ended(server, idle_timeout=0.05)
    assert run.report.cause.phase == "idle"
    assert server.bodies[0].is_closed


async def test_hooks_of_the_client() -> None:
    """P-69: a client whose hooks read the answer, or raise for its status, gives the same."""

    async def reads(response: httpx.Response) -> None:
        await response.aread()

    async def raises(response: httpx.Response) -> None:
        response.raise_for_status()

    for hook in (reads, raises):
        for status in (200, 503):
            server = serve(sse([STARTED, FINISHED]), status=status)
            client = httpx.AsyncClient(transport=server, event_hooks={"response": [hook]})
            async with RunScope():
                run = HttpAgent("http://agent/", client=client).start(ASKED)
                await run.result
            assert run.result.value.ok is (status == 200)
            assert status == 200 or run.report.cause.status == 503


# -- the verdict is a latch ------------------------------------------------------------------------------------------

ERROR = {"type": "RUN_ERROR", "message": "boom", "code": "X"}


async def test_an_error_and_then_the_end() -> None:
    """P-43: RUN_STARTED, RUN_ERROR, RUN_FINISHED in one read, event by event."""
    run = await ended(answering(STARTED, ERROR, FINISHED))
    assert types_of(run) == ["RUN_STARTED", "RUN_ERROR"]
    assert (run.result.value.outcome, run.report.failure, run.report.code) == ("failed", "agent", "X")
    assert "RUN_FINISHED" in str(run.report.rejected)


async def test_the_last_run_on_the_stream_counts() -> None:
    """P-44: a finished run and one that is cut off is truncated; an empty body, too."""
    other = [STARTED | {"runId": "r0"}, FINISHED | {"runId": "r0"}]
    for stream in ([*other, STARTED], [], [{"type": "error"}]):
        run = await ended(answering(*stream))
        assert isinstance(run.report.cause, TruncatedError)
        assert [record.code for record in run.report.warnings] == (
            ["unknown-event"] if stream == [{"type": "error"}] else []
        )
    run = await ended(answering(*other))
    assert run.report.run_id == "r0"
    assert [record.code for record in run.report.warnings] == ["run-id-mismatch"]


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        pytest.param([sse([SAID[0]])], ["event-after-end"], id="a violation"),
        pytest.param([b"data: [DONE]\n\n"], ["event-after-end"], id="a bad payload"),
        pytest.param([httpx.ReadError("reset")], ["transport-after-end"], id="a reset"),
        pytest.param([sse([{"type": "NEW"}])], ["unknown-event"], id="an unknown event"),
    ],
)
async def test_a_verdict_stands(lines: list[Any], codes: list[str]) -> None:
    """P-45: nothing but a new run touches it; what was refused is kept beside it."""
    run = await ended(serve(sse([STARTED, *SAID, FINISHED]), *lines))
    assert (run.report.verdict, run.report.failure, run.result.value.ok) == ("success", None, True)
    assert [record.code for record in run.report.warnings] == codes
    assert (run.report.rejected is not None) is (lines[:1] == [sse([SAID[0]])])


async def test_a_late_error_stands_aside() -> None:
    """P-46: it is delivered, kept and warned; `late_run_error="fail"` makes it the run's."""
    stream = [STARTED, *SAID, FINISHED, ERROR]
    aside = await ended(answering(*stream))
    assert types_of(aside)[-1] == "RUN_ERROR"
    assert (aside.report.verdict, aside.report.late_error, aside.result.value.ok) == ("success", ("boom", "X"), True)
    assert [record.code for record in aside.report.warnings] == ["late-run-error"]
    failed = await ended(answering(*stream), late_run_error="fail")
    assert (failed.result.value.outcome, failed.result.value.error) == ("failed", "boom")
    assert (failed.report.verdict, failed.report.failure, failed.report.code) == ("error", "agent", "X")
    assert failed.report.late_error == ("boom", "X")


async def test_a_late_error_on_another_run() -> None:
    """P-46, P-44: it belongs to the run that finished; the next one has a verdict of its own."""
    run = await ended(answering(STARTED | {"runId": "r0"}, FINISHED | {"runId": "r0"}, ERROR, STARTED, FINISHED))
    assert (run.report.run_id, run.report.verdict, run.report.late_error) == ("r1", "success", None)
    assert [record.code for record in run.report.warnings] == ["late-run-error"]


async def test_absent_and_unknown_outcomes() -> None:
    """P-47: both are success."""
    for finished in (FINISHED, FINISHED | {"outcome": {"type": "paused"}}):
        run = await ended(answering(STARTED, finished))
        assert (run.report.verdict, run.result.value.ok) == ("success", True)


async def test_no_grace_wherever_the_body_is_cut() -> None:
    """P-72, P-13: with `close_grace=0` what follows the terminal event is not read, in one read or in many."""
    body = sse([STARTED, FINISHED, ERROR])
    for reads in ([body], bytewise(body)):
        server = serve(*reads, ends="never")
        run = await ended(server, close_grace=0)
        assert types_of(run) == ["RUN_STARTED", "RUN_FINISHED"]
        assert server.bodies[0].is_closed


# -- warnings --------------------------------------------------------------------------------------------------------


async def test_warnings_go_to_whoever_asks(caplog: pytest.LogCaptureFixture) -> None:
    """P-6: all of them, the earlier ones first, in order, also after the end; nothing is logged then."""
    server = answering({"type": "NEW1"}, STARTED, {"type": "NEW2"}, FINISHED)
    early: list[WarningRecord] = []
    late: list[WarningRecord] = []
    async with RunScope():
        run = agent_of(server).start(ASKED)
        stop = run.on_warning(early.append)
        await run.result
    stop()
    run.on_warning(late.append)
    assert tuple(early) == tuple(late) == run.report.warnings
    assert [record.code for record in early] == ["unknown-event", "unknown-event"]
    assert caplog.records == []


async def test_warnings_are_logged_where_nobody_asks(caplog: pytest.LogCaptureFixture) -> None:
    """P-6: to the logger `handrail.agui`, those about the request, too."""
    run = await ended(answering(STARTED, {"type": "NEW"}, FINISHED), ASKED | {"future": 1})
    assert [(record.name, record.levelno) for record in caplog.records] == [("handrail.agui", logging.WARNING)] * 2
    assert "future" in caplog.records[0].getMessage()
    assert "NEW" in caplog.records[1].getMessage()
    assert len(run.report.warnings) == 2


async def test_a_sink_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """P-6: it is logged and changes nothing; the next one and the next warning are told."""
    told: list[WarningRecord] = []

    def broken(record: WarningRecord) -> None:
        raise ValueError("no thanks")

    async with RunScope():
        run = agent_of(answering(STARTED, {"type": "A"}, {"type": "B"}, FINISHED)).start(ASKED)
        run.on_warning(broken)
        run.on_warning(told.append)
        assert (await run.result).ok
    assert len(told) == 2
    assert caplog.text.count("ValueError: no thanks") == 2


async def test_a_sink_that_nobody_would_await() -> None:
    """P-6: a coroutine function is refused at once."""

    async def sink(record: WarningRecord) -> None: ...

    run = await ended(answering(STARTED, FINISHED))
    for wrong in (sink, None, "print"):
        with pytest.raises(TypeError, match="plain function"):
            run.on_warning(wrong)  # type: ignore[arg-type]


async def test_a_hundred_thousand_warnings_cost_what_they_are() -> None:
    """P-6, P-60: each is kept once; telling one does not go over those before it."""
    from handrail.client._warning_log import WarningLog

    log, told = WarningLog(), list[WarningRecord]()
    log.subscribe(told.append)
    for number in range(100_000):
        log(WarningRecord("unknown-event", str(number)))
    assert len(told) == len(log.records) == 100_000
