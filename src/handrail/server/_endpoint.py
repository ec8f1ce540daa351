"""The endpoint: which request gets which answer (P-76).

An answer is found before a byte is sent. Finding it may refuse, and may fail, and both are JSON; once a stream has
begun, whatever happens is told in the stream.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeAlias, TypeGuard, get_args

from ag_ui.core import RunAgentInput
from starlette.datastructures import Headers, QueryParams
from starlette.types import Receive, Scope, Send

from handrail.agui._outbound import ErrorText, Outbound, Streaming
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.errors import Refuse
from handrail.loop import Loop, LoopRun
from handrail.loop._driver import random_id
from handrail.run._loops import Home, current_home
from handrail.server._answers import (
    Head,
    Refused,
    internal_error,
    not_found,
    refused_by,
    send_empty,
    send_json,
    send_refusal,
)
from handrail.server._asgi import Action, ServerRequest, place_of
from handrail.server._calls import called
from handrail.server._cors import Origins
from handrail.server._requests import ClientGone, check_is_json, judged, read_body
from handrail.server._runs import Busy, HeldRun, OnDisconnect, OnFinish, Runs
from handrail.server._stream import Reader
from handrail.server._tape import Tape
from handrail.tools._settings import require_callable, require_number, require_seconds, require_whole

__all__ = ["AguiApp", "agui_app"]

_logger = logging.getLogger("handrail.server")
_wire_logger = logging.getLogger("handrail.agui")

Authorize: TypeAlias = Callable[[ServerRequest], Any]
LoopOrMaker: TypeAlias = Loop | Callable[[RunAgentInput, Any], Any]
_Answer: TypeAlias = Callable[[Head], Awaitable[None]]

_STREAM_HEAD: Head = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class _Asked:
    """A request on its way to an answer."""

    __slots__ = ("headers", "receive", "scope", "send")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.headers = Headers(scope=scope)


def agui_app(
    loop: LoopOrMaker,
    *,
    authorize: Authorize | None = None,
    on_disconnect: OnDisconnect = "cancel",
    busy: Busy = "reject",
    keepalive: float | None = 15.0,
    max_body_bytes: int = 16 * 2**20,
    allow_origins: str | Iterable[str] = (),
    stream: Streaming = "live",
    replay_window: float = 300.0,
    max_held_runs: int = 1000,
    on_finish: OnFinish | None = None,
    error_text: ErrorText | None = None,
    on_warning: WarningSink | None = None,
) -> AguiApp:
    """An ASGI app that serves a loop as an AG-UI 1.0 agent, to be run by itself or mounted: one POST is one run.

        app = agui_app(Loop(backends=[...], tools=[...]))          # uvicorn module:app
        fastapi_app.mount("/agent", agui_app(loop))                # clients use /agent/, with the slash

    `loop` is a `Loop`, or a function (plain or async) of the `RunAgentInput` and the principal that returns one; that
    is the place for what depends on the user, the thread, `state` or `forwarded_props`, and to check a history that
    must not be believed. `authorize(request)` sees a `ServerRequest` before the body is read, and returns the
    principal, or something falsy; both functions may raise `Refuse`. **Without `authorize` whoever reaches the server
    may start runs, and read and cancel every run whose id they know.**

    | option                           | meaning                                                                    |
    |----------------------------------|----------------------------------------------------------------------------|
    | `on_disconnect`                  | when the last reader goes: "cancel" the run, or let it "continue"          |
    | `busy`                           | a second run on a thread: "reject" (409), "queue" (16 at most), or "allow" |
    | `keepalive`                      | seconds of silence after which a comment is sent; None for never           |
    | `max_body_bytes`                 | the largest request that is read                                           |
    | `allow_origins`                  | origins of web pages that may use it, "*" for all; by default none         |
    | `stream`                         | "live", or "committed": no text before it stands, and nothing is retracted |
    | `replay_window`, `max_held_runs` | how long (seconds) and how many runs that are over stay readable           |
    | `on_finish(input, outcome)`      | called (plain or async) when a run is over, whether or not anybody reads   |
    | `error_text(outcome)`            | the text of a failed run, in place of the fixed one; nothing else leaks    |
    | `on_warning(record)`             | told what was tolerated; else the logger `handrail.agui` is                |

    Needs no lifespan; where there is one, its shutdown cancels active runs and waits five seconds for them. Runs are
    tasks of the server's event loop; under trio, serve inside `async with RunScope():`. Plain functions are called on
    the event loop and must not block. Raises `TypeError` or `ValueError` for options that cannot work.
    """
    require_callable(authorize, "authorize", "a function of a ServerRequest", takes=1)
    require_callable(on_finish, "on_finish", "a function of an input and an outcome", takes=2)
    require_callable(error_text, "error_text", "a function of an outcome", takes=1)
    require_callable(on_warning, "on_warning", "a function of a WarningRecord", takes=1)
    require_seconds(keepalive, "keepalive")
    require_whole(max_body_bytes, "max_body_bytes", 1, "it is a number of bytes, at least 1")
    require_number(replay_window, "replay_window", "it is a number of seconds, at least 0")
    require_whole(max_held_runs, "max_held_runs", 0, "it is a number of runs, at least 0")
    return AguiApp(
        loop,
        authorize=authorize,
        runs=Runs(
            busy=_one_of(Busy, busy, "busy"),
            on_disconnect=_one_of(OnDisconnect, on_disconnect, "on_disconnect"),
            on_finish=on_finish,
            replay_window=replay_window,
            max_held_runs=max_held_runs,
        ),
        keepalive=keepalive,
        max_body_bytes=max_body_bytes,
        origins=Origins(allow_origins),
        stream=_one_of(Streaming, stream, "stream"),
        error_text=error_text,
        on_warning=on_warning,
    )


class AguiApp:
    """What `agui_app` makes: an ASGI app. It belongs to one event loop at a time."""

    def __init__(
        self,
        loop: LoopOrMaker,
        *,
        authorize: Authorize | None,
        runs: Runs,
        keepalive: float | None,
        max_body_bytes: int,
        origins: Origins,
        stream: Streaming,
        error_text: ErrorText | None,
        on_warning: WarningSink | None,
    ) -> None:
        if not _is_loop(loop) and not callable(loop):
            raise TypeError(f"agui_app() takes a Loop, or a function that returns one, not {type(loop).__name__}")
        if not _is_loop(loop):
            require_callable(loop, "loop", "a Loop, or a function of an input and a principal", takes=2)
        self._loop = loop
        self._authorize = authorize
        self._runs = runs
        self._keepalive = keepalive
        self._max_body_bytes = max_body_bytes
        self._origins = origins
        self._stream: Streaming = stream
        self._error_text = error_text
        self._on_warning = on_warning

    @property
    def has_authority(self) -> bool:
        """Whether anybody asks who may."""
        return self._authorize is not None

    def cancel_all(self) -> None:
        """Ask for the end of every run; their streams end with it. Any thread, and signal handlers."""
        self._runs.cancel_all()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] == "http":
            await self._http(_Asked(scope, receive, send))
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await self._runs.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, asked: _Asked) -> None:
        head = self._origins.head_for(asked.headers)
        try:
            answer = await self._answer(asked)
        except ClientGone:
            return
        except Refused as refused:
            answer = partial(send_refusal, asked.send, refused)
        except Exception:
            _logger.exception("%s %s failed", asked.scope["method"], asked.scope["path"])
            answer = partial(send_refusal, asked.send, internal_error())
        await answer(head)

    async def _answer(self, asked: _Asked) -> _Answer:
        """What to answer; raises `Refused`, or whatever went wrong."""
        method = asked.scope["method"]
        if method == "OPTIONS" and "access-control-request-method" in asked.headers:
            return partial(send_empty, asked.send, 204, self._origins.preflight(asked.headers))
        for pattern, allowed, route in _ROUTES:
            if found := pattern.fullmatch(place_of(asked.scope)):
                if method != allowed:
                    allow = (b"allow", allowed.encode())
                    raise Refused(405, "method-not-allowed", f"{allowed} is allowed here.", headers=[allow])
                return await route(self, asked, *found.groups())
        raise not_found()

    # -- the routes --------------------------------------------------------------------------------------------------

    async def _run(self, asked: _Asked) -> _Answer:
        principal = await self._principal("run", None, asked)
        check_is_json(asked.headers)
        body = await read_body(asked.headers, asked.receive, self._max_body_bytes)
        given = judged(body, self._warn)
        loop = await self._loop_for(given, principal)
        out = Outbound(given, new_id=random_id, stream=self._stream, warn=self._warn)
        held = HeldRun(given, principal, Tape(out, self._error_text), _launch(loop, given), _home())
        self._runs.claim(held)
        return partial(self._send_stream, asked, held, 0)

    async def _events(self, asked: _Asked, run_id: str) -> _Answer:
        held = self._runs.find(run_id, await self._principal("events", run_id, asked))
        start = _seen(asked) + 1
        if held.is_over and held.tape.is_exhausted_at(start):
            return partial(send_empty, asked.send, 204, [])
        return partial(self._send_stream, asked, held, start)

    async def _cancel(self, asked: _Asked, run_id: str) -> _Answer:
        held = self._runs.find(run_id, await self._principal("cancel", run_id, asked))
        status = 200 if held.is_over else 202
        value = {"runId": run_id, "status": self._runs.cancel(held)}
        return partial(send_json, asked.send, status, value)

    async def _health(self, asked: _Asked) -> _Answer:
        return partial(send_json, asked.send, 200, {"status": "ok"})

    # -- their parts -------------------------------------------------------------------------------------------------

    async def _principal(self, action: Action, run_id: str | None, asked: _Asked) -> Any:
        if self._authorize is None:
            return None
        scope = asked.scope
        client = scope.get("client")
        request = ServerRequest(
            action=action,
            run_id=run_id,
            headers=asked.headers,
            path=scope["path"],
            client=None if client is None else (client[0], client[1]),
        )
        try:
            principal = await called(self._authorize, request)
        except Refuse as refusal:
            raise refused_by(refusal, "forbidden") from None
        if not principal:
            raise Refused(403, "forbidden", "You may not do this.")
        return principal

    async def _loop_for(self, given: RunAgentInput, principal: Any) -> Loop:
        loop: Any = self._loop
        if _is_loop(loop):
            return loop
        try:
            loop = await called(loop, given, principal)
        except Refuse as refusal:
            raise refused_by(refusal, "refused") from None
        if not _is_loop(loop):
            raise TypeError(f"the function given to agui_app() returned a {type(loop).__name__}, not a Loop")
        return loop

    async def _send_stream(self, asked: _Asked, held: HeldRun, start: int, head: Head) -> None:
        held.readers += 1
        try:
            await asked.send({"type": "http.response.start", "status": 200, "headers": [*_STREAM_HEAD, *head]})
            self._runs.answered(held)
            await Reader(held.tape, start, asked.send, keepalive=self._keepalive, home=_home()).serve(asked.receive)
        finally:
            self._runs.leave(held)

    def _warn(self, record: WarningRecord) -> None:
        if self._on_warning is None:
            _wire_logger.warning("%s: %s", record.code, record.message)
            return
        try:
            self._on_warning(record)
        except Exception:
            _wire_logger.exception("on_warning raised")


_ROUTES: list[tuple[re.Pattern[str], str, Callable[..., Awaitable[_Answer]]]] = [
    # What the path is below the place of the app, the method, and who answers; an id may hold anything.
    (re.compile(""), "POST", AguiApp._run),  # pyright: ignore[reportPrivateUsage]  # the class's own table
    (re.compile("/runs/(.+)/events", re.DOTALL), "GET", AguiApp._events),  # pyright: ignore[reportPrivateUsage]
    (re.compile("/runs/(.+)/cancel", re.DOTALL), "POST", AguiApp._cancel),  # pyright: ignore[reportPrivateUsage]
    (re.compile("/healthz"), "GET", AguiApp._health),  # pyright: ignore[reportPrivateUsage]
]


def _launch(loop: Loop, given: RunAgentInput) -> Callable[[], LoopRun]:
    return partial(
        loop.run,
        given.messages,
        tools=given.tools or (),
        context=given.context or (),
        answers=given.resume or (),
        run_id=given.run_id,
    )


def _seen(asked: _Asked) -> int:
    """The number of the last frame that a reader has seen; -1 for none."""
    told = QueryParams(asked.scope.get("query_string", b"")).get("after")
    if told is None:
        told = asked.headers.get("last-event-id", "-1")
    if not re.fullmatch(r"-1|[0-9]{1,15}", told):
        raise Refused(400, "invalid-input", "after, or Last-Event-ID, is the number of the last frame seen.")
    return int(told)


def _home() -> Home:
    home = current_home()
    assert home is not None, "an ASGI app is called on an event loop"
    return home


def _is_loop(found: object) -> TypeGuard[Loop]:
    return callable(getattr(found, "run", None))


def _one_of(choices: Any, value: Any, name: str) -> Any:
    known = get_args(choices)
    if value not in known:
        raise ValueError(f"{name} is one of {', '.join(map(repr, known))}, not {value!r}")
    return value

    return value
