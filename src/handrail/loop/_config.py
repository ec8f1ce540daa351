"""`Loop`: the configuration of an agent, and where its runs are started."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, cast

import anyio
from ag_ui import core as agui

from handrail.agui._approvals import Ask, Given, as_answers
from handrail.errors import UsageError
from handrail.loop._attempts import RetryPolicy
from handrail.loop._backend import Backend
from handrail.loop._budget import Budget
from handrail.loop._clock import Clock, SystemClock
from handrail.loop._driver import LoopDriver, LoopRun, random_id
from handrail.loop._limits import Limits
from handrail.loop._loop import Drive, Setting
from handrail.loop._plan import Catalogue
from handrail.messages import as_messages
from handrail.run import RunScope
from handrail.run._hosting import host
from handrail.tools import Tool, catalogue
from handrail.tools._settings import require_callable, require_seconds

__all__ = ["Loop"]


class Loop:
    """A model with its tools and its bounds. Immutable; any number of runs go on at once and share nothing but it.

        loop = Loop(backends=[OpenAIBackend("gpt-5")], tools=[weather], system="Be brief.")
        run = loop.run("What is the weather in Rome?")
        outcome = await run.result

    `backends` are tried in order, every round. `tools` are functions or `Tool` objects. `system` goes before every
    request and into no history. With a `budget`, even an empty one, spending is counted. `tool_timeout` (seconds) is
    for tools without one of their own; `idle_timeout` is how long a model may be silent, None switches it off. `ask`
    answers approvals in process; without it a run ends with its questions. `clock` (now, monotonic, sleep) and
    `new_id` replace time and uuid4.

    Runs live where `run` is called (see `RunScope`), or in `async with loop:`, which also closes the backends that can
    be closed when it is left. Raises `TypeError` or `ValueError` for what cannot work or could do nothing.
    """

    __slots__ = ("__weakref__", "_clock", "_new_id", "_scopes", "_setting", "_tools")

    def __init__(
        self,
        backends: Sequence[Backend],
        tools: Sequence[Tool | Callable[..., Any]] = (),
        system: str | None = None,
        budget: Budget | None = None,
        limits: Limits | None = None,
        retry: RetryPolicy | None = None,
        tool_timeout: float | None = None,
        idle_timeout: float | None = 120.0,
        ask: Ask | None = None,
        clock: Clock | None = None,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        checked = _checked_backends(backends)
        _check_kind(system, str, "system")
        _check_kind(budget, Budget, "budget")
        _check_kind(limits, Limits, "limits")
        _check_kind(retry, RetryPolicy, "retry")
        _check_windows(budget, checked)
        _check_clock(clock)
        require_callable(new_id, "new_id", "a function that gives a new id", takes=0)
        require_callable(ask, "ask", "a function of an interrupt", takes=1)
        require_seconds(tool_timeout, "tool_timeout")
        require_seconds(idle_timeout, "idle_timeout")
        self._tools = catalogue(tools)
        self._clock = clock or SystemClock()
        self._new_id = new_id or random_id
        self._scopes: dict[int, list[RunScope]] = {}
        self._setting = Setting(
            backends=checked,
            system=system,
            budget=budget,
            limits=limits or Limits(),
            retry=retry or RetryPolicy(),
            tool_timeout=tool_timeout,
            idle_timeout=idle_timeout,
            ask=ask,
            is_ask_async=_is_async(ask),
        )

    def run(
        self,
        messages: object,
        *,
        tools: Sequence[Tool | agui.Tool | Callable[..., Any]] = (),
        context: Sequence[agui.Context | Mapping[str, Any]] = (),
        answers: Sequence[Given] = (),
        run_id: str | None = None,
    ) -> LoopRun:
        """Start a run and return its handle at once.

        `messages` is a string, a message, or a sequence of messages (also as mappings in wire form). `tools` are more
        tools for this run: functions are executed here, an `ag_ui.core.Tool` declares one that the client executes.
        `context` is told to the model before everything else. `answers` are for the calls that an earlier run of this
        conversation left waiting: what `approve`, `deny`, `edit`, `answer` and `abandon` return.

        Raises `TypeError` or `ValueError` for arguments that do not fit, and `UsageError` under trio without a scope;
        everything later is an outcome.
        """
        known, remarks = self._catalogue_with(tools)
        turns = as_messages(messages, self._new_id)
        blocks = [item if isinstance(item, agui.Context) else agui.Context(**item) for item in context]
        given = as_answers(answers) if answers else {}
        driver = LoopDriver(run_id=run_id, clock=self._clock, new_id=self._new_id)
        drive = Drive(driver, self._setting, known, messages=turns, context=blocks, answers=given)
        drive.begin()
        for remark in remarks:
            driver.log("warning", remark)
        host(driver, drive.main)
        return driver.run

    async def __aenter__(self) -> Loop:
        scope = RunScope()
        await scope.__aenter__()
        self._scopes.setdefault(anyio.get_current_task().id, []).append(scope)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        task = anyio.get_current_task().id
        scopes = self._scopes.get(task)
        if scopes is None:
            raise UsageError("`async with loop:` is left in the task that entered it, and this task did not")
        scope = scopes.pop()
        if not scopes:
            del self._scopes[task]
        async with AsyncExitStack() as closing:
            for backend in {id(backend): backend for backend in self._setting.backends}.values():
                if (close := getattr(backend, "aclose", None)) is not None:
                    closing.push_async_callback(_closed_in_time, close)
            return await scope.__aexit__(kind, error, traceback)

    def _catalogue_with(self, tools: Sequence[object]) -> tuple[Catalogue, list[str]]:
        """The tools of one run: the loop's, those executed here for this run, those the client executes."""
        declared: dict[str, agui.Tool] = {}
        own: list[Tool | Callable[..., Any]] = []
        remarks: list[str] = []
        for tool in tools:
            if isinstance(tool, agui.Tool):
                declared[tool.name] = tool if tool.parameters is not None else _without_parameters(tool)
            else:
                own.append(cast("Tool | Callable[..., Any]", tool))
        known = catalogue((*self._tools.values(), *own)) if own else self._tools
        for name in known.keys() & declared.keys():
            remarks.append(f"the client declares a tool {name!r}, which the loop has: the loop's own is used")
            del declared[name]
        return Catalogue(known, declared), remarks

    def __repr__(self) -> str:
        models = ", ".join(backend.model for backend in self._setting.backends)
        return f"<Loop {models}, tools: {', '.join(self._tools) or 'none'}>"


CLOSE_GRACE = 5.0
"""Seconds that closing a backend may take."""


async def _closed_in_time(close: Callable[[], Awaitable[object]]) -> None:
    with anyio.move_on_after(CLOSE_GRACE, shield=True):
        await close()


def _without_parameters(tool: agui.Tool) -> agui.Tool:
    return tool.model_copy(update={"parameters": {"type": "object", "properties": {}}})


def _checked_backends(backends: object) -> tuple[Backend, ...]:
    if isinstance(backends, str) or not isinstance(backends, Iterable):
        raise TypeError("backends is a list of backends: Loop(backends=[OpenAIBackend(...)])")
    found = tuple(cast("Iterable[object]", backends))
    if not found:
        raise ValueError("a loop needs at least one backend: Loop(backends=[OpenAIBackend(...)])")
    for backend in found:
        if not isinstance(getattr(backend, "model", None), str) or not callable(getattr(backend, "stream", None)):
            raise TypeError(f"{backend!r} is no backend: it needs `model`, a string, and a method `stream(request)`")
    return cast("tuple[Backend, ...]", found)


def _check_kind(value: object, kind: type, name: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} is a {kind.__name__} or None, not {type(value).__name__}")


def _check_windows(budget: Budget | None, backends: Sequence[Backend]) -> None:
    models = {backend.model for backend in backends}
    for model in budget.windows if budget is not None else ():
        if model not in models:
            raise ValueError(f"there is a window for {model!r}, but no such backend; models: {', '.join(models)}")


def _check_clock(clock: object) -> None:
    needed = ("now", "monotonic", "sleep")
    if clock is not None and (isinstance(clock, type) or not all(callable(getattr(clock, m, None)) for m in needed)):
        raise TypeError(f"{clock!r} is no clock: it needs now(), monotonic() and an async sleep(seconds)")


def _is_async(ask: object) -> bool:
    return inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(getattr(ask, "__call__", None))  # noqa: B004  # an object with an async __call__ counts too
