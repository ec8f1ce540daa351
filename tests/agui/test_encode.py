"""An event as bytes: one frame, one line, nothing that ends it early."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from ag_ui.core import (
    CustomEvent,
    Event,
    RawEvent,
    ReasoningMessageContentEvent,
    RunErrorEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    TextPart,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.conformance import NAMES, fixture
from tests.agui.counting import calls
from tests.agui.effort import effort
from tests.agui.wires import read, sse, whole

from handrail.agui._encode import encode, encode_next
from handrail.agui._shape_table import EVENT_SHAPES
from handrail.agui._shapes import Choice, Constant, Field, Record, Text, TextOrMany

DELTAS: list[Any] = [
    lambda name, text: TextMessageContentEvent(message_id=name, delta=text),
    lambda name, text: ReasoningMessageContentEvent(message_id=name, delta=text),
    lambda name, text: ToolCallArgsEvent(tool_call_id=name, delta=text),
]
TEXTS = st.text(st.sampled_from('a"\\/\r\n\t\x00\x0b\x0c\x1c\x7f\u0085\u2028\u2029\ud83d\ude00é漢😀'), max_size=12)


_OTHERS: dict[str, Any] = {
    "timestamp": 0,
    "rawEvent": {"a": None},
    "metadata": {"a": [1.5]},
    "result": {"b": False},
    "outcome": {"type": "success"},
    "usage": [{"provider": "p", "model": "m"}],
    "input": {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": [], "state": {}},
}


def _sample(slot: Field) -> Any:
    """A text that may stand there; None where there stands something else."""
    match slot.shape:
        case Text() | TextOrMany():
            return 'é"\n\\'
        case Choice(values):
            return min(values)
        case Constant(_, value):
            return value
        case _:
            return None


def said(event: Event) -> Any:
    """The JSON of a frame, which is one line of UTF-8."""
    frame = encode(7, event)
    head, line, *rest = frame.decode().split("\n")
    assert (head, rest) == ("id: 7", ["", ""])
    assert line.splitlines() == [line]
    return json.loads(line.removeprefix("data: "))


@pytest.mark.parametrize("make", DELTAS)
@given(TEXTS, TEXTS)
@effort(60)
def test_deltas(make: Any, name: str, text: str) -> None:
    """P-83: a delta is one line whatever is in it; halves are joined, a lone one is U+FFFD."""
    event = make(name, text)
    expected = [value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for value in (name, text)]
    key = "toolCallId" if isinstance(event, ToolCallArgsEvent) else "messageId"
    assert said(event) == {"type": event.type.value, key: expected[0], "delta": expected[1]}


@pytest.mark.parametrize("make", DELTAS[:2])
@given(TEXTS, TEXTS, TEXTS)
@effort(60)
def test_next_deltas(make: Any, name: str, before: str, text: str) -> None:
    """P-83, P-85: a delta written after the one before has the very bytes that it would have had by itself."""
    assert encode_next(7, make(name, before), text) == encode(7, make(name, text))


def test_a_next_delta_is_a_string() -> None:
    """P-85: what the model of the event would refuse is no frame the short way either."""
    for wrong in (None, 1, b"x", ["x"]):
        with pytest.raises(TypeError):
            encode_next(0, TextMessageContentEvent(message_id="m", delta="x"), wrong)  # type: ignore[arg-type]


def test_a_frame() -> None:
    """P-83: the number, one data line, an empty line, LF only; non-ASCII text as it is, separators escaped."""
    event = TextMessageContentEvent(message_id="m", delta="é\u2028\r\n")
    assert encode(0, event) == (
        b'id: 0\ndata: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\xc3\xa9\\u2028\\r\\n"}\n\n'
    )


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (TextMessageStartEvent(message_id="m"), {"messageId": "m"}),
        (
            TextMessageContentEvent(message_id="m", delta="", subagent_run_id="s"),
            {"messageId": "m", "delta": "", "subagentRunId": "s"},
        ),
        (
            TextMessageContentEvent(message_id="m", delta="", metadata={"a": None}),
            {"messageId": "m", "delta": "", "metadata": {"a": None}},
        ),
        (TextMessageContentEvent(message_id="m", delta="", metadata=None), {"messageId": "m", "delta": ""}),
        (ToolCallStartEvent(tool_call_id="c", tool_call_name="f"), {"toolCallId": "c", "toolCallName": "f"}),
        (
            TextMessageStartEvent(message_id="m", role="user", name=None, subagent_run_id="s"),
            {"messageId": "m", "role": "user", "subagentRunId": "s"},
        ),
        (
            ToolCallResultEvent(message_id="m", tool_call_id="c", content="x", role="tool"),
            {"messageId": "m", "toolCallId": "c", "content": "x", "role": "tool"},
        ),
        (
            ToolCallResultEvent(message_id="m", tool_call_id="c", content=[TextPart(text="x")]),
            {"messageId": "m", "toolCallId": "c", "content": [{"type": "text", "text": "x"}]},
        ),
        (StateSnapshotEvent(snapshot=None), {"snapshot": None}),
        (
            CustomEvent(name="x", value={"a": [None, "\u2029\ud83d", 1.5]}),
            {"name": "x", "value": {"a": [None, "\u2029\ufffd", 1.5]}},
        ),
        (RawEvent(event=0), {"event": 0}),
        (RunErrorEvent(message="e"), {"message": "e"}),
        (
            StateDeltaEvent.model_validate({"delta": [{"op": "move", "from": "/a", "path": "/b", "extra": 1}]}),
            {"delta": [{"op": "move", "from": "/a", "path": "/b", "extra": 1}]},
        ),
    ],
)
def test_other_events(event: Event, expected: dict[str, Any]) -> None:
    """P-83: keys by alias, absent fields left out, null kept where it is data."""
    assert said(event) == {"type": event.type.value, **expected}


_TEXTS = [
    # Events whose required fields are texts, without any other field and with each of those.
    (record, more)
    for record in EVENT_SHAPES.values()
    if all(_sample(slot) for slot in record.fields.values() if slot.required)
    for more in ["", *(key for key, slot in record.fields.items() if not slot.required)]
]


@pytest.mark.parametrize(("record", "more"), _TEXTS)
def test_every_field_of_an_event_of_texts(record: Record, more: str) -> None:
    """P-83: written from the table or the general way, it is what the model says of itself, in the same order."""
    given = {key: _sample(slot) for key, slot in record.fields.items() if slot.required}
    if more:
        given[more] = _sample(record.fields[more]) or _OTHERS[more]
    event: Any = record.model.model_validate(given)
    expected = event.model_dump(mode="json", by_alias=True)
    assert expected.keys() == given.keys()
    assert list(said(event).items()) == list(expected.items())


def test_what_is_no_json() -> None:
    """P-83: opaque data that JSON cannot hold raises, and makes no frame."""
    with pytest.raises((TypeError, ValueError)):
        encode(0, CustomEvent(name="x", value=object()))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("beside", ["x", "\ud83d", "NaN"])
def test_a_number_that_json_does_not_have_makes_no_frame(number: float, beside: str) -> None:
    """P-83, P-16: no peer could read it; the same word in a text is text."""
    with pytest.raises(ValueError, match="JSON"):
        encode(0, CustomEvent(name="x", value={"a": [number], "b": beside}))
    words = {"NaN": "Infinity", "-Infinity": beside}
    assert said(CustomEvent(name="x", value=words)) == {
        "type": "CUSTOM",
        "name": "x",
        "value": {"NaN": "Infinity", "-Infinity": beside.replace("\ud83d", "\ufffd")},
    }


@pytest.mark.parametrize("text", ["hello", "漢字", "\u2028", "\ud83d"])
@pytest.mark.parametrize(
    "make",
    [
        *DELTAS,
        lambda name, text: TextMessageStartEvent(message_id=name, role="user", name=text),
        lambda name, text: ToolCallStartEvent(tool_call_id=name, tool_call_name=text),
        lambda name, text: ToolCallResultEvent(message_id=name, tool_call_id="c", content=text),
    ],
)
def test_cost(make: Any, text: str) -> None:
    """F-7: at most three Python calls for an ordinary event."""
    event = make("m", text)
    encode(1, event)  # the first of a process finds its codecs
    assert calls(lambda: encode(1, event), "call") <= 1 + 3  # with that of the lambda


@pytest.mark.parametrize("name", NAMES)
def test_fixtures_read_back(name: str) -> None:
    """P-98: what a conformance stream delivers is the same when our encoder has sent it."""
    first = read(whole(sse(fixture(name)["stream"])))
    again = read([b"".join(encode(number, event) for number, event in enumerate(first.events))])
    assert again.dumps == first.dumps
    assert again.messages == first.messages
    assert again.inbound.fold.state == first.inbound.fold.state
