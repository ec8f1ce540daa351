"""The way in as a whole: one payload at a time, the latch on the verdict, and what is said beside the events."""

from __future__ import annotations

import gc
import random
import sys
from typing import Any

import pytest
from ag_ui.core import UserMessage
from hypothesis import given
from hypothesis import strategies as st
from tests.agui.effort import effort
from tests.agui.wires import Reading, bytewise, pieces, read, read_every_cut, sse

from handrail.agui._inbound import Inbound
from handrail.agui._verdict import CANCELLED_CODE, CLIENT_ERROR_CODE
from handrail.errors import RemoteDecodeError, RemoteProtocolError, TransportError, TruncatedError

ASKED = {"thread_id": "t1", "run_id": "r1"}


def started(run_id: str = "r1", **fields: Any) -> dict[str, Any]:
    return {"type": "RUN_STARTED", "threadId": "t1", "runId": run_id, **fields}


def finished(run_id: str = "r1", **fields: Any) -> dict[str, Any]:
    return {"type": "RUN_FINISHED", "threadId": "t1", "runId": run_id, **fields}


def errored(message: str = "boom", code: str | None = "X") -> dict[str, Any]:
    return {"type": "RUN_ERROR", "message": message} | ({} if code is None else {"code": code})


def text(message_id: str, *deltas: str) -> list[dict[str, Any]]:
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"},
        *({"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": delta} for delta in deltas),
        {"type": "TEXT_MESSAGE_END", "messageId": message_id},
    ]


def told(*payloads: dict[str, Any], **options: Any) -> Reading:
    return read_every_cut(sse(payloads), **ASKED, **options)


def test_each_payload_is_applied_before_the_next_is_looked_at() -> None:
    """P-43, P-2: shown by an error and what follows it in one read; what was emitted stays."""
    reading = told(started(), errored(), finished())
    assert reading.types == ["RUN_STARTED", "RUN_ERROR"]
    verdict = reading.verdict
    assert (verdict.said, verdict.failure, verdict.outcome) == ("error", "agent", "failed")
    assert (verdict.message, verdict.code) == ("boom", "X")
    assert isinstance(verdict.rejected, RemoteProtocolError)
    assert "RUN_FINISHED" in str(verdict.rejected)
    assert verdict.rejected.index == 2
    assert reading.codes == ["event-after-end"]


def test_the_messages_are_folded_when_an_event_is_seen() -> None:
    """P-43: event N is applied in full before event N+1 is judged, also when both came in one read."""
    inbound = Inbound(warn=pytest.fail, new_id=str, **ASKED)
    assert [
        (event.type.value, [message.content for message in inbound.fold.messages])
        for event in inbound.feed(sse([started(), *text("m", "a", "b"), finished()]))
    ] == [
        ("RUN_STARTED", []),
        ("TEXT_MESSAGE_START", [""]),
        ("TEXT_MESSAGE_CONTENT", ["a"]),
        ("TEXT_MESSAGE_CONTENT", ["ab"]),
        ("TEXT_MESSAGE_END", ["ab"]),
        ("RUN_FINISHED", ["ab"]),
    ]


def test_what_a_payload_expands_to_is_applied_together_or_not_at_all() -> None:
    """P-34, P-43: a refused event ends no chunk item: it stays open, cut off."""
    chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "a"}
    reading = told(started(), chunk, finished("another"))
    assert reading.types == ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
    assert reading.messages[0]["content"] == "a"
    assert told(started(), chunk).verdict.cause.open_items == ("text message 'm'",)


def test_nothing_is_judged_after_a_refusal() -> None:
    """P-42: the rest of the body is not read, and no warning comes of it."""
    reading = told(started(), {"type": "STEP_FINISHED", "stepName": "s"}, {"type": "FUTURE"}, *text("m"), finished())
    assert reading.types == ["RUN_STARTED"]
    assert reading.warnings == []
    verdict = reading.verdict
    assert (verdict.said, verdict.failure, verdict.code) == (None, "client", CLIENT_ERROR_CODE)
    assert verdict.cause.index == 1
    assert verdict.cause.event_type == "STEP_FINISHED"
    assert verdict.message == str(verdict.cause)
    assert reading.inbound.is_over
    assert list(reading.inbound.feed(sse([finished()]))) == []


@pytest.mark.parametrize(
    ("payloads", "run_started"),
    [((), False), (({"type": "error"},), False), ((started(),), True), ((started(), *text("m", "a")[:2]), True)],
)
def test_a_body_that_ends_without_a_verdict_is_truncated(payloads: Any, run_started: bool) -> None:
    """P-36, P-44: nobody makes up an end."""
    reading = told(*payloads)
    verdict = reading.verdict
    assert isinstance(verdict.cause, TruncatedError)
    assert (verdict.failure, verdict.said, verdict.outcome) == ("client", None, "failed")
    assert verdict.cause.run_started is run_started
    assert "ended without a terminal event" in verdict.message
    assert not {"RUN_FINISHED", "RUN_ERROR"} & set(reading.types)
    assert reading.codes == ["unknown-event"] * (payloads == ({"type": "error"},))
    assert (verdict.thread_id, verdict.run_id) == ("t1", "r1")


def test_the_verdict_is_that_of_the_last_run() -> None:
    """P-44: a new run opens a new verdict, and a run cut off fails whatever came before."""
    verdict = told(started("r0"), finished("r0", result=1), started()).verdict
    assert isinstance(verdict.cause, TruncatedError)
    assert (verdict.run_id, verdict.result) == ("r1", None)
    verdict = told(started("r0"), errored(), started(), *text("m", "a"), finished(result={"a": None})).verdict
    assert (verdict.said, verdict.failure, verdict.run_id, verdict.result) == ("success", None, "r1", {"a": None})
    verdict = told(started("r0"), finished("r0"), started(), {"type": "STEP_FINISHED", "stepName": "s"}).verdict
    assert isinstance(verdict.cause, RemoteProtocolError)


def test_a_stream_without_the_run_that_was_asked_for_says_so() -> None:
    """P-44: one warning, when reading ends; a stream that has it among others is quiet."""
    reading = told(started("r7"), finished("r7"))
    assert reading.codes == ["run-id-mismatch"]
    assert "r7" in reading.warnings[0].message
    assert "r1" in reading.warnings[0].message
    assert reading.verdict.run_id == "r7"
    assert told(started("r0"), finished("r0"), started(), finished()).codes == []
    assert told(errored()).codes == []
    assert read([sse([started("r7"), finished("r7")])]).codes == []


@pytest.mark.parametrize(
    ("outcome", "said", "outcome_of_run"),
    [
        (None, "success", "completed"),
        ({"type": "success"}, "success", "completed"),
        ({"type": "postponed"}, "success", "completed"),
        ({"type": "cancelled"}, "cancelled", "cancelled"),
        ({"type": "interrupt", "interrupts": [{"id": "i", "reason": "r"}]}, "interrupt", "completed"),
    ],
)
def test_the_verdict_is_in_the_agents_own_words(outcome: Any, said: str, outcome_of_run: str) -> None:
    """P-3, P-4, P-47: absent or unknown is success; a result is kept with any; interrupts and usage are there."""
    given = {} if outcome is None else {"outcome": outcome}
    verdict = told(started(), finished(result=[1], usage=[{"totalTokens": 3}], **given)).verdict
    assert (verdict.said, verdict.failure, verdict.outcome, verdict.result) == (said, None, outcome_of_run, [1])
    assert [entry.total_tokens for entry in verdict.usage] == [3]
    assert [interrupt.id for interrupt in verdict.interrupts] == (["i"] if said == "interrupt" else [])
    assert (verdict.message, verdict.code, verdict.cause, verdict.reason) == (None, None, None, None)


def test_an_error_of_the_agent_has_its_code_and_sometimes_a_reason() -> None:
    """P-3, P-4: the code is the reason where it is one of ours; usage comes with an error too."""
    verdict = told(started(), {**errored(code="budget-exhausted"), "usage": [{"inputTokens": 1}]}).verdict
    assert (verdict.code, verdict.reason) == ("budget-exhausted", "budget-exhausted")
    assert [entry.input_tokens for entry in verdict.usage] == [1]
    assert told(started(), errored()).verdict.reason is None
    assert told(errored(code=None)).verdict.code is None


@pytest.mark.parametrize("code", ["context-exhausted", "budget-exhausted", "completion-truncated", "run-failed", None])
def test_the_reasons_of_our_own_runs_are_read_from_their_codes(code: str | None) -> None:
    """P-91: three codes are reasons; every other is a code and no more."""
    verdict = told(started(), errored("no", code)).verdict
    assert verdict.code == code
    assert verdict.reason == (code if code != "run-failed" else None)
    assert told(started(), finished()).verdict.reason is None


def test_a_late_error_stands_beside_the_verdict() -> None:
    """P-46, P-45: delivered as an event, kept, and no warning of the pipeline's own; nothing follows it."""
    reading = told(started(), finished(), errored("late", "Y"))
    assert reading.types[-1] == "RUN_ERROR"
    assert reading.verdict.said == "success"
    assert reading.verdict.late_error == ("late", "Y")
    assert reading.codes == []
    reading = told(started(), finished(), errored("late", None), errored("later"))
    assert reading.verdict.late_error == ("late", None)
    assert reading.codes == ["event-after-end"]
    reading = told(started("r0"), finished("r0"), errored(), started(), finished())
    assert (reading.verdict.said, reading.verdict.late_error) == ("success", None)


@pytest.mark.parametrize(
    "late",
    [
        text("m")[0],
        finished(),
        {"type": "STATE_DELTA", "delta": 5},
        {"type": "TEXT_MESSAGE_CHUNK"},
        started("r2") | {"threadId": "t2"},
    ],
)
def test_what_is_refused_after_the_verdict_is_set_aside(late: dict[str, Any]) -> None:
    """P-45: order and shape, the verdict of the run stands, and nothing further is read."""
    reading = told(started(), finished(), late, errored("late"))
    assert reading.verdict.said == "success"
    assert reading.verdict.failure is None
    if late["type"] == "TEXT_MESSAGE_CHUNK":
        assert "First TEXT_MESSAGE_CHUNK" in str(reading.verdict.rejected)
    assert isinstance(reading.verdict.rejected, RemoteProtocolError)
    assert reading.codes == ["event-after-end"]
    assert reading.verdict.late_error is None


@pytest.mark.parametrize("junk", [b"[DONE]", b"{", b"[]", b'{"type":""}', b'{"a":NaN,"type":"X"}'])
def test_a_bad_payload_after_the_verdict_is_a_warning_and_nothing_more(junk: bytes) -> None:
    """P-17, P-45: not even a rejection; reading goes on."""
    reading = read_every_cut(
        sse([started(), finished()]) + b"data: " + junk + b"\n\n" + sse([errored("late")]), **ASKED
    )
    assert reading.codes == ["event-after-end"]
    assert reading.verdict.said == "success"
    assert reading.verdict.rejected is None
    assert reading.verdict.late_error == ("late", "X")


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


def test_a_connection_that_fails_is_the_failure_of_the_run_or_a_warning() -> None:
    """P-44, P-45, P-71: what arrived is kept."""
    reading = read([sse([started(), *text("m", "a")])], ends=False, **ASKED)
    error = TransportError("reset", phase="read")
    reading.inbound.fail(error)
    assert (reading.verdict.cause, reading.verdict.failure, reading.verdict.message) == (error, "client", "reset")
    assert reading.messages[0]["content"] == "a"
    reading = read([sse([started(), finished()])], ends=False, **ASKED)
    reading.inbound.fail(error)
    assert (reading.verdict.said, reading.verdict.failure) == ("success", None)
    assert reading.codes == ["transport-after-end"]


def test_a_caller_who_cancels_is_told_so_unless_a_verdict_stands() -> None:
    """P-44, P-45, P-74: cancelled, no message and the code of it; in the grace it only ends the reading."""
    reading = read([sse([started()])], ends=False, **ASKED)
    reading.inbound.cancel()
    verdict = reading.verdict
    assert (verdict.said, verdict.failure, verdict.outcome) == (None, "cancelled", "cancelled")
    assert (verdict.code, verdict.message, verdict.cause) == (CANCELLED_CODE, None, None)
    assert list(reading.inbound.feed(sse([finished()]))) == []
    reading = read([sse([started(), finished()])], ends=False, **ASKED)
    assert reading.inbound.has_verdict
    reading.inbound.cancel()
    assert (reading.verdict.said, reading.codes) == ("success", [])


def test_the_first_failure_is_the_one_that_counts() -> None:
    """P-44: a reset or a cancel behind a refusal changes nothing."""
    reading = told(started(), {"type": "STEP_FINISHED", "stepName": "s"})
    cause = reading.verdict.cause
    reading.inbound.fail(TransportError("reset", phase="read"))
    reading.inbound.cancel()
    assert reading.verdict.cause is cause


def test_versions_are_read_run_by_run() -> None:
    """P-29: each RUN_STARTED speaks for its own run."""
    reading = told(
        started("r0", protocolVersion="1.1"),
        finished("r0"),
        started(protocolVersion="1.0"),
        finished(),
        started("r2", protocolVersion="x"),
        finished("r2"),
    )
    assert reading.codes == ["version", "version"]
    assert "1.1" in reading.warnings[0].message


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


def test_what_the_thread_held_is_where_the_run_starts() -> None:
    """P-54, P-53: messages and state of the request."""
    known = UserMessage(id="u", role="user", content="hi")
    reading = told(
        started(),
        {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/a", "value": 2}]},
        finished(),
        messages=[known],
        state={"a": 1},
    )
    assert reading.messages == [{"id": "u", "role": "user", "content": "hi"}]
    assert reading.inbound.fold.state == {"a": 2}


RANDOM_STREAMS = st.lists(
    st.sampled_from([started(), started("r2"), finished(), errored(), *text("m", "é😀", ""), *text("n", "x"),
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "c", "delta": "x"}, {"type": "TEXT_MESSAGE_CHUNK", "delta": "y"},
        {"type": "FUTURE"}, {"type": "CUSTOM", "name": "x", "value": None}, {"type": "STEP_STARTED", "stepName": "s"},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/x", "value": 1}]}]),
    max_size=12,
)  # fmt: skip


@effort(150)
@given(RANDOM_STREAMS, st.integers(0, 1000), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_any_cut_of_any_body_gives_the_same(payloads: list[Any], seed: int, end: bytes) -> None:
    """P-13: events, warnings, verdict, messages and state; and of any end of line."""
    body = sse(payloads)
    first = read([body], **ASKED).told()
    ended = body.replace(b"\n", end)
    for reads in (bytewise(ended), pieces(ended, seed), [ended]):
        assert read(reads, **ASKED).told() == first


def calls_per_event(body: bytes, events: int) -> list[int]:
    """The Python calls that each event of a body takes, from bytes to the folded messages."""
    inbound = Inbound(warn=lambda record: None, new_id=str, **ASKED)
    counts: list[int] = []
    count = 0

    def profile(frame: Any, kind: str, argument: Any) -> None:
        nonlocal count
        count += kind == "call"

    stream = inbound.feed(body)
    gc.disable()  # a collection calls back into whoever asked for it
    sys.setprofile(profile)
    try:
        for _ in stream:
            counts.append(count)
            count = 0
    finally:
        sys.setprofile(None)
        gc.enable()
    assert len(counts) == events
    return counts


def test_a_text_event_takes_few_calls_and_always_as_many() -> None:
    """F-2, F-3, F-5: at most 20 Python calls from bytes to folded and verified; the last tenth costs as the first."""
    size = 2000
    counts = calls_per_event(sse([started(), *text("m", *["token "] * size), finished()]), size + 4)
    content = counts[2 : size + 2]
    assert max(content) <= 8  # what it has come down to
    assert sum(content[: size // 10]) == sum(content[-size // 10 :])


@pytest.mark.parametrize(
    ("item", "most"),
    [
        (lambda n: text(f"m{n}", "a"), 11),
        (
            lambda n: [
                {"type": "TOOL_CALL_START", "toolCallId": f"c{n}", "toolCallName": "f"},
                {"type": "TOOL_CALL_ARGS", "toolCallId": f"c{n}", "delta": "{}"},
                {"type": "TOOL_CALL_END", "toolCallId": f"c{n}"},
                {"type": "TOOL_CALL_RESULT", "messageId": f"t{n}", "toolCallId": f"c{n}", "content": "ok"},
            ],
            15,
        ),
        (lambda n: [{"type": "STATE_DELTA", "delta": [{"op": "add", "path": f"/k{n}", "value": n}]}], 17),
        (lambda n: [{"type": "TEXT_MESSAGE_CHUNK", "messageId": f"m{n}", "delta": "a"}], 21),
    ],
    ids=["messages", "calls", "keys of the state", "chunks"],
)
def test_the_cost_of_an_event_does_not_grow(item: Any, most: int) -> None:
    """F-3, F-5, P-60: with the messages, the calls or the state that are there already; at most so many calls each."""
    items = [item(number) for number in range(500)]
    payloads = [started(), *(payload for group in items for payload in group), finished()]
    expanded = len(read([sse(payloads)], **ASKED).events)
    counts = calls_per_event(sse(payloads), expanded)[1:-1]
    tenth = len(counts) // 10
    assert sum(counts) <= most * len(counts)
    assert abs(sum(counts[1 : tenth + 1]) - sum(counts[-tenth - 1 : -1])) <= tenth // 10


def test_a_warning_never_changes_an_outcome() -> None:
    """P-6, P-7: everything that can be tolerated at once, and the run is a success; texts name what they are about."""
    payloads = [
        started(protocolVersion="2.0", future=1),
        {"type": "FUTURE"},
        {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/no", "value": 1}]},
        *text("m", "a"),
        finished(outcome=None),
    ]
    random.Random(1).shuffle(middle := payloads[1:3])
    reading = told(payloads[0], *middle, *payloads[3:])
    assert reading.verdict.said == "success"
    assert sorted(reading.codes) == [
        "null-read-as-absent",
        "state-delta",
        "unknown-event",
        "unknown-property",
        "version",
    ]
    assert [record.path for record in reading.warnings if record.code == "unknown-property"] == ["/future"]
