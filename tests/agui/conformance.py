"""The conformance streams of upstream, and the judge of what came of one.

The relaxations are those of the corpus's own page: two fixtures pin admitted gaps and are inverted, three are about an
old peer and have nothing to run on, versions are lowered where a fixture is written for the next minor of the protocol,
and warnings are judged by their key words.
"""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from tests.agui.wires import Reading
from tests.conftest import SHARED

from handrail.agui._values import json_equal
from handrail.agui._warnings import WarningRecord

STREAMS = SHARED / "conformance" / "streams"
NAMES = sorted(path.stem for path in STREAMS.glob("*.json")) if STREAMS.is_dir() else []
ABOUT_OLD_PEERS = ("era-0-0-39-", "era-0-0-57-", "era-pinned-peer-")
NOTICES_OF_OURS = {"late-run-error", "run-id-mismatch"}
LOWERED = {"1.1": "1.0", "1.2": "1.1"}
INVERTED: dict[str, dict[str, Any]] = {
    "truncated-run-reported-as-completed": {"outcome": "failed", "errorContains": "ended without a terminal event"},
    "unknown-enum-value-role-fatal": {
        "outcome": "completed",
        "warnings": ["/role"],
        "eventAbsentPaths": ["1.role"],
        "messageCount": 1,
    },
}
KEY_WORDS: dict[str, list[str]] = {
    "producer-declares-newer-version-warns": ["1.0", "1.1"],
    "producer-declares-uninterpretable-version-warns": ["interpret", "draft"],
    "state-delta-unappliable-warns-and-keeps": ["state", "delta"],
    "reasoning-message-wrong-role-fatal": ["REASONING_MESSAGE_START", "role", "reasoning"],
    "unknown-outcome-array-fatal": ["outcome", "object", "array"],
}
NAMES_ITS_EVENT = {"name", "role", "delta", "does not match"}


def fixture(name: str) -> dict[str, Any]:
    """The fixture as a client of 1.0 reads it."""
    loaded: dict[str, Any] = json.loads((STREAMS / f"{name}.json").read_text())
    if "/spec/1.1" in loaded["specPage"]:
        loaded = cast("dict[str, Any]", _lowered(loaded))
    if name in INVERTED:
        kept = {key: loaded["expect"][key] for key in ("messageCount", "messages") if key in loaded["expect"]}
        loaded["expect"] = kept | INVERTED[name]
    if name == "subagent-terminal-closes-open-chunk-stream":
        loaded["expect"]["eventTypes"] = loaded["expectOverrides"]["typescript"]["eventTypes"]
    return loaded


def _lowered(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _lowered(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_lowered(item, key) for item in value]
    return LOWERED.get(value, value) if key in ("protocolVersion", "warnings") else value


def matches(expected: Any, found: Any) -> bool:
    """Subset match: lists of equal length item by item, of objects the named keys, scalars as JSON has them."""
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(matches, expected, found))
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            key in found and matches(value, found[key]) for key, value in expected.items()
        )
    return json_equal(expected, found)


def at(events: list[Any], path: str) -> Any:
    """The value at `INDEX.a.b`; raises LookupError where there is none."""
    found: Any = events
    for segment in path.split("."):
        found = found[int(segment)] if isinstance(found, list) else found[segment]
    return found


def refusal(reading: Reading) -> str | None:
    """The text of what the client refused, in the words of P-97; None if it refused nothing."""
    verdict = reading.verdict
    if verdict.rejected is not None:
        return str(verdict.rejected)
    return verdict.message if verdict.failure == "client" else None


def has_words(name: str, literal: str, text: str, path: str | None = None) -> bool:
    words = KEY_WORDS.get(name)
    return (
        literal in text
        or literal == path
        or (words is not None and all(word.lower() in text.lower() for word in words))
    )


def check(
    name: str, expect: dict[str, Any], reading: Reading, sent: dict[str, Any], asked: list[WarningRecord]
) -> None:
    """Every key of `expect` that is there."""
    error = refusal(reading)
    assert (error is None) is (expect["outcome"] == "completed"), error
    if "errorContains" in expect:
        literal = expect["errorContains"]
        assert error is not None
        assert has_words(name, literal, error), error
        if literal in NAMES_ITS_EVENT:
            assert reading.verdict.cause.event_type in error
    if "runError" in expect:
        errors = [event.message for event in reading.events if event.type.value == "RUN_ERROR"]
        wanted = expect["runError"]
        assert bool(errors) is bool(wanted)
        assert not isinstance(wanted, str) or wanted in errors[-1]
    dumps = [event.model_dump(by_alias=True, exclude_unset=True, mode="json") for event in reading.events]
    if "eventTypes" in expect:
        assert reading.types == expect["eventTypes"]
    assert not set(expect.get("eventTypesAbsent", ())) & set(reading.types)
    for path, value in expect.get("eventPaths", {}).items():
        assert json_equal(at(dumps, path), value), path
    for path in expect.get("eventAbsentPaths", ()):
        with pytest.raises((LookupError, TypeError)):
            at(dumps, path)
    warnings = [*asked, *reading.warnings]
    for wanted in expect.get("warnings", ()):
        assert any(has_words(name, wanted, record.message, record.path) for record in warnings), warnings
    if expect.get("noWarnings"):
        assert [record for record in warnings if record.code not in NOTICES_OF_OURS] == []
    if "messageCount" in expect:
        assert len(reading.messages) == expect["messageCount"]
    if "messages" in expect:
        assert matches(expect["messages"], reading.messages), reading.messages
    if "state" in expect:
        assert matches(expect["state"], reading.inbound.fold.state)
    if "request" in expect:
        assert matches(expect["request"], sent), sent
    for path in expect.get("requestAbsentPaths", ()):
        with pytest.raises((LookupError, TypeError)):
            at([sent], f"0.{path}")
