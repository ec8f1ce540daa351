"""Small makers of messages. The one message vocabulary of this package is that of `ag_ui.core`.

    loop.run([system("Be brief."), user("What is the capital of France?")])

Every maker gives the message a fresh id (uuid4) unless one is passed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import cast, get_args
from uuid import uuid4

from ag_ui.core import (
    AssistantMessage,
    ContentPart,
    DeveloperMessage,
    FunctionCall,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from pydantic import TypeAdapter, ValidationError

__all__ = ["as_messages", "assistant", "developer", "system", "tool_call", "tool_result", "user"]

_adapter: TypeAdapter[Message] = TypeAdapter(Message)
_KINDS: tuple[type, ...] = get_args(get_args(Message)[0])


def user(content: str | Sequence[ContentPart], *, id: str | None = None, name: str | None = None) -> UserMessage:
    """A user turn: text, or a list of content parts."""
    parts = content if isinstance(content, str) else list(content)
    return UserMessage(id=id or str(uuid4()), content=parts, name=name)


def system(content: str, *, id: str | None = None, name: str | None = None) -> SystemMessage:
    """A system turn."""
    return SystemMessage(id=id or str(uuid4()), content=content, name=name)


def developer(content: str, *, id: str | None = None, name: str | None = None) -> DeveloperMessage:
    """A turn of the application's developer."""
    return DeveloperMessage(id=id or str(uuid4()), content=content, name=name)


def assistant(
    content: str | None = None,
    *,
    tool_calls: Sequence[ToolCall] = (),
    id: str | None = None,
    name: str | None = None,
) -> AssistantMessage:
    """A turn of the agent: text, calls, or both."""
    calls = list(tool_calls) or None
    return AssistantMessage(id=id or str(uuid4()), content=content, tool_calls=calls, name=name)


def tool_call(name: str, arguments: str = "{}", *, id: str | None = None) -> ToolCall:
    """A call inside an agent's turn; `arguments` is JSON text."""
    return ToolCall(id=id or str(uuid4()), function=FunctionCall(name=name, arguments=arguments))


def tool_result(
    tool_call_id: str,
    content: str | Sequence[ContentPart],
    *,
    error: str | None = None,
    id: str | None = None,
) -> ToolMessage:
    """The answer to a call; `error` says why the tool failed, if it did."""
    parts = content if isinstance(content, str) else list(content)
    return ToolMessage(id=id or str(uuid4()), tool_call_id=tool_call_id, content=parts, error=error)


def as_messages(given: object, new_id: Callable[[], str] = lambda: str(uuid4())) -> list[Message]:
    """What a caller hands in as a conversation, as a list of our own.

    A string is one user turn; a message, or a mapping in AG-UI wire form, is one message; a sequence is several.
    Each message is copied, so what the caller does with theirs afterwards changes nothing. Raises `TypeError` for
    what is no message and `ValueError` for an empty sequence or a mapping that does not fit.
    """
    if isinstance(given, str):
        return [UserMessage(id=new_id(), content=given)]
    if isinstance(given, (*_KINDS, Mapping)):
        return [_as_message(given)]
    if not isinstance(given, Sequence) or isinstance(given, (bytes, bytearray)):
        raise TypeError(f"messages is a string, a message or a sequence of messages, not {type(given).__name__}")
    messages = [_as_message(one) for one in cast("Sequence[object]", given)]
    if not messages:
        raise ValueError("messages is empty: there is nothing to run; pass a string or at least one message")
    return messages


def _as_message(given: object) -> Message:
    if isinstance(given, _KINDS):
        return cast("Message", given).model_copy(deep=True)
    if isinstance(given, Mapping):
        try:
            return _adapter.validate_python(deepcopy(cast("Mapping[str, object]", given)))
        except ValidationError as misfit:
            first = misfit.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(
                f"this is no message: {where}: {first['msg']}; make it with user() and its like"
            ) from misfit
    raise TypeError(f"a message is one of ag_ui.core or a mapping in its wire form, not {type(given).__name__}")
