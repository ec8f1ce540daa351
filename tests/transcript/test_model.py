"""The values of a transcript: frozen, lazy where it pays, and a persistent sequence and text beneath."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
from ag_ui.core import AudioPart, DataSource, DocumentPart, FileSource, ImagePart, UrlSource
from ag_ui.core import TextPart as WireText
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.transcript.events import call, cr, cs, qs, rf, rs, said, tc, text, ts

from handrail.errors import TransportError, TruncatedError
from handrail.transcript import (
    CANCELLED_CODE,
    CLIENT_ERROR_CODE,
    Failed,
    FilePart,
    Finished,
    Idle,
    Running,
    TextPart,
    ToolCallPart,
    Transcript,
    TranscriptMessage,
    TranscriptReducer,
)
from handrail.transcript._document import Document
from handrail.transcript._model import changed, growing, grown
from handrail.transcript._names import Names
from handrail.transcript._text import GrowingText
from handrail.transcript._vector import Vector


def test_states_say_whether_the_run_succeeded() -> None:
    """S-7, S-8: only a finished success is ok; a late error does not change that."""
    late = Failed("boom", "X")
    assert Finished("t", "r").ok
    assert Finished("t", "r", late_error=late).ok
    assert not any(
        state.ok
        for state in (Idle(), Running("t", "r"), Finished("t", "r", "interrupt"), Finished("t", "r", "cancelled"), late)
    )
    assert Finished("t", "r") == Finished("t", "r", "success", None, (), None)


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (Failed("no", "SERVER"), "agent"),
        (Failed("no"), "agent"),
        (Failed("Run cancelled", CANCELLED_CODE), "cancelled"),
        (Failed("cut", CLIENT_ERROR_CODE, TruncatedError()), "truncated"),
        (Failed("gone", CLIENT_ERROR_CODE, TransportError("gone", phase="read")), "transport"),
        (Failed("offline", CLIENT_ERROR_CODE, OSError("offline")), "error"),
        (Failed("Session was saved while a run was in flight", CLIENT_ERROR_CODE), "error"),
    ],
)
def test_kind_is_read_off_the_cause(state: Failed, kind: str) -> None:
    """S-8"""
    assert state.kind == kind


def test_values_are_frozen_and_compare_by_what_they_say() -> None:
    """S-110: every part has `streaming` and `subagent_run_id`; version is not compared."""
    part = TextPart("text:m", "m", "Hello", streaming=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        part.text = "x"  # type: ignore[misc]
    for value in (part, ToolCallPart("tool:c", "c", "c", "f"), FilePart("file:m#0", "m", "image")):
        assert value.subagent_run_id is None
        assert isinstance(value.streaming, bool)
    assert Transcript(version=1) == Transcript(version=2)
    assert Transcript(steps=("a",)) != Transcript()


def test_a_field_made_when_read_is_an_ordinary_field_to_everybody() -> None:
    """S-110: text that grew equals text that was given, in repr, copies and pickles too."""
    part = TextPart("text:m", "m", "Hel", streaming=True)
    part = grown(part, growing(part).plus("l").plus("o"))
    given_whole = TextPart("text:m", "m", "Hello", streaming=True)
    assert part == given_whole
    assert repr(part) == repr(given_whole)
    assert pickle.loads(pickle.dumps(part)) == copy.copy(part) == dataclasses.replace(part) == given_whole
    assert changed(part, streaming=False).text == "Hello"
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = part.nothing_such  # type: ignore[attr-defined]


def test_message_text_and_streaming() -> None:
    """S-111: text parts joined without separator; a call that receives arguments streams, one that waits does not."""
    reducer = TranscriptReducer()
    reducer.accept(rs())
    for event in [*text("m1", "One."), *call("c1"), *text("m2", "Two.")]:
        transcript = reducer.accept(event)
    [message] = transcript.messages
    assert message.text == "One.Two."
    assert not message.is_streaming
    assert reducer.accept(cs("c2")).messages[-1].is_streaming
    assert TranscriptMessage("m", "assistant", (TextPart("text:m", "m", "", streaming=True),)).is_streaming


def test_transcript_text_is_what_was_said() -> None:
    """S-111: user and assistant messages, a blank line between; nothing for a message without text."""
    reducer = TranscriptReducer()
    reducer.add_turn(said("u1", "Hi"))
    for event in [rs(), *text("s1", "be brief", role="system"), *call("c1"), cr("c1"), rf()]:
        reducer.accept(event)
    reducer.accept(rs("r2"))
    for event in text("m1", "Hello", "!"):
        reducer.accept(event)
    assert reducer.transcript.text == "Hi\n\nHello!"


def test_a_multimodal_turn_keeps_its_parts_in_order() -> None:
    """S-112: ids text:<id>#0, file:<id>#1; one builder for initial messages, sends and snapshots."""
    content: list[Any] = [
        WireText(type="text", text="look"),
        ImagePart(type="image", source=UrlSource(type="url", value="https://a/b.png", mime_type="image/png")),
        AudioPart(type="audio", source=DataSource(type="data", value="AAA=", mime_type="audio/wav")),
        DocumentPart(type="document", source=FileSource(type="file", value="f-1", provider="acme")),
    ]
    sent, restored = TranscriptReducer(), TranscriptReducer()
    sent.add_turn(said("u1", content))
    restored.restore([said("u1", content)])
    parts = sent.transcript.messages[0].parts
    assert parts == restored.transcript.messages[0].parts
    assert [part.id for part in parts] == ["text:u1#0", "file:u1#1", "file:u1#2", "file:u1#3"]
    assert parts[1] == FilePart("file:u1#1", "u1", "image", "image/png", url="https://a/b.png")
    assert parts[2] == FilePart("file:u1#2", "u1", "audio", "audio/wav", data="AAA=")
    assert parts[3] == FilePart("file:u1#3", "u1", "document", file_id="f-1", provider="acme")


def test_untouched_messages_and_parts_stay_the_same_objects() -> None:
    """S-113"""
    reducer = TranscriptReducer()
    reducer.restore([said("u0", "old")])
    for event in [rs(), *text("m1", "one"), *call("c1"), qs("q1"), ts("m2")]:
        before = reducer.accept(event)
    after = reducer.accept(tc("m2", "two"))
    assert after.messages[0] is before.messages[0]
    assert after.messages[1] is not before.messages[1]
    assert [new is old for new, old in zip(after.messages[1].parts, before.messages[1].parts, strict=True)] == [
        True,
        True,
        True,
        False,
    ]
    assert before.messages[1].parts[-1] == TextPart("text:m2", "m2", "", streaming=True)


# -- what the values stand on ------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 1200), st.lists(st.tuples(st.integers(0, 5000), st.integers()), max_size=12))
def test_a_vector_is_a_list_whose_versions_stay(size: int, writes: list[tuple[int, int]]) -> None:
    """S-158: every version reads as the list it stands for, whatever came after it."""
    vector, model = Vector(range(size)), list(range(size))
    versions = [(vector, list(model))]
    for at, item in writes:
        if at < len(model):
            model[at] = item
            vector = vector.replaced(at, item)
        else:
            model.append(item)
            vector = vector.appended(item)
        versions.append((vector, list(model)))
    for version, expected in versions:
        assert list(version) == expected
        assert len(version) == len(expected)
        assert all(version[at] == expected[at] for at in range(0, len(expected), 97))


def test_a_vector_grows_over_every_height() -> None:
    """S-158"""
    vector: Vector[int] = Vector()
    for item in range(33_000):
        vector = vector.appended(item)
    assert list(vector) == list(range(33_000))
    assert list(Vector(range(33_000))) == list(range(33_000))
    assert vector.replaced(1, -1)[1] == -1
    assert vector[1] == 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(["a", "bc", "é", "\ud83d", "\ude00", "😀"])), st.data())
def test_growing_text_reads_as_its_pieces(pieces: list[str], data: st.DataObject) -> None:
    """S-158: read in any order, every value is what it was; halves of a character join."""
    value, values = GrowingText("."), [(GrowingText("."), ".")]
    whole = "."
    for piece in pieces:
        value, whole = value.plus(piece), whole + piece
        values.append((value, whole))
    for read in data.draw(st.permutations(values)):
        assert str(read[0]) == read[1].encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def test_two_texts_may_go_on_from_one() -> None:
    """S-158"""
    start = GrowingText("a")
    left, right = start.plus("b"), start.plus("c")
    assert [str(start), str(left), str(right), str(left.plus("d"))] == ["a", "ab", "ac", "abd"]


def test_a_document_keeps_every_version() -> None:
    """S-158: versions read in any order; what was read belongs to the reader."""

    class Add:
        op, path = "add", "/n"

        def __init__(self, value: int) -> None:
            self.value = value

    document = Document({"keep": [1]})
    versions = [document.version]
    for number in range(6):
        document.patch([Add(number)])
        versions.append(document.version)
        if number == 3:
            versions[2].read()["n"] = "mine"
            document.version.read()["keep"].append(2)
    expected: list[dict[str, Any]] = [{"keep": [1]}, *({"keep": [1], "n": number} for number in range(6))]
    for version, value in reversed(list(zip(versions, expected, strict=True))):
        assert version.read() == value
    last = document.version
    document.replace({"keep": [1], "n": 5})
    assert document.version is last


def test_names_are_unique() -> None:
    """S-142: the later one gets #2, #3; a name that looks like one of those is respected."""
    names = Names()
    assert [names.take(name) for name in ("a", "a", "a#2", "a", "b", "a")] == ["a", "a#2", "a#2#2", "a#3", "b", "a#4"]
