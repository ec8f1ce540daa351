"""Chunks: lanes, what goes on and what opens, what an opener settles, and what ends an item."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.agui.counting import calls

from handrail.agui._chunks import ChunkExpansion
from handrail.agui._enforce import read_event
from handrail.errors import RemoteProtocolError


def text(message_id: str | None = None, delta: str | None = None, **fields: Any) -> dict[str, Any]:
    return chunk("TEXT_MESSAGE_CHUNK", messageId=message_id, delta=delta, **fields)


def call(
    call_id: str | None = None, name: str | None = None, delta: str | None = None, **fields: Any
) -> dict[str, Any]:
    return chunk("TOOL_CALL_CHUNK", toolCallId=call_id, toolCallName=name, delta=delta, **fields)


def thought(message_id: str | None = None, delta: str | None = None, **fields: Any) -> dict[str, Any]:
    return chunk("REASONING_MESSAGE_CHUNK", messageId=message_id, delta=delta, **fields)


def chunk(kind: str, tag: str | None = None, **fields: Any) -> dict[str, Any]:
    given = {"type": kind, "subagentRunId": tag, **fields}
    return {key: value for key, value in given.items() if value is not None}


def expand(expansion: ChunkExpansion, payload: dict[str, Any]) -> list[dict[str, Any]]:
    event = read_event(payload, pytest.fail)
    assert event is not None
    made = expansion.expand(event)
    for part in made:
        dump = part.model_dump(by_alias=True, exclude_unset=True, mode="json")
        assert read_event(dump, pytest.fail) == part
    return [part.model_dump(by_alias=True, exclude_unset=True, mode="json") for part in made]


def expanded(*payloads: dict[str, Any]) -> list[dict[str, Any]]:
    expansion = ChunkExpansion()
    return [made for payload in payloads for made in expand(expansion, payload)]


def refused(*payloads: dict[str, Any]) -> RemoteProtocolError:
    """The refusal of the last one, which leaves everything as it was."""
    *before, last = payloads
    expansion = ChunkExpansion()
    for payload in before:
        expand(expansion, payload)
    standing = dict(expansion.open)
    with pytest.raises(RemoteProtocolError) as caught:
        expand(expansion, last)
    assert expansion.open == standing
    assert caught.value.event_type == last["type"]
    assert last["type"] in str(caught.value)
    return caught.value


def start(message_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant", **fields}


def content(message_id: str, delta: str, **fields: Any) -> dict[str, Any]:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": delta, **fields}


def end(message_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "TEXT_MESSAGE_END", "messageId": message_id, **fields}


FINISHED = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
CUSTOM = {"type": "CUSTOM", "name": "x", "value": 1}
RAW = {"type": "RAW", "event": 1}


def test_chunks_of_each_kind_are_expanded() -> None:
    """P-32, P-33: the START carries what was given, role assistant where none was; each delta is a CONTENT or ARGS."""
    assert expanded(text("m", "a"), text(None, "b"), text("m", ""), FINISHED) == [
        start("m"),
        content("m", "a"),
        content("m", "b"),
        content("m", ""),
        end("m"),
        FINISHED,
    ]
    assert expanded(text("m", role="user", name="Ann")) == [start("m", role="user", name="Ann")]
    assert expanded(call("c", "f", "{", parentMessageId="m"), call(None, None, "}"), FINISHED) == [
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "}"},
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
        FINISHED,
    ]
    assert expanded(thought("g", "a"), FINISHED) == [
        {"type": "REASONING_MESSAGE_START", "messageId": "g", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "g", "delta": "a"},
        {"type": "REASONING_MESSAGE_END", "messageId": "g"},
        FINISHED,
    ]


def test_what_a_chunk_carries_decides_what_it_yields() -> None:
    """P-33: metadata goes on every event of the chunk and on no END; `rawEvent` makes a content."""
    note, raw = {"metadata": {"a": None}}, {"rawEvent": {"x": 1}}
    assert expanded(text("m")) == [start("m")]
    assert expanded(text("m", **note)) == [start("m", **note)]
    assert expanded(text("m", **raw)) == [start("m"), content("m", "", **raw)]
    assert expanded(text("m", "a", **note, **raw, timestamp=5)) == [
        start("m", **note, timestamp=5),
        content("m", "a", **note, **raw, timestamp=5),
    ]
    assert expanded(text("m"), text(), text("m")) == [start("m")]
    assert expanded(text("m"), text(**note)) == [start("m"), content("m", "", **note)]
    assert expanded(text("m"), text(timestamp=5)) == [start("m")]
    assert expanded(text("m", "a"), text("n", "b", **note)) == [
        start("m"),
        content("m", "a"),
        end("m"),
        start("n", **note),
        content("n", "b", **note),
    ]


@pytest.mark.parametrize(
    ("payload", "key"),
    [
        (text(None, "a"), "messageId"),
        (thought(None, "a"), "messageId"),
        (call(None, "f"), "toolCallId"),
        (call("c", None, "{"), "toolCallName"),
    ],
)
def test_the_first_chunk_must_say_what_it_opens(payload: dict[str, Any], key: str) -> None:
    """P-32: ids, and the name of a tool; the item that stands in the lane is not ended by the refusal."""
    for before in (
        (),
        (text("m", "a"), CUSTOM),
        (thought("g"),) if payload["type"] != "REASONING_MESSAGE_CHUNK" else (),
    ):
        error = refused(*before, payload)
        assert f"First {payload['type']} must have a {key}" in str(error)
        assert error.path == f"/{key}"
        assert error.rule == "P-32"


@pytest.mark.parametrize(
    ("opener", "later", "key"),
    [
        (text("m"), text("m", "a", role="user"), "role"),
        (text("m", role="user"), text(None, "a", role="assistant"), "role"),
        (text("m", name="Ann"), text("m", name="Bob"), "name"),
        (text("m"), text("m", name="Bob"), "name"),
        (call("c", "f"), call("c", "g"), "toolCallName"),
        (call("c", "f", parentMessageId="m"), call(None, None, parentMessageId="n"), "parentMessageId"),
        (call("c", "f"), call(None, None, parentMessageId="n"), "parentMessageId"),
    ],
)
def test_what_the_opener_settled_cannot_be_changed(opener: dict[str, Any], later: dict[str, Any], key: str) -> None:
    """P-31: by omission too, for no role means assistant and no name means none."""
    error = refused(opener, later)
    assert f"does not match the open stream's {key}" in str(error)
    assert error.path == f"/{key}"


@pytest.mark.parametrize(
    ("opener", "later"),
    [
        (text("m"), text("m", role="assistant")),
        (text("m", role="user", name="Ann"), text(role="user", name="Ann")),
        (call("c", "f", parentMessageId="m"), call("c", "f", parentMessageId="m")),
    ],
)
def test_what_the_opener_settled_may_be_repeated(opener: dict[str, Any], later: dict[str, Any]) -> None:
    """P-31: equal values, and a role that was left to its default."""
    assert len(expanded(opener, later)) == 1


def test_another_id_or_kind_ends_the_item_of_the_lane() -> None:
    """P-30, P-32: a lane holds one item."""
    assert [made["type"] for made in expanded(text("m", "a"), call("c", "f"), thought("g", "b"), text("m", "c"))] == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_END",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
    ]


S1, S2 = {"tag": "s1"}, {"tag": "s2"}
OF_S1, OF_S2 = {"subagentRunId": "s1"}, {"subagentRunId": "s2"}


def test_lanes_do_not_disturb_each_other() -> None:
    """P-30: one for the parent, one for each subagent; the tag of an opener goes on."""
    assert expanded(text("m", "a"), text("n", "b", **S1), text("m", "c"), text("n", "d"), text(None, "e", **S1)) == [
        start("m"),
        content("m", "a"),
        start("n", **OF_S1),
        content("n", "b", **OF_S1),
        content("m", "c"),
        content("n", "d", **OF_S1),
        content("n", "e", **OF_S1),
    ]


def test_a_chunk_without_id_and_tag_needs_one_clear_reading() -> None:
    """P-30: the parent's if it holds the kind, else the only lane that does, else the parent's; two are ambiguous."""
    assert expanded(text("m", **S1), text("n"), text(None, "a"))[-1] == content("n", "a")
    assert expanded(text("m", **S1), text(None, "a"))[-1] == content("m", "a", **OF_S1)
    assert expanded(text("m", **S1), call("c", "f", **S2), text(None, "a"))[-1] == content("m", "a", **OF_S1)
    assert expanded(call("c", "f"), text("m", **S1), text(None, "a"))[-1] == content("m", "a", **OF_S1)
    error = refused(text("m", **S1), text("n", **S2), text(None, "a"))
    assert "ambiguous" in str(error)
    assert error.rule == "P-30"
    assert "First TEXT_MESSAGE_CHUNK" in str(refused(call("c", "f", **S1), text(None, "a")))


def test_a_tag_that_names_another_lane_is_refused() -> None:
    """P-30: an id that is held belongs to its item's lane; one that nobody holds goes where the tag says."""
    for before, later in (
        (text("m", **S1), text("m", "a", **S2)),
        (text("m"), text("m", "a", **S1)),
    ):
        error = refused(before, later)
        assert "does not match" in str(error)
        assert error.path == "/subagentRunId"
    assert expanded(text("m"), text("n", **S1))[-1] == start("n", **OF_S1)
    assert expanded(text("m"), text("n", **S1), text("n", "a", **S1))[-1] == content("n", "a", **OF_S1)
    assert expanded(text("x", **S1), thought("x", "a", **S2))[-1]["subagentRunId"] == "s2"


ENDS_ITS_LANE = [
    start("x"),
    content("x", ""),
    end("x"),
    {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": ""},
    {"type": "TOOL_CALL_END", "toolCallId": "c"},
    {"type": "TOOL_CALL_RESULT", "messageId": "t", "toolCallId": "c", "content": ""},
    {"type": "REASONING_START", "messageId": "g"},
    {"type": "REASONING_END", "messageId": "g"},
    {"type": "REASONING_MESSAGE_START", "messageId": "g", "role": "reasoning"},
    {"type": "REASONING_MESSAGE_CONTENT", "messageId": "g", "delta": ""},
    {"type": "REASONING_MESSAGE_END", "messageId": "g"},
    {"type": "STATE_SNAPSHOT", "snapshot": 1},
    {"type": "STATE_DELTA", "delta": []},
    {"type": "STEP_STARTED", "stepName": "s"},
    {"type": "STEP_FINISHED", "stepName": "s"},
    CUSTOM,
]
ENDS_ALL = [
    {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
    FINISHED,
    {"type": "RUN_ERROR", "message": "x"},
    {"type": "MESSAGES_SNAPSHOT", "messages": []},
]
ENDS_NONE = [
    RAW,
    {"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "x", "content": {}},
    {"type": "ACTIVITY_DELTA", "messageId": "a", "activityType": "x", "patch": []},
    {"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "e", "encryptedValue": "v"},
    {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "x"},
]


def names(payload: dict[str, Any]) -> str:
    return payload["type"]


@pytest.mark.parametrize("payload", ENDS_ITS_LANE, ids=names)
def test_most_events_end_the_item_of_their_own_lane(payload: dict[str, Any]) -> None:
    """P-34: the END comes before the event, and other lanes go on."""
    opened = (text("m"), text("n", **S1))
    assert expanded(*opened, payload)[2:] == [end("m"), payload]
    assert expanded(*opened, payload | OF_S1)[2:] == [end("n", **OF_S1), payload | OF_S1]
    assert expanded(*opened, payload | OF_S2)[2:] == [payload | OF_S2]


@pytest.mark.parametrize("payload", ENDS_ALL, ids=names)
def test_the_ends_of_runs_and_snapshots_end_all(payload: dict[str, Any]) -> None:
    """P-34: in the order of opening, however the items went on since."""
    opened = (text("m", **S2), call("c", "f"), text("n", **S1), text("m", "x"))
    ends = [end("m", **OF_S2), {"type": "TOOL_CALL_END", "toolCallId": "c"}, end("n", **OF_S1)]
    assert expanded(*opened, payload)[4:] == [*ends, payload]


@pytest.mark.parametrize("payload", ENDS_NONE, ids=names)
def test_some_events_end_nothing(payload: dict[str, Any]) -> None:
    """P-34: what may be sent in the middle of an item."""
    assert expanded(text("m"), text("n", **S1), payload)[2:] == [payload]


@pytest.mark.parametrize(
    "payload", [{"type": "SUBAGENT_FINISHED"}, {"type": "SUBAGENT_ERROR", "message": "x"}], ids=names
)
def test_the_end_of_a_subagent_ends_its_item(payload: dict[str, Any]) -> None:
    """P-34: before it, and no other."""
    payload = payload | OF_S1
    assert expanded(text("m"), text("n", **S1), payload)[2:] == [end("n", **OF_S1), payload]


def test_many_lanes_cost_no_more_than_few() -> None:
    """P-30, P-60: neither the lane of an id nor that of a chunk that names nothing is searched for."""
    counts = set[int]()
    for size in (2, 300):
        expansion = ChunkExpansion()
        for number in range(size):
            expand(expansion, text(f"m{number}", "x", tag=f"s{number}"))
        expand(expansion, thought("g", "x"))
        for payload in (text("new", "x"), thought("g", "y"), text("m1", "y"), text("m1", "y", tag="s1")):
            event = read_event(payload, pytest.fail)
            assert event is not None
            counts.add(len(payload) * 1000 + calls(partial(expansion.expand, event), "call", "c_call"))
    assert len(counts) == 4


def test_an_item_ended_by_an_event_is_not_gone_on_with() -> None:
    """P-34: shown by a CUSTOM between two chunks; a RAW leaves one message."""
    assert "First TEXT_MESSAGE_CHUNK must have a messageId" in str(refused(text("m", "a"), CUSTOM, text(None, "b")))
    assert expanded(text("m", "a"), RAW, text(None, "b"))[-1] == content("m", "b")
    assert expanded(text("m", "a"), CUSTOM, text("m", "b"))[2:] == [end("m"), CUSTOM, start("m"), content("m", "b")]


def test_halves_of_surrogate_pairs_pass() -> None:
    """P-19: also in ids, which no model is asked to check again."""
    made = ChunkExpansion().expand(read_event(text("m\ud83d", "\ude00"), pytest.fail))  # type: ignore[arg-type]
    assert [part.message_id for part in made] == ["m\ud83d"] * 2  # type: ignore[union-attr]
