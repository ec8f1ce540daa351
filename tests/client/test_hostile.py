"""What servers do wrong, over real sockets: the run ends and says how, and the connection is closed."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import time
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import pytest
from tests.client.sockets import CHUNKED, LAST_CHUNK, HostileServer, Step, Visit, chunk, event, for_ever, head, hostile
from tests.client.transports import ASKED, types_of
from tests.conftest import SHARED

from handrail import AgentRun, HttpAgent, RunScope

RECORDED = SHARED / "recordings" / "hostile"
NAMES = sorted(path.name.removesuffix(".http.json") for path in RECORDED.glob("*.http.json"))

STARTED = event(type="RUN_STARTED", threadId="t1", runId="r1")
FINISHED = event(type="RUN_FINISHED", threadId="t1", runId="r1")
TEXT = [
    event(type="TEXT_MESSAGE_START", messageId="m1", role="assistant"),
    *(
        event(type="TEXT_MESSAGE_CONTENT", messageId="m1", delta=word)
        for word in ("One ", "two ", "thrée", " four", ".")
    ),
    event(type="TEXT_MESSAGE_END", messageId="m1"),
]
BROKEN = event(type="TEXT_MESSAGE_CONTENT", messageId="never opened", delta="x")


class Ends(NamedTuple):
    """How a run ends: the agent's own word, who failed, the kind of the cause, and what was warned about."""

    verdict: str | None = None
    failure: str | None = None
    kind: str | None = None
    codes: tuple[str, ...] = ()


def well(*codes: str) -> Ends:
    return Ends("success", codes=codes)


def badly(kind: str, *codes: str) -> Ends:
    return Ends(None, "client", kind, codes)


ENDINGS = {
    "bad-json": badly("decode"),
    "cancelled": Ends("cancelled"),
    "chunk-then-die": badly("truncated"),
    "content-length-short": well("transport-after-end"),
    "die-after-finished": well("transport-after-end"),
    "die-clean": badly("truncated"),
    "die-midstream": badly("transport"),
    "double-started": badly("protocol"),
    "dup-message-start": badly("protocol"),
    "dup-tool-result": well("second-result"),
    "error-no-close": Ends("error", "agent"),
    "error-then-finished": Ends("error", "agent", None, ("event-after-end",)),
    "finished-no-blank-line": well("unfinished-frame"),
    "gzip-cut": badly("truncated"),
    "html-200": badly("http"),
    "http-401": badly("http"),
    "http-422": badly("http"),
    "http-500-endless": badly("http"),
    "http-500-json": badly("http"),
    "http-503": badly("http"),
    "interrupt-empty": badly("protocol"),
    "interrupt-empty.run2": badly("protocol"),
    "ndjson": badly("http"),
    "no-content-type": well("encoding"),
    "not-an-object": badly("decode"),
    "open-step-at-finish": badly("protocol"),
    "redirect-302": badly("http"),
    "redirect-loop": badly("http"),
    "rst-after-finished": well("transport-after-end"),
    "snake-case": badly("protocol"),
    "snapshot-mid-message": well("snapshot-dropped-turn", "snapshot-dropped-open"),
    "stall": badly("transport"),
    "started-only": badly("truncated"),
    "trailing-finished": well("event-after-end"),
    "trailing-text": well("event-after-end"),
    "unknown-event": well("unknown-event"),
    "unknown-first-event": well("unknown-event"),
    "wrong-content-type": badly("http"),
    "wrong-ids": badly("protocol"),
}
"""All others end well and quietly."""


def script_of(name: str) -> list[Step]:
    """The recorded answer: head, reads as they arrived, and how the connection ended."""
    http = json.loads((RECORDED / f"{name}.http.json").read_text())
    body = (RECORDED / f"{name}.sse").read_bytes()
    is_chunked = http["headers"].get("transfer-encoding") == "chunked"
    lines = [f"HTTP/1.1 {http['status']} Recorded", *(f"{key}: {value}" for key, value in http["headers"].items())]
    steps: list[Step] = ["\r\n".join([*lines, "", ""]).encode()]
    for size in http["arrival_sizes"]:
        steps.append(chunk(body[:size]) if is_chunked else body[:size])
        body = body[size:]
    error = http["error"] or ""
    if "reset" in error:
        return [*steps, 0.05, "reset"]
    if error.startswith("ReadTimeout"):
        return steps
    return [*steps, LAST_CHUNK] if is_chunked and not error else [*steps, "close"]


async def ended(server: HostileServer, given: Any = ASKED, **options: Any) -> AgentRun:
    """One run, to its end; a client that hangs fails the test."""
    with anyio.fail_after(15):
        async with RunScope(), HttpAgent(server.url, **options) as agent:
            run = agent.start(given)
            await run.result
            await run.drained
    return run


def ending_of(run: AgentRun) -> Ends:
    report = run.report
    kind = None if report.cause is None else report.cause.kind
    return Ends(report.verdict, report.failure, kind, tuple(record.code for record in report.warnings))


def is_over(server: HostileServer) -> bool:
    """Whether the server noticed within a second that the client went; five times that on a busy machine."""
    return all(visit.over.wait(5.0) for visit in server.visits)


@pytest.mark.parametrize("name", NAMES)
async def test_recorded_misbehaviour(name: str) -> None:
    """P-5, P-44, P-45, P-69, P-71, P-73: what was recorded of a hostile server, over a socket."""
    with hostile(*script_of(name)) as server:
        given = json.loads((RECORDED / f"{name}.json").read_text())
        run = await ended(server, given, idle_timeout=0.5, close_grace=0.2)
        assert is_over(server)
    assert ending_of(run) == ENDINGS.get(name, well())
    assert run.result.value.outcome == ("cancelled" if name == "cancelled" else run.status)
    assert (run.report.rejected is not None) is ("event-after-end" in ending_of(run).codes)


def test_how_many_ran(shared: Any) -> None:
    """P-97: a run that judged nothing is seen; two of the server's behaviours are made below instead."""
    assert len(NAMES) == 59
    assert ENDINGS.keys() <= set(NAMES)


async def test_an_event_of_a_megabyte_and_a_half() -> None:
    """P-14: one long data line is delivered."""
    text = "abcdefghij" * 150_000
    content = event(type="TEXT_MESSAGE_CONTENT", messageId="m1", delta=text)
    body = b"".join([STARTED, TEXT[0], content, TEXT[-1], FINISHED])
    with hostile(head(content_length=str(len(body))), body) as server:
        run = await ended(server)
    assert run.result.value.final == text


async def test_an_endless_line() -> None:
    """P-14, P-73: more than the limit is refused, and the server sees us go."""
    with hostile(head(), STARTED, b"data: ", then=lambda: for_ever(b"x" * 4096, every=0.0)) as server:
        run = await ended(server, max_event_bytes=1_000_000)
        assert is_over(server)
    assert ending_of(run) == badly("decode")
    assert "1000000" in str(run.report.cause)
    assert types_of(run) == ["RUN_STARTED"]


async def test_many_events_at_once() -> None:
    """P-43: thousands of events in few reads come out one by one and in order."""
    deltas = [event(type="TEXT_MESSAGE_CONTENT", messageId="m1", delta=f"{number} ") for number in range(5_000)]
    body = b"".join([STARTED, TEXT[0], *deltas, TEXT[-1], FINISHED])
    with hostile(head(), body, "close") as server:
        run = await ended(server)
    assert run.result.value.final == "".join(f"{number} " for number in range(5_000))
    assert len(run.events.so_far()) == 5_004


BEAT = b": beat\n\n"


@pytest.mark.parametrize(
    ("last", "then", "ending"),
    [
        pytest.param(FINISHED, BEAT, well(), id="no-close-beat"),
        pytest.param(event(type="RUN_ERROR", message="boom"), BEAT, Ends("error", "agent"), id="error-no-close-beat"),
        pytest.param(BROKEN, BEAT, badly("protocol"), id="violation"),
        pytest.param(b"data: [DONE]\n\n", BEAT, badly("decode"), id="no object"),
    ],
)
async def test_a_server_that_writes_for_ever(last: bytes, then: bytes, ending: Ends) -> None:
    """P-72, P-73: it sees the disconnect within a second of a refusal, or of the end of the grace."""
    with hostile(head(**CHUNKED), chunk(STARTED), chunk(last), then=lambda: for_ever(chunk(then))) as server:
        began = time.monotonic()
        run = await ended(server, close_grace=0.3)
        took = time.monotonic() - began
        assert is_over(server)
    assert ending_of(run) == ending
    assert took < (0.3 if ending.failure == "client" else 0.6) * 5
    assert ending.failure == "client" or took >= 0.3


async def test_grace_by_default() -> None:
    """P-72: RUN_FINISHED and then comments for ever end within 2.5 s."""
    with hostile(head(), STARTED, FINISHED, then=lambda: for_ever(BEAT)) as server:
        began = time.monotonic()
        run = await ended(server)
        assert 2.0 <= time.monotonic() - began < 2.5 * 5
        assert is_over(server)
    assert run.result.value.ok


async def test_no_grace() -> None:
    """P-72: with `close_grace=0` the connection is closed at once, and what came in the same read is not read."""
    late = event(type="RUN_ERROR", message="late")
    with hostile(head(), STARTED + FINISHED + late, then=lambda: for_ever(BEAT)) as server:
        run = await ended(server, close_grace=0)
        assert is_over(server)
    assert types_of(run) == ["RUN_STARTED", "RUN_FINISHED"]
    assert run.result.value.ok


async def test_comments_are_bytes() -> None:
    """P-70: comments keep the idle limit away for as long as they come."""
    with hostile(head(), STARTED, *[BEAT, 0.1] * 10, FINISHED, "close") as server:
        run = await ended(server, idle_timeout=0.6)
    assert ending_of(run) == well()


async def test_a_silent_server() -> None:
    """P-70, P-73: silence before the head, and behind it, is `idle`; the server sees us go."""
    for steps in ([], [head(), STARTED]):
        with hostile(*steps) as server:
            run = await ended(server, idle_timeout=0.2)
            assert is_over(server)
        assert ending_of(run) == badly("transport")
        assert run.report.cause.phase == "idle"
        assert "0.2" in str(run.report.cause) or "ReadTimeout" in str(run.report.cause)


async def test_nobody_listens() -> None:
    """P-71: a connection that is refused is `connect`, with the error behind it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with RunScope():
        run = HttpAgent(f"http://127.0.0.1:{port}/agui").start(ASKED)
        await run.result
    assert ending_of(run) == badly("transport")
    assert run.report.cause.phase == "connect"
    assert run.report.cause.__cause__ is not None
    assert types_of(run) == []


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(["close"], id="closes without a word"),
        pytest.param(["reset"], id="resets"),
        pytest.param([b"\x16\x03\x01\x02\x00garbage\r\n\r\n", "close"], id="speaks something else"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Type: text/ev", "close"], id="dies in the head"),
        pytest.param([head(**CHUNKED), b"zz\r\nnot a chunk\r\n", "close"], id="no chunks"),
        pytest.param([head(content_encoding="gzip"), b"this is no gzip", "close"], id="bad gzip"),
        pytest.param([head(content_encoding="br"), b"\x0b\x02\x80", "close"], id="unknown encoding"),
    ],
)
async def test_transport_failures(steps: list[Step]) -> None:
    """P-71: a reset, a protocol error of HTTP, a bad content encoding is `transport`, phase read."""
    with hostile(*steps) as server:
        run = await ended(server)
        assert is_over(server)
    assert ending_of(run) == badly("transport")
    assert run.report.cause.phase == "read"
    assert run.result.value.error == str(run.report.cause)


async def test_bad_encoding_keeps_what_arrived() -> None:
    """P-71, P-73: behind good bytes too, and with a server that goes on."""
    packed = zlib.compressobj(wbits=31)
    good = packed.compress(STARTED + TEXT[0] + TEXT[1]) + packed.flush(zlib.Z_SYNC_FLUSH)
    steps = [head(content_encoding="gzip"), good, 0.05]
    with hostile(*steps, then=lambda: for_ever(b"\xff" * 64)) as server:
        run = await ended(server)
        assert is_over(server)
    assert ending_of(run) == badly("transport")
    assert run.result.value.final == "One "


async def test_deflate_with_and_without_its_header() -> None:
    """P-71: gzip in several members and both forms of deflate are understood."""
    body = STARTED + FINISHED
    raw = zlib.compressobj(wbits=-15)
    for encoding, data in (
        ("gzip", gzip.compress(STARTED) + gzip.compress(FINISHED)),
        ("deflate", zlib.compress(body)),
        ("deflate", raw.compress(body) + raw.flush()),
        ("gzip, deflate", zlib.compress(gzip.compress(body))),
    ):
        with hostile(head(content_encoding=encoding), data, "close") as server:
            run = await ended(server)
        assert ending_of(run) == well(), encoding


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
    with hostile(*steps, then=tuple if then is None else lambda: for_ever(then)) as server:
        with anyio.fail_after(15):
            async with RunScope():
                run = HttpAgent(server.url).start(ASKED)
                assert await anyio.to_thread.run_sync(server.was_asked.wait, 5.0)
                if steps:
                    await anyio.sleep(0.05)  # the head and what is behind it arrive
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
            await anyio.sleep(0.2)
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
            await anyio.sleep(0.2)
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


# -- death at every byte ---------------------------------------------------------------------------------------------


STREAM = [STARTED, *TEXT, event(type="CUSTOM", name="c", value=None), FINISHED]
BODY = b"".join(STREAM)


def cut_script(visit: Visit) -> Iterable[Step]:
    """As much of the body as the request says, and then the end it says."""
    asked = json.loads(visit.body)["forwardedProps"]
    part = BODY[: asked["cut"]]
    if asked["how"] == "clean":
        return [head(content_length=str(len(part))), part]
    return [head(**CHUNKED), chunk(part) if part else b"", "close"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["clean", "broken"])
async def test_death_at_every_byte(how: str) -> None:
    """P-43, P-44, P-45, P-15: what had arrived stands, event by event, and nobody makes up an end."""
    assert len(STREAM) == 10
    runs: list[AgentRun] = []
    server = HostileServer(cut_script)
    agent = HttpAgent(server.url)
    with anyio.fail_after(50), contextlib.closing(server):
        for batch in range(0, len(BODY) + 1, 64):
            async with RunScope():
                for cut in range(batch, min(batch + 64, len(BODY) + 1)):
                    props = {"cut": cut, "how": how}
                    runs.append(agent.start(ASKED | {"forwardedProps": props}))
    for cut, run in enumerate(runs):
        part = BODY[:cut]
        whole = part.count(b"\n\n")
        unfinished = how == "clean" and whole < 10 and part.split(b"\n\n")[-1].rstrip(b"\n") == STREAM[whole][:-2]
        delivered = whole + unfinished
        assert len(run.events.so_far()) == delivered, cut
        ending = ending_of(run)
        if delivered == 10:
            codes = ("unfinished-frame",) if unfinished else ("transport-after-end",) if how == "broken" else ()
            assert ending == well(*codes), cut
        else:
            assert ending[:3] == badly("truncated" if how == "clean" else "transport")[:3], cut
            assert "RUN_FINISHED" not in types_of(run)
        assert run.drained.is_set
