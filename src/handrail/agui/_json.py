"""JSON as the wire has it: strict where a value would be a guess, forgiving where text was cut in two.

Refused, because no other peer could read the same value: NaN and Infinity, numbers that overflow, nesting deeper than
200 levels. Of a key given twice the last one stands.

Kept as it is: half of a surrogate pair. A producer that cuts text by UTF-16 units sends the two halves of one character
in two strings, each legal JSON. They are joined where they meet; a half that never meets its other one is held, and
becomes U+FFFD when it is encoded, so that nothing raises on the way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from math import isinf
from typing import Any, NoReturn, cast

from pydantic_core import from_json

__all__ = ["MAX_DEPTH", "decode_utf8", "encode_json", "encode_text", "excerpt", "is_doubtful", "parse_json"]

MAX_DEPTH = 200
_EXCERPT = 200

_TOKEN_OF_DEPTH = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{\]}]', re.DOTALL)
_MAY_OVERFLOW = re.compile(rb"[:,\[]\s*+-?\d(?:[\d.]*[eE]\+?\d{3}|[\d.]{200})")
_SHOWN = json.JSONEncoder(ensure_ascii=False, skipkeys=True, check_circular=False, default=repr)


def parse_json(text: bytes) -> Any:
    """One JSON value from UTF-8 text; raises ValueError, saying why, for everything that is not exactly one."""
    if _is_too_deep(text):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        value = _parse_with_halves(text)
    if _MAY_OVERFLOW.search(text) and any(map(isinf, _floats(value))):
        raise ValueError("a number overflows")
    return value


def is_doubtful(text: bytes) -> bool:
    """Whether JSON text may hold what `parse_json` refuses and a parser of another make takes; False is certain."""
    return b"NaN" in text or b"Infinity" in text or _MAY_OVERFLOW.search(text) is not None or _is_too_deep(text)


def decode_utf8(text: bytes) -> tuple[bytes, bool]:
    """The text with every invalid byte sequence as U+FFFD, and whether there was one."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode(errors="replace").encode(), True
    return text, False


def encode_text(text: str) -> bytes:
    """The text in UTF-8; halves of a pair are joined, and a lone half is U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def encode_json(value: Any) -> bytes:
    """Plain JSON data as UTF-8 JSON; raises ValueError or TypeError for what JSON cannot hold."""
    return encode_text(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def excerpt(value: object) -> str:
    """At most 200 printable characters that show what a payload was."""
    if isinstance(value, bytes):
        text = value[: 4 * _EXCERPT].decode(errors="replace")
    elif isinstance(value, str):
        text = value[:_EXCERPT]
    else:
        text = ""
        for piece in _SHOWN.iterencode(value):
            text += piece
            if len(text) >= _EXCERPT:
                break
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:_EXCERPT])[:_EXCERPT]


def _is_too_deep(text: bytes) -> bool:
    if len(text) <= 2 * MAX_DEPTH or text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for token in _TOKEN_OF_DEPTH.finditer(text):
        first = text[token.start()]
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif first in b"]}":
            depth -= 1
    return False


def _parse_with_halves(text: bytes) -> Any:
    """The parser of the standard library: five times slower, and it takes halves of surrogate pairs."""
    try:
        return json.loads(text.decode(), parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deep for the stack of this call") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _floats(value: Any) -> Iterable[float]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float):
            yield item
        elif isinstance(item, dict):
            waiting.extend(cast("dict[str, Any]", item).values())
        elif isinstance(item, list):
            waiting.extend(cast("list[Any]", item))
