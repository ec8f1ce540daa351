"""A session with the AG-UI mock of others' making, which answers under ids of its own and calls its tool for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.aimock import running_agui
from tests.live.kit import HELLO, Live, answer_of, call_parts, servers_have_to_start
from tests.live.relay import Relay

from handrail import Failed

pytestmark = servers_have_to_start


@pytest.fixture(scope="module")
def port(peers: Path, shared: Path) -> Iterator[int]:
    with running_agui(peers, shared / "peers" / "aimock" / "agui.json") as found:
        yield found


@pytest.fixture
def live(port: int) -> Iterator[Live]:
    with Relay(port) as relay:
        yield Live("aimock", relay)


async def test_ids_of_its_own_are_a_failure(live: Live) -> None:
    """S-23: an answer for another thread is not taken for ours; the turn stays."""
    async with live.session() as session:
        state = await session.send("text")
        assert isinstance(state, Failed)
        assert state.kind == "protocol"
        assert "threadId" in state.message
        assert [message.role for message in session.transcript.messages] == ["user"]


async def test_text_for_a_lenient_client(live: Live) -> None:
    """S-23, P-38: both ids are warned of, and the text is read."""
    live.is_lenient = True
    async with live.session() as session:
        assert (await session.send("text")).ok
        assert answer_of(session) == HELLO
    assert live.codes == ["run-id-mismatch", "run-id-mismatch"]


async def test_a_run_and_a_message_that_come_again(live: Live) -> None:
    """S-98, S-126: the same ids in answer to the next turn; on screen it has its own answer."""
    live.is_lenient = True
    async with live.session() as session:
        for _ in range(2):
            assert (await session.send("text")).ok
        assert [message.text for message in session.transcript.messages] == ["text", HELLO, "text", HELLO]
    assert "message-id-reused" in live.codes


async def test_a_call_that_comes_again(live: Live) -> None:
    """S-98, S-132: the same run and the same call again: executed once, delivered once, and the exchange ends."""
    live.is_lenient = True
    called: list[str] = []

    def get_location(accuracy: str) -> str:
        called.append(accuracy)
        return "here"

    async with live.session(tools=[get_location], thread_id="t1") as session:
        assert (await session.send("client-tool")).ok
        assert [(part.status, part.result) for part in call_parts(session)] == [("complete", "here")]
    assert called == ["high"]
    assert len(live.requests) == 2


async def test_a_message_it_does_not_know(live: Live) -> None:
    """S-12, S-35: a status is a failure that says what the server said, and the turn stays for the next request."""
    async with live.session() as session:
        state = await session.send("nothing of the kind")
        assert isinstance(state, Failed)
        assert (state.kind, state.message) == ("http", "HTTP 404: No matching AG-UI fixture")
        await session.run()
    first, second = live.requests
    assert first["messages"] == second["messages"]
