"""A cancel in every place where an agent waits for its server, and the time of grace behind the end."""

from __future__ import annotations

import socket
import threading
import time

import anyio
import anyio.to_thread
import pytest
from tests.client.endings import BEAT, FINISHED, STARTED, TEXT, Ends, badly, ended, ending_of, is_over, well
from tests.client.sockets import Step, event, for_ever, head, hostile
from tests.client.transports import ASKED, types_of

from handrail import HttpAgent, RunScope

# -- cancel in every waiting place -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "then"),
    [
        pytest.param([], None, id="waiting for the head"),
        pytest.param([head(), STARTED], None, id="reading, nothing comes"),
        pytest.param([head(), STARTED], BEAT, id="reading, something comes"),
        pytest.param([head(500), b"so sorry"], b".", id="reading the body of an error"),
    ],
)
async def test_cancel(steps: list[Step], then: bytes | None) -> None:
    """P-74, P-73: the run ends cancelled at once, and the server learns it within a second by the disconnect."""
    sent = threading.Event()
    with hostile(*steps, sent.set, then=tuple if then is None else lambda: for_ever(then)) as server:
        with anyio.fail_after(15):
            async with RunScope():
                run = HttpAgent(server.url).start(ASKED)
                assert await anyio.to_thread.run_sync(sent.wait, 5.0)
                await anyio.wait_all_tasks_blocked()  # what was sent has been read
                began = time.monotonic()
                run.cancel()
                await run.result
                assert time.monotonic() - began < 0.1 * 5
                await run.drained
        assert is_over(server)
    assert ending_of(run) == Ends(None, "cancelled")
    assert run.report.code == "CANCELLED"
    assert run.result.value.outcome == run.status == "cancelled"
    assert run.result.value.error is None


def full_backlog() -> tuple[str, list[socket.socket]]:
    """An address where connecting neither succeeds nor fails: nobody accepts, and the queue is full."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    held = [listener]
    for _ in range(3):
        queued = socket.socket()
        queued.setblocking(False)
        queued.connect_ex(listener.getsockname())
        held.append(queued)
    return f"http://127.0.0.1:{listener.getsockname()[1]}/agui", held


async def test_cancel_while_connecting() -> None:
    """P-74: also before there is a connection."""
    url, held = full_backlog()
    with anyio.fail_after(5):
        async with RunScope():
            run = HttpAgent(url, connect_timeout=None).start(ASKED)
            await anyio.wait_all_tasks_blocked()
            assert run.status == "running"
            run.cancel()
            await run.result
            await run.drained
    for one in held:
        one.close()
    assert ending_of(run) == Ends(None, "cancelled")


async def test_cancel_while_sending() -> None:
    """P-74: also where the server takes no more of the request."""
    with socket.create_server(("127.0.0.1", 0)) as listener, anyio.fail_after(15):
        async with RunScope():
            props = {"much": "x" * 12_000_000}
            run = HttpAgent(f"http://127.0.0.1:{listener.getsockname()[1]}/").start(ASKED | {"forwardedProps": props})
            connection, _ = await anyio.to_thread.run_sync(listener.accept)
            await anyio.wait_all_tasks_blocked()
            assert run.status == "running"
            run.cancel()
            await run.result
            await run.drained
        connection.close()
    assert ending_of(run) == Ends(None, "cancelled")


async def test_connecting_takes_too_long() -> None:
    """P-70: `connect_timeout` covers connecting."""
    url, held = full_backlog()
    with anyio.fail_after(5):
        async with RunScope():
            run = HttpAgent(url, connect_timeout=0.2).start(ASKED)
            await run.result
    for one in held:
        one.close()
    assert ending_of(run) == badly("transport")
    assert run.report.cause.phase == "connect"


async def test_cancel_in_the_grace_only_ends_the_grace() -> None:
    """P-74, P-45: the verdict stands, and the connection is closed."""
    with hostile(head(), STARTED, FINISHED) as server:
        with anyio.fail_after(15):
            async with RunScope():
                run = HttpAgent(server.url, close_grace=60).start(ASKED)
                async for one in run.events:
                    if one.type.value == "RUN_FINISHED":
                        break
                assert not run.is_done
                run.cancel()
                await run.result
        assert is_over(server)
    assert ending_of(run) == well()
    assert run.result.value.ok
    assert run.is_cancelled


# -- what may follow -------------------------------------------------------------------------------------------------


async def test_a_further_run_calls_the_clock_off() -> None:
    """P-72, P-44: a run that begins in the grace is read to its own end, however long it takes."""
    other = [
        event(type="RUN_STARTED", threadId="t1", runId="r0"),
        event(type="RUN_FINISHED", threadId="t1", runId="r0"),
    ]
    with hostile(head(), *other, 0.1, STARTED, *TEXT[:2], 1.0, *TEXT[2:], FINISHED) as server:
        run = await ended(server, close_grace=0.4)
    assert ending_of(run) == well()
    assert run.report.run_id == "r1"
    assert run.result.value.final == "One two thrée four."


async def test_a_late_error_is_heard_in_the_grace() -> None:
    """P-46, P-72: it is delivered, kept and warned; the verdict stands."""
    late = event(type="RUN_ERROR", message="too late", code="LATE")
    with hostile(head(), STARTED, FINISHED, 0.05, late, "close") as server:
        run = await ended(server)
    assert types_of(run) == ["RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"]
    assert ending_of(run) == well("late-run-error")
    assert run.report.late_error == ("too late", "LATE")
    assert run.result.value.ok
