"""What looks like a credential in the text of an exception is not told.

The text of an exception that a tool raised is the result of its call: the model reads it, and so does whoever watches
the run. Exceptions like to quote what failed, with the key that was in it. So credentials of known shapes are taken out
where that text is made, once for all its readers. It is a net and not a promise: a secret without a shape is a word
like any.

Each pattern goes through a text once. What it repeats is possessive or bounded, and what needs something behind a long
run begins at one place of that run only; so no text, however made, takes longer than its length. At most `_WINDOW`
characters are looked at.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["HIDDEN", "SHAPES", "Shape", "without_credentials"]

HIDDEN = "[hidden]"

_WINDOW = 16_000
"""Characters that are looked at; what is behind them is dropped."""
_RUN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~+/=%:@"
"""What a credential is mostly made of. A run of these that the window cuts is dropped whole: it may be half of one."""


class Shape(NamedTuple):
    """A kind of credential: what it is, how it is found, and what is told instead."""

    what: str
    pattern: re.Pattern[str]
    told: str


def _shape(what: str, *pattern: str, told: str = HIDDEN) -> Shape:
    return Shape(what, re.compile("".join(pattern), re.ASCII), told)


_ASSIGNED = (
    r"((?:(?i:api[_-]?key|(?:access|account|private|secret)[_-]?key|pass(?:word|wd|phrase)|pwd|secret|token|x-amz-signature)"
    r"\\*+[\"']?[ \t]{0,4}(?:=>|[:=])[ \t]{0,4})++)"
)
_ENDS = r"\s\"'&;,<>)\]}"
_IS_NONE = rf"(?i:none|null|true|false|undefined)(?=[{_ENDS}]|\Z)|b[\"']|\[hidden\]"
_OF_SEVERAL_VALUES = r"(?i:digest|aws4-hmac-sha256|hawk|oauth)[ \t]"
_HEADER = r"((?i:authorization)\\*+[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\*+[\"']?"

SHAPES: tuple[Shape, ...] = (
    _shape(
        "private keys in PEM, to their end or that of the text",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)",
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
    _shape("user and password in a URL", r"(?<=://)[^\s/?#\"'<>]*@", told=f"{HIDDEN}@"),
    _shape(
        "`Bearer ...`",
        r"((?i:bearer)[ \t]{1,4})",
        r"(?:(?=[A-Za-z._~+/-]{0,30}(?:[0-9=]|[a-z][A-Z]))[\w.~+/=-]{6,}+|[\w.~+/=-]{24,}+)",
        r"(?:(?<=(?i:bearer))[ \t]{1,4}[\w.~+/=-]++)*+",
        told=rf"\1{HIDDEN}",
    ),
    _shape(
        "`Basic ...`",
        r"((?i:basic)[ \t]{1,4})",
        r"(?:(?=[A-Za-z+/]{0,30}(?:[0-9=]|[a-z][A-Z]))[A-Za-z0-9+/]{8,}+|[A-Za-z0-9+/]{24,}+)={0,2}",
        r"(?:(?<=(?i:basic))[ \t]{1,4}[A-Za-z0-9+/]++={0,2})*+",
        told=rf"\1{HIDDEN}",
    ),
    _shape(
        "`Authorization: Digest ...`, or another scheme of several values",
        _HEADER,
        rf"{_OF_SEVERAL_VALUES})[^\r\n'\\]++",
        told=rf"\1{HIDDEN}",
    ),
    _shape(
        "`Authorization: ...`",
        _HEADER,
        rf"(?!{_OF_SEVERAL_VALUES})(?:(?i:basic|bearer|token|apikey|negotiate)[ \t]{{1,4}})?)[^\s\"'\\,;]++",
        told=rf"\1{HIDDEN}",
    ),
    _shape(
        '`password = "..."`; passwd, passphrase, pwd, secret, token, api, access, account, private, secret key',
        _ASSIGNED,
        r"(b?\")(?:[^\"\\]|(?s:\\.))++(?:\"|\\?\Z)",
        told=rf'\1\2{HIDDEN}"',
    ),
    _shape(
        "the same in single quotes, `password='...'`",
        _ASSIGNED,
        r"(b?')(?:[^'\\]|(?s:\\.))++(?:'|\\?\Z)",
        told=rf"\1\2{HIDDEN}'",
    ),
    _shape(
        r"the same in escaped quotes, `\"password\": \"...\"`",
        _ASSIGNED,
        r"(b?\\++([\"']))(?:(?!\3)[^\\])++",
        told=rf"\1\2{HIDDEN}",
    ),
    _shape(
        "the same without quotes, `password=...`, `password: ...`, but for None, null, true, false",
        _ASSIGNED,
        rf"(?!{_IS_NONE})(?:[^{_ENDS}\\]|\\(?![nrt\"'\\]))++",
        told=rf"\1{HIDDEN}",
    ),
    _shape(
        "JSON web tokens, `eyJ....`",
        r"(?<![\w-])(?:(?!eyJ)[\w-])*+eyJ[\w-]{4,}+(?:\.[\w-]*+){2,}+",
    ),
    _shape(
        "keys of OpenAI, Anthropic, OpenRouter and others, `sk-...`, `pk-...`, `rk-...`",
        r"(?:sk|pk|rk)-(?:[A-Za-z0-9]{1,10}-){0,3}[A-Za-z0-9_]{20,}+[\w-]*+",
        r"|(?<![A-Za-z0-9])(?:pk|rk)-(?:(?=[A-Za-z_-]{0,30}[0-9])[\w-]{12,}+|[\w-]{24,}+)",
        r"|(?<![A-Za-z0-9])sk-[\w-]{6,}+",
    ),
    _shape(
        "`key=...` or `sig=...` in the query of a URL", r"(?<=[?&])((?:key|sig)=)[^&#\s\"'<>]++", told=rf"\1{HIDDEN}"
    ),
    _shape("Stripe, `sk_live_...`, `whsec_...`", r"(?:(?:sk|pk|rk)_(?:live|test)_|whsec_)[A-Za-z0-9+/=]{8,}+"),
    _shape(
        "GitHub and GitLab, `ghp_...`, `github_pat_...`, `glpat-...`", r"(?:gh[pousr]_|github_pat_|glpat-)[\w-]{16,}+"
    ),
    _shape("Slack, `xoxb-...`, `xapp-...`", r"(?:xox[abeoprs]|xapp)-(?=[A-Za-z-]{0,12}[0-9])[A-Za-z0-9-]{10,}+"),
    _shape("AWS, `AKIA...`", r"(?:AKIA|ASIA)[A-Z0-9]{16}"),
    _shape("Google, `AIza...`, `ya29....`, `GOCSPX-...`", r"(?:AIza|ya29\.|GOCSPX-)[\w-]{20,}+"),
    _shape(
        "Hugging Face, Groq, xAI, npm, `hf_...`, `gsk_...`, `xai-...`, `npm_...`",
        r"(?:hf_|gsk_|xai-|npm_)[A-Za-z0-9]{20,}+",
    ),
)


def without_credentials(text: str) -> str:
    """The text with `[hidden]` for what looks like a credential; the rest stays, up to 16,000 characters."""
    if len(text) > _WINDOW:
        text = text[:_WINDOW].rstrip(_RUN)
    for shape in SHAPES:
        text = shape.pattern.sub(shape.told, text)
    return text
