"""What looks the same is the same: parts are compared by what they show."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from handrail.transcript import ActivityPart, FilePart, ReasoningPart, TextPart, ToolCallPart
from handrail.transcript._restore import content_of


@pytest.mark.parametrize("kind", [TextPart, ReasoningPart])
def test_parts_that_look_the_same_are_the_same(kind: Any) -> None:
    """S-136: into how many parts a stream was cut is not what it says, and a part without text says nothing."""
    pieces = [kind(f"p{n}", "m1", text) for n, text in enumerate(["", "one ", "two", ""])]
    whole = [kind("q", "m1", "one two")]
    assert content_of(pieces) == content_of(whole) != content_of([kind("q", "m1", "one")])
    assert content_of([kind("q", "m1", "")]) == ()


FILE = FilePart("f", "m1", "image", "image/png", "https://a/b.png", "AAA=", "file-1", "acme")


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(FILE, **{name: "audio"})
        for name in ("kind", "mime_type", "url", "data", "file_id", "provider")
    ],
)
def test_files_that_differ_in_anything_look_different(other: FilePart) -> None:
    """S-112, S-136: whatever is shown of a file counts; its ids on the screen and the wire do not."""
    assert content_of([FILE]) == content_of([dataclasses.replace(FILE, id="g", message_id="m2")])
    assert content_of([other]) != content_of([FILE])


def test_activities_look_the_same_whatever_the_order_of_their_keys() -> None:
    """S-136: type and content count."""
    plan = ActivityPart("p", "x1", "PLAN", {"a": 1, "b": [1, 2]})
    assert content_of([plan]) == content_of([ActivityPart("q", "x2", "PLAN", {"b": [1, 2], "a": 1})])
    for other in (ActivityPart("p", "x1", "LIST", plan.content), ActivityPart("p", "x1", "PLAN", {"a": 1})):
        assert content_of([other]) != content_of([plan])


def test_what_is_said_has_its_order_and_its_kinds() -> None:
    """S-136: pieces of one kind side by side are one, kinds apart stay apart; a call says nothing here."""
    text, thought, call = TextPart("p", "m", "x"), ReasoningPart("q", "m", "x"), ToolCallPart("t", "m", "c", "f")
    assert content_of([text, call, text, thought]) == content_of([TextPart("p", "m", "xx"), thought])
    assert (
        len({content_of(parts) for parts in ([text, thought], [thought, text], [text, FILE, text], [text, text])}) == 4
    )
