"""Payloads of an agent, short to write."""

from __future__ import annotations

from typing import Any

from tests.agui.wires import Reading, read_every_cut, sse

ASKED = {"thread_id": "t1", "run_id": "r1"}


def started(run_id: str = "r1", **fields: Any) -> dict[str, Any]:
    return {"type": "RUN_STARTED", "threadId": "t1", "runId": run_id, **fields}


def finished(run_id: str = "r1", **fields: Any) -> dict[str, Any]:
    return {"type": "RUN_FINISHED", "threadId": "t1", "runId": run_id, **fields}


def errored(message: str = "boom", code: str | None = "X") -> dict[str, Any]:
    return {"type": "RUN_ERROR", "message": message} | ({} if code is None else {"code": code})


def text(message_id: str, *deltas: str) -> list[dict[str, Any]]:
    return [
        {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"},
        *({"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": delta} for delta in deltas),
        {"type": "TEXT_MESSAGE_END", "messageId": message_id},
    ]


def told(*payloads: dict[str, Any], **options: Any) -> Reading:
    return read_every_cut(sse(payloads), **ASKED, **options)
