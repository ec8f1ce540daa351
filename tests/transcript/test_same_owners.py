"""What belongs to one message of the wire belongs to the same one on the screen."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import AssistantMessage, BaseEvent, ImagePart, UrlSource, UserMessage
from tests.transcript.events import answered, call, cr, ms, rf, rs, tc, te, text, ts
from tests.transcript.reading import calls, reduced

from handrail.agui._fold import Fold
from handrail.transcript import TextPart, TranscriptReducer


def folded(*events: BaseEvent | list[BaseEvent]) -> Fold:
    fold = Fold()
    for event in events:
        for one in event if isinstance(event, list) else [event]:
            fold.apply(one)  # pyright: ignore[reportArgumentType]  # a member of the union `Event`
    return fold


def owners(fold: Fold) -> list[str]:
    """The messages that hold the calls, in order."""
    held = ((message, message.tool_calls) for message in fold.messages if isinstance(message, AssistantMessage))
    return [message.id for message, made in held for _ in made or ()]


STREAMS: dict[str, list[BaseEvent | list[BaseEvent]]] = {
    "after its result": [rs(), cr("c1"), call("c1", parent="a1")],
    "after its result, without a parent": [rs(), cr("c1"), call("c1")],
    "after its result, of the user's": [rs(), text("u1", "hi", role="user"), cr("c1"), call("c1", parent="u1")],
    "an id used again": [rs(), call("c1", "[1]"), cr("c1"), rf(), rs("r2"), call("c1", "[2]")],
    "an id used again, of a new message": [
        *[rs(), call("c1", "[1]"), cr("c1"), rf(), rs("r2")],
        call("c1", "[2]", parent="a2"),
    ],
    "an id used again, of a known message": [
        *[rs(), call("c1", "[1]", parent="a1"), cr("c1"), rf(), rs("r2")],
        call("c1", "[2]", parent="a1"),
    ],
    "an id used three times": [
        *[rs(), call("c1", "[1]"), cr("c1"), rf(), rs("r2"), call("c1", "[2]"), cr("c1", id="t2"), rf("r2")],
        *[rs("r3"), call("c1", "[3]")],
    ],
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_a_call_is_of_the_message_that_holds_it_on_the_wire(stream: list[Any]) -> None:
    """S-119, S-133, P-50, P-51: whatever made the part, and whatever it was called before."""
    assert [part.message_id for part in calls(reduced(*stream)).values()] == owners(folded(*stream))


def test_a_text_has_the_role_of_the_message_that_it_goes_on_with() -> None:
    """P-48, S-126: the role of a known message is not changed by what is streamed into it."""
    stream: list[Any] = [rs(), call("c1", parent="a1"), ts("a1", role="system"), tc("a1", "so")]
    fold, reducer = folded(*stream), TranscriptReducer()
    [message] = reduced(*stream, start=reducer).messages
    assert (message.role, message.text) == (fold.messages[0].role, fold.messages[0].content) == ("assistant", "so")
    snapshot = ms(answered("a1", "so", ("c1", "{}")))
    shown = reduced(snapshot, tc("a1", " be it"), te("a1"), start=reducer)
    assert [part.text for part in shown.messages[0].parts if isinstance(part, TextPart)] == ["so be it"]


def test_a_text_for_a_turn_that_is_but_a_file_is_the_users() -> None:
    """P-48"""
    reducer = TranscriptReducer()
    picture = ImagePart(type="image", source=UrlSource(type="url", value="https://a/b.png"))
    reducer.add_turn(UserMessage(id="u1", content=[picture]))
    shown = reduced(rs(), text("u1", "look"), start=reducer)
    assert [(message.role, message.text) for message in shown.messages] == [("user", ""), ("user", "look")]
