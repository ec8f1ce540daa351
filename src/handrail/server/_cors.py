"""Which web pages of other origins may use the endpoint: none, unless they are listed (P-81)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.datastructures import Headers

from handrail.server._answers import Head, Refused

__all__ = ["Origins"]

_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s?#]+|null|\*")
_METHODS = (b"access-control-allow-methods", b"POST, GET, OPTIONS")


class Origins:
    """The origins that are let in; "*" is all of them. Credentials never are.

    Raises `TypeError` or `ValueError` for what no page can have as its origin.
    """

    __slots__ = ("_allowed",)

    def __init__(self, allowed: str | Iterable[str]) -> None:
        self._allowed = frozenset(_judged((allowed,) if isinstance(allowed, str) else allowed))

    def head_for(self, headers: Headers) -> Head:
        """What every answer says to a page of this origin."""
        if not self._allowed:
            return []
        origin = headers.get("origin")
        if origin is None or not self._allowed & {"*", origin}:
            return [(b"vary", b"Origin")]
        return [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"Origin")]

    def preflight(self, headers: Headers) -> Head:
        """What a browser is told that asks before it sends. Raises `Refused` for an origin that is not let in."""
        head = self.head_for(headers)
        if len(head) < 2:
            raise Refused(403, "forbidden", "Pages of this origin may not use this endpoint.")
        asked = headers.get("access-control-request-headers")
        wanted = [] if asked is None else [(b"access-control-allow-headers", asked.encode("latin-1"))]
        return [_METHODS, *wanted]


def _judged(allowed: Iterable[object]) -> list[str]:
    if not isinstance(allowed, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise TypeError(f"allow_origins is a list of origins, or one, not {allowed!r}")
    origins: list[str] = []
    for origin in allowed:
        if not isinstance(origin, str):
            raise TypeError(f"an origin in allow_origins is a string, not {origin!r}")
        if not _ORIGIN.fullmatch(origin):
            form = 'it is scheme://host or scheme://host:port with nothing behind, "null", or "*" for all'
            raise ValueError(f"{origin!r} in allow_origins is no origin: {form}")
        origins.append(origin)
    return origins
