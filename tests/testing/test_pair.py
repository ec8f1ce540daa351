"""`pair(loop)`: both ends of the wire in one process."""

from __future__ import annotations

from typing import Any, cast

import anyio
import anyio.lowlevel
import httpx
import pytest
from tests.server.scenarios import SCENARIOS, loop_of

from handrail import Failed, Finished, Loop, Tool
from handrail.agui import approve
from handrail.testing import ScriptedBackend, call, gate, pair, stall, text
from handrail.testing._transport import AsgiTransport


@pytest.mark.parametrize("name", ["text", "tools", "reasoning", "retried", "bad arguments"])
async def test_the_session_has_what_the_loop_has(name: str) -> None:
    """L-167, P-86: the whole conversation, over bytes."""
    runs: list[Any] = []
    loop = SCENARIOS[name][0]()

    class Kept:
        def run(self, *args: Any, **options: Any) -> Any:
            runs.append(loop.run(*args, **options))
            return runs[0]

    async with pair(cast("Loop", Kept())) as session:
        state = await session.send("hi")
    assert isinstance(state, Finished)
    assert [(m.id, m.role) for m in session.messages] == [(m.id, m.role) for m in runs[0].result.value.messages]


async def test_the_options_are_the_sessions() -> None:
    """L-167: its tools among them; a client tool is run at this end and its answer goes back."""

    def pick_date() -> str:
        """Asks the person."""
        return "Friday"

    backend = ScriptedBackend([call("pick_date"), text("On Friday.")])
    async with pair(Loop([backend]), tools=[pick_date], thread_id="t9") as session:
        await session.send("When?")
        assert session.thread_id == "t9"
        assert session.messages[-1].content == "On Friday."
    assert len(backend.requests) == 2


async def test_what_is_streamed_is_seen_at_once() -> None:
    """L-167: piece by piece, and not when all is over."""
    held = gate()
    async with pair(loop_of([text("It is"), held, text(" warm.")])) as session, anyio.create_task_group() as group:
        group.start_soon(session.send, "hi")
        await held.reached
        async for transcript in session.changes():
            if "It is" in transcript.text:
                break
        held.open()
    assert session.messages[-1].content == "It is warm."


async def test_a_session_that_stops_is_a_client_that_goes() -> None:
    """L-167, P-93: the server is told, and the run is cancelled."""
    backend = ScriptedBackend([[text("a"), stall()]])
    async with pair(Loop([backend])) as session, anyio.create_task_group() as group:
        group.start_soon(session.send, "hi")
        async for transcript in session.changes():
            if transcript.messages and transcript.messages[-1].text == "a":
                break
        session.stop()
    assert backend.closed == backend.opened == 1


async def test_leaving_in_the_middle_leaves_nothing_behind() -> None:
    """L-167: also by an exception, which goes on as it is."""
    held = gate()
    backend = ScriptedBackend([[text("a"), held, stall()]])

    async def breaks_off() -> None:
        async with pair(Loop([backend])) as session, anyio.create_task_group() as group:
            group.start_soon(session.send, "hi")
            await held.reached
            group.cancel_scope.cancel()
        async with pair(Loop([backend])) as session:
            assert session.messages == ()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await breaks_off()
    assert backend.closed == backend.opened == 1


async def test_a_question_and_its_answer() -> None:
    """L-167, P-80."""
    pay = Tool(lambda: "paid", name="pay", needs_approval=True)
    async with pair(Loop([ScriptedBackend([call("pay", id="c1"), text("Done.")])], [pay])) as session:
        await session.send("Pay.")
        [question] = session.pending_interrupts
        assert (await session.resume([approve(question)])).ok
        assert session.messages[-1].content == "Done."


async def test_what_the_server_refuses_is_a_failure() -> None:
    """L-167, P-77: the whole endpoint is there, the refusals too."""

    def no_loop(given: Any, principal: Any) -> Any:
        from handrail import Refuse

        raise Refuse(402, "Pay first.")

    async with pair(no_loop) as session:
        state = await session.send("hi")
    assert isinstance(state, Failed)
    assert "Pay first." in state.message


async def test_an_app_that_does_not_answer() -> None:
    """The transport says so, as a connection does that was closed."""

    async def silent(scope: Any, receive: Any, send: Any) -> None: ...

    async with (
        anyio.create_task_group() as group,
        httpx.AsyncClient(transport=AsgiTransport(silent, group)) as client,
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("http://x/")
