"""A session with real servers of three makers: what is said, what tools do, what fails, what is thought and kept.

Each test also has all its requests and streams judged, by `Live.session`.
"""

from __future__ import annotations

import json
from typing import Any

import anyio
from ag_ui.core import AssistantMessage, Context, ReasoningMessage, ToolMessage
from ag_ui.core import Tool as Declaration
from tests.live.kit import HELLO, KEEPS_NOTHING, SERVERS, Live, answer_of, call_parts, on, servers_have_to_start

from handrail import Failed, Finished, ReasoningPart, RunParams, TextPart

pytestmark = servers_have_to_start


class Compass:
    """A client tool, and what it was called with."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def get_location(self, accuracy: str) -> dict[str, Any]:
        """Where the user is."""
        self.calls.append(accuracy)
        return {"lat": 48.9, "number": len(self.calls)}


@on(*SERVERS, trio=KEEPS_NOTHING)
async def test_text(live: Live) -> None:
    """S-10, S-28, S-32: the text as it was sent, its settled part, and all of it in the next request."""
    async with live.session() as session:
        first = await session.send("text")
        assert first.ok
        assert first == session.transcript.run
        [part] = session.transcript.messages[1].parts
        assert isinstance(part, TextPart)
        assert (part.text, part.streaming) == (HELLO, False)
        second = await session.send("text and another")
        assert second.ok
        assert [message.role for message in session.transcript.messages] == ["user", "assistant"] * 2
    assert [message["role"] for message in live.requests[1]["messages"]] == ["user", "assistant", "user"]
    assert live.codes == []


@on(*SERVERS)
async def test_what_goes_along_with_a_turn(live: Live) -> None:
    """S-26, S-27: context, declarations, forwarded props and the run id as they were given."""
    declared = Declaration(name="paint", description="Paints", parameters={"type": "object", "properties": {}})
    given = RunParams("run 1/ä", [declared], [Context(description="Place", value="Rome")], {"a": [None, 1.0]})
    async with live.session(thread_id="thread/ü?") as session:
        state = await session.send("text", given)
        assert isinstance(state, Finished)
        assert (state.thread_id, state.run_id) == ("thread/ü?", "run 1/ä")
    [asked] = live.requests
    assert asked["context"] == [{"description": "Place", "value": "Rome"}]
    assert asked["forwardedProps"] == {"a": [None, 1.0]}
    assert asked["tools"] == [declared.model_dump(exclude_none=True)]


@on(*SERVERS)
async def test_a_tool_of_the_server(live: Live) -> None:
    """S-64, S-114: it is the server's to answer, though a tool of that name is here; one turn on screen, in order."""
    called: list[str] = []

    def get_weather(city: str) -> str:
        called.append(city)
        return "never"

    async with live.session(tools=[get_weather] if live.peer != "pydantic-ai" else []) as session:
        assert (await session.send("tool")).ok
        [part] = call_parts(session)
        assert (part.name, part.parsed_arguments) == ("get_weather", {"city": "Paris"})
        assert (part.status, part.result, part.local) == ("complete", "18C in Paris", False)
        kinds = [type(part).__name__ for part in session.transcript.messages[1].parts]
        assert kinds == ["TextPart", "ToolCallPart", "TextPart"]
        assert answer_of(session) == "Let me look. get_weather said 18C in Paris. Done."
        assert (await session.send("text")).ok
    assert called == []
    assert len(live.requests) == 2


@on(*SERVERS, trio=KEEPS_NOTHING)
async def test_a_tool_of_the_client(live: Live) -> None:
    """S-61, S-62: executed once when the run is over; a follow-up delivers the result, and its state is returned."""
    compass = Compass()
    async with live.session(tools=[compass.get_location]) as session:
        state = await session.send("client-tool")
        assert state.ok
        assert compass.calls == ["high"]
        [part] = call_parts(session)
        assert (part.status, part.local) == ("complete", True)
        assert json.loads(str(part.result)) == {"lat": 48.9, "number": 1}
        assert answer_of(session).endswith("Done.")
        assert '"lat"' in answer_of(session)
    first, second = live.requests
    assert state.run_id == second["runId"]
    assert [tool["name"] for tool in second["tools"]] == ["get_location"]
    assert first["tools"] == second["tools"]
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]


@on(*KEEPS_NOTHING)
async def test_two_calls_of_tools_of_the_client(live: Live) -> None:
    """S-68: both are executed, one follow-up, answers in the order of the calls."""
    compass = Compass()
    async with live.session(tools=[compass.get_location]) as session:
        assert (await session.send("two-client-tools")).ok
        assert [part.tool_call_id for part in call_parts(session)] == ["call_c1", "call_c2"]
        assert [part.status for part in call_parts(session)] == ["complete"] * 2
    assert compass.calls == ["low", "low"]
    _, second = live.requests
    results = [message for message in second["messages"] if message["role"] == "tool"]
    assert [message["toolCallId"] for message in results] == ["call_c1", "call_c2"]
    assert [json.loads(message["content"])["number"] for message in results] == [1, 2]


@on(*SERVERS)
async def test_a_tool_of_the_client_that_fails(live: Live) -> None:
    """S-80: the server is told, and the run goes on; on screen the call has failed."""

    def get_location(accuracy: str) -> str:
        raise OSError("no signal")

    async with live.session(tools=[get_location]) as session:
        assert (await session.send("client-tool")).ok
        [part] = call_parts(session)
        assert part.status == "failed"
        if live.peer != "langgraph":  # which keeps no more of an error than that there was one
            assert part.error == "no signal"
        assert "no signal" in answer_of(session)
        assert (await session.send("text")).ok
    assert len(live.requests) == 3


@on(*SERVERS)
async def test_a_call_that_the_application_answers(live: Live) -> None:
    """S-73, S-74: declared by the caller, executed by nobody; the exchange ends, and `run` delivers the answer."""
    schema = {"type": "object", "properties": {"accuracy": {"type": "string"}}}
    declared = RunParams(tools=[Declaration(name="get_location", description="Where", parameters=schema)])
    async with live.session() as session:
        assert (await session.send("client-tool", declared)).ok
        assert session.pending_tool_calls == ("call_c1",)
        assert [part.status for part in call_parts(session)] == ["awaiting_result"]
        session.answer_tool_call("call_c1", {"lat": 1})
        assert len(live.requests) == 1
        assert (await session.run(declared)).ok
        assert session.pending_tool_calls == ()
        assert answer_of(session).endswith("Done.")


@on(*SERVERS)
async def test_a_call_that_nobody_answers(live: Live) -> None:
    """S-57, S-73: the next turn says so to the server."""
    schema = {"type": "object", "properties": {"accuracy": {"type": "string"}}}
    declared = RunParams(tools=[Declaration(name="get_location", description="Where", parameters=schema)])
    async with live.session() as session:
        assert (await session.send("client-tool", declared)).ok
        assert (await session.send("text")).ok
        [part] = call_parts(session)
        assert part.status == "failed"
        assert part.result == "Not executed: no result was given for this call"
    assert [message["role"] for message in live.requests[1]["messages"]] == ["user", "assistant", "tool", "user"]
    assert live.codes == ["call-repaired"]


@on(*SERVERS, trio=KEEPS_NOTHING)
async def test_an_error_in_the_middle(live: Live) -> None:
    """S-11, S-29, S-35: a value, not an exception; what was said stays; `run` asks again and `send` goes on."""
    async with live.session() as session:
        state = await session.send("error")
        assert isinstance(state, Failed)
        assert (state.kind, state.cause) == ("agent", None)
        assert state.message
        assert answer_of(session) == "Half an answ"
        assert not session.transcript.messages[1].is_streaming
        again = await session.run()
        assert again.ok == (live.peer == "pydantic-ai")  # which takes half an answer for the answer, and says no more
        assert (await session.send("text")).ok
        assert answer_of(session) == HELLO
    users = [[message["role"] for message in request["messages"]].count("user") for request in live.requests]
    assert users == [1, 1, 2]


@on(*SERVERS)
async def test_an_error_before_anything_was_said(live: Live) -> None:
    """S-11, S-35: the turn stays; nothing else does."""
    async with live.session() as session:
        state = await session.send("error-first")
        assert isinstance(state, Failed)
        assert state.kind == "agent"
        assert [message.role for message in session.transcript.messages] == ["user"]
        assert (await session.send("text")).ok
    assert len(live.requests) == 2


@on(*SERVERS)
async def test_reasoning(live: Live) -> None:
    """S-128, S-54: a part of the answer's turn; it goes back as it came, encrypted value and all."""
    async with live.session() as session:
        assert (await session.send("reasoning")).ok
        thought, said = session.transcript.messages[1].parts
        assert isinstance(thought, ReasoningPart)
        assert (thought.text, thought.streaming) == ("First think.", False)
        assert isinstance(said, TextPart)
        assert said.text == HELLO
        [message] = [message for message in session.messages if isinstance(message, ReasoningMessage)]
        assert (await session.send("text")).ok
    sent = [one for one in live.requests[1]["messages"] if one["role"] == "reasoning"]
    assert sent == [message.model_dump(by_alias=True, exclude_none=True)]
    assert ("encryptedValue" in sent[0]) == (live.peer == "pydantic-ai")


@on("pydantic-ai")
async def test_state_of_a_server_that_keeps_none(live: Live) -> None:
    """S-53, S-130: snapshot and patch; the next request carries the outcome."""
    async with live.session(state={"n": 0}) as session:
        assert (await session.send("state")).ok
        assert session.state == {"n": 2, "log": ["bumped"]}
        assert (await session.send("text")).ok
    assert [request["state"] for request in live.requests] == [{"n": 0}, {"n": 2, "log": ["bumped"]}]


@on("langgraph")
async def test_state_of_a_server_that_counts(live: Live) -> None:
    """S-53: two turns, each on the state that the last one left."""
    async with live.session() as session:
        for turn in (1, 2):
            assert (await session.send("state")).ok
            assert session.state["n"] == turn
    assert live.requests[1]["state"]["n"] == 1


@on("langgraph")
async def test_ids_that_a_snapshot_gives(live: Live) -> None:
    """S-135, S-56: the server's ids are the wire's, and the result still stands behind its call in every request."""
    async with live.session() as session:
        assert (await session.send("tool")).ok
        assert (await session.send("tool")).ok
        called = [
            message for message in session.messages if isinstance(message, AssistantMessage) and message.tool_calls
        ]
        results = [message for message in session.messages if isinstance(message, ToolMessage)]
    assert len(called) == len(results)
    roles = [message["role"] for message in live.requests[1]["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


@on(*KEEPS_NOTHING)
async def test_many_sessions_at_once(live: Live) -> None:
    """S-39: each has its thread, and none hears of another."""

    async def talk(word: str) -> None:
        compass = Compass()
        async with live.session(tools=[compass.get_location]) as session:
            assert (await session.send(word)).ok
            assert len(compass.calls) == (word == "client-tool")
            assert (await session.send("text")).ok
            assert answer_of(session) == HELLO

    async with anyio.create_task_group() as group:
        for word in ("text", "client-tool") * 2:
            group.start_soon(talk, word)
    assert len(live.heard) == 4
    assert len(live.requests) == 10


@on(*KEEPS_NOTHING)
async def test_calls_that_block(live: Live) -> None:
    """S-49: from a thread of its own, without an event loop."""
    async with live.session() as session:
        states = [await anyio.to_thread.run_sync(session.send_sync, "text") for _ in range(2)]
        assert [state.ok for state in states] == [True, True]
        assert answer_of(session) == HELLO
