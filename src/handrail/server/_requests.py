"""A request judged before anything is done: read within bounds, and held to the rules that streams are held to (P-77).

The judgement is a chain of refusals in a fixed order. What is merely unknown goes with a warning, and the request is
served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ag_ui.core import ActivityMessage, AssistantMessage, RunAgentInput, ToolMessage
from starlette.datastructures import Headers
from starlette.types import Receive

from handrail.agui._input import read_input, read_request
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.errors import RemoteDecodeError, RemoteProtocolError
from handrail.server._answers import Refused

__all__ = ["ClientGone", "check_is_json", "judged", "read_body"]


class ClientGone(Exception):
    """The client went away before it had said what it wants."""


def check_is_json(headers: Headers) -> None:
    """Raises `Refused` for a body that does not say it is JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.endswith("+json") and "/" in kind):
        raise Refused(415, "unsupported-media-type", f"The body must be application/json, not {kind or 'untyped'}.")


async def read_body(headers: Headers, receive: Receive, most: int) -> bytes:
    """The body. Raises `Refused` as soon as it is over `most` bytes, and `ClientGone`."""
    told = headers.get("content-length", "")
    if told.isdecimal() and int(told[:20]) > most:
        raise _too_large(most)
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > most:
            raise _too_large(most)
        if not message.get("more_body", False):
            return bytes(body)


def _too_large(most: int) -> Refused:
    # The rest of the body is not read, so nothing else can come on this connection.
    return Refused(413, "too-large", f"The body is over {most} bytes.", headers=[(b"connection", b"close")])


def judged(body: bytes, warn: WarningSink) -> RunAgentInput:
    """The input of a run that a body is. Raises `Refused` where it is none that can be served."""
    told: list[WarningRecord] = []
    try:
        payload = read_request(body, told.append)
        given = read_input(payload, told.append)
    except RemoteDecodeError as error:
        raise Refused(400, "invalid-json", str(error)) from None
    except RemoteProtocolError as error:
        raise Refused(422, "invalid-input", str(error), path=error.path) from None
    finally:
        for record in told:
            warn(record)
    _check_resume(given, warn)
    _check_messages(given, payload, told)
    return given


def _check_resume(given: RunAgentInput, warn: WarningSink) -> None:
    """One answer for each question. One that answers no open call of the last turn does nothing, and is remarked on."""
    seen: set[str] = set()
    open_calls = _open_calls(given)
    for place, entry in enumerate(given.resume or ()):
        path, name = f"/resume/{place}/interruptId", entry.interrupt_id
        if name in seen:
            raise Refused(422, "invalid-input", f"The question {name!r} is answered twice in resume.", path=path)
        if name not in open_calls:
            warn(WarningRecord("unknown-value", f"resume answers {name!r}, which nobody asked; ignored", path))
        seen.add(name)


def _open_calls(given: RunAgentInput) -> set[str]:
    last = next((message for message in reversed(given.messages) if isinstance(message, AssistantMessage)), None)
    calls = {call.id for call in (last.tool_calls or ())} if last is not None else set[str]()
    return calls - {message.tool_call_id for message in given.messages if isinstance(message, ToolMessage)}


def _check_messages(given: RunAgentInput, payload: dict[str, Any], told: Sequence[WarningRecord]) -> None:
    """There is something to answer, and it is what the client wanted answered."""
    last = f"/messages/{len(payload['messages']) - 1}"
    if any(record.path == last and record.code == "unknown-value" for record in told):
        text = "The last message is of a kind that this server does not know, so it cannot be answered."
        raise Refused(422, "unreadable-messages", text, path=last)
    if all(isinstance(message, ActivityMessage) for message in given.messages):
        raise Refused(422, "unreadable-messages", "There is no message to answer.", path="/messages")
