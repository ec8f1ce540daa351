"""One round of client tools: the calls of a finished run that are for this side to execute (S-61 to S-80).

| the call                                   | its answer                                                     |
|--------------------------------------------|----------------------------------------------------------------|
| its arguments do not fit the tool          | an error that names the problem; the function is not called    |
| the user refuses it when asked             | "Denied by the user", and the reason                           |
| was seen to end                            | what it gave, or the error                                     |
| did not end in time                        | "Tool timed out after t s; its outcome is unknown"             |
| ran when the exchange was stopped          | "Stopped before the tool finished"                             |
| had not begun when the exchange was stopped| "Not executed: the run ended before this call was answered"    |

Every call gets exactly one of these, and what an abandoned tool returns later is dropped.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
from ag_ui.core import ResumeEntry, TextPart, ToolCall, ToolMessage

from handrail.agui._approvals import Ask, entry_from_person, question, refusal
from handrail.agui._interrupts import decide
from handrail.client._ledger import RUN_ENDED, STOPPED
from handrail.client._questions import ABANDONED, DENIED
from handrail.client._workshop import Workshop
from handrail.run import Ended
from handrail.run._child import Child
from handrail.tools import ArgumentsError, Tool, ToolContext, completed, error_message, error_text, groups, taken

__all__ = ["Desk", "ToolRound"]

_logger = logging.getLogger("handrail")


class Desk(Protocol):
    """What a round tells the session of, and asks it."""

    def tool_started(self, call_id: str) -> None: ...

    def tool_answered(self, message: ToolMessage, *, denied: bool = False) -> None: ...

    def tools_settled(self, calls: Sequence[str]) -> None: ...

    def run_id_of(self, call_id: str) -> str: ...


@dataclass(slots=True)
class _Job:
    """A call under way; `is_closed` once it was seen to end, or was given up. `deadline` is on the loop's clock."""

    call: ToolCall
    tool: Tool
    preface: str
    deadline: float = math.inf
    child: Child[Any] = field(init=False)
    has_begun: bool = False
    is_closed: bool = False


class ToolRound:
    """Executes calls, in their order; neighbours whose tools are all `parallel=True` at the same time.

    `tools` has a tool for every call. `stop` ends it where it stands: every call has an answer then.
    """

    def __init__(
        self,
        calls: Sequence[ToolCall],
        tools: Mapping[str, Tool],
        ask: Ask | None,
        *,
        thread_id: str,
        workshop: Workshop,
        desk: Desk,
        new_id: Callable[[], str],
    ) -> None:
        self._calls = calls
        self._tools = tools
        self._ask = ask
        self._thread_id = thread_id
        self._workshop = workshop
        self._desk = desk
        self._new_id = new_id
        self._jobs: list[_Job] = []
        self._asking: Child[Any] | None = None
        self._open = {call.id: call for call in calls}

    async def run(self) -> None:
        """Answer all calls. Raises what a tool raised that is no `Exception`, once its call is answered."""
        await self._workshop.open()
        for group in groups(self._calls, lambda call: self._tools[call.function.name].parallel):
            ready = [job for call in group if (job := await self._admitted(call)) is not None]
            for job, arguments in ready:
                await self._begin(job, arguments)
            while self._jobs:
                await self._news()
                self._collect()
            self._desk.tools_settled([call.id for call in group])

    def stop(self) -> None:
        """Give up what still runs and answer what has no answer; plain and prompt, on the round's own loop."""
        if self._asking is not None:
            self._asking.give_up()
        for job in self._jobs:
            if job.child.ended is not None:
                self._end(job, job.child.ended)
            else:
                self._give_up(job, STOPPED)
        for call in tuple(self._open.values()):
            self._refuse(call, RUN_ENDED)
        self._desk.tools_settled([call.id for call in self._calls])

    # -- before ----------------------------------------------------------------------------------------------------

    async def _admitted(self, call: ToolCall) -> tuple[_Job, Mapping[str, Any]] | None:
        """The call ready to run, or None where it was answered without."""
        tool = self._tools[call.function.name]
        try:
            arguments = tool.check(call.function.arguments)
            entry = await self._asked(call, arguments) if tool.needs_approval else None
            edited = None if entry is None else self._judged(call, tool, entry)
        except ArgumentsError as error:
            self._refuse(call, str(error))
            return None
        if call.id not in self._open:
            return None
        preface = "" if edited is None else f"Run with edited arguments: {json.dumps(edited, ensure_ascii=False)}"
        return _Job(call, tool, preface), arguments if edited is None else edited

    async def _asked(self, call: ToolCall, arguments: Mapping[str, Any]) -> ResumeEntry:
        """What the person said about a call; asking is not working, and has no deadline."""
        ask, interrupt = self._ask, question(call, arguments)
        assert ask is not None
        start = self._workshop.start if _is_async(ask) else self._workshop.start_in_thread
        child = self._asking = start(lambda: ask(interrupt), f"ask {call.function.name}")
        await self._workshop.news.until(lambda: child.ended is not None)
        self._asking = None
        ended = child.ended
        assert ended is not None
        if ended.error is None:
            return entry_from_person(ended.value, interrupt)
        _let_through(ended.error)
        _logger.error("asking about call %s raised", call.id, exc_info=ended.error)
        return refusal(interrupt, f"asking a person ended with {error_text(ended.error)}")

    def _judged(self, call: ToolCall, tool: Tool, entry: ResumeEntry) -> dict[str, Any] | None:
        """The arguments as a person edited them, None where they stand; a call that was refused is answered."""
        decision = decide(entry)
        if decision.kind == "approved":
            return tool.check_object(decision.arguments) if decision.edited else None
        text = ABANDONED if decision.kind == "withdrawn" else DENIED
        self._refuse(call, text if decision.reason is None else f"{text}: {decision.reason}", denied=True)
        return None

    # -- during ----------------------------------------------------------------------------------------------------

    async def _begin(self, job: _Job, arguments: Mapping[str, Any]) -> None:
        """Start a tool and see it begin, so that calls start in their order (trio begins new tasks in any)."""
        call, tool = job.call, job.tool
        self._desk.tool_started(call.id)
        context = ToolContext(
            run_id=self._desk.run_id_of(call.id),
            call_id=call.id,
            name=call.function.name,
            arguments=call.function.arguments,
            thread_id=self._thread_id,
            cancelled=lambda: job.is_closed,
        )
        if tool.timeout is not None:
            job.deadline = anyio.current_time() + tool.timeout

        workshop, name = self._workshop, call.function.name

        def begin() -> Any:
            job.has_begun = True
            workshop.news.wake_all()
            return tool.call(arguments, context)

        def is_given_up() -> bool:
            return job.is_closed

        def in_thread(fn: Callable[[], Any]) -> Awaitable[Any]:
            return workshop.in_thread(fn, name)

        def content_of(value: Any) -> Awaitable[Any]:
            return completed(value, in_thread, is_given_up)

        if tool.is_async:
            job.child = workshop.start(lambda: content_of(begin()), name)
        else:
            job.child = workshop.start_in_thread(lambda: taken(begin()(), is_given_up), name, content_of)
        self._jobs.append(job)
        await self._workshop.news.until(lambda: job.has_begun or job.child.ended is not None)

    async def _news(self) -> None:
        """Wait until a job has ended, or its time has."""
        soonest = min(job.deadline for job in self._jobs)
        left = None if soonest == math.inf else max(0.0, soonest - anyio.current_time())
        await self._workshop.news.until(lambda: any(job.child.ended for job in self._jobs), left)

    def _collect(self) -> None:
        """Close the jobs that have ended, and those whose time has; what ended in that very moment has ended."""
        for job in tuple(self._jobs):
            if job.child.ended is not None:
                self._jobs.remove(job)
                self._end(job, job.child.ended)
                _let_through(job.child.ended.error)
            elif job.deadline <= anyio.current_time():
                self._jobs.remove(job)
                self._give_up(job, f"Tool timed out after {job.tool.timeout:g} s; its outcome is unknown")

    # -- after -----------------------------------------------------------------------------------------------------

    def _end(self, job: _Job, ended: Ended[Any]) -> None:
        job.is_closed = True
        error = ended.error
        if error is None:
            self._answer(job.call, _behind(job.preface, ended.value), None)
            return
        text = f"Tool execution failed: {error_text(error)}"
        self._answer(job.call, _behind(job.preface, text), error_message(error) or type(error).__name__)

    def _give_up(self, job: _Job, why: str) -> None:
        job.is_closed = True
        job.child.give_up()
        self._refuse(job.call, why)

    def _refuse(self, call: ToolCall, why: str, *, denied: bool = False) -> None:
        self._answer(call, why, why, denied=denied)

    def _answer(self, call: ToolCall, content: Any, error: str | None, *, denied: bool = False) -> None:
        if self._open.pop(call.id, None) is not None:
            message = ToolMessage(id=self._new_id(), tool_call_id=call.id, content=content, error=error)
            self._desk.tool_answered(message, denied=denied)


def _is_async(ask: Ask) -> bool:
    return inspect.iscoroutinefunction(ask) or inspect.iscoroutinefunction(getattr(ask, "__call__", None))  # noqa: B004


def _behind(preface: str, content: Any) -> Any:
    if not preface:
        return content
    return f"{preface}\n{content}" if isinstance(content, str) else [TextPart(text=preface), *content]


def _let_through(error: BaseException | None) -> None:
    """Raise what is no answer of a tool: an interrupt from the keyboard, the end of the process."""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error
