"""Whatever comes in: the pipeline never raises, holds no more than it may, and says the same however the body was cut.

With `HANDRAIL_FUZZ=50` in the environment (and `--timeout 0`) it looks fifty times as long, elsewhere each time.
"""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.documents import OPAQUE, corrupted
from tests.agui.effort import effort
from tests.agui.recordings import NAMES, recorded
from tests.agui.schema import EVENTS, INPUTS, PATH
from tests.agui.wires import Reading, asked_everything, pieces, read, sse

from handrail.agui._input import encode_input, outgoing_input, read_input, read_request
from handrail.agui._sse import EventStreamFraming
from handrail.errors import LocalProtocolError, RemoteDecodeError, RemoteProtocolError

ASKED = {"thread_id": "t1", "run_id": "r1"}
STARTED = {"type": "RUN_STARTED", "threadId": "t1", "runId": "r1"}
needs_schema = pytest.mark.skipif(not PATH.is_file(), reason="the shared inputs are not beside this checkout")
needs_recordings = pytest.mark.skipif(not NAMES, reason="the shared inputs are not beside this checkout")


def agreed(body: bytes, seed: int, **options: Any) -> Reading:
    """One reading of a body, which a reading of its pieces agrees with."""
    reading = asked_everything(read([body], **options))
    assert read(pieces(body, seed, longest=100), **options).told() == reading.told()
    return reading


FRAGMENTS = st.lists(
    st.binary(max_size=8)
    | st.sampled_from(
        [b"data: ", b"data:", b"\n\n", b"\r\n", b"\n", b"\r", b'{"type":"', b'"}', b"\\ud83d", b"null", b"{", b"["]
    )
    | st.sampled_from([STARTED, {"type": "RUN_ERROR", "message": "x"}]).map(lambda payload: sse([payload])),
    max_size=25,
).map(b"".join)


@effort(250)
@given(FRAGMENTS, st.integers(0, 1000), st.booleans())
def test_random_bytes(body: bytes, seed: int, lenient: bool) -> None:
    """P-13, P-16: nothing but a verdict comes of it."""
    agreed(body, seed, lenient=lenient, max_event_bytes=100, **ASKED)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """A recorded body with a few stretches of it changed, doubled, moved or cut out."""
    body, options, _ = recorded(draw(st.sampled_from(NAMES)))
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, max(len(body) - 1, 0)))
        stretch = body[start : start + draw(st.integers(0, 60))]
        rest = body[start + len(stretch) :]
        kind = draw(st.sampled_from(["cut", "double", "junk", "flip", "swap", "end"]))
        changed = {
            "cut": rest,
            "double": stretch + stretch + rest,
            "junk": draw(st.binary(max_size=10)) + stretch + rest,
            "flip": bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in stretch[:1]) + stretch[1:] + rest,
            "swap": rest[: len(stretch)] + stretch + rest[len(stretch) :],
            "end": b"",
        }
        body = body[:start] + changed[kind]
    return body, options


@needs_recordings
@effort(150)
@given(mutated(), st.integers(0, 1000), st.booleans())
def test_mutated_recordings(mutation: tuple[bytes, dict[str, Any]], seed: int, lenient: bool) -> None:
    """P-13, P-43: streams of real servers with a few bytes wrong."""
    body, options = mutation
    agreed(body, seed, lenient=lenient, **options)


@st.composite
def shuffled(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """The frames of recorded bodies, mixed and repeated: right by shape, and wrong by order."""
    body, options, _ = recorded(draw(st.sampled_from(NAMES)))
    frames = [frame + b"\n\n" for frame in body.split(b"\n\n") if len(frame) < 2000] or [b"\n\n"]
    order = draw(st.lists(st.integers(0, len(frames) - 1), max_size=20))
    return frames[0] + b"".join(frames[index] for index in order), options


@needs_recordings
@effort(100)
@given(shuffled(), st.integers(0, 1000))
def test_shuffled_recordings(mutation: tuple[bytes, dict[str, Any]], seed: int) -> None:
    """P-39, P-43: order of every kind, and the fold of whatever keeps it."""
    body, options = mutation
    agreed(body, seed, **options)


IDS = st.sampled_from(["m1", "m2", "c1", "a\ud83d", ""])


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """An event of the schema, or a damaged one, whose ids are few enough to meet; old and unknown ones among them."""
    kind = draw(st.sampled_from(["right", "right", "right", "damaged", "old"]))
    if kind == "old":
        name = draw(st.sampled_from(["THINKING_START", "THINKING_TEXT_MESSAGE_CONTENT", "THINKING_END", "FUTURE"]))
        return {"type": name, "delta": "x", "title": draw(OPAQUE)}
    document = draw(corrupted(EVENTS) if kind == "damaged" else EVENTS)
    for key in ("messageId", "toolCallId", "parentMessageId", "entityId", "subagentRunId", "delta"):
        if isinstance(document.get(key), str):
            document[key] = draw(IDS)
    if kind == "right" and document["type"] in ("RUN_STARTED", "RUN_FINISHED"):
        document |= {"threadId": "t1", "runId": "r1"}
    return document


@needs_schema
@effort(150)
@given(st.lists(events(), max_size=12), st.integers(0, 1000), st.booleans())
def test_events_drawn_from_the_schema(payloads: list[Any], seed: int, lenient: bool) -> None:
    """P-43, P-60: in any order, with ids that collide; the fold is reached, whatever it is told."""
    body = sse([STARTED, *payloads], ensure_ascii=True)
    reading = agreed(body, seed, lenient=lenient, **ASKED)
    assert read(json.loads(json.dumps([STARTED, *payloads])), lenient=lenient, **ASKED).told() == reading.told()


@needs_schema
@effort(100)
@given(OPAQUE | INPUTS | corrupted(INPUTS))
def test_requests(document: Any) -> None:
    """P-79, P-25: an input, or the class of error that its direction has."""
    body = json.dumps(document).encode()
    with suppress(RemoteDecodeError, RemoteProtocolError):
        asked = read_input(read_request(body, lambda record: None), lambda record: None)
        encode_input(outgoing_input(asked, lambda record: None))
    if isinstance(document, dict):
        with suppress(LocalProtocolError):
            encode_input(outgoing_input(document, lambda record: None))


@effort(50)
@given(
    st.lists(st.binary(max_size=3) | st.sampled_from([b"\n", b"data: x"]), min_size=1, max_size=8), st.integers(1, 200)
)
def test_what_is_held_is_bounded(parts: list[bytes], size: int) -> None:
    """P-14: whatever is sent for however long, no more than the limit and a read is held."""
    read_ = (b"".join(parts) or b"x") * size
    limit = 10_000
    framing = EventStreamFraming(limit)
    tracemalloc.start()
    try:
        with suppress(RemoteDecodeError):
            for _ in range(60):
                list(framing.feed(read_))
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 2 * limit + 2 * len(read_) + 20_000
