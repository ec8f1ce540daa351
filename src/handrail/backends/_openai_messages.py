"""A conversation as chat completions take it. Pure: messages in, plain data out.

Reasoning and activities are not sent: the API has no place for them. A content part that it has no place for either is
refused with a `BackendError` of kind "unsupported", so that the loop asks the next backend.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ag_ui.core import (
    AssistantMessage,
    AudioPart,
    ContentPart,
    DataSource,
    DeveloperMessage,
    DocumentPart,
    FileSource,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UrlSource,
    UserMessage,
)

from handrail.errors import BackendError
from handrail.loop._backend import ToolSpec

__all__ = ["messages_out", "tools_out"]

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}

_NOT_IN_A_NAME = re.compile(r"[\s<|\\/>]+")
_LONGEST_NAME = 64


def messages_out(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The messages, in order, without those that are not sent."""
    return [sent for message in messages if (sent := _message(message)) is not None]


def tools_out(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """The declarations of the tools."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def _message(message: Message) -> dict[str, Any] | None:
    match message:
        case SystemMessage() | DeveloperMessage():
            return _named(message, {"role": message.role, "content": message.content})
        case UserMessage():
            return _named(message, {"role": "user", "content": _content(message.content)})
        case AssistantMessage():
            return _named(message, _assistant(message))
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": _tool_content(message.content)}
        case _:
            return None


def _named(message: Any, sent: dict[str, Any]) -> dict[str, Any]:
    """With the name of its author as far as the API takes it: one with a space in it would have all refused."""
    name = _NOT_IN_A_NAME.sub("_", message.name or "")[:_LONGEST_NAME]
    return sent | {"name": name} if name else sent


def _assistant(message: AssistantMessage) -> dict[str, Any]:
    if not message.tool_calls:
        return {"role": "assistant", "content": message.content or ""}
    return {
        "role": "assistant",
        "content": message.content or None,
        "tool_calls": [_call(call) for call in message.tool_calls],
    }


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = call.function.arguments
    written = arguments if arguments.strip() else "{}"
    return {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": written}}


def _content(content: str | Sequence[ContentPart]) -> str | list[dict[str, Any]]:
    return content if isinstance(content, str) else [_part(part) for part in content]


def _tool_content(content: str | Sequence[ContentPart]) -> str | list[dict[str, Any]]:
    if not isinstance(content, str) and any(not isinstance(part, TextPart) for part in content):
        raise _unsupported("anything but text in a tool's result")
    return _content(content)


def _part(part: ContentPart) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart(source=UrlSource() as source):
            return {"type": "image_url", "image_url": {"url": source.value}}
        case ImagePart(source=DataSource() as source):
            return {"type": "image_url", "image_url": {"url": _data_url(source)}}
        case AudioPart(source=DataSource() as source) if source.mime_type in _AUDIO_FORMATS:
            return {
                "type": "input_audio",
                "input_audio": {"data": source.value, "format": _AUDIO_FORMATS[source.mime_type]},
            }
        case DocumentPart(source=DataSource() as source):
            return {"type": "file", "file": {"file_data": _data_url(source), "filename": _filename(part)}}
        case DocumentPart(source=FileSource() as source) if source.provider in (None, "openai"):
            return {"type": "file", "file": {"file_id": source.value}}
        case _:
            raise _unsupported(f"a part of type {part.type} whose source is {part.source.type} {part.source.mime_type}")


def _data_url(source: DataSource) -> str:
    return f"data:{source.mime_type};base64,{source.value}"


def _filename(part: DocumentPart) -> str:
    named: Any = part.metadata.get("filename") if isinstance(part.metadata, dict) else None  # pyright: ignore
    return named if isinstance(named, str) else "document"


def _unsupported(what: str) -> BackendError:
    return BackendError(f"chat completions cannot carry {what}", "unsupported")
