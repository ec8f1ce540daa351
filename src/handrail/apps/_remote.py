"""An agent at a URL, as commands are told of it: where it is, and the headers that it wants.

Headers carry keys. So no text of ours repeats a value, nor what was meant as a header and is none.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.errors import UsageError

if TYPE_CHECKING:
    from handrail.client import HttpAgent

__all__ = ["concealed", "headers_of", "is_url", "loop_meant", "remote_agent", "secrets_of", "shown_url", "url_meant"]

_ADDRESS = re.compile(r"[^/:]+:\d+(/|$)|[\w-]+(\.[\w-]+)+/(?!.*\.py\b)")
_IN_A_MODULE = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_OF_THE_BODY = frozenset({"content-length", "content-encoding", "transfer-encoding"})
_SHORTEST_SECRET = 6
"""What is shorter is hidden by nobody, and replacing it would garble the text around it."""


def is_url(target: str) -> bool:
    """Whether what was named on the command line is a web address."""
    return target.lower().startswith(("http://", "https://"))


def url_meant(target: str) -> str:
    """What to say of an address that was typed without its scheme, "" of anything else."""
    return f"\nAn agent is named by its URL, as in http://{target}." if _ADDRESS.match(target) else ""


def loop_meant(target: str) -> str:
    """What to say of a loop in a module where only an agent at a URL will do, "" of anything else."""
    words = f"\nA loop has a URL while it is served: handrail serve {target}"
    return words if _IN_A_MODULE.fullmatch(target) else ""


def headers_of(given: Iterable[str]) -> dict[str, str]:
    """What `--header 'Name: value'` gave. Raises `UsageError`, without the value, for what is no header."""
    headers: dict[str, str] = {}
    for number, line in enumerate(given, 1):
        name, colon, value = (part.strip(" \t") for part in line.partition(":"))
        if not colon or not _NAME.fullmatch(name):
            raise UsageError(f"--header number {number} is no header; it looks like 'Authorization: Bearer TOKEN'.")
        if not _VALUE.fullmatch(value):
            raise UsageError(f"--header {name} has a character in its value that no header can carry.")
        if name.lower() in _OF_THE_BODY:
            raise UsageError(f"--header {name} belongs to the body, which differs from one request to the next.")
        if name.title() in headers:
            raise UsageError(f"--header {name} is given twice.")
        headers[name.title()] = value  # one spelling: what merges headers may not know that case makes no difference
    return headers


def remote_agent(url: str, *, headers: Mapping[str, str] | None = None, **options: Any) -> HttpAgent:
    """The agent at `url`; `options` are those of `HttpAgent`. Raises `UsageError` for what is no URL of one."""
    try:
        from handrail.client import HttpAgent
    except ImportError as missing:
        raise UsageError(f"{missing}.") from missing
    try:
        HttpAgent(url)  # beside a client that was given it does not ask for a whole address
        return HttpAgent(url, headers=headers, **options)
    except Exception as refusal:  # httpx has its own class for a URL that it cannot read
        raise UsageError(f"{url!r} is no URL of an agent: {refusal}") from refusal


def shown_url(url: str) -> str:
    """A URL without what may be a secret in it: the name and password, and the query."""
    import httpx

    return str(httpx.URL(url).copy_with(userinfo=b"", query=None, fragment=None))


def secrets_of(url: str, headers: Mapping[str, str]) -> Sequence[str]:
    """What a server is sent that nobody else is to see: values of headers, and what `shown_url` leaves out."""
    import httpx

    where = httpx.URL(url)
    query = where.query.decode("ascii")
    login = base64.b64encode(f"{where.username}:{where.password}".encode()).decode() if where.userinfo else ""
    return [*headers.values(), where.password, login, *where.params.values(), *re.split("[&=]", query)[1::2]]


def concealed(text: str, values: Iterable[str]) -> str:
    """`text` of a server, which may repeat what it was sent, without these values."""
    secrets = {part for value in values for part in (value, *value.split())}
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET and secret.lower() not in ("bearer", "digest"):
            text = text.replace(secret, "[hidden]")
    return text
