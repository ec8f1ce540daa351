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
    try:
        values = from_json(_one_level_more(text), allow_inf_nan=False)
    except ValueError:
        values = [_parse_with_halves(text)]
    if len(values) != 1:
        raise ValueError(f"it is {len(values)} values")
    if _MAY_OVERFLOW.search(text) and any(map(isinf, _floats(values))):
        raise ValueError("a number overflows")
    return values[0]


def is_doubtful(text: bytes) -> bool:
    """Whether JSON text may hold what `parse_json` refuses and a parser of another make takes; False is certain."""
    if b"NaN" in text or b"Infinity" in text or _MAY_OVERFLOW.search(text):
        return True
    if not _may_be_deep(text):
        return False
    try:
        from_json(_one_level_more(text))
    except ValueError:
        return True
    return False


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
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


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


def _one_level_more(text: bytes) -> bytes:
    """The text in a list: the compiled parser goes one level deeper than is wanted, and so its limit is ours."""
    return b"[%b]" % text


def _may_be_deep(text: bytes) -> bool:
    return len(text) > 2 * MAX_DEPTH and text.count(b"[") + text.count(b"{") > MAX_DEPTH


def _depth(text: bytes) -> int:
    """How deep the text is nested; strings are passed over."""
    depth = deepest = 0
    for token in _TOKEN_OF_DEPTH.finditer(text):
        first = text[token.start()]
        if first in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif first in b"]}":
            depth -= 1
    return deepest


def _parse_with_halves(text: bytes) -> Any:
    """The parser of the standard library: five times slower, and it takes halves of surrogate pairs."""
    if _may_be_deep(text) and _depth(text) > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
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
