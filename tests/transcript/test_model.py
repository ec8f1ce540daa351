"""The values of a transcript: frozen, lazy where it pays, and a persistent sequence and text beneath."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle
import tracemalloc
from typing import Any

import pytest
from ag_ui.core import AudioPart, DataSource, DocumentPart, FileSource, ImagePart, UrlSource
from ag_ui.core import TextPart as WireText
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.transcript.events import ca, call, cr, cs, qs, rf, rs, said, tc, text, thought, ts

from handrail.errors import TransportError, TruncatedError
from handrail.transcript import (
    CANCELLED_CODE,
    CLIENT_ERROR_CODE,
    ActivityPart,
    Failed,
    FilePart,
    Finished,
    Idle,
    ReasoningPart,
    Running,
    TextPart,
    ToolCallPart,
    Transcript,
    TranscriptMessage,
    TranscriptReducer,
)
from handrail.transcript._document import Document
from handrail.transcript._model import changed
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
    part = changed(part, text=GrowingText(part.text).plus("l").plus("o"))
    given_whole = TextPart("text:m", "m", "Hello", streaming=True)
    assert part == given_whole
    assert repr(part) == repr(given_whole)
    assert pickle.loads(pickle.dumps(part)) == copy.copy(part) == dataclasses.replace(part) == given_whole
    assert changed(part, streaming=False).text == "Hello"
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = part.nothing_such  # type: ignore[attr-defined]


def drawn() -> list[Any]:
    """A transcript as the reducer makes it, its message and the parts of that, which all have hidden sources."""
    reducer = TranscriptReducer()
    for event in [rs(), *thought("q1", "h", "m"), *text("m1", "Hel", "lo"), cs("c1"), ca("c1", "{"), ca("c1", "}")]:
        reducer.accept(event)
    [message] = reducer.transcript.messages
    return [reducer.transcript, message, *message.parts]


@pytest.mark.parametrize("value", drawn(), ids=lambda value: type(value).__name__)
def test_where_a_field_comes_from_is_nobodys_business(value: Any) -> None:
    """S-110: it is in no repr, no comparison and no constructor; a value with the same fields is equal."""
    named = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if not one.name.startswith("_")}
    same = type(value)(**named)
    assert same == value
    assert repr(same) == repr(value)
    for hidden in (one.name for one in dataclasses.fields(value) if one.name.startswith("_")):
        assert hidden not in repr(value)
        with pytest.raises(TypeError, match=hidden):
            type(value)(**named, **{hidden: None})


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (TextPart("p", "m"), {"text": "", "streaming": False}),
        (ReasoningPart("p", "m"), {"text": "", "streaming": False, "encrypted_value": None}),
        (
            ToolCallPart("p", "m", "c", "f"),
            {"arguments": "", "arguments_complete": False, "status": "streaming_arguments", "local": False},
        ),
        (ActivityPart("p", "m", "PLAN"), {"content": {}, "streaming": False}),
        (FilePart("p", "m", "image"), {"streaming": False, "url": None}),
        (TranscriptMessage("m", "user"), {"parts": (), "exchange": 0, "run_id": None}),
        (Transcript(), {"messages": (), "state": {}, "steps": (), "version": 0, "run": Idle()}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_was_not_said_is_nothing(value: Any, fields: dict[str, Any]) -> None:
    """S-110 to S-112: what a value is that only its ids are given of."""
    assert {name: getattr(value, name) for name in fields} == fields


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


def test_whoever_looks_at_every_value_finds_the_same_objects_in_the_next() -> None:
    """S-113, S-158: a message or part that an event leaves alone is the same object, looked at before or not."""
    reducer = TranscriptReducer()
    reducer.restore([said("u0", "old")])
    before = reducer.accept(rs()).messages
    streams = [text("m1", "a", "b"), call("c1"), [cr("c1")], thought("q1", "h"), [ts("m2"), cs("c2"), tc("m2", "x")]]
    for event in [*itertools.chain(*streams), ca("c2", "{"), cr("c1", "again"), rf()]:
        after = reducer.accept(event).messages
        for old, new in zip(before, after, strict=False):
            assert (new is old) == (new == old)
            for was, part in zip(old.parts, new.parts, strict=False):
                assert (part is was) == (part == was), part.id
        before = after


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


@pytest.mark.parametrize("size", [0, 1, 2, 31, 32, 33, 34, 63, 64, 65, 1023, 1024, 1025, 1055, 1056, 1057, 1058])
def test_a_vector_at_the_edges_of_its_leaves(size: int) -> None:
    """S-158: every item is found and can be replaced, of those given at once and of those added."""
    vector: Vector[int] = Vector(range(size))
    for item in range(size, size + 67):
        vector = vector.appended(item)
    length = size + 67
    assert [vector[at] for at in range(length)] == list(range(length))
    for at in {0, 1, *range(max(size - 34, 0), length)}:
        other = vector.replaced(at, -1)
        assert (other[at], vector[at], len(other)) == (-1, at, length)
        assert list(other) == [-1 if item == at else item for item in range(length)]


def test_holding_every_value_costs_what_came_and_not_what_it_adds_up_to() -> None:
    """S-158: the values of a text, and of a sequence, share all that they have in common."""
    tracemalloc.start()
    try:
        text, sequence = GrowingText("a"), Vector([0])
        held: list[object] = []
        for item in range(4_000):
            text, sequence = text.plus("b"), sequence.appended(item)
            held += [text, sequence]
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert size < 4_000_000  # each for itself, the texts alone would hold 64 MB of pointers


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
        assert read[0].read() == read[1].encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def test_two_texts_may_go_on_from_one() -> None:
    """S-158"""
    start = GrowingText("a")
    left, right = start.plus("b"), start.plus("c")
    assert [text.read() for text in (start, left, right, left.plus("d"))] == ["a", "ab", "ac", "abd"]


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


def test_a_version_in_the_middle_that_was_read_does_not_hide_what_came_since() -> None:
    """S-158: whatever is read between two changes, and in whatever order."""

    class Add:
        op = "add"

        def __init__(self, name: str) -> None:
            self.path, self.value = f"/{name}", name

    for reads in itertools.product([(), (0,), (1,), (2,), (3,), (1, 3), (3, 1), (2, 0)], repeat=2):
        document = Document({})
        versions = [document.version]
        for names, read in zip(("abc", "de"), reads, strict=True):
            for name in names:
                document.patch([Add(name)])
                versions.append(document.version)
            for at in read:
                assert versions[at].read() == {name: name for name in "abcde"[:at]}
        document.patch([Add("f")])
        versions.append(document.version)
        for at, version in enumerate(versions):
            assert version.read() == {name: name for name in "abcdef"[:at]}


def test_names_are_unique() -> None:
    """S-142: the later one gets #2, #3; a name that looks like one of those is respected."""
    names = Names()
    assert [names.take(name) for name in ("a", "a", "a#2", "a", "b", "a")] == ["a", "a#2", "a#2#2", "a#3", "b", "a#4"]
