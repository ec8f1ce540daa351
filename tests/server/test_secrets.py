"""Nothing that is ours goes out: texts of exceptions, paths, logs, wherever they are raised."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator
from tests.server.kit import asking, serving
from tests.server.scenarios import NOW

from handrail import AbortRun, BackendError, Loop, Outcome, Tool, ToolContext
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


async def leaks_in_a_task() -> str:
    """Says it in a task."""
    raise Leak


def leaks_in_a_thread() -> str:
    """Says it in a thread."""
    raise Leak


def leaks_in_a_generator() -> Iterator[str]:
    """Says it when it is read."""
    yield "one"
    raise Leak


async def leaks_in_an_async_generator() -> AsyncIterator[str]:
    """Says it when it is read in a task."""
    yield "one"
    raise Leak


def leaks_in_a_group() -> str:
    """Says it in a group."""
    raise ExceptionGroup(f"password={KEY}", [Leak()])


def leaks_behind_another() -> str:
    """Says it as the cause."""
    raise LookupError(f"token: {KEY}") from Leak()


def leaks_at_the_end() -> str:
    """Says it, and ends the run."""
    raise AbortRun(f"no more of {KEY}")


class Odd:
    """A value that says it when it is made content."""

    def __iter__(self) -> Iterator[str]:
        return iter(())

    @property
    def __dataclass_fields__(self) -> Any:
        raise Leak


def leaks_as_a_value() -> Any:
    """Says it when its value is read."""
    return {"odd": Odd()}


def checked(value: str) -> str:
    raise ValueError(f"api_key={KEY}")


def leaks_in_a_validator(value: Annotated[str, AfterValidator(checked)] = "x") -> str:
    """Says it before it is called."""
    return value


TOOLS = [
    leaks_in_a_task,
    leaks_in_a_thread,
    leaks_in_a_generator,
    leaks_in_an_async_generator,
    leaks_in_a_group,
    leaks_behind_another,
    leaks_at_the_end,
    leaks_as_a_value,
    leaks_in_a_validator,
]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.__name__)
async def test_a_key_that_a_tool_raises_stays_here(tool: Callable[..., Any]) -> None:
    """P-91, P-87, P-86: neither the wire, nor the model, nor the outcome; the rest of the text they all have alike."""
    backend = ScriptedBackend(
        [call(tool.__name__, {"value": "x"} if "validator" in tool.__name__ else {}, id="c1"), text("ok")]
    )
    outcomes: list[Outcome] = []
    app = agui_app(
        Loop([backend], [tool], retry=NOW),
        on_finish=lambda given, outcome: outcomes.append(outcome),
        error_text=lambda outcome: str(outcome.error),
    )
    async with serving(app) as endpoint:
        visit = await endpoint.played()
        again = await endpoint.get("/runs/r1/events").over()
    [result] = [payload for payload in visit.payloads if payload["type"] == "TOOL_CALL_RESULT"]
    assert KEY.encode() not in visit.body + again.body
    assert "[hidden]" in result["content"]
    [outcome] = outcomes
    assert KEY not in str(outcome.to_dict())
    [kept] = [message.content for message in outcome.messages if message.role == "tool"]
    assert kept == result["content"]
    asked = [message.content for request in backend.requests for message in request.messages if message.role == "tool"]
    assert asked == ([] if tool is leaks_at_the_end else [kept])


async def test_a_key_that_asking_raises_stays_here() -> None:
    """P-91, L-116: what `ask` raised becomes the reason of a denial."""

    def ask(interrupt: Any) -> bool:
        raise Leak

    tools = [Tool(leaks_in_a_thread, needs_approval=True)]
    app = agui_app(Loop([ScriptedBackend([call("leaks_in_a_thread"), text("ok")])], tools, ask=ask))
    async with serving(app) as endpoint:
        visit = await endpoint.played()
    assert KEY.encode() not in visit.body
    assert b"[hidden]" in visit.body


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
