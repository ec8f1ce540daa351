"""Questions that real servers ask before they run a tool, and every way to answer them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ag_ui.core import Interrupt
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

from handrail import (
    AgentSession,
    Finished,
    HttpAgent,
    InterruptedThreadError,
    NotInterruptedError,
    ResumeError,
    WarningRecord,
    abandon,
    answer,
    approve,
    deny,
    edit,
)

pytestmark = servers_have_to_start


async def asked(session: AgentSession) -> Interrupt:
    """The question that the server asks."""
    state = await session.send("interrupt")
    assert isinstance(state, Finished)
    assert state.outcome == "interrupt"
    assert session.pending_interrupts == state.interrupts
    [part] = call_parts(session)
    assert (part.name, part.parsed_arguments) == ("delete_file", {"path": "/etc/motd"})
    assert part.status == "awaiting_approval"
    [interrupt] = state.interrupts
    return interrupt


async def goes_on(session: AgentSession) -> None:
    """Nothing is open, and the next turn is answered."""
    assert session.pending_interrupts == ()
    assert session.owed_answers == ()
    assert (await session.send("text")).ok
    assert answer_of(session) == HELLO


@on(*AND_OLDER, trio=KEEPS_NOTHING)
async def test_approved(live: Live) -> None:
    """S-81, S-83, S-103: the tool runs on the server, and its result belongs to the call of the earlier run."""
    async with live.session() as session:
        assert (await session.resume([approve(await asked(session))])).ok
        [part] = call_parts(session)
        assert (part.status, part.result, part.local) == ("complete", "deleted /etc/motd", False)
        assert answer_of(session).endswith("Done.")
        await goes_on(session)
    assert len(live.requests) == 3
    expected = [] if live.peer != "langgraph-older" else ["legacy-interrupt"]
    assert live.codes == expected


@on(*AND_OLDER)
async def test_denied(live: Live) -> None:
    """S-89, S-104: the reason reaches the server; the call ends denied, whatever its result says."""
    async with live.session() as session:
        assert (await session.resume([deny(await asked(session), "too risky")])).ok
        [part] = call_parts(session)
        assert part.status == "denied"
        assert "too risky" in str(part.result or part.error)
        assert "deleted" not in answer_of(session).replace("not deleted", "")
        await goes_on(session)


@on(*SERVERS)
async def test_abandoned(live: Live) -> None:
    """S-87, S-104: told to the server as cancelled; the call ends denied."""
    async with live.session() as session:
        assert (await session.resume([abandon(await asked(session))])).ok
        [part] = call_parts(session)
        assert part.status == "denied"
        await goes_on(session)
    [entry] = live.requests[1]["resume"]
    assert entry.keys() == {"interruptId", "status"}
    assert entry["status"] == "cancelled"


@on(*KEEPS_NOTHING)
async def test_edited(live: Live) -> None:
    """S-87, S-90: the server runs the tool with other arguments."""
    async with live.session() as session:
        assert (await session.resume([edit(await asked(session), {"path": "/tmp/x"})])).ok
        [part] = call_parts(session)
        assert part.status == "complete"
        assert str(part.result).endswith("deleted /tmp/x")
        await goes_on(session)


@on("langgraph", "langgraph-older")
async def test_edited_where_the_server_has_no_such_answer(live: Live) -> None:
    """S-90, S-91: refused before anything is sent; `answer` says anything."""
    async with live.session() as session:
        question = await asked(session)
        with pytest.raises(ResumeError) as refused:
            await session.resume([edit(question, {"path": "/tmp/x"})])
        assert [name for name, _, _ in refused.value.invalid] == [question.id]
        assert len(live.requests) == 1
        assert (await session.resume([answer(question, {"approved": True})])).ok
        await goes_on(session)


@on(*SERVERS)
async def test_wrong_calls_send_nothing(live: Live) -> None:
    """S-30, S-37, S-84, S-85: an open question is answered, exactly, before anything else is said."""
    async with live.session() as session:
        with pytest.raises(NotInterruptedError):
            await session.resume([approve("nobody")])
        question = await asked(session)
        wrong: list[tuple[Callable[[], Any], type[Exception]]] = [
            (lambda: session.send("text"), InterruptedThreadError),
            (session.run, InterruptedThreadError),
            (lambda: session.resume([]), ResumeError),
            (lambda: session.resume([approve(question), approve("nobody")]), ResumeError),
            (lambda: session.resume([approve(question), deny(question)]), ResumeError),
        ]
        before = session.transcript
        for call, error in wrong:
            with pytest.raises(error):
                await call()
        assert session.transcript == before
        assert len(live.requests) == 1
        assert (await session.resume([approve(question)])).ok


@on(*KEEPS_NOTHING)
async def test_given_up_on_this_side(live: Live) -> None:
    """S-99: a server that keeps nothing goes on as if it had never asked; the call is answered for it."""
    async with live.session() as session:
        question = await asked(session)
        dropped = session.abandon_interrupts()
        assert dropped == (question,)
        live.given_up.add(question.id)
        await goes_on(session)
        [part] = call_parts(session)
        assert (part.status, part.error) == ("denied", "Abandoned by the user")
    assert "resume" not in live.requests[1]
    assert live.codes == ["interrupts-abandoned", "call-repaired"]


@on("langgraph", "langgraph-older")
async def test_given_up_on_this_side_and_asked_again(live: Live) -> None:
    """S-99, S-59: a server with a memory of its own asks again; answered then, every call has one result."""
    async with live.session() as session:
        question = await asked(session)
        if live.peer == "langgraph-older":
            with pytest.raises(ResumeError, match="abandon_interrupts"):
                await session.resume([abandon(question)])
        session.abandon_interrupts()
        live.given_up.add(question.id)
        state = await session.send("text")
        assert isinstance(state, Finished)
        assert state.outcome == "interrupt"
        [again] = session.pending_interrupts
        assert again.message == question.message
        assert (await session.resume([approve(again)])).ok
        await goes_on(session)


@on("langgraph")
async def test_a_server_that_has_forgotten_the_thread(live: Live) -> None:
    """S-99, S-139: it takes the answer for a beginning, and what its snapshot leaves out is warned of."""
    async with live.session() as session:
        await asked(session)
        kept = session.dump()
    told: list[WarningRecord] = []
    agent = HttpAgent(live.relay.url)
    forgotten = AgentSession.load(agent, kept | {"thread_id": "forgotten"}, on_warning=told.append)
    async with agent, forgotten:
        assert (await forgotten.resume([approve(one) for one in forgotten.pending_interrupts])).ok
        await goes_on(forgotten)
    assert [warning.code for warning in told] == ["snapshot-dropped-turn"]


@on(*SERVERS)
async def test_the_exact_words_of_an_answer(live: Live) -> None:
    """S-83, S-89: the entry as the question's schema wants it, and nothing beside it."""
    async with live.session() as session:
        question = await asked(session)
        assert (await session.resume([approve(question.id)])).ok
    expected = {"interruptId": question.id, "status": "resolved", "payload": {"approved": True}}
    assert live.requests[1]["resume"] == [expected]
    assert live.requests[1]["runId"] != live.requests[0]["runId"]


@on("langgraph-older")
async def test_the_exact_words_of_an_answer_to_an_older_server(live: Live) -> None:
    """S-106, S-107: a command in forwarded props, and no `resume`."""
    async with live.session() as session:
        question = await asked(session)
        assert question.metadata is not None
        assert question.metadata["legacy"] is True
        assert (await session.resume([answer(question, {"approved": True, "x": None})])).ok
    _, asked_with = live.requests
    assert asked_with["forwardedProps"] == {"command": {"resume": {"approved": True, "x": None}}}
    assert "resume" not in asked_with
