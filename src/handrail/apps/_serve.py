"""`handrail serve`: a person's loop as an AG-UI endpoint, on this machine unless they say otherwise."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import sys
from types import FrameType
from typing import Any

from ag_ui.core import RunAgentInput

from handrail.apps._load import load_loop
from handrail.apps._visible import one_line
from handrail.errors import UsageError
from handrail.run import Outcome

try:
    import uvicorn
    from starlette.types import Receive, Scope, Send

    from handrail.server import AguiApp, agui_app
    from handrail.server._answers import not_found, send_refusal
except ModuleNotFoundError as missing:
    raise UsageError(f"handrail serve needs {missing.name}: pip install 'handrail[server]'.") from missing

__all__ = ["serve"]


def serve(target: str, *, host: str, port: int, path: str) -> int:
    """Serve what `target` names until the process is told to stop; the exit code is 0 then.

    Runs that are active at that moment are cancelled, and their clients are told so. Raises `UsageError` for a target
    that is no loop and for an address that cannot be had.
    """
    app = _app(target)
    place = f"/{path.strip('/')}"
    with _listening(host, port) as listener:
        where = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}{place}"
        is_open = not _is_this_machine(host) and not app.has_authority
        config = uvicorn.Config(_At(place, app), log_level="warning", lifespan="on", ws="none")
        with contextlib.suppress(KeyboardInterrupt):
            _Server(config, app, f"{target} is served at {where}. Ctrl-C stops.", is_open).run(sockets=[listener])
    return 0


class _Server(uvicorn.Server):
    """A server that says when it is up, and ends its streams when it is told to stop; it would wait for ever."""

    def __init__(self, config: uvicorn.Config, app: AguiApp, greeting: str, is_open: bool) -> None:
        super().__init__(config)
        self._app = app
        self._greeting = greeting
        self._is_open = is_open

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._is_open:
            print("Whoever reaches this address may start runs, and read and stop any.", file=sys.stderr)
        print(self._greeting, flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._app.cancel_all()


class _At:
    """An app at a path, and nothing elsewhere but the answer whether the server is well."""

    def __init__(self, path: str, app: AguiApp) -> None:
        self._root = path.rstrip("/")
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != "/healthz":
            if not f"{scope['path']}/".startswith(f"{self._root}/"):
                await send_refusal(send, not_found(), [])
                return
            scope = {**scope, "root_path": self._root}
        await self._app(scope, receive, send)


def _app(target: str) -> AguiApp:
    found: Any = load_loop(target, lambda found: isinstance(found, AguiApp), "an agui_app")
    return found if isinstance(found, AguiApp) else agui_app(found, on_finish=_tell_of_a_failure)


def _tell_of_a_failure(given: RunAgentInput, outcome: Outcome) -> None:
    """Say here what a client is not told."""
    if outcome.outcome == "failed":
        print(f"run {one_line(given.run_id)} failed: {one_line(outcome.error or '')}", file=sys.stderr, flush=True)


def _listening(host: str, port: int) -> socket.socket:
    if not host.strip():
        raise UsageError("--host is empty; 127.0.0.1 is this machine only, 0.0.0.0 every address it has.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        why = str(error.strerror or error).partition(" (while attempting")[0]  # the address once more
        raise UsageError(f"Cannot listen at {host}, port {port}: {why}. Choose others with --host, --port.") from error


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
