"""Watching one run in a terminal, from its first event to the exit code.

The run is driven on a thread of the package; this thread reads its events and owns the signals. The first Ctrl-C asks
the run to stop, and the run is still watched to its end: a cancelled run says what it had done. The second one waits
for nothing, not even for the interpreter's own goodbye, which would wait for the run.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from handrail.apps._report import JsonLines, Report, Terminal
from handrail.events import RunEvent
from handrail.run import Outcome, Run

__all__ = ["watch"]

_EXIT_CODES = {"completed": 0, "failed": 1, "cancelled": 130}
_STDOUT = 1
_DRAIN_GRACE = 0.5  # seconds; closing a connection takes a moment, a stuck tool takes for ever


class _SecondCtrlC(BaseException):
    """The person does not want to wait for the run to stop."""


def watch(run: Run[RunEvent], *, as_json: bool, hint: Callable[[Outcome], str | None] = lambda outcome: None) -> int:
    """Show `run` until it is over; the exit code says how it ended: 0 completed, 1 failed, 130 cancelled.

    `hint` may name what a person can do about an outcome. A reader of our output that goes away cancels the run. A
    second Ctrl-C ends the process from in here.
    """
    report: Report = JsonLines() if as_json else Terminal()
    try:
        with _ctrl_c_cancels(run):
            for event in run.events:
                report.event(event)
            outcome = run.result.wait()
            report.ended(outcome, running=_still_running(run), asked=run.is_cancelled, hint=hint(outcome))
    except BrokenPipeError:
        run.cancel()
        outcome = run.result.wait()
    except _SecondCtrlC:
        report.left(running=run.open_work)
        os._exit(_EXIT_CODES["cancelled"])
    return _EXIT_CODES[outcome.outcome]


def _still_running(run: Run[RunEvent]) -> tuple[str, ...]:
    try:
        run.drained.wait(_DRAIN_GRACE)
    except TimeoutError:
        return run.open_work
    return ()


@contextmanager
def _ctrl_c_cancels(run: Run[RunEvent]) -> Generator[None]:
    """The first Ctrl-C cancels `run`, the next one raises `_SecondCtrlC` wherever this thread is."""
    pressed = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if os.isatty(_STDOUT):
            os.write(_STDOUT, b"\n")  # the terminal has written ^C into the line
        if pressed:
            raise _SecondCtrlC
        pressed = True
        run.cancel()

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
