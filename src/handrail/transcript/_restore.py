"""A whole message of the wire as parts of the screen: for what a session begins with, sends, and gets in snapshots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ag_ui.core import (
    ActivityMessage,
    AssistantMessage,
    ContentPart,
    DataSource,
    FileSource,
    Message,
    ReasoningMessage,
    ToolCall,
    ToolMessage,
    UrlSource,
)
from ag_ui.core import TextPart as WireText

from handrail.agui._copies import copied
from handrail.agui._text import mend
from handrail.transcript._arguments import Parsed
from handrail.transcript._model import ActivityPart, FilePart, Part, ReasoningPart, TextPart, ToolCallPart

__all__ = ["Content", "call_of", "content_of", "parts_of", "result_of"]

Content: TypeAlias = tuple[tuple[Any, ...], ...]


def parts_of(message: Message) -> list[Part]:
    """The parts that a message brings itself, in order; its calls are not among them."""
    owner = message.subagent_run_id
    match message:
        case ToolMessage():
            return []
        case ReasoningMessage():
            return [
                ReasoningPart(
                    f"reasoning:{message.id}",
                    message.id,
                    mend(message.content),
                    encrypted_value=message.encrypted_value,
                    subagent_run_id=owner,
                )
            ]
        case ActivityMessage():
            return [
                ActivityPart(
                    f"activity:{message.id}", message.id, message.activity_type, copied(message.content), owner
                )
            ]
        case AssistantMessage():
            if not message.content and message.tool_calls:
                return []
            return [TextPart(f"text:{message.id}", message.id, mend(message.content or ""), subagent_run_id=owner)]
        case _:
            content = message.content
            if isinstance(content, str):
                return [TextPart(f"text:{message.id}", message.id, mend(content), subagent_run_id=owner)]
            parts = [_part_of(item, message.id, index, owner) for index, item in enumerate(content)]
            return parts or [TextPart(f"text:{message.id}", message.id, subagent_run_id=owner)]


def _part_of(item: ContentPart, message_id: str, index: int, owner: str | None) -> Part:
    if isinstance(item, WireText):
        return TextPart(f"text:{message_id}#{index}", message_id, mend(item.text), subagent_run_id=owner)
    source = item.source
    return FilePart(
        f"file:{message_id}#{index}",
        message_id,
        item.type,
        mime_type=source.mime_type,
        url=source.value if isinstance(source, UrlSource) else None,
        data=source.value if isinstance(source, DataSource) else None,
        file_id=source.value if isinstance(source, FileSource) else None,
        provider=source.provider if isinstance(source, FileSource) else None,
        subagent_run_id=owner,
    )


def call_of(call: ToolCall, message: AssistantMessage) -> ToolCallPart:
    """A complete call, as yet without an answer."""
    return ToolCallPart(
        f"tool:{call.id}",
        message.id,
        call.id,
        call.function.name,
        mend(call.function.arguments),
        parsed_arguments=Parsed(call.function.arguments),
        arguments_complete=True,
        status="awaiting_result",
        encrypted_value=call.encrypted_value,
        subagent_run_id=message.subagent_run_id,
    )


def result_of(content: str | Sequence[ContentPart]) -> str | tuple[ContentPart, ...]:
    """What a tool gave, as a value that nobody changes."""
    return mend(content) if isinstance(content, str) else tuple(copied(part) for part in content)


def content_of(parts: Iterable[Part]) -> Content:
    """What parts say, whatever their ids: two sets of parts with equal content look the same on a screen."""
    said: list[tuple[Any, ...]] = []
    for part in parts:
        match part:
            case TextPart() if said and said[-1][0] == "text":
                said[-1] = ("text", said[-1][1] + part.text)
            case TextPart():
                said.append(("text", part.text))
            case ReasoningPart() if said and said[-1][0] == "reasoning":
                said[-1] = ("reasoning", said[-1][1] + part.text)
            case ReasoningPart():
                said.append(("reasoning", part.text))
            case ActivityPart():
                said.append(("activity", part.activity_type, json.dumps(part.content, sort_keys=True)))
            case FilePart():
                said.append(("file", part.kind, part.mime_type, part.url, part.data, part.file_id, part.provider))
            case _:
                continue
    return tuple(piece for piece in said if piece not in _SILENT)


_SILENT = (("text", ""), ("reasoning", ""))
