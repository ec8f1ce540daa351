"""What the endpoint needs of ASGI: the types of the interface, and a request as whoever authorizes it sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qs

__all__ = ["Action", "Headers", "Message", "Receive", "Scope", "Send", "ServerRequest", "place_of", "query_of"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

Action: TypeAlias = Literal["run", "events", "cancel"]


class Headers(Mapping[str, str]):
    """The headers of a request, by name in any case. Of a name given twice the first stands."""

    __slots__ = ("_values",)

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, str] = {}
        for name, value in raw:
            self._values.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Headers {', '.join(self._values)}>"  # names only: values may be secrets


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """What `authorize` is asked about: who wants what.

    `action` is "run" (start one), "events" (read one) or "cancel"; `run_id` names the run of the last two, and is None
    for the first, whose body has not been read. `headers` are found by name in any case, `path` is the whole path,
    `client` the address as (host, port) where the server knows it.
    """

    action: Action
    run_id: str | None
    headers: Mapping[str, str]
    path: str
    client: tuple[str, int] | None


def place_of(scope: Scope) -> str:
    """The path below the place where the app is mounted, with no slash at its end; "" is the place itself."""
    path, root = scope["path"], scope.get("root_path", "")
    if root and f"{path}/".startswith(f"{root}/"):
        path = path[len(root) :]
    return path.rstrip("/")


def query_of(scope: Scope, name: str) -> str | None:
    """The value of a parameter in the query, the last one where it is given twice."""
    found = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True).get(name)
    return found[-1] if found else None
