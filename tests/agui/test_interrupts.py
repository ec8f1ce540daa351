"""Questions and answers: what a helper says on the wire, and which set of answers is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from ag_ui.core import Interrupt, ResumeEntry

from handrail.agui._interrupts import (
    Answer,
    Decision,
    abandon,
    answer,
    approve,
    decide,
    deny,
    edit,
    entries_for,
    entry_for,
    is_expired,
    unsent_reason,
)
from handrail.errors import HandrailError, NotInterruptedError, ResumeError

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
APPROVAL = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object"},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}
CLOSED = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "additionalProperties": False}
OTHER_NAME = {
    "type": "object",
    "properties": {"go": {"type": "boolean"}, "loud": {"type": "boolean"}},
    "required": ["go"],
}


def question(name: str = "i1", schema: dict[str, Any] | None = None, expires_at: str | None = None) -> Interrupt:
    return Interrupt(id=name, reason="tool_call", response_schema=schema, expires_at=expires_at)


def wire(entry: ResumeEntry) -> dict[str, Any]:
    return entry.model_dump(by_alias=True)


def resume(*answers: Answer | ResumeEntry, pending: list[Interrupt], validate: bool = True) -> list[dict[str, Any]]:
    return [wire(entry) for entry in entries_for(answers, pending, now=NOW, validate=validate)]


def refusal(*answers: Answer | ResumeEntry, pending: list[Interrupt]) -> ResumeError:
    with pytest.raises(ResumeError) as caught:
        entries_for(answers, pending, now=NOW)
    return caught.value


@pytest.mark.parametrize(
    ("given", "schema", "said"),
    [
        (approve("i1"), None, {"status": "resolved", "payload": {"approved": True}}),
        (deny("i1"), None, {"status": "resolved", "payload": {"approved": False}}),
        (deny("i1", "no"), None, {"status": "resolved", "payload": {"approved": False, "reason": "no"}}),
        (approve("i1"), APPROVAL, {"status": "resolved", "payload": {"approved": True}}),
        (approve("i1"), {"type": "boolean"}, {"status": "resolved", "payload": True}),
        (deny("i1", "no"), {"type": "boolean"}, {"status": "resolved", "payload": False}),
        (approve("i1"), OTHER_NAME, {"status": "resolved", "payload": {"go": True}}),
        (deny("i1", "no"), OTHER_NAME, {"status": "resolved", "payload": {"go": False, "reason": "no"}}),
        (deny("i1", "no"), CLOSED, {"status": "resolved", "payload": {"approved": False}}),
        (
            deny("i1", "no"),
            {"properties": {"approved": {"type": "boolean"}}, "additionalProperties": {"type": "integer"}},
            {"status": "resolved", "payload": {"approved": False}},
        ),
        (edit("i1", {"n": 1}), APPROVAL, {"status": "resolved", "payload": {"approved": True, "editedArgs": {"n": 1}}}),
        (answer("i1", [1, "b"]), None, {"status": "resolved", "payload": [1, "b"]}),
        (answer("i1", None), None, {"status": "resolved"}),
        (answer("i1", ""), None, {"status": "resolved", "payload": ""}),
        (answer("i1", False), {"type": "boolean"}, {"status": "resolved", "payload": False}),
        (abandon("i1"), APPROVAL, {"status": "cancelled"}),
    ],
)
def test_payload(given: Answer, schema: dict[str, Any] | None, said: dict[str, Any]) -> None:
    """S-87, S-89, P-64: the payload comes from the question's schema; real booleans only; none means no key."""
    interrupt = question(schema=schema)
    assert wire(entry_for(given, interrupt)) == {"interruptId": "i1", **said}
    assert resume(given, pending=[interrupt]) == [{"interruptId": "i1", **said}]


@pytest.mark.parametrize("make", [approve, deny, abandon, lambda i: answer(i, 1), lambda i: edit(i, {})])
def test_named_by_interrupt_or_id(make: Any) -> None:
    """S-88: the interrupt or its id says the same."""
    assert make(question()) == make("i1")


@pytest.mark.parametrize("make", [approve, deny, abandon, lambda i: answer(i, 1), lambda i: edit(i, {})])
def test_anything_else_is_misuse(make: Any) -> None:
    """S-88: anything else is told at once."""
    with pytest.raises(TypeError, match="id"):
        make(7)


def test_wrong_values_are_misuse() -> None:
    """S-87: a reason is text and edited arguments are an object; anything else is told at once."""
    with pytest.raises(TypeError, match="reason"):
        deny("i1", 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="mapping"):
        edit("i1", [1])  # type: ignore[arg-type]


def test_answers_keep_their_own_copy() -> None:
    """S-6: what was handed in is copied; later changes by the caller reach no request."""
    args = {"n": [1]}
    edited, answered = edit("i1", args), answer("i1", args)
    entry = ResumeEntry(interrupt_id="i1", status="resolved", payload=args)
    sent = entry_for(entry, question())
    args["n"].append(2)
    assert edited.value == answered.value == sent.payload == {"n": [1]}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "object"},
        {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        {"type": "object", "properties": {"go": {"type": "boolean"}}},
        {"type": "object", "properties": {"go": {"type": "boolean"}}, "required": 5},
        {
            "type": "object",
            "properties": {"go": {"type": "boolean"}, "stay": {"type": "boolean"}},
            "required": ["go", "stay"],
        },
    ],
)
@pytest.mark.parametrize("given", [approve("i1"), deny("i1")])
def test_no_place_for_yes_or_no(given: Answer, schema: dict[str, Any]) -> None:
    """S-89: any other schema is refused, and the text says to use `answer`."""
    refused = refusal(given, pending=[question(schema=schema)])
    assert [name for name, _, _ in refused.invalid] == ["i1"]
    assert "answer()" in str(refused)


@pytest.mark.parametrize("schema", [None, CLOSED, {"type": "boolean"}])
def test_edit_needs_its_property(schema: dict[str, Any] | None) -> None:
    """S-90: `edit` needs a schema with a property `editedArgs`."""
    refused = refusal(edit("i1", {}), pending=[question(schema=schema)])
    assert refused.invalid[0][:2] == ("i1", "/editedArgs")


def test_reason_without_a_place() -> None:
    """S-89: a reason the schema does not allow is kept for the screen."""
    denied = deny("i1", "too dear")
    assert unsent_reason(denied, entry_for(denied, question(schema=CLOSED))) == "too dear"
    assert unsent_reason(denied, entry_for(denied, question(schema={"type": "boolean"}))) == "too dear"
    assert unsent_reason(denied, entry_for(denied, question())) is None
    assert unsent_reason(approve("i1"), entry_for(approve("i1"), question())) is None


def test_order_is_the_callers() -> None:
    """S-83, S-85: one entry per question, in the order given."""
    pending = [question("i1"), question("i2")]
    assert [e["interruptId"] for e in resume(approve("i2"), abandon("i1"), pending=pending)] == ["i2", "i1"]


def test_coverage() -> None:
    """S-85, S-92, P-64: exact coverage; each kind of breach lists all its ids; left out is not given up."""
    pending = [question("i1"), question("i2")]
    assert refusal(approve("i1"), pending=pending).uncovered == ("i2",)
    assert refusal(pending=pending).uncovered == ("i1", "i2")
    assert refusal(approve("i1"), approve("i2"), approve("i3"), approve("i4"), pending=pending).unknown == ("i3", "i4")
    assert refusal(approve("i1"), deny("i1"), approve("i2"), pending=pending).duplicate == ("i1",)


def test_order_of_the_checks() -> None:
    """S-84: duplicate, not interrupted, unknown, uncovered, expired, schema; in this order."""
    late = question("i2", schema={"type": "string"}, expires_at="2020-01-01T00:00:00Z")
    pending = [question("i1"), late]
    assert refusal(approve("zz"), approve("zz"), pending=[]).duplicate == ("zz",)
    with pytest.raises(NotInterruptedError):
        entries_for([approve("zz")], [], now=NOW)
    assert refusal(approve("zz"), pending=pending).unknown == ("zz",)
    assert refusal(answer("i2", 5), pending=pending).uncovered == ("i1",)
    assert refusal(approve("i1"), answer("i2", 5), pending=pending).expired == ("i2",)
    assert refusal(answer("i2", 5), pending=[question("i2", {"type": "string"})]).invalid == (
        ("i2", "", "expected string"),
    )


def test_errors_say_which() -> None:
    """S-84: the text lists the ids, and the errors are of the package's tree."""
    refused = refusal(approve("i7"), approve("i8"), pending=[question("i1")])
    assert isinstance(refused, HandrailError)
    assert isinstance(refused, ValueError)
    assert "'i7', 'i8'" in str(refused)


@pytest.mark.parametrize(
    ("expires_at", "expired"),
    [
        (None, False),
        ("soon", False),
        ("", False),
        ("2026-11-30T12:00:00Z", True),
        ("2026-11-30T12:00:00.000001Z", False),
        ("2026-11-30T11:59:59", True),
        ("2026-11-30T12:30:00", False),
        ("2026-11-30T13:30:00+02:00", True),
        ("2026-11-30T11:30:00-02:00", False),
        ("2026-11-30", True),
        ("0001-01-01T00:00:00+14:00", True),
        ("9999-12-31T23:59:59-14:00", False),
        ("2026-11-30t12:00:00z", True),
        ("2026-11-30t12:00:00.5z", False),
        (" 2026-11-30T12:00:00Z ", True),
        ("20261130T120000Z", True),
        ("2026-W49-1T12:00:00Z", True),
        ("2026-334", True),
        ("2026334T120001Z", False),
        ("2025-001T00:00:00z", True),
        ("2027-001", False),
        ("2026-11-29T24:00:00Z", True),
        ("2026-11-30T24:00:00Z", False),
        ("2026-11-30T24:00+13:00", True),
        ("2026-11-30T24:01:00Z", False),
        ("2026-11-30T11:59:60Z", True),
        ("2026-11-30T12:00:60Z", False),
        ("20261130T115960Z", True),
        ("9999-12-31T24:00:00Z", False),
        ("2026-000", False),
        ("2026-11-30T25:00:00Z", False),
    ],
)
def test_expiry(expires_at: str | None, expired: bool) -> None:
    """S-86, P-64: now or earlier is expired; no zone means UTC; no date never expires."""
    interrupt = question(expires_at=expires_at)
    assert is_expired(interrupt, NOW) is expired
    assert is_expired(interrupt, NOW.replace(tzinfo=None)) is expired
    assert is_expired(interrupt, NOW.astimezone(timezone(timedelta(hours=5)))) is expired


def test_expired_can_only_be_abandoned() -> None:
    """S-86, P-64: resolving an expired question raises; abandoning it frees the thread."""
    late = question(expires_at="2026-11-30T11:00:00Z")
    for given in (approve("i1"), deny("i1"), ResumeEntry(interrupt_id="i1", status="resolved")):
        assert refusal(given, pending=[late]).expired == ("i1",)
    assert resume(abandon("i1"), pending=[late]) == [{"interruptId": "i1", "status": "cancelled"}]
    cancelled = ResumeEntry(interrupt_id="i1", status="cancelled")
    assert resume(cancelled, pending=[late]) == [{"interruptId": "i1", "status": "cancelled"}]


def test_entries_are_taken_as_they_are() -> None:
    """S-84: a `ResumeEntry` is judged like an answer and goes out unchanged."""
    entry = ResumeEntry(interrupt_id="i1", status="resolved", payload={"x": 1}, metadata={"by": "me"})
    assert entries_for([entry], [question()], now=NOW) == (entry,)


def test_cancelled_carries_no_payload() -> None:
    """P-64: `cancelled` goes without a payload."""
    entry = ResumeEntry(interrupt_id="i1", status="cancelled", payload={"approved": True})
    assert refusal(entry, pending=[question()]).invalid[0][0] == "i1"


@pytest.mark.parametrize(
    ("schema", "good", "bad", "path"),
    [
        ({"type": "string"}, "a", 1, ""),
        ({"type": "integer"}, 12.0, 12.5, ""),
        ({"type": "integer"}, 10**400, True, ""),
        ({"type": "number"}, 1, True, ""),
        ({"type": ["string", "null"]}, None, 1, ""),
        ({"type": "array", "items": {"type": "string"}}, ["a"], ["a", 1], "/1"),
        ({"properties": {"a/b~": {"type": "string"}}}, {"a/b~": "x"}, {"a/b~": 1}, "/a~1b~0"),
        ({"required": ["a"]}, {"a": None}, {}, "/a"),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"a": 1}, {"b": 1}, "/b"),
        ({"additionalProperties": {"type": "string"}}, {"b": "x"}, {"b": 1}, "/b"),
        ({"enum": [1, "a", None]}, 1.0, True, ""),
        ({"const": {"a": [1]}}, {"a": [1]}, {"a": [True]}, ""),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None, 1, ""),
        ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, 3, 7, ""),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, "a", 1, ""),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2, 4, ""),
        ({"minimum": 1}, 1, 0, ""),
        ({"maximum": 1}, 1, 2, ""),
        ({"minLength": 2}, "ab", "a", ""),
        ({"maxLength": 1}, "😀", "ab", ""),
        ({"minItems": 1}, [1], [], ""),
        ({"maxItems": 1}, [1], [1, 2], ""),
        ({"properties": {"a": False}}, {}, {"a": 1}, "/a"),
    ],
)
def test_schema_keywords(schema: dict[str, Any], good: Any, bad: Any, path: str) -> None:
    """S-91: every judged keyword refuses with id and path, lets the fitting value through, and can be skipped."""
    pending = [question(schema=schema)]
    assert len(resume(answer("i1", good), pending=pending)) == 1
    assert [(name, where) for name, where, _ in refusal(answer("i1", bad), pending=pending).invalid] == [("i1", path)]
    assert resume(answer("i1", bad), pending=pending, validate=False)[0]["interruptId"] == "i1"


@pytest.mark.parametrize(
    ("schema", "bad", "problem"),
    [
        ({"type": ["string", "null"]}, 1, "expected string or null"),
        ({"enum": ["a", 1]}, "b", "not one of ['a', 1]"),
        ({"const": "a"}, "b", "expected 'a'"),
        ({"minimum": 1}, 0, "less than 1"),
        ({"maximum": 1}, 2, "more than 1"),
        ({"minLength": 2}, "a", "shorter than 2"),
        ({"maxLength": 1}, "ab", "longer than 1"),
        ({"minItems": 1}, [], "has fewer items than 1"),
        ({"maxItems": 1}, [1, 2], "has more items than 1"),
        ({"anyOf": [{"type": "string"}]}, 1, "fits none of anyOf"),
        ({"oneOf": [{"type": "string"}]}, 1, "fits none of oneOf, not exactly one"),
        ({"oneOf": [{}, {}]}, 1, "fits 2 of oneOf, not exactly one"),
        ({"required": ["a"]}, {}, "required, and missing"),
        ({"additionalProperties": False}, {"b": 1}, "not a property of the schema"),
        ({"properties": {"a": False}}, {"a": 1}, "nothing is allowed here"),
    ],
)
def test_a_problem_is_told_in_words(schema: dict[str, Any], bad: Any, problem: str) -> None:
    """S-91, S-84: what the schema asks for, for whoever has to answer again."""
    refused = refusal(answer("i1", bad), pending=[question(schema=schema)])
    assert [words for _, _, words in refused.invalid] == [problem]
    assert problem in str(refused)


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^x$"},
        {"type": "unheard-of"},
        {"type": 5, "required": 5, "properties": 5, "items": 5, "enum": 5, "anyOf": 5, "minimum": "x", "minLength": []},
        {"minimum": 5},
        {"minLength": 50},
    ],
)
@pytest.mark.parametrize("value", [{"a": 1}, [1]])
def test_other_keywords_are_ignored(schema: dict[str, Any], value: Any) -> None:
    """S-91: other keywords, and keywords that make no sense, are no reason to refuse."""
    assert len(resume(answer("i1", value), pending=[question(schema=schema)])) == 1


def test_all_problems_are_listed() -> None:
    """S-84: one refusal lists the problems of all answers of its kind."""
    pending = [question("i1", {"type": "string"}), question("i2", {"type": "string"}), question("i3", {"type": "null"})]
    refused = refusal(approve("i1"), answer("i2", 1), answer("i3", None), pending=pending)
    assert [name for name, _, _ in refused.invalid] == ["i1", "i2"]


@pytest.mark.parametrize(
    ("status", "payload", "decision"),
    [
        ("resolved", {"approved": True}, Decision("approved")),
        ("resolved", {"approved": True, "editedArgs": {"n": 2}}, Decision("approved", True, {"n": 2})),
        ("resolved", {"approved": True, "editedArgs": None}, Decision("approved", True, None)),
        ("resolved", {"approved": 1}, Decision("denied")),
        ("resolved", {"approved": "true"}, Decision("denied")),
        ("resolved", {"approved": False, "reason": "no"}, Decision("denied", reason="no")),
        ("resolved", {"approved": False, "reason": 5}, Decision("denied")),
        ("resolved", True, Decision("denied")),
        ("resolved", None, Decision("denied")),
        ("cancelled", None, Decision("withdrawn")),
        ("cancelled", {"approved": True}, Decision("withdrawn")),
    ],
)
def test_decisions(status: Any, payload: Any, decision: Decision) -> None:
    """L-122: only a resolved entry whose `approved` is exactly True approves; cancelled withdraws; the rest denies."""
    assert decide(ResumeEntry(interrupt_id="c1", status=status, payload=payload)) == decision
