"""Nothing that is ours goes out: texts of exceptions, paths, logs, wherever they are raised."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.kit import asking, serving
from tests.server.scenarios import NOW

from handrail import AbortRun, BackendError, Loop, ToolContext
from handrail.server import agui_app
from handrail.testing import ScriptedBackend, call, fail, text

KEY = "sk-live-0123456789"


class Leak(Exception):
    """Says what it must not."""

    def __init__(self) -> None:
        super().__init__(f"401 for https://user:{KEY}@models.example/v1 in /srv/app/keys.py")


def leaks(*args: Any, **options: Any) -> Any:
    raise Leak


async def leaks_later(*args: Any, **options: Any) -> Any:
    raise Leak


class LeakyStream:
    """A model that fails as it is opened, read or closed."""

    model = "leaky"
    max_tokens = None

    def __init__(self, where: str) -> None:
        self.where = where

    def stream(self, request: Any) -> Any:
        return leaks() if self.where == "stream" else self

    async def __aenter__(self) -> Any:
        return leaks() if self.where == "open" else self

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        if self.where == "read":
            leaks()
        raise StopAsyncIteration

    async def __aexit__(self, *error: Any) -> None:
        if self.where == "close":
            leaks()


def app_of(*script: Any, tools: Any = (), **options: Any) -> Any:
    return agui_app(Loop([ScriptedBackend(script)], tools, retry=NOW), **options)


def logs(context: ToolContext) -> str:
    """Writes down what it must not say."""
    context.log(f"using {KEY}", "error")
    return "ok"


LEAKS: dict[str, Callable[[], Any]] = {
    "a backend": lambda: app_of([text("half"), fail(Leak())], fail(Leak()), fail(Leak())),
    "a backend's own error": lambda: app_of(fail(BackendError(KEY, "http", status=401))),
    "authorize": lambda: app_of(text("ok"), authorize=leaks),
    "an async authorize": lambda: app_of(text("ok"), authorize=leaks_later),
    "the loop function": lambda: agui_app(leaks),
    "an async loop function": lambda: agui_app(leaks_later),
    "on_finish": lambda: app_of(text("ok"), on_finish=leaks),
    "an async on_finish": lambda: app_of(text("ok"), on_finish=leaks_later),
    "error_text": lambda: app_of(fail("http", status=400), error_text=leaks),
    "on_warning": lambda: app_of(text("ok"), on_warning=leaks),
    "a log of a tool": lambda: app_of(call("logs"), text("ok"), tools=[logs]),
    **{
        f"a stream ({where})": lambda where=where: agui_app(Loop([LeakyStream(where)], retry=NOW))
        for where in ("stream", "open", "read", "close")
    },
}


@pytest.mark.parametrize("where", LEAKS)
@pytest.mark.parametrize("stream", [None, "events"])
async def test_what_is_raised_here_stays_here(where: str, stream: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """P-91, case 145: no key, path or class of an exception in any answer; the server's own log may have it."""
    caplog.set_level(logging.CRITICAL, "handrail")
    async with serving(LEAKS[where]()) as endpoint:
        visit = await endpoint.post(asking(fancy=1)).over()
        bodies = [visit.body]
        if stream is not None:
            bodies.append((await endpoint.get("/runs/r1/events").over()).body)
            bodies.append((await endpoint.ask("POST", "/runs/r1/cancel").over()).body)
    for body in bodies:
        assert body
        for secret in (KEY.encode(), b"models.example", b"/srv/app", b"Leak", b"Traceback"):
            assert secret not in body


@pytest.mark.parametrize("error", [ValueError, AbortRun])
async def test_what_a_tool_raises_is_its_result(error: type[Exception]) -> None:
    """P-87, L-86: the model is told, and the client sees what the model sees; the run has its fixed text."""

    def refuses() -> str:
        raise error("there is no such city")

    async with serving(app_of(call("refuses", id="c1"), fail("http", status=400), tools=[refuses])) as endpoint:
        visit = await endpoint.played()
    [result] = [p for p in visit.payloads if p["type"] == "TOOL_CALL_RESULT"]
    assert "there is no such city" in result["content"]
    assert "Traceback" not in result["content"]
    assert visit.last()["message"] == "The run failed."
