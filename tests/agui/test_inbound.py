"""The way in as a whole: one payload at a time, and the latch on the verdict."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ag_ui.core import UserMessage
from tests.agui.incoming import ASKED, errored, finished, started, text, told
from tests.agui.wires import read, read_every_cut, sse

from handrail.agui._inbound import DEFAULT_MAX_EVENT_BYTES, Inbound
from handrail.agui._verdict import CANCELLED_CODE, CLIENT_ERROR_CODE
from handrail.errors import RemoteProtocolError, TransportError, TruncatedError


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


def test_an_event_may_have_16_mib() -> None:
    """P-14: where nobody says otherwise."""
    assert DEFAULT_MAX_EVENT_BYTES == 16_777_216
