"""A request as the endpoint sees it: who wants what, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from starlette.types import Scope

__all__ = ["Action", "ServerRequest", "place_of"]

Action: TypeAlias = Literal["run", "events", "cancel"]


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """What `authorize` is asked about: who wants what.

    `action` is "run" (start one), "events" (read one) or "cancel"; `run_id` names the run of the last two, and is None
    for the first, whose body has not been read. `headers` are found by name in any case, `path` is the whole path,
    `client` the address as (host, port) where the server knows it.
    """

    action: Action
    run_id: str | None
    headers: Mapping[str, str] = field(repr=False)  # their values may be secrets
    path: str
    client: tuple[str, int] | None


def place_of(scope: Scope) -> str:
    """The path below the place where the app is mounted, with no slash at its end; "" is the place itself."""
    path, root = scope["path"], scope.get("root_path", "")
    if root and f"{path}/".startswith(f"{root}/"):
        path = path[len(root) :]
    return path.rstrip("/")
