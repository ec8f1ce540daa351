"""What a screen shows: events of one thread reduced to an ordered transcript of immutable values."""

from handrail.transcript._model import (
    ActivityPart,
    FilePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    Transcript,
    TranscriptMessage,
)
from handrail.transcript._reducer import TranscriptReducer
from handrail.transcript._run_state import (
    CANCELLED_CODE,
    CLIENT_ERROR_CODE,
    Failed,
    Finished,
    Idle,
    Running,
    RunState,
)

__all__ = [
    "CANCELLED_CODE",
    "CLIENT_ERROR_CODE",
    "ActivityPart",
    "Failed",
    "FilePart",
    "Finished",
    "Idle",
    "Part",
    "ReasoningPart",
    "RunState",
    "Running",
    "TextPart",
    "ToolCallPart",
    "Transcript",
    "TranscriptMessage",
    "TranscriptReducer",
]
