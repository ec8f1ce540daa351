"""What a call may know about its run, and may tell it."""

from __future__ import annotations

from collections.abc import Callable
from sys import float_info
from typing import Any, get_args

from handrail.events import LogLevel
from handrail.tools._values import as_data

__all__ = ["ToolContext"]


class ToolContext:
    """What a call may know about its run, and may tell it. A parameter annotated with this class is filled in.

    Everything may be used from any thread, and also late: an abandoned call finds `cancelled` true, and `progress` and
    `log` answer False. `thread_id` is None in a loop; `round` is None in a session.
    """

    __slots__ = ("_cancelled", "_log", "_progress", "arguments", "call_id", "name", "round", "run_id", "thread_id")

    def __init__(
        self,
        *,
        run_id: str,
        call_id: str,
        name: str,
        arguments: str = "{}",
        round: int | None = None,
        thread_id: str | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        progress: Callable[[float, float | None, str | None], bool] = lambda progress, total, message: False,
        log: Callable[[str | dict[str, Any], LogLevel], bool] = lambda data, level: False,
    ) -> None:
        self.run_id = run_id
        self.call_id = call_id
        self.name = name
        self.arguments = arguments
        self.round = round
        self.thread_id = thread_id
        self._cancelled = cancelled
        self._progress = progress
        self._log = log

    @property
    def cancelled(self) -> bool:
        """True once the run was asked to stop or this call was given up: for polling in a thread."""
        return self._cancelled()

    def progress(self, value: float, total: float | None = None, message: str | None = None) -> bool:
        """Report how far the call is; True if the run took it. `TypeError` or `ValueError` for what is no number."""
        _require_number(value, "progress")
        if total is not None:
            _require_number(total, "total")
        return self._progress(value, total, message)

    def log(self, data: str | dict[str, Any], level: LogLevel = "info") -> bool:
        """Put a line into the run's events; True if the run took it.

        A dict is copied as JSON data, in which what JSON does not know is told by its text. `TypeError` or `ValueError`
        for data that cannot be copied so, and for a level that is none.
        """
        if level not in get_args(LogLevel):
            raise ValueError(f"level is one of {', '.join(get_args(LogLevel))}, not {level!r}")
        return self._log(data if isinstance(data, str) else as_data(data), level)

    def __repr__(self) -> str:
        return f"<ToolContext {self.name} call {self.call_id} of run {self.run_id}>"


def _require_number(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is an int or a float, not {type(value).__name__}")
    if not -float_info.max <= value <= float_info.max:
        raise ValueError(f"{name} is not finite, or larger than any float: report a smaller number")
