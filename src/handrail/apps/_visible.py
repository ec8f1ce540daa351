r"""Making a text of unknown origin safe to print.

A terminal obeys what it is sent: an escape sequence in a model's answer can rewrite the line above, the window's title
or the clipboard, and a direction override makes a text read as what it is not. `visible` turns every such character
into its escape (`\x1b`, `\u202e`), so that it is seen instead of obeyed. Letters, emoji, line ends and tabs stay.
"""

from __future__ import annotations

import json
import re

__all__ = ["clipped", "one_line", "spelled", "visible"]

_HIDDEN = re.compile(
    r"["
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for tab and line feed
    r"\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2064\u3164\ufeff\uffa0"  # invisible
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # direction marks, overrides and isolates
    r"\u2028\u2029"  # line ends to some programs, and to others not
    r"\ufff9-\ufffb\U000e0000-\U000e007f"  # annotations and tags: text that nobody sees
    r"\ud800-\udfff"  # half a surrogate pair: no encoding can print it
    r"]"
)

_JSON_ESCAPES = re.compile(r"\\\\|(?:\\u[0-9a-fA-F]{4})+")


def visible(text: str) -> str:
    """`text` with every character a terminal would obey, hide or choke on written as its escape.

    Line feeds and tabs stay, CRLF counts as a line feed. The result can be encoded as UTF-8, and a second call
    changes nothing.
    """
    return _HIDDEN.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """`visible(text)` on one line: each run of white space is one space."""
    return " ".join(visible(text).split())


def spelled(arguments: str) -> str:
    r"""JSON as a person reads it: `ø` where it has `\u00f8`. What would not be seen, or end a text, stays escaped."""
    return _JSON_ESCAPES.sub(_spelled, arguments)


def _spelled(found: re.Match[str]) -> str:
    text: str = json.loads(f'"{found[0]}"')
    return text if text.isprintable() and not {'"', "\\"} & set(text) else found[0]


def clipped(text: str, limit: int) -> str:
    """`text`, or its beginning and how much is missing where it has more than `limit` characters."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
