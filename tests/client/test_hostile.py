"""What servers do wrong, over real sockets: the run ends and says how, and the connection is closed."""

from __future__ import annotations

import gzip
import json
import socket
import time
import zlib
from typing import Any

import pytest
from tests.client.endings import BEAT, FINISHED, STARTED, TEXT, Ends, badly, ended, ending_of, is_over, well
from tests.client.sockets import CHUNKED, LAST_CHUNK, Step, chunk, event, for_ever, head, hostile
from tests.client.transports import ASKED, types_of
from tests.conftest import SHARED

from handrail import HttpAgent, RunScope

RECORDED = SHARED / "recordings" / "hostile"
NAMES = sorted(path.name.removesuffix(".http.json") for path in RECORDED.glob("*.http.json"))


BROKEN = event(type="TEXT_MESSAGE_CONTENT", messageId="never opened", delta="x")


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
