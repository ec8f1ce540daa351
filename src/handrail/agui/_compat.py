"""What older peers send, translated before it is judged: three retired shapes, without a test of anybody's version.

- THINKING_* events become the REASONING_* family under ids of ours: they had none.
- A `binary` content part becomes the image, audio, video or document that it is.
- Null in some optional fields reads as absent; those fields are listed with the shapes (`_shape_table`).

And what a peer says of its own version is read here: it is told about, and never a reason to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from handrail.agui._json import excerpt
from handrail.agui._warnings import WarningRecord, WarningSink

__all__ = ["PROTOCOL_VERSION", "LegacyEvents", "upgrade_messages", "version_warning"]

PROTOCOL_VERSION = "1.0"
"""Stated in every request and every RUN_STARTED of ours, whatever the other side says."""

_SPAN, _MESSAGE = "span", "message"
_THINKING = {
    # retired type: its successor, whose id it carries, and what it does to that
    "THINKING_START": ("REASONING_START", _SPAN, "opens"),
    "THINKING_END": ("REASONING_END", _SPAN, "ends"),
    "THINKING_TEXT_MESSAGE_START": ("REASONING_MESSAGE_START", _MESSAGE, "opens"),
    "THINKING_TEXT_MESSAGE_CONTENT": ("REASONING_MESSAGE_CONTENT", _MESSAGE, "goes on"),
    "THINKING_TEXT_MESSAGE_END": ("REASONING_MESSAGE_END", _MESSAGE, "ends"),
}
_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")
_OURS = (1, 0)
_MEDIA = ("image", "audio", "video")


class LegacyEvents:
    """The translator of one stream; it remembers the ids it gave out, and whether it has told of THINKING_* events."""

    def __init__(self, warn: WarningSink, new_id: Callable[[], str]) -> None:
        self._warn = warn
        self._new_id = new_id
        self._open: dict[str, str] = {}
        self._has_told = False

    def translate(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The payload as 1.0 has it: itself where there is nothing to translate, and never changed in place."""
        name = payload["type"]
        if name in _THINKING:
            return self._reasoning(name, payload)
        if name == "MESSAGES_SNAPSHOT":
            return upgrade_messages(payload, "", self._warn)
        if name == "RUN_STARTED":
            given = payload.get("input")
            if isinstance(given, dict):
                return payload | {"input": upgrade_messages(cast("dict[str, Any]", given), "/input", self._warn)}
        return payload

    def _reasoning(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        successor, item, does = _THINKING[name]
        self._tell(name, payload)
        if does == "opens":
            self._open[item] = self._new_id()
        elif item not in self._open:
            self._warn(WarningRecord("legacy", f"{name} goes on with nothing that was started; the id of it is ours"))
        message_id = self._open.get(item) or self._new_id()
        if does == "ends":
            self._open.pop(item, None)
        translated = {**payload, "type": successor, "messageId": message_id}
        if does == "opens":
            translated.pop("title", None)
            translated |= {"role": "reasoning"} if item == _MESSAGE else {}
        return translated

    def _tell(self, name: str, payload: dict[str, Any]) -> None:
        if self._has_told:
            return
        self._has_told = True
        title = f"; its title {excerpt(payload['title'])} is dropped" if "title" in payload else ""
        self._warn(WarningRecord("legacy", f"the retired event {name} is read as REASONING_*{title}"))


def upgrade_messages(holder: dict[str, Any], path: str, warn: WarningSink) -> dict[str, Any]:
    """The holder with every `binary` part in its `messages` as the medium that it is; itself if there is none.

    A part that says only the id of a file somewhere is left as it is, with a warning. `path` is that of the holder.
    """
    messages = holder.get("messages")
    if not isinstance(messages, list):
        return holder
    upgraded = [
        _upgrade_message(message, f"{path}/messages/{index}", warn)
        for index, message in enumerate(cast("list[Any]", messages))
    ]
    return holder | {"messages": upgraded}


def _upgrade_message(message: Any, path: str, warn: WarningSink) -> Any:
    if not isinstance(message, dict):
        return message
    said = cast("dict[str, Any]", message)
    old = cast("list[Any]", said["content"]) if isinstance(said.get("content"), list) else []
    if not any(map(_is_binary, old)):
        return said
    parts: list[Any] = []
    for index, part in enumerate(old):
        medium = _medium_of(part) if _is_binary(part) else part
        if medium is None:
            words = f"a binary part without data or url at {path}/content/{index} cannot be read as a medium"
            warn(WarningRecord("legacy", words, f"{path}/content/{index}"))
        if medium is part or medium is None or not any(_says_the_same(other, medium) for other in old):
            parts.append(part if medium is None else medium)
    return said | {"content": parts}


def _is_binary(part: Any) -> bool:
    return isinstance(part, dict) and cast("dict[str, Any]", part).get("type") == "binary"


def _medium_of(part: dict[str, Any]) -> dict[str, Any] | None:
    """The modern part that a binary one is; None if it does not say where its bytes are, or what they are."""
    mime_type = part.get("mimeType")
    where = next((kind for kind in ("data", "url") if isinstance(part.get(kind), str) and part[kind]), None)
    if where is None or not isinstance(mime_type, str):
        return None
    family = mime_type.partition("/")[0].lower()
    medium: dict[str, Any] = {
        "type": family if family in _MEDIA else "document",
        "source": {"type": where, "value": part[where], "mimeType": mime_type},
    }
    if part.get("filename"):
        medium["metadata"] = {"filename": part["filename"]}
    return medium


def _says_the_same(other: Any, medium: dict[str, Any]) -> bool:
    """Whether a modern part beside it already says all that the binary one does."""
    if not isinstance(other, dict):
        return False
    part = cast("dict[str, Any]", other)
    metadata = part.get("metadata")
    known: dict[str, Any] = cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}
    return (
        part.get("type") == medium["type"]
        and part.get("source") == medium["source"]
        and known.items() >= medium.get("metadata", {}).items()
    )


def version_warning(declared: str | None) -> WarningRecord | None:
    """What there is to say about the version a peer declares: nothing, unless it is newer than ours or no version."""
    if declared is None:
        return None
    read = _VERSION.fullmatch(declared)
    if read is None:
        words = f"cannot interpret the protocol version {excerpt(declared)!r} of the peer; ours is {PROTOCOL_VERSION}"
    elif (int(read[1]), int(read[2])) > _OURS:
        words = f"the peer speaks protocol version {declared}, which is newer than ours, {PROTOCOL_VERSION}"
    else:
        return None
    return WarningRecord("version", words, "/protocolVersion")
