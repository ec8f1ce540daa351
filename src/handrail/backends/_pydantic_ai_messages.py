"""A conversation as pydantic-ai takes it. Pure: messages in, that library's messages out.

Everything that is not the model's own goes into requests, neighbours into one. Reasoning goes back where it came from
with its signature, and is left out otherwise: its opaque value holds the library's own parts, and the library sends
them to the provider they name and to no other. Activities are not sent.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Any

import pydantic_ai.messages as ai
from ag_ui.core import (
    AssistantMessage,
    AudioPart,
    ContentPart,
    DataSource,
    DeveloperMessage,
    ImagePart,
    Message,
    ReasoningMessage,
    SystemMessage,
    TextPart,
    ToolMessage,
    UrlSource,
    UserMessage,
    VideoPart,
)
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.tools import ToolDefinition

from handrail.errors import BackendError
from handrail.loop._backend import ToolSpec

__all__ = ["messages_out", "opaque_of", "tools_out"]

_THOUGHTS: TypeAdapter[list[ai.ThinkingPart]] = TypeAdapter(list[ai.ThinkingPart])
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def messages_out(messages: Iterable[Message], provider: str) -> list[ai.ModelMessage]:
    """The messages, in order, without those that are not sent; `provider` is where file handles without one belong."""
    out: list[ai.ModelMessage] = []
    asked: list[ai.ModelRequestPart] = []
    thoughts: list[ai.ThinkingPart] = []
    names: dict[str, str] = {}
    for message in messages:
        if isinstance(message, ReasoningMessage):
            thoughts = _thoughts_in(message.encrypted_value)
            continue
        if isinstance(message, AssistantMessage):
            names.update((call.id, call.function.name) for call in message.tool_calls or ())
            parts = [*thoughts, *_answer(message)]
            if parts:
                out += _request(asked)
                out.append(ai.ModelResponse(parts=parts))
                asked = []
        else:
            asked += _request_parts(message, names, provider)
        thoughts = []
    return [*out, *_request(asked)]


def tools_out(tools: Sequence[ToolSpec]) -> list[ToolDefinition]:
    """The declarations of the tools."""
    return [
        ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=tool.parameters or _NO_PARAMETERS,
        )
        for tool in tools
    ]


def opaque_of(parts: Iterable[object]) -> str | None:
    """The thinking among these parts of an answer, as a value to keep; None if none of it can go back."""
    thoughts = [part for part in parts if isinstance(part, ai.ThinkingPart) and (part.signature or part.id)]
    return _THOUGHTS.dump_json(thoughts, exclude_none=True).decode() if thoughts else None


def _thoughts_in(opaque: str | None) -> list[ai.ThinkingPart]:
    try:
        return _THOUGHTS.validate_json(opaque or "[]")
    except ValidationError:  # another backend's
        return []


def _request(parts: list[ai.ModelRequestPart]) -> list[ai.ModelMessage]:
    return [ai.ModelRequest(parts=parts)] if parts else []


def _answer(message: AssistantMessage) -> list[ai.ModelResponsePart]:
    said: list[ai.ModelResponsePart] = [ai.TextPart(message.content)] if message.content else []
    # The library itself puts arguments that are no object into its form for invalid JSON.
    calls = [
        ai.ToolCallPart(call.function.name, call.function.arguments.strip() or "{}", call.id)
        for call in message.tool_calls or ()
    ]
    return [*said, *calls]


def _request_parts(message: Message, names: dict[str, str], provider: str) -> list[ai.ModelRequestPart]:
    match message:
        case SystemMessage() | DeveloperMessage():
            return [ai.SystemPromptPart(message.content)]
        case UserMessage():
            return [ai.UserPromptPart(_content(message.content, provider))]
        case ToolMessage():
            name = names.get(message.tool_call_id, "unknown")
            content = _content(message.content, provider)
            outcome = "failed" if message.error else "success"  # some providers have a place of their own for it
            return [ai.ToolReturnPart(name, content, message.tool_call_id, outcome=outcome)]
        case _:
            return []


def _content(content: str | Sequence[ContentPart], provider: str) -> Any:
    return content if isinstance(content, str) else [_part(part, provider) for part in content]


def _part(part: ContentPart, provider: str) -> ai.UserContent:
    if isinstance(part, TextPart):
        return part.text
    try:
        return _file(part, provider)
    except (ValidationError, binascii.Error) as error:  # a provider without uploads, data that is not base64
        raise BackendError(
            f"pydantic-ai cannot carry a part of type {part.type} whose source is {part.source.type}: {error}",
            "unsupported",
        ) from error


def _file(part: Any, provider: str) -> ai.UserContent:
    match part.source:
        case UrlSource() as source:
            return _url_kind(part)(url=source.value, media_type=source.mime_type)
        case DataSource() as source:
            return ai.BinaryContent(base64.b64decode(source.value, validate=True), media_type=source.mime_type)
        case source:
            owner: Any = source.provider or provider  # pydantic judges it
            return ai.UploadedFile(source.value, owner, media_type=source.mime_type)


def _url_kind(part: ContentPart) -> Any:
    match part:
        case ImagePart():
            return ai.ImageUrl
        case AudioPart():
            return ai.AudioUrl
        case VideoPart():
            return ai.VideoUrl
        case _:
            return ai.DocumentUrl
