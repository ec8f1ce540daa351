"""Exchanges with real servers that are stopped, cancelled, cut off, or kept and gone on with in another session."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import anyio
import pytest
from tests.live.kit import (
    AND_OLDER,
    HELLO,
    KEEPS_NOTHING,
    SERVERS,
    Live,
    answer_of,
    call_parts,
    on,
    servers_have_to_start,
)
from tests.live.relay import behind_frames, whole

from handrail import AgentSession, Failed, Finished, RunState, approve

pytestmark = servers_have_to_start


async def said_something(session: AgentSession) -> None:
    """Wait until the first words of an answer are on screen."""
    with anyio.fail_after(20):
        async for transcript in session.changes():
            if transcript.messages and transcript.messages[-1].role == "assistant" and transcript.messages[-1].text:
                return


async def left(live: Live) -> None:
    """Wait until the connection of the last request is closed, from this side."""
    [*_, exchange] = live.exchanges
    assert await anyio.to_thread.run_sync(exchange.over.wait, 5.0)
    assert exchange.closed_by == "client"
    assert b"RUN_FINISHED" not in exchange.body


@on(*KEEPS_NOTHING, trio=KEEPS_NOTHING)
async def test_stop_in_the_middle(live: Live) -> None:
    """S-43: the call returns, the connection is closed, what was said stays and goes along with the next turn."""
    async with live.session() as session:
        states: list[Any] = []

        async def ask() -> None:
            states.append(await session.send("slow"))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await said_something(session)
            session.stop()
        [state] = states
        assert isinstance(state, Failed)
        assert (state.code, state.kind) == ("CANCELLED", "cancelled")
        await left(live)
        assert HELLO.startswith(answer_of(session))
        assert not session.transcript.messages[-1].is_streaming
        assert (await session.send("text")).ok
        assert answer_of(session) == HELLO
    assert [message["role"] for message in live.requests[1]["messages"]] == ["user", "assistant", "user"]


@on(*KEEPS_NOTHING, trio=KEEPS_NOTHING)
async def test_a_cancelled_caller(live: Live) -> None:
    """S-41: recorded, the connection closed, and the cancellation goes on to the caller; the session is usable."""
    async with live.session() as session:
        returned = False

        async def ask() -> None:
            nonlocal returned
            await session.send("slow")
            returned = True

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await said_something(session)
            group.cancel_scope.cancel()
        assert not returned
        assert session.transcript.run == Failed("Run cancelled", "CANCELLED")
        await left(live)
        assert (await session.send("text")).ok


@on(*KEEPS_NOTHING)
async def test_a_caller_that_waits_for_its_turn_is_cancelled(live: Live) -> None:
    """S-39, S-42: it sends nothing and draws nothing; the one before it is served to its end."""
    async with live.session() as session, anyio.create_task_group() as group:
        states: list[Any] = []

        async def ask() -> None:
            states.append(await session.send("slow"))

        group.start_soon(ask)
        await said_something(session)
        with anyio.move_on_after(0.01):
            await session.send("text")
        assert len(session.transcript.messages) == 2
        session.stop()
    assert len(live.requests) == 1
    assert len(states) == 1


@on(*KEEPS_NOTHING)
async def test_slow_to_the_end(live: Live) -> None:
    """S-22: a silence is no end."""
    async with live.session() as session:
        assert (await session.send("slow")).ok
        assert answer_of(session) == HELLO


@on(*SERVERS)
async def test_the_connection_is_lost(live: Live) -> None:
    """S-13, S-14, S-29: what was delivered stays, and the turn is asked again."""
    live.relay.cut = behind_frames(1, b"TEXT_MESSAGE_CONTENT")
    async with live.session() as session:
        state = await session.send("text")
        assert isinstance(state, Failed)
        assert state.kind in ("transport", "truncated")
        assert answer_of(session) == "Hello "
        live.relay.cut = whole
        assert (await session.send("text")).ok
        assert answer_of(session) == HELLO


@pytest.mark.parametrize("scenario", ["client-tool", "interrupt"])
@on("handrail", "pydantic-ai", "langgraph-older")
async def test_the_connection_is_lost_anywhere(live: Live, scenario: str) -> None:
    """S-14, S-57, S-58: behind any frame, what was said stays, what was cut off is left out, and the thread goes on."""

    def get_location(accuracy: str) -> str:
        return "here"

    async def agreed_to(session: AgentSession) -> RunState:
        while session.pending_interrupts:
            await session.resume([approve(one) for one in session.pending_interrupts])
        return session.transcript.run

    for frames in count(step=1 if live.peer in KEEPS_NOTHING else 3):
        live.relay.cut = behind_frames(frames)
        async with live.session(tools=[get_location]) as session:
            state = await session.send(scenario)
            live.relay.cut = whole
            await agreed_to(session)
            await session.send("text")
            assert (await agreed_to(session)).ok
            if live.peer in KEEPS_NOTHING:  # the others may have a question or a call to come back to
                assert answer_of(session) == HELLO
        if isinstance(state, Finished):
            break
    assert frames > 4


@on(*SERVERS)
async def test_the_connection_is_lost_behind_an_answer(live: Live) -> None:
    """S-93, S-94, S-96: the server may have consumed it; it is owed, and goes out again with the next run, the same."""
    async with live.session() as session:
        state = await session.send("interrupt")
        assert isinstance(state, Finished)
        live.relay.cut = behind_frames(1)
        assert isinstance(await session.resume([approve(one) for one in state.interrupts]), Failed)
        live.relay.cut = whole
        assert session.pending_interrupts == state.interrupts
        assert [entry.interrupt_id for entry in session.owed_answers] == [one.id for one in state.interrupts]
        assert (await session.run()).ok
        assert session.owed_answers == ()
        [part] = call_parts(session)
        assert part.status == "complete"
    _, lost, again = live.requests
    assert lost["resume"] == again["resume"]
    assert lost["runId"] != again["runId"]
    assert "answers-resent" in live.codes


@on(*AND_OLDER, trio=KEEPS_NOTHING)
async def test_kept_between_a_question_and_its_answer(live: Live) -> None:
    """S-150, S-153: another session, made of plain JSON data, answers the question and goes on."""
    async with live.session() as session:
        await session.send("interrupt")
        data = json.loads(json.dumps(session.dump()))
        shown = session.transcript
    async with live.session(data) as loaded:
        assert loaded.transcript == shown
        assert loaded.dump() == data
        assert (await loaded.resume([approve(one) for one in loaded.pending_interrupts])).ok
        [part] = call_parts(loaded)
        assert (part.status, part.result) == ("complete", "deleted /etc/motd")
        assert (await loaded.send("text")).ok
    assert len(live.requests) == 3


@on(*KEEPS_NOTHING)
async def test_kept_while_an_answer_is_owed(live: Live) -> None:
    """S-153: the answer that failed to arrive goes out again, from the session that was loaded."""
    async with live.session() as session:
        await session.send("interrupt")
        live.relay.cut = behind_frames(1)
        assert not (await session.resume([approve(one) for one in session.pending_interrupts])).ok
        live.relay.cut = whole
        data = json.loads(json.dumps(session.dump()))
    async with live.session(data) as loaded:
        assert (await loaded.run()).ok
        assert loaded.pending_interrupts == ()
    assert live.requests[1]["resume"] == live.requests[2]["resume"]


@on(*KEEPS_NOTHING)
async def test_kept_in_the_middle_of_an_answer(live: Live) -> None:
    """S-152: loaded, the run in flight has failed, and what it said goes along with the next turn."""
    async with live.session() as session, anyio.create_task_group() as group:
        group.start_soon(session.send, "slow")
        await said_something(session)
        data = json.loads(json.dumps(session.dump()))
        session.stop()
    async with live.session(data) as loaded:
        assert isinstance(loaded.transcript.run, Failed)
        assert HELLO.startswith(answer_of(loaded))
        assert (await loaded.send("text")).ok
        assert answer_of(loaded) == HELLO


@on(*KEEPS_NOTHING)
async def test_kept_and_gone_on_with(live: Live) -> None:
    """S-150: a conversation with results and a failure in it; tools are given to the loaded session anew."""

    def get_location(accuracy: str) -> str:
        return "here"

    async with live.session(tools=[get_location]) as session:
        assert (await session.send("client-tool")).ok
        assert (await session.send("error")).ok is False
        data = json.loads(json.dumps(session.dump()))
    async with live.session(data, tools=[get_location]) as loaded:
        assert (await loaded.send("text")).ok
        assert answer_of(loaded) == HELLO
    assert live.requests[-1]["tools"] == live.requests[0]["tools"]
