"""The input of a run, the one thing that goes the other way: what an agent is asked with, and what a server reads.

Both directions pass the same table of shapes. Out of here goes nothing unknown and no null; what is known and wrong is
refused before anything is sent. In here what is unknown goes with a warning and the request is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ag_ui.core import RunAgentInput
from pydantic import BaseModel

from handrail.agui._compat import PROTOCOL_VERSION, upgrade_messages
from handrail.agui._json import decode_utf8, encode_json, excerpt, parse_json
from handrail.agui._shape_table import INPUT_SHAPE
from handrail.agui._shapes import Malformed, Reading
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.errors import LocalProtocolError, RemoteDecodeError, RemoteProtocolError

__all__ = ["encode_input", "outgoing_input", "read_input", "read_request"]

_PYTHON_SPELLINGS = {
    "thread_id": "threadId",
    "run_id": "runId",
    "parent_run_id": "parentRunId",
    "forwarded_props": "forwardedProps",
}


def outgoing_input(
    given: RunAgentInput | Mapping[str, Any], warn: WarningSink, *, lenient: bool = False
) -> dict[str, Any]:
    """The input as it goes out, in the wire's shape; what was given stays as it is.

    Unknown material is removed with an `outgoing` warning, nulls in optional fields are left out, `binary` parts are
    translated, the protocol version is ours. Raises `LocalProtocolError` for a known value that is malformed. With
    `lenient`, for servers older than 1.0, a missing state goes out as {}.
    """
    payload = upgrade_messages(_wire_form(given), "", warn)
    payload["protocolVersion"] = PROTOCOL_VERSION
    reading = Reading(null_is_absent=True)
    try:
        cleaned: RunAgentInput = INPUT_SHAPE.read(payload, "", reading)
    except Malformed as wrong:
        raise LocalProtocolError(
            f"the input of the run is malformed, and nothing was sent: {_field_at(wrong.path)}: {wrong} (P-25)",
            rule="P-25",
            path=wrong.path,
        ) from None
    for record in reading.warnings:
        if record.code != "null-read-as-absent":
            warn(WarningRecord("outgoing", f"not sent: {record.message}", record.path))
    defaults: dict[str, Any] = {"tools": [], "context": [], "forwardedProps": {}}
    if lenient:
        defaults["state"] = {}
    return defaults | cleaned.model_dump(by_alias=True)


def encode_input(payload: Mapping[str, Any]) -> bytes:
    """The body of a request; raises `LocalProtocolError` for opaque data that JSON cannot hold."""
    try:
        return encode_json(payload)
    except (ValueError, TypeError, RecursionError) as error:
        words = f"the input of the run cannot be written as JSON, and nothing was sent: {error} (P-25)"
        raise LocalProtocolError(words, rule="P-25") from error


def read_request(body: bytes, warn: WarningSink) -> dict[str, Any]:
    """The JSON object that a request's body is; raises `RemoteDecodeError` where it is none."""
    text, was_mended = decode_utf8(body)
    if was_mended:
        warn(WarningRecord("encoding", "the request is not UTF-8: invalid bytes are read as U+FFFD"))
    try:
        payload = parse_json(text)
    except ValueError as error:
        words = f"the client sent a body that is not one JSON object: {error}"
        raise RemoteDecodeError(words, excerpt=excerpt(body)) from None
    if not isinstance(payload, dict):
        raise RemoteDecodeError("the client sent a body that is not one JSON object", excerpt=excerpt(body))
    return cast("dict[str, Any]", payload)


def read_input(payload: Mapping[str, Any], warn: WarningSink) -> RunAgentInput:
    """The input that a request's object is, stripped of what is unknown; raises `RemoteProtocolError`.

    The spellings of Python clients are read at the top level, where the wire's own are absent.
    """
    spelled = {python: key for python, key in _PYTHON_SPELLINGS.items() if python in payload and key not in payload}
    if spelled:
        named = ", ".join(f"{python} as {key}" for python, key in spelled.items())
        warn(WarningRecord("legacy", f"the client spells its request in Python's way; read: {named}"))
    respelled = {spelled.get(key, key): value for key, value in payload.items()}
    reading = Reading()
    try:
        read: RunAgentInput = INPUT_SHAPE.read(upgrade_messages(respelled, "", warn), "", reading)
    except Malformed as wrong:
        raise RemoteProtocolError(
            f"the client broke the protocol: its input is malformed: {_field_at(wrong.path)}: {wrong} (P-24)",
            rule="P-24",
            path=wrong.path,
        ) from None
    for record in reading.warnings:
        warn(record)
    return read


def _wire_form(given: RunAgentInput | Mapping[str, Any]) -> dict[str, Any]:
    """A copy in the wire's shape; models in the lists of a dict are written out too. What they hold is judged later."""
    if isinstance(given, BaseModel):
        return given.model_dump(by_alias=True, warnings=False)
    return {key: _written_out(value) for key, value in given.items()}


def _written_out(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [
        item.model_dump(by_alias=True, warnings=False) if isinstance(item, BaseModel) else item
        for item in cast("list[Any]", value)
    ]


def _field_at(path: str) -> str:
    return f"{path.rpartition('/')[2]!r} at {path}" if path else "as a whole"
