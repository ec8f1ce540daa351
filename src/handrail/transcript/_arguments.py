"""The arguments of a call as a JSON value, which is parsed when somebody reads it."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from handrail.transcript._source import Source
from handrail.transcript._text import GrowingText

__all__ = ["Parsed"]


class Parsed(Source):
    """The JSON value that argument text is: `{}` for blank text, None for text that is not JSON.

    What was given belongs to the reader: each reading parses anew, which takes no longer than copying.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str | GrowingText) -> None:
        self._text = text

    def read(self) -> Any:
        text = self._text if isinstance(self._text, str) else self._text.read()
        if not text.strip():
            return {}
        try:
            return _JSON.decode(text)
        except (ValueError, RecursionError):
            return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


_JSON = json.JSONDecoder(parse_constant=_refuse)
