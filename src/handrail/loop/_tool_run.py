"""One call to one tool while it runs.

An async tool is a task of the run's group, a sync one a thread that a task follows. The call is closed when it has been
seen to end, or when it was given up; what it says after that is answered False and published nowhere, also when it
comes from a thread at that very moment.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ag_ui.core import ToolCall

from handrail.agui._text import whole
from handrail.events import RunEvent, ToolContent
from handrail.loop._drafts import Log, ToolProgress
from handrail.loop._driver import LoopDriver
from handrail.run import Ended
from handrail.tools import LogLevel, Tool, ToolContext, completed, taken

__all__ = ["ToolRun"]


class ToolRun:
    """A call under way. `deadline` is on the loop's clock, `preface` a line that goes before the result."""

    __slots__ = ("_child", "_driver", "_is_closed", "_lock", "call", "deadline", "preface", "started_at")

    def __init__(
        self,
        driver: LoopDriver,
        call: ToolCall,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        round: int,
        timeout: float | None,
        preface: str = "",
    ) -> None:
        self._driver = driver
        # Re-entrant: a signal handler may report progress while this very thread does.
        self._lock = threading.RLock()
        self._is_closed = False
        self.call = call
        self.preface = preface
        self.started_at = driver.monotonic()
        self.deadline = None if timeout is None else self.started_at + timeout
        context = ToolContext(
            run_id=driver.run.id,
            call_id=call.id,
            name=call.function.name,
            arguments=call.function.arguments,
            round=round,
            cancelled=self._is_cancelled,
            progress=self._progress,
            log=self._log,
        )
        name = f"tool {call.function.name}"

        def begin() -> Any:
            return tool.call(arguments, context)

        def in_thread(fn: Callable[[], Any]) -> Awaitable[Any]:
            return driver.in_thread(fn, name)

        def content_of(value: Any) -> Awaitable[ToolContent]:
            return completed(value, in_thread, self._is_given_up)

        if tool.is_async:
            self._child = driver.start(lambda: content_of(begin()), name)
        else:
            self._child = driver.start_in_thread(lambda: taken(begin()(), self._is_given_up), name, content_of)

    @property
    def ended(self) -> Ended[ToolContent] | None:
        """How the tool ended, with its content or an error; None while it runs."""
        return self._child.ended

    def close(self) -> None:
        """Hear no more of it, and stop it if it still runs; returns at once."""
        with self._lock:
            self._is_closed = True
        self._child.give_up()

    def _is_given_up(self) -> bool:
        return self._is_closed

    def _is_cancelled(self) -> bool:
        return self._is_closed or self._driver.run.is_cancelled

    def _progress(self, value: float, total: float | None, message: str | None) -> bool:
        said = None if message is None else whole(message)
        return self._publish(
            ToolProgress(ts=self._driver.now(), id=self.call.id, progress=value, total=total, message=said)
        )

    def _log(self, data: str | dict[str, Any], level: LogLevel) -> bool:
        said = whole(data) if isinstance(data, str) else data
        return self._publish(Log(ts=self._driver.now(), level=level, data=said, logger=self.call.function.name))

    def _publish(self, event: RunEvent) -> bool:
        with self._lock:
            return not self._is_closed and self._driver.emit(event)
