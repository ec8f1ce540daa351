"""The runs an endpoint holds: the active ones, those that wait their turn on a busy thread, and for a while those over.

A request claims its run before anything waits, so that of two requests for one thread only one gets it. The run starts
once the head of its answer has been sent and its turn has come. Whoever reads it is counted: when the last one goes,
the run is cancelled, or goes on unread; one that still waits is taken out of the line.

No task stands by for any of this. A run tells its end through a callback, which may come on any thread: bookkeeping
is done there, and what starts tasks (the next run in line, `on_finish`) on the event loop that served the request, in
the context of that request, so that it is hosted where the run was.

Runs that are over are looked through when one comes or goes; nothing watches a clock for them.
"""

from __future__ import annotations

import contextvars
import logging
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import anyio
import anyio.lowlevel
from ag_ui.core import RunAgentInput

from handrail.events import RunEvent
from handrail.run import Outcome, Run, RunDriver, Verdict, drive
from handrail.run._loops import Home
from handrail.run._outcome import error_line
from handrail.run._settled import when_set
from handrail.server._answers import Refused, not_found
from handrail.server._calls import called
from handrail.server._tape import Tape

__all__ = ["Busy", "HeldRun", "OnDisconnect", "OnFinish", "Runs"]

Busy = Literal["reject", "queue", "allow"]
OnDisconnect = Literal["cancel", "continue"]
OnFinish = Callable[[RunAgentInput, Outcome], object]

MOST_WAITING = 16
"""Requests that may wait for one thread."""
_MOST_BEFORE = {"reject": 0, "queue": MOST_WAITING, "allow": math.inf}
"""Active runs that a thread may have when another comes; with "queue" one of them runs."""
SHUTDOWN_GRACE = 5.0
"""Seconds that active runs have, all together, to come to their end."""

_logger = logging.getLogger("handrail.server")


class HeldRun:
    """One run of the endpoint: what was asked, whose it is, and its tape.

    `run` is there while it is active: not before its turn has come, and not when it is over, since it holds every event
    and the tape every frame. `status` is the run's, or "waiting".
    """

    __slots__ = (
        "_context",
        "_launch",
        "_status",
        "given",
        "home",
        "is_answered",
        "over_at",
        "principal",
        "readers",
        "run",
        "tape",
    )

    def __init__(
        self, given: RunAgentInput, principal: Any, tape: Tape, launch: Callable[[], Run[RunEvent]], home: Home
    ) -> None:
        self.given = given
        self.principal = principal
        self.tape = tape
        self.home = home
        self.run: Run[RunEvent] | None = None
        self.is_answered = False
        """Whether the head of the answer has been sent."""
        self.readers = 0
        self.over_at = 0.0
        self._status = "waiting"
        self._launch = launch
        self._context = contextvars.copy_context()

    @property
    def status(self) -> str:
        return self._status if self.run is None else self.run.status

    @property
    def is_waiting(self) -> bool:
        return self.status == "waiting"

    @property
    def is_over(self) -> bool:
        return self.status not in ("waiting", "running", "cancelling")

    def start(self) -> Run[RunEvent]:
        """The run, started; one that could not be is a failed one."""
        try:
            run = self._context.run(self._launch)
        except Exception as error:
            _logger.exception("run %s could not be started", self.given.run_id)
            return self.never_ran("failed", error_line(error))
        return self._recorded(run)

    def never_ran(self, outcome: Verdict, error: str | None = None) -> Run[RunEvent]:
        """A run that is over before it began."""
        driver: RunDriver[RunEvent] = RunDriver(run_id=self.given.run_id)
        driver.finish(None, outcome=outcome, error=error, messages=self.given.messages)
        return self._recorded(driver.run)

    def _recorded(self, run: Run[RunEvent]) -> Run[RunEvent]:
        self.run = run
        self.tape.record(run)
        return run

    def let_go(self) -> None:
        """The run is over, and nobody needs its handle."""
        self._status, self.run = self.status, None

    def host(self, body: Callable[[RunDriver[Any]], Any]) -> Run[Any]:
        """Run something of the endpoint's own beside it."""
        return self._context.run(drive, body)


class Runs:
    """The runs of one endpoint, by id and by thread."""

    def __init__(
        self,
        *,
        busy: Busy,
        on_disconnect: OnDisconnect,
        on_finish: OnFinish | None,
        replay_window: float,
        max_held_runs: int,
    ) -> None:
        self._busy: Busy = busy
        self._on_disconnect: OnDisconnect = on_disconnect
        self._on_finish = on_finish
        self._window = replay_window
        self._most_over = max_held_runs
        self._by_id: dict[str, HeldRun] = {}
        self._lines: dict[str, list[HeldRun]] = {}
        self._over: dict[str, HeldRun] = {}
        self._telling: set[Run[Any]] = set()

    def claim(self, held: HeldRun) -> None:
        """Take a run in. Raises `Refused` where its id or its thread is taken."""
        self._drop_expired()
        run_id, thread_id = held.given.run_id, held.given.thread_id
        known = self._by_id.get(run_id)
        if known is not None and not known.is_over:
            raise Refused(409, "run-id-conflict", f"A run with the id {run_id!r} is active.")
        line = [other for other in self._lines.get(thread_id, ()) if not other.is_over]
        if len(line) > _MOST_BEFORE[self._busy]:
            raise Refused(409, "thread-busy", f"A run is active on the thread {thread_id!r}.")
        self._over.pop(run_id, None)
        self._by_id[run_id] = held
        self._lines[thread_id] = [*line, held]

    def find(self, run_id: str, principal: Any) -> HeldRun:
        """The run with this id. Raises `Refused` where there is none, or where it is somebody else's."""
        self._drop_expired()
        held = self._by_id.get(run_id)
        if held is None or held.principal != principal:
            raise not_found()
        return held

    def answered(self, held: HeldRun) -> None:
        """The head of the answer has been sent: the run may start when its turn comes."""
        held.is_answered = True
        self._advance(held.given.thread_id)

    def leave(self, held: HeldRun) -> None:
        """A reader has gone."""
        held.readers -= 1
        if held.readers or held.is_over:
            return
        if held.is_waiting:
            self._forget(held)
            self._advance(held.given.thread_id)
        elif held.run is not None and self._on_disconnect == "cancel":
            held.run.cancel()

    def cancel(self, held: HeldRun) -> str:
        """Ask for the end of a run; gives its status. One that waits ends at once."""
        if held.is_waiting:
            self._started(held, held.never_ran("cancelled"))
        if held.run is not None:
            held.run.cancel()
        return held.status

    def cancel_all(self) -> list[Run[Any]]:
        """Ask for the end of every run; gives those that were active."""
        active = [held for held in self._by_id.values() if not held.is_over]
        for held in reversed(active):  # those that wait must not get the turn of those that end
            self.cancel(held)
        return [held.run for held in active if held.run is not None]

    async def close(self) -> None:
        """Cancel what is active and wait for it and for what it leads to, so many seconds at most."""
        with anyio.move_on_after(SHUTDOWN_GRACE):
            for run in self.cancel_all():
                await run.drained
            await anyio.lowlevel.checkpoint()  # ends are told in the next turn
            for telling in tuple(self._telling):
                await telling.result

    # -- turns and ends ----------------------------------------------------------------------------------------------

    def _advance(self, thread_id: str) -> None:
        """Start what can be started on a thread: with "queue" the first in line, else whatever has been answered."""
        line = [held for held in self._lines.get(thread_id, ()) if not held.is_over]
        for held in line[:1] if self._busy == "queue" else line:
            if held.is_waiting and held.is_answered:
                self._started(held, held.start())

    def _started(self, held: HeldRun, run: Run[Any]) -> None:
        when_set(run.result, partial(self._ended, held))

    def _ended(self, held: HeldRun) -> None:
        """A run has its result; on whatever thread that is known."""
        self._leave_line(held)
        held.over_at = time.monotonic()
        self._over[held.given.run_id] = held
        self._drop_expired()
        held.home.call(partial(self._after, held))

    def _after(self, held: HeldRun) -> None:
        self._advance(held.given.thread_id)
        assert held.run is not None
        outcome, on_finish = held.run.result.value, self._on_finish
        held.let_go()
        if on_finish is not None:

            async def tell(driver: RunDriver[Any]) -> None:
                try:
                    await called(on_finish, held.given, outcome)
                except Exception:
                    _logger.exception("run %s: on_finish raised", held.given.run_id)
                finally:
                    self._telling.discard(driver.run)
                driver.finish(None, outcome="completed")

            self._telling.add(held.host(tell))

    def _drop_expired(self) -> None:
        oldest_kept = time.monotonic() - self._window
        for held in tuple(self._over.values()):
            if held.over_at > oldest_kept and len(self._over) <= self._most_over:
                return
            self._forget(held)

    def _forget(self, held: HeldRun) -> None:
        self._leave_line(held)
        run_id = held.given.run_id
        for table in (self._by_id, self._over):
            if table.get(run_id) is held:
                del table[run_id]

    def _leave_line(self, held: HeldRun) -> None:
        thread_id = held.given.thread_id
        line = [other for other in self._lines.get(thread_id, ()) if other is not held]
        if line:
            self._lines[thread_id] = line
        else:
            self._lines.pop(thread_id, None)
