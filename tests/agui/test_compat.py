"""What older peers send: retired events, retired parts, and what is said of versions."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from handrail.agui._compat import PROTOCOL_VERSION, LegacyEvents, upgrade_messages, version_warning
from handrail.agui._enforce import read_event
from handrail.agui._input import outgoing_input
from handrail.agui._warnings import WarningRecord


def translated(*payloads: dict[str, Any]) -> tuple[list[dict[str, Any]], list[WarningRecord]]:
    warnings: list[WarningRecord] = []
    numbers = count(1)
    legacy = LegacyEvents(warnings.append, lambda: f"new-{next(numbers)}")
    before = json.dumps(payloads)
    results = [legacy.translate(payload) for payload in payloads]
    assert json.dumps(payloads) == before
    return results, warnings


def test_thinking_becomes_reasoning_under_ids_of_ours() -> None:
    """P-26: spans and messages each have one minted id; one `legacy` warning names the first type and its title."""
    results, warnings = translated(
        {"type": "THINKING_START", "title": "Hmm", "timestamp": 5},
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "a", "rawEvent": 1},
        {"type": "THINKING_TEXT_MESSAGE_END"},
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "b"},
        {"type": "THINKING_TEXT_MESSAGE_END"},
        {"type": "THINKING_END"},
    )
    assert results == [
        {"type": "REASONING_START", "messageId": "new-1", "timestamp": 5},
        {"type": "REASONING_MESSAGE_START", "messageId": "new-2", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "new-2", "delta": "a", "rawEvent": 1},
        {"type": "REASONING_MESSAGE_END", "messageId": "new-2"},
        {"type": "REASONING_MESSAGE_START", "messageId": "new-3", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "new-3", "delta": "b"},
        {"type": "REASONING_MESSAGE_END", "messageId": "new-3"},
        {"type": "REASONING_END", "messageId": "new-1"},
    ]
    assert [record.code for record in warnings] == ["legacy"]
    assert "THINKING_START" in warnings[0].message
    assert "Hmm" in warnings[0].message
    for payload in results:
        assert read_event(payload, pytest.fail) is not None


@pytest.mark.parametrize(
    ("name", "successor"),
    [
        ("THINKING_TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"),
        ("THINKING_TEXT_MESSAGE_END", "REASONING_MESSAGE_END"),
        ("THINKING_END", "REASONING_END"),
    ],
)
def test_a_thinking_event_with_no_opener_gets_an_id_nobody_opened(name: str, successor: str) -> None:
    """P-26: the order will refuse it, and a warning says that the id is ours."""
    results, warnings = translated({"type": name, "delta": "x"})
    assert results[0]["type"] == successor
    assert results[0]["messageId"] == "new-1"
    assert [record.code for record in warnings] == ["legacy", "legacy"]
    assert "ours" in warnings[1].message


def test_what_was_ended_is_not_gone_on_with() -> None:
    """P-26: an id of ours is given once; what goes on after its end has another, which nobody opened."""
    results, warnings = translated(
        {"type": "THINKING_TEXT_MESSAGE_START"},
        {"type": "THINKING_TEXT_MESSAGE_END"},
        {"type": "THINKING_TEXT_MESSAGE_CONTENT", "delta": "x"},
    )
    assert [payload["messageId"] for payload in results] == ["new-1", "new-1", "new-2"]
    assert [record.code for record in warnings] == ["legacy", "legacy"]


def upgraded(*parts: dict[str, Any]) -> tuple[list[dict[str, Any]], list[tuple[str, str | None]]]:
    warnings: list[WarningRecord] = []
    holder = {"messages": [{"id": "u", "role": "user", "content": list(parts)}]}
    result = upgrade_messages(holder, "", warnings.append)
    return result["messages"][0]["content"], [(record.code, record.path) for record in warnings]


def binary(**fields: Any) -> dict[str, Any]:
    return {"type": "binary", **fields}


@pytest.mark.parametrize(
    ("mime_type", "medium"),
    [
        ("image/png", "image"),
        ("audio/wav", "audio"),
        ("video/mp4", "video"),
        ("application/pdf", "document"),
        ("x", "document"),
    ],
)
def test_a_binary_part_becomes_the_medium_that_it_is(mime_type: str, medium: str) -> None:
    """P-26: by MIME prefix; data before url; the file name goes to the metadata; no warning, for nothing is lost."""
    assert upgraded(
        binary(mimeType=mime_type, data="AAAA", url="https://example.com", filename="a.x"),
        binary(mimeType=mime_type, url="https://example.com"),
        binary(mimeType=mime_type, data="", url="https://example.com/2"),
    ) == (
        [
            {
                "type": medium,
                "source": {"type": "data", "value": "AAAA", "mimeType": mime_type},
                "metadata": {"filename": "a.x"},
            },
            {"type": medium, "source": {"type": "url", "value": "https://example.com", "mimeType": mime_type}},
            {"type": medium, "source": {"type": "url", "value": "https://example.com/2", "mimeType": mime_type}},
        ],
        [],
    )


def test_an_equal_modern_part_absorbs_a_binary_one() -> None:
    """P-26: equal is the kind, the source and the file name; else both stay."""
    source = {"type": "url", "value": "https://example.com/x", "mimeType": "image/png"}
    modern = {"type": "image", "source": source, "metadata": {"filename": "x", "more": 1}}
    old = binary(mimeType="image/png", url="https://example.com/x", filename="x")
    assert upgraded(modern, old) == ([modern], [])
    assert upgraded(old, modern) == ([modern], [])
    other = binary(mimeType="image/png", url="https://example.com/x", filename="y")
    assert len(upgraded(modern, other)[0]) == 2
    assert len(upgraded(binary(mimeType="image/png", url="a"), binary(mimeType="image/png", url="a"))[0]) == 2


def test_what_stands_beside_a_binary_part_is_left_as_it_is() -> None:
    """P-26: also what is no part at all; only a part that says exactly as much, or more, absorbs it."""
    old = binary(mimeType="IMAGE/png", url="https://example.com/x", filename="x")
    modern = {
        "type": "image",
        "source": {"type": "url", "value": "https://example.com/x", "mimeType": "IMAGE/png"},
        "metadata": {"filename": "x"},
    }
    for beside in ("text", 5, {"type": "image"}, modern | {"type": "audio"}, modern | {"metadata": 5}):
        assert upgraded(beside, old) == ([beside, modern], [])  # type: ignore[arg-type]
    assert upgraded(old, modern) == ([modern], [])


@pytest.mark.parametrize("data", [5, None, [], {}])
def test_where_the_bytes_of_a_binary_part_are(data: Any) -> None:
    """P-26: at a text, and where no text says it, nowhere; without a MIME type it is of no kind."""
    url = {"type": "url", "value": "https://example.com/x", "mimeType": "image/png"}
    part = binary(mimeType="image/png", data=data, url="https://example.com/x")
    assert upgraded(part) == ([{"type": "image", "source": url}], [])
    for odd in (binary(mimeType="image/png", data=data), binary(mimeType=data, url="https://example.com/x")):
        assert upgraded(odd) == ([odd], [("legacy", "/messages/0/content/0")])


def test_a_binary_part_that_says_only_an_id_is_left_and_told() -> None:
    """P-26: it is dropped as unknown further on."""
    part = binary(mimeType="image/png", id="file-1")
    assert upgraded(part) == ([part], [("legacy", "/messages/0/content/0")])
    warnings: list[WarningRecord] = []
    payload = {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "u", "role": "user", "content": [part]}]}
    event: Any = read_event(LegacyEvents(warnings.append, str).translate(payload), warnings.append)
    assert event.messages[0].content == []
    assert [(record.code, record.path) for record in warnings] == [
        ("legacy", "/messages/0/content/0"),
        ("unknown-value", "/messages/0/content/0"),
    ]


def test_binary_parts_are_translated_wherever_messages_are() -> None:
    """P-26: MESSAGES_SNAPSHOT, RUN_STARTED.input and what goes out."""
    messages = [{"id": "u", "role": "user", "content": [binary(mimeType="image/png", url="a")]}]
    modern = [{"type": "image", "source": {"type": "url", "value": "a", "mimeType": "image/png"}}]
    asked = {"threadId": "t", "runId": "r", "messages": messages}
    results, warnings = translated(
        {"type": "MESSAGES_SNAPSHOT", "messages": messages},
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": asked},
    )
    assert results[0]["messages"][0]["content"] == modern
    assert results[1]["input"]["messages"][0]["content"] == modern
    assert outgoing_input(asked, warnings.append)["messages"][0]["content"] == modern
    assert warnings == []


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "MESSAGES_SNAPSHOT"},
        {"type": "MESSAGES_SNAPSHOT", "messages": None},
        {"type": "MESSAGES_SNAPSHOT", "messages": ["x", {"content": 5}, {"content": ["y", {"type": 5}]}]},
        {"type": "RUN_STARTED", "input": None},
        {"type": "RUN_STARTED", "input": {"messages": 5}},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "thinking", "delta": "x"},
    ],
)
def test_everything_else_is_judged_as_written(payload: dict[str, Any]) -> None:
    """P-26: also what is malformed is left for the shapes to refuse."""
    assert translated(payload) == ([payload], [])


@pytest.mark.parametrize("declared", [None, "1.0", "0.9", "0.0", "1.00", "01.0"])
def test_our_version_and_older_ones_are_quiet(declared: str | None) -> None:
    """P-28, P-29: equal, older or absent."""
    assert PROTOCOL_VERSION == "1.0"
    assert version_warning(declared) is None


@pytest.mark.parametrize("declared", ["1.1", "1.10", "2.0", "10.0", "1.999999999"])
def test_a_newer_version_is_told(declared: str) -> None:
    """P-29: compared as numbers; both versions are named."""
    record = version_warning(declared)
    assert record is not None
    assert record.code == "version"
    assert declared in record.message
    assert "1.0" in record.message


@pytest.mark.parametrize(
    "declared", ["draft", "", "1", "1.0.0", "v1.0", " 1.0", "1.0\n", "1.-1", "١.٠", "1." + "9" * 5000]
)
def test_a_version_that_is_none_is_told(declared: str) -> None:
    """P-29: served, and said that it cannot be interpreted."""
    record = version_warning(declared)
    assert record is not None
    assert record.code == "version"
    assert "cannot interpret" in record.message
    assert len(record.message) < 400
