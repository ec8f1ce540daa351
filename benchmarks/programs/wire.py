"""The wire, in memory: bytes in and bytes out, beside the least that it can take and what others do.

wire frame CHUNK KIND COUNT      bytes to payloads, in reads of so many bytes (0: one for each event)
wire decode KIND COUNT           bytes to typed events
wire fold KIND COUNT             bytes to messages and state; ours verified: the whole client
wire transcript KIND COUNT       the same and the transcript, after every event; beside ours without it
wire growth KIND COUNT           the exponent of `fold` from an eighth of the size to all of it
wire patch ROWS COUNT            patches applied to a state of so many rows
wire encode KIND COUNT           events to frames
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from benchmarks.programs.clock import say, times
from benchmarks.programs.scripts import body, patches, payloads, state

Cases = dict[str, Callable[[], object]]
Numbers = dict[str, float]
READ = 16 * 1024


def cut(data: bytes, size: int) -> list[bytes]:
    """The data in reads of `size` bytes; 0 is one read for each event."""
    if size:
        return [data[start : start + size] for start in range(0, len(data), size)]
    return [block + b"\n\n" for block in data.split(b"\n\n") if block]


# -- the floors --------------------------------------------------------------------------------------------------------


class Splitter:
    """The least that frames an event stream: LF and CRLF, comments, several data lines; no limit, no lone CR."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, read: bytes) -> Iterator[bytes]:
        data = self.rest + read if self.rest else read
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        *blocks, self.rest = data.split(b"\n\n")
        for block in blocks:
            if block.startswith(b"data: ") and b"\n" not in block:
                yield block[6:]
            else:
                lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
                if lines:
                    yield b"\n".join(lines)


def split(data: bytes) -> list[bytes]:
    return [block[6:] for block in data.split(b"\n\n") if block]


def folded(loads: Callable[[bytes], Any], data: bytes) -> object:
    """The least that folds: deltas kept in lists and joined once, patches applied in place; nothing checked."""
    texts: dict[str, list[str]] = {}
    arguments: dict[str, list[str]] = {}
    shared: Any = None
    for payload in split(data):
        event = loads(payload)
        kind = event["type"]
        if kind == "TEXT_MESSAGE_CONTENT":
            texts[event["messageId"]].append(event["delta"])
        elif kind == "TEXT_MESSAGE_START":
            texts[event["messageId"]] = []
        elif kind == "TOOL_CALL_ARGS":
            arguments[event["toolCallId"]].append(event["delta"])
        elif kind == "TOOL_CALL_START":
            arguments[event["toolCallId"]] = []
        elif kind == "TOOL_CALL_RESULT":
            texts[event["messageId"]] = [event["content"]]
        elif kind == "STATE_SNAPSHOT":
            shared = event["snapshot"]
        elif kind == "STATE_DELTA":
            for operation in event["delta"]:
                walk(shared, operation)
    joined = "".join
    return {k: joined(v) for k, v in texts.items()}, {k: joined(v) for k, v in arguments.items()}, shared


def walk(value: Any, operation: dict[str, Any]) -> None:
    """The least that applies one `add`, `remove` or `replace`, in place and unchecked."""
    *tokens, last = operation["path"].split("/")[1:]
    for token in tokens:
        value = value[int(token)] if type(value) is list else value[token]
    kind = operation["op"]
    if type(value) is dict:
        if kind == "remove":
            del value[last]
        else:
            value[last] = operation["value"]
    elif kind == "add":
        value.insert(len(value) if last == "-" else int(last), operation["value"])
    elif kind == "remove":
        del value[int(last)]
    else:
        value[int(last)] = operation["value"]


# -- what is measured --------------------------------------------------------------------------------------------------


def frame(size: str, kind: str, count: str) -> Numbers:
    import httpx
    from httpx_sse import EventSource

    from handrail.agui._inbound import DEFAULT_MAX_EVENT_BYTES
    from handrail.agui._sse import EventStreamFraming

    reads = cut(body(kind, int(count)), int(size))

    class Stream(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return iter(reads)

    def through(make: Callable[[], Any]) -> Callable[[], int]:
        def run() -> int:
            feed = make().feed
            return sum(1 for read in reads for _ in feed(read))

        return run

    def sse() -> int:
        response = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Stream())
        return sum(1 for _ in EventSource(response).iter_sse())

    cases = {
        "splitter": through(Splitter),
        "handrail": through(lambda: EventStreamFraming(DEFAULT_MAX_EVENT_BYTES)),
        "httpx-sse": sse,
    }
    if len(seen := {case() for case in cases.values()}) != 1:
        raise RuntimeError(f"they do not agree on the number of events: {seen}")
    return times(cases, int(count))


def decode(kind: str, count: str) -> Numbers:
    import orjson
    from ag_ui.core import Event
    from pydantic import TypeAdapter

    from handrail.agui._enforce import quick_event, read_event
    from handrail.agui._json import parse_json

    data = body(kind, int(count))
    validate = TypeAdapter[Any](Event).validate_json

    def typed(payload: bytes) -> object:
        return quick_event(payload) or read_event(parse_json(payload), print)

    def each(read: Callable[[bytes], object]) -> Callable[[], None]:
        def run() -> None:
            for payload in split(data):
                read(payload)

        return run

    return times(
        {"split + orjson": each(orjson.loads), "handrail": each(typed), "ag_ui models": each(validate)},
        len(payloads(kind, int(count))),
    )


def client(reads: Iterable[bytes]) -> Callable[[], object]:
    """The whole of what comes in: framed, checked, verified, folded."""
    from handrail.agui._inbound import Inbound

    def run() -> object:
        inbound = Inbound(warn=print, new_id=str, thread_id="t-1", run_id="r-1")
        for read in reads:
            for _ in inbound.feed(read):
                pass
        for _ in inbound.end():
            pass
        if inbound.verdict.said != "success":
            raise RuntimeError(str(inbound.verdict))
        return inbound.fold.messages, inbound.fold.state

    return run


def naive(data: bytes) -> Callable[[], object]:
    """What one writes oneself: the models of ag_ui, strings that grow, jsonpatch."""
    import jsonpatch
    from ag_ui import core
    from pydantic import TypeAdapter

    validate = TypeAdapter[Any](core.Event).validate_json

    def run() -> object:
        texts: dict[str, str] = {}
        arguments: dict[str, str] = {}
        shared: Any = None
        for payload in split(data):
            event = validate(payload)
            match event.type:
                case core.EventType.TEXT_MESSAGE_CONTENT:
                    texts[event.message_id] += event.delta
                case core.EventType.TEXT_MESSAGE_START:
                    texts[event.message_id] = ""
                case core.EventType.TOOL_CALL_ARGS:
                    arguments[event.tool_call_id] += event.delta
                case core.EventType.TOOL_CALL_START:
                    arguments[event.tool_call_id] = ""
                case core.EventType.TOOL_CALL_RESULT:
                    texts[event.message_id] = event.content
                case core.EventType.STATE_SNAPSHOT:
                    shared = event.snapshot
                case core.EventType.STATE_DELTA:
                    patch = [operation.model_dump(by_alias=True) for operation in event.delta]
                    shared = jsonpatch.apply_patch(shared, patch, in_place=True)
                case _:
                    pass
        return texts, arguments, shared

    return run


def fold(kind: str, count: str) -> Numbers:
    import orjson

    data = body(kind, int(count))
    cases: Cases = {
        "fold floor": lambda: folded(orjson.loads, data),
        "handrail": client(cut(data, READ)),
        "ag_ui models": naive(data),
    }
    return times(cases, len(payloads(kind, int(count))))


def transcript(kind: str, count: str) -> Numbers:
    from handrail.agui._inbound import Inbound
    from handrail.transcript import TranscriptReducer

    reads = cut(body(kind, int(count)), READ)

    def both() -> object:
        inbound = Inbound(warn=print, new_id=str, thread_id="t-1", run_id="r-1")
        reducer = TranscriptReducer()
        for read in reads:
            for event in inbound.feed(read):
                reducer.accept(event)
        return inbound.fold.messages, reducer.transcript

    return times({"handrail": both, "without it": client(reads)}, len(payloads(kind, int(count))))


def growth(kind: str, count: str) -> Numbers:
    sizes = (int(count) // 8, int(count))
    cases = {str(size): client(cut(body(kind, size), READ)) for size in sizes}
    few, many = times(cases, 1).values()
    return {"handrail": math.log(many / few) / math.log(8)}


def patch(rows: str, count: str) -> Numbers:
    import jsonpatch
    from ag_ui.core import StateDeltaEvent

    from handrail.agui._patch import Document

    plain = list(patches(int(count), int(rows)))
    typed = [StateDeltaEvent.model_validate({"delta": one}).delta for one in plain]
    # Made outside the clock and patched again and again: what a state costs to copy is not what a patch costs.
    walked, taken, document = state(int(rows)), state(int(rows)), Document(state(int(rows)))

    def floor() -> None:
        for one in plain:
            for operation in one:
                walk(walked, operation)

    def ours() -> None:
        for one in typed:
            document.patch(one)

    def library() -> None:
        for one in plain:
            jsonpatch.apply_patch(taken, one, in_place=True)

    return times({"in-place walk": floor, "handrail": ours, "jsonpatch, in place": library}, int(count))


def encode(kind: str, count: str) -> Numbers:
    import orjson
    from ag_ui.core import Event
    from ag_ui.encoder import EventEncoder
    from pydantic import TypeAdapter

    from handrail.agui._encode import encode as frame_of

    lines = payloads(kind, int(count))
    plain = [orjson.loads(line) for line in lines]
    events = TypeAdapter[Any](list[Event]).validate_python(plain)
    encoder = EventEncoder()

    def floor() -> None:
        dumps = orjson.dumps
        for one in plain:
            b"data: " + dumps(one) + b"\n\n"

    def ours() -> None:
        for number, event in enumerate(events):
            frame_of(number, event)

    def theirs() -> None:
        for event in events:
            encoder.encode(event)

    return times({"orjson.dumps": floor, "handrail": ours, "EventEncoder": theirs}, len(lines))


WAYS: dict[str, Callable[..., Numbers]] = {
    one.__name__: one for one in (frame, decode, fold, transcript, growth, patch, encode)
}

if __name__ == "__main__":
    say(WAYS[sys.argv[1]](*sys.argv[2:]))
