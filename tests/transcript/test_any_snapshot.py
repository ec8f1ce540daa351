"""Any snapshot upon any screen: the screen says what the snapshot says."""

from __future__ import annotations

from ag_ui.core import AssistantMessage, Message
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.transcript.events import activity, answered, ms, reasoned, result, rs, said
from tests.transcript.reading import reduced

from handrail.transcript import ReasoningPart, TextPart, ToolCallPart, Transcript, TranscriptReducer

_ids = st.sampled_from(["a", "b", "c", "d"])
_words = st.sampled_from(["", "x", "y"])


def _each_call_once(messages: list[Message]) -> list[Message]:
    seen: set[str] = set()
    for message in messages:
        if isinstance(message, AssistantMessage) and message.tool_calls:
            message.tool_calls = [call for call in message.tool_calls if call.id not in seen] or None
            seen.update(call.id for call in message.tool_calls or ())
    return messages


_messages = st.lists(
    st.one_of(
        st.builds(said, _ids.map("u-{}".format), _words),
        st.builds(
            lambda id, content, calls: answered(f"a-{id}", content, *((f"k-{call}", "{}") for call in calls)),
            _ids,
            st.one_of(st.none(), _words),
            st.lists(_ids, max_size=2, unique=True),
        ),
        st.builds(reasoned, _ids.map("q-{}".format), _words),
        st.builds(result, _ids.map("t-{}".format), _ids.map("k-{}".format), _words),
        st.builds(activity, _ids.map("x-{}".format), st.just({})),
    ),
    max_size=8,
    unique_by=lambda message: message.id,
).map(_each_call_once)


def _said(transcript: Transcript) -> dict[tuple[str, str], str]:
    """What each message of the wire says on the screen."""
    words: dict[tuple[str, str], str] = {}
    for message in transcript.messages:
        for part in message.parts:
            if isinstance(part, TextPart | ReasoningPart):
                key = (type(part).__name__, part.message_id)
                words[key] = words.get(key, "") + part.text
    return {key: text for key, text in words.items() if text}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(_messages, _messages, st.booleans())
def test_the_screen_says_what_the_snapshot_says(first: list[Message], second: list[Message], running: bool) -> None:
    """S-135 to S-142: words, calls and results as if drawn from nothing; unique ids; the same one again is idle."""
    reducer, fresh = TranscriptReducer(), TranscriptReducer()
    reducer.restore(first)
    if running:
        reduced(rs(), start=reducer)
        reduced(rs(), start=fresh)
    transcript, expected = reducer.accept(ms(*second)), fresh.accept(ms(*second))
    keeps_thoughts = all(message.role != "reasoning" for message in second)
    shown, wanted = _said(transcript), _said(expected)
    if keeps_thoughts:
        shown = {key: text for key, text in shown.items() if key[0] != "ReasoningPart"}
    assert shown == wanted
    calls = [part for message in transcript.messages for part in message.parts if isinstance(part, ToolCallPart)]
    plain = [part for message in expected.messages for part in message.parts if isinstance(part, ToolCallPart)]
    assert sorted((part.tool_call_id, part.result or "") for part in calls) == sorted(
        (part.tool_call_id, part.result or "") for part in plain
    )
    parts = [part.id for message in transcript.messages for part in message.parts]
    assert len(parts) == len(set(parts))
    assert len({message.id for message in transcript.messages}) == len(transcript.messages)
    assert all(message.parts for message in transcript.messages)
    assert reducer.accept(ms(*second)) is transcript
