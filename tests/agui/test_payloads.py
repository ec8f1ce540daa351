"""Payloads on the way in: what one is, how it is framed, and how large it may be."""

from __future__ import annotations

from typing import Any

import pytest
from tests.agui.incoming import ASKED, finished, started, text, told
from tests.agui.wires import pieces, read, read_every_cut, sse

from handrail.errors import RemoteDecodeError, TruncatedError


@pytest.mark.parametrize(
    "junk",
    [
        b"[DONE]",
        b'"x"',
        b"5",
        b"[{}]",
        b"{}",
        b'{"type":null}',
        b'{"type":""}',
        b'{"type":5}',
        b'{"type":"A"}{"type":"B"}',
        b'{"type":"STATE_SNAPSHOT","snapshot":NaN}',
        b'{"type":"STATE_SNAPSHOT","snapshot":1e999}',
        b'{"type":"STATE_SNAPSHOT","snapshot":' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"type":"STATE_SNAPSHOT","snapshot":' + b"[" * 100_000,
        b"x" * 1000,
    ],
)
def test_a_payload_is_one_json_object_with_a_type(junk: bytes) -> None:
    """P-16, P-5: anything else is `decode`, with an index and an excerpt; what came before stays."""
    reading = read([sse([started()]) + b"data: " + junk + b"\n\n" + sse([finished()])], **ASKED)
    cause = reading.verdict.cause
    assert isinstance(cause, RemoteDecodeError)
    assert cause.kind == "decode"
    assert cause.index == 1
    assert 0 < len(cause.excerpt) <= 200
    assert cause.excerpt in str(cause)
    assert reading.types == ["RUN_STARTED"]


def test_a_payload_may_be_nested_200_levels() -> None:
    """P-16: the object itself is the first."""
    fits = b'data: {"type":"STATE_SNAPSHOT","snapshot":' + b"[" * 199 + b"]" * 199 + b"}\n\n"
    assert read([sse([started()]) + fits + sse([finished()])], **ASKED).verdict.said == "success"


def test_of_a_key_given_twice_the_last_stands() -> None:
    """P-16: on the quick way and on the long one."""
    for delta in ('"a","delta":"b"', '5,"delta":"b"', 'null,"delta":"b"', '"\\ud83d","delta":"b"'):
        twice = f'data: {{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":{delta}}}\n\n'.encode()
        body = sse([started(), text("m")[0]]) + twice + sse([text("m")[-1], finished()])
        assert read([body], **ASKED).messages[0]["content"] == "b"


def test_a_frame_cut_off_by_the_end_is_used_if_it_is_whole() -> None:
    """P-15: with a warning; one that is not whole is never parsed, and the run is truncated."""
    body = sse([started(), finished()])
    reading = read_every_cut(body.rstrip(b"\n"), **ASKED)
    assert reading.verdict.said == "success"
    assert reading.codes == ["unfinished-frame"]
    for rest in (b"data: [DONE]", b'data: {"type":"RUN_FINI', b"data: {}", b"event: x", b'data: {"type":"X"}{}'):
        reading = read_every_cut(sse([started()]) + rest, **ASKED)
        assert isinstance(reading.verdict.cause, TruncatedError)
        assert reading.codes == []
    reading = read_every_cut(body + b'data: {"type":', **ASKED)
    assert (reading.verdict.said, reading.codes) == ("success", [])


def test_invalid_bytes_are_replaced_with_one_warning_a_stream() -> None:
    """P-10: U+FFFD, and one `encoding` warning however many there are."""
    body = sse([started(), *text("m", "a!", "!b"), finished()]).replace(b"!", b"\xff\xc3")
    reading = read_every_cut(body, **ASKED)
    assert reading.messages[0]["content"] == "a��" + "��b"
    assert reading.codes == ["encoding"]


def test_halves_of_a_character_in_two_deltas_are_one() -> None:
    """P-19: held as it is while the other half may come; nothing raises if it never does."""
    payloads = [started(), *text("m", "ok \ud83d", "\ude00 done", "\ud83d"), finished()]
    reading = read_every_cut(sse(payloads, ensure_ascii=True), **ASKED)
    assert reading.messages[0]["content"] == "ok 😀 done\ud83d"
    assert reading.verdict.said == "success"


def test_a_chunk_outside_of_a_run_is_refused_as_a_chunk() -> None:
    """P-36, P-35: the refusal names the event that was sent, and not the first that it stands for."""
    chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "x"}
    for refused in (told(started(), finished(), chunk).verdict.rejected, told(chunk).verdict.cause):
        assert refused.event_type == "TEXT_MESSAGE_CHUNK"
        assert "'TEXT_MESSAGE_CHUNK'" in str(refused)


def test_the_lane_of_an_event_without_a_tag_is_that_of_its_owner() -> None:
    """P-34, P-41: what a subagent opened and goes on with untagged ends the subagent's chunks, not the parent's."""
    a = {"subagentRunId": "A"}
    for opener, item, cost in (
        ({"type": "TEXT_MESSAGE_START", "messageId": "m", **a}, {"messageId": "m"}, "TEXT_MESSAGE"),
        ({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", **a}, {"toolCallId": "c"}, "TOOL_CALL"),
    ):
        reading = told(
            started(),
            {"type": "SUBAGENT_STARTED", "name": "a", **a},
            opener,
            {"type": "REASONING_MESSAGE_CHUNK", "messageId": "mine", "delta": "x"},
            {"type": "REASONING_MESSAGE_CHUNK", "messageId": "its", "delta": "x", **a},
            {"type": f"{cost}_END", **item},
            {"type": "REASONING_MESSAGE_CHUNK", "delta": "y"},
        )
        assert [event["messageId"] for event in reading.dumps if event["type"] == "REASONING_MESSAGE_END"] == ["its"]
        assert [message["content"] for message in reading.messages if message["role"] == "reasoning"] == ["xy", "x"]


def test_a_call_of_a_subagents_message_ends_the_subagents_chunks() -> None:
    """P-34, P-41: a call without a tag is its parent message's owner's."""
    a = {"subagentRunId": "A"}
    reading = told(
        started(),
        {"type": "TEXT_MESSAGE_START", "messageId": "m", **a},
        {"type": "REASONING_MESSAGE_CHUNK", "messageId": "mine", "delta": "x"},
        {"type": "REASONING_MESSAGE_CHUNK", "messageId": "its", "delta": "x", **a},
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f", "parentMessageId": "m"},
    )
    assert [event["messageId"] for event in reading.dumps if event["type"] == "REASONING_MESSAGE_END"] == ["its"]


@pytest.mark.parametrize(
    ("payload", "said"),
    [({}, "it has no type"), ({"type": 1}, "a name but the number 1"), ({"type": ""}, 'a name but the string ""')],
)
def test_a_payload_without_a_usable_type_is_told_what_is_wrong(payload: dict[str, Any], said: str) -> None:
    """P-16, P-7: a type that is no name is another mistake than none."""
    cause = told(started(), payload).verdict.cause
    assert cause.kind == "decode"
    assert said in str(cause)


@pytest.mark.parametrize("before", [[], [started()], [started(), {"type": "NEWER"}]])
def test_an_event_too_large_is_named_by_its_number_and_beginning(before: list[dict[str, Any]]) -> None:
    """P-5, P-14: the refused event's own number, and at most 200 characters of it, however the body is cut."""
    for large in (
        b'data: {"type":"CUSTOM","value":"' + b"x" * 2000 + b'"}\n\n',
        b"id: " + b"9" * 900 + b'\ndata: {"type":\ndata: "CUSTOM",\ndata: "value":"' + b"x" * 2000 + b'"}\n\n',
        b"".join(b"data: %d\n" % number for number in range(1000)),
    ):
        cause = read_every_cut(sse(before) + large, max_event_bytes=1000).verdict.cause
        assert (cause.kind, cause.index) == ("decode", len(before))
        assert 0 < len(cause.excerpt) <= 200
        assert cause.excerpt in str(cause)
    assert cause.excerpt.startswith(r"0\n1\n2")


def test_an_event_too_large_fails_the_run_or_comes_after_it() -> None:
    """P-14, P-45: the limit is named; before that everything was delivered."""
    long = b"data: " + b"x" * 300
    reading = read_every_cut(sse([started()]) + long, **ASKED, max_event_bytes=200)
    assert isinstance(reading.verdict.cause, RemoteDecodeError)
    assert "200 bytes" in reading.verdict.message
    assert reading.types == ["RUN_STARTED"]
    reading = read_every_cut(sse([started(), finished()]) + long, **ASKED, max_event_bytes=200)
    assert (reading.verdict.said, reading.verdict.rejected) == ("success", None)
    assert reading.codes == ["event-after-end"]


def test_leniency_is_for_servers_before_1_0() -> None:
    """P-27: nulls read as absent and ids that disagree are warnings; what is required stays so."""
    payloads = [
        started() | {"threadId": "another", "parentRunId": None},
        {**text("m", "a")[0], "role": None, "timestamp": None},
        *text("m", "a")[1:],
        finished("r9"),
    ]
    reading = told(*payloads, lenient=True)
    assert reading.verdict.said == "success"
    assert set(reading.codes) == {"null-read-as-absent", "run-id-mismatch"}
    assert told(*payloads).verdict.failure == "client"
    assert told(started(), {"type": "TEXT_MESSAGE_END", "messageId": None}, lenient=True).verdict.failure == "client"


def test_old_thinking_events_fold_to_reasoning() -> None:
    """P-26, P-1: the ids come from the argument; a continuation with no opener is refused."""
    thinking = [
        {"type": "THINKING_START"},
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "hm"},
        {"type": "THINKING_TEXT_MESSAGE_END"},
        {"type": "THINKING_END"},
    ]
    reading = told(started(), *thinking, finished())
    assert reading.verdict.said == "success"
    assert reading.messages == [{"id": "id-2", "role": "reasoning", "content": "hm"}]
    assert reading.codes == ["legacy"]
    reading = told(started(), thinking[2], finished())
    assert "No active reasoning message" in reading.verdict.message
    assert reading.codes == ["legacy", "legacy"]


def test_payloads_take_the_same_way_as_bytes() -> None:
    """P-8, P-16: same rules, without framing and JSON; the payload is not changed."""
    payloads = [started(), {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a", "x": 1}, finished()]
    assert read(payloads, **ASKED).told() == told(*payloads).told()
    assert payloads[1]["x"] == 1
    for junk in ({}, {"type": None}, {"type": ""}):
        assert isinstance(read([started(), junk], **ASKED).verdict.cause, RemoteDecodeError)


class Lines:
    """Another binding: one payload a line."""

    def __init__(self) -> None:
        self.line = b""

    def feed(self, read: bytes) -> Any:
        *lines, self.line = (self.line + read).split(b"\n")
        yield from filter(None, lines)

    def end(self) -> bytes | None:
        return self.line or None


def test_another_framing_can_be_plugged_in() -> None:
    """P-8: the reader takes payloads from any framing."""
    body = b"".join(
        sse([payload]).strip().removeprefix(b"data: ") + b"\n" for payload in [started(), *text("m", "a"), finished()]
    )
    reading = read(pieces(body), framing=Lines(), **ASKED)
    assert reading.verdict.said == "success"
    assert reading.messages[0]["content"] == "a"
