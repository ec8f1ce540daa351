"""Events read into a transcript, and short ways to look at it."""

from __future__ import annotations

from ag_ui.core import BaseEvent

from handrail.transcript import ToolCallPart, Transcript, TranscriptReducer


def reduced(*events: BaseEvent | list[BaseEvent], start: TranscriptReducer | None = None) -> Transcript:
    reducer = start or TranscriptReducer()
    for event in events:
        for one in event if isinstance(event, list) else [event]:
            reducer.accept(one)
    return reducer.transcript


def outline(transcript: Transcript) -> list[tuple[str, list[str]]]:
    return [(message.id, [part.id for part in message.parts]) for message in transcript.messages]


def calls(transcript: Transcript) -> dict[str, ToolCallPart]:
    """The call parts on screen, by id."""
    return {
        part.id.removeprefix("tool:"): part
        for message in transcript.messages
        for part in message.parts
        if isinstance(part, ToolCallPart)
    }
