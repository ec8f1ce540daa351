"""Text that came in pieces, made whole."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["join", "mend", "whole"]

_CUT_CHARACTER = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def join(pieces: Iterable[str]) -> str:
    """The pieces as one text; a character that was cut between two of them is one again (P-19)."""
    return mend("".join(pieces))


def mend(text: str) -> str:
    """`text` with the surrogate halves of a character joined; a half without its partner stays as it is."""
    return text if text.isascii() else _CUT_CHARACTER.sub(_whole, text)


def whole(text: str) -> str:
    """`text` as any encoding takes it: halves are joined, and one without its partner is U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _whole(halves: re.Match[str]) -> str:
    return halves[0].encode("utf-16", "surrogatepass").decode("utf-16")
