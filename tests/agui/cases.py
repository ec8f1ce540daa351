"""Streams made after public reports, and the judge of what came of one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ag_ui.core import AssistantMessage
from tests.agui.wires import Reading
from tests.conftest import SHARED

from handrail.agui._values import json_equal

CASES = SHARED / "cases"
STREAMED = sorted(
    case.name
    for case in (CASES.iterdir() if CASES.is_dir() else ())
    if (case / "request.json").exists() and ((case / "stream.sse").exists() or (case / "make_stream.py").exists())
)
STREAMED_AS = ("TEXT_MESSAGE_", "REASONING_MESSAGE_")
LONG_TEXTS = {"(1500000 letters, abcdefghij repeated)": "abcdefghij" * 150_000}


def load(case: Path, name: str, default: Any = None) -> Any:
    return json.loads((case / name).read_text()) if (case / name).exists() else default


def body_of(case: Path) -> bytes:
    if (case / "stream.sse").exists():
        return (case / "stream.sse").read_bytes()
    return subprocess.run([sys.executable, case / "make_stream.py"], capture_output=True, check=True).stdout


def judge_run(expected: dict[str, Any], reading: Reading) -> None:
    verdict = reading.verdict
    if expected["state"] == "finished":
        assert verdict.failure is None
        assert verdict.said == expected["outcome"]
        return
    failure = expected["failure"]
    assert verdict.failure == failure["class"]
    assert failure.get("message_has", "") in (verdict.message or "")
    if failure["class"] == "agent":
        assert verdict.code == failure.get("code", verdict.code)
    else:
        assert verdict.cause.kind == failure["kind"]


def texts_of(reading: Reading, known: set[str]) -> list[list[Any]]:
    """What the run added that has a text or an activity, or was streamed as one, and whether it ended."""
    last = {event.message_id: event.type.value for event in reading.events if event.type.value.startswith(STREAMED_AS)}
    return [
        [message.id, message.role, message.content, last.get(message.id, "_END").endswith("_END")]
        for message in reading.inbound.fold.messages
        if message.id not in known
        and message.role != "tool"
        and message.content is not None
        and (message.content or message.id in last)
    ]


def calls_of(reading: Reading) -> list[dict[str, Any]]:
    fold = reading.inbound.fold
    results = {message["toolCallId"]: message["content"] for message in reading.messages if message["role"] == "tool"}
    unanswered = {call.id for call in fold.unanswered}
    return [
        {
            "id": call.id,
            "name": call.function.name,
            "args": call.function.arguments,
            "parent": message.id,
            "status": "answered" if call.id in results else "unanswered" if call.id in unanswered else "incomplete",
            **({"result": results[call.id]} if call.id in results else {}),
        }
        for message in fold.messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls or ()
    ]


def matches(expected: Any, found: Any) -> bool:
    """Objects on the keys that are named, lists by length; "*" is any string, `_absent` names keys that may not be."""
    if isinstance(expected, dict):
        absent = expected.get("_absent", ())
        named = {key: value for key, value in expected.items() if key != "_absent"}
        return (
            isinstance(found, dict)
            and not any(key in found for key in absent)
            and all(key in found and matches(value, found[key]) for key, value in named.items())
        )
    if isinstance(expected, list):
        return isinstance(found, list) and len(expected) == len(found) and all(map(matches, expected, found))
    if expected == "*":
        return isinstance(found, str)
    return json_equal(LONG_TEXTS.get(expected, expected) if isinstance(expected, str) else expected, found)


def in_order(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The history with the tool messages of one assistant message in the order of their calls."""
    ordered: list[dict[str, Any]] = []
    for message in history:
        ordered.append(message)
        at = len(ordered) - 1
        while (
            message["role"] == "tool"
            and at
            and ordered[at - 1]["role"] == "tool"
            and (ordered[at - 1]["toolCallId"] > message["toolCallId"])
        ):
            ordered[at - 1], ordered[at] = ordered[at], ordered[at - 1]
            at -= 1
    return ordered
