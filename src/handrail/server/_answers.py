"""Answers that are no stream: small JSON, and refusals with a code and, where one place is meant, its path (P-77)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from starlette.responses import JSONResponse, Response
from starlette.types import Message, Send

from handrail.agui._ending import ERROR_TEXTS, INTERNAL_ERROR
from handrail.errors import Refuse

__all__ = ["Head", "Refused", "internal_error", "not_found", "refused_by", "send_empty", "send_json", "send_refusal"]

Head: TypeAlias = list[tuple[bytes, bytes]]


class Refused(Exception):
    """A request that is not served: the status, and what its JSON says. `headers` go along."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        path: str | None = None,
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.path = path
        self.headers = tuple(headers)


def refused_by(refusal: Refuse, default_code: str) -> Refused:
    """What an application's own refusal becomes. Raises `ValueError` for a status that refuses nothing."""
    if not 400 <= refusal.status <= 599:
        raise ValueError(f"Refuse({refusal.status}, ...): a refusal has a status from 400 to 599")
    return Refused(refusal.status, refusal.code or default_code, refusal.message)


def not_found() -> Refused:
    """For what is not there, or not for whoever asks."""
    return Refused(404, "not-found", "There is nothing here.")


def internal_error() -> Refused:
    """For what went wrong at this end; nothing about it is told."""
    return Refused(500, INTERNAL_ERROR, ERROR_TEXTS[INTERNAL_ERROR])


async def send_refusal(send: Send, refused: Refused, extra: Head) -> None:
    """The JSON of a refusal."""
    error = {"code": refused.code, "message": refused.message}
    if refused.path is not None:
        error["path"] = refused.path
    await send_json(send, refused.status, {"error": error}, [*refused.headers, *extra])


async def send_json(send: Send, status: int, value: Any, extra: Head) -> None:
    """A small JSON answer."""
    await _send(send, JSONResponse(value, status), extra)


async def send_empty(send: Send, status: int, own: Head, extra: Head) -> None:
    """An answer without a body."""
    await _send(send, Response(status_code=status), [*own, *extra])


async def _send(send: Send, response: Response, extra: Head) -> None:
    response.raw_headers.extend(extra)
    await response({"type": "http"}, _nothing_more, send)


async def _nothing_more() -> Message:
    raise AssertionError("an answer that is no stream reads nothing")
