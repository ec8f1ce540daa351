"""The two sides of one run: `Run` for whoever watches, `RunDriver` for whoever drives.

Neither does anything itself: both are faces of one `Core`. The side that watches has no way to publish, to finish or to
open work, and the side that drives has no way to finish twice.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, ClassVar, Generic, TypeVar

from handrail.errors import UsageError
from handrail.run._core import Core, Section, traits_of
from handrail.run._log import EventStream, Log
from handrail.run._loops import Home, current_home
from handrail.run._outcome import REASONS, VERDICTS, Outcome, Verdict
from handrail.run._settled import Settled

__all__ = ["Run", "RunDriver", "check_hook", "log_of"]

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)


class Run(Generic[E_co]):
    """The handle on a run, as whoever watches it holds it: events, result, cancel, drained.

    A run always ends, exactly once, and `result` says how; nothing here can end it, and nothing here can break it. Safe
    to use from any thread and from several event loops at once. Made by `RunDriver`, `drive` or `Loop.run`.
    """

    __slots__ = ("__weakref__", "_core")

    _core: Core[E_co]

    def __init__(self) -> None:
        raise TypeError("a Run is what a driver hands out; make a RunDriver, or use drive(), and take its `run`")

    @property
    def id(self) -> str:
        """The id given to the driver, or a uuid4."""
        return self._core.id

    @property
    def events(self) -> EventStream[E_co]:
        """Everything the run says, in one order, for any number of readers."""
        core = self._core
        return EventStream(core.log, core.place)

    @property
    def result(self) -> Settled[Outcome]:
        """How the run ended; always set, for all three outcomes, and never raises for a reason of the run."""
        return self._core.result

    @property
    def cancellation(self) -> Settled[None]:
        """Set by the first effective `cancel()`, and else never."""
        return self._core.cancellation

    @property
    def drained(self) -> Settled[None]:
        """Set when the run is over and nothing of it is working any more; never before `result`."""
        return self._core.drained

    @property
    def status(self) -> str:
        """ "running", "cancelling", "completed", "failed" or "cancelled"."""
        core = self._core
        return core.ended or ("cancelling" if core.cancellation.is_set else "running")

    @property
    def is_done(self) -> bool:
        """Whether `result` is set; free to poll."""
        return self._core.result.is_set

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked for the end; not the same as stopped."""
        return self._core.cancellation.is_set

    @property
    def open_work(self) -> tuple[str, ...]:
        """Names of the work sections that keep `drained` open, oldest first."""
        return tuple(section.name for section in tuple(self._core.sections))

    def cancel(self) -> None:
        """Ask for the end. Idempotent, never raises, never waits; from any thread and from signal handlers.

        It does nothing at all once the run is over. The driver decides when to stop, so `is_done` may be False for a
        while, and a run that was just completing may still complete (R-60 to R-65).
        """
        self._core.cancel()

    def __repr__(self) -> str:
        core = self._core
        drained = "drained" if core.drained.is_set else "not drained"
        return f"<{type(self).__name__} {core.id} {self.status}, {len(core.log.items)} events, {drained}>"


def log_of(run: Run[E]) -> Log[E]:
    """The log itself, for readers of this package: the very events, which they do not change; iterated or looked at."""
    return run._core.log  # pyright: ignore[reportPrivateUsage]  # the one door to it


def check_hook(name: str, hook: object) -> None:
    """Raise `TypeError` for a hook that cannot be called."""
    if hook is not None and not callable(hook):
        raise TypeError(f"{name} is a function, not {type(hook).__name__}")


class _Work(Section):
    """The paired form of a work section."""

    __slots__ = ("_core", "_open")
    is_paired: ClassVar[bool] = True

    def __init__(self, core: Core[Any], name: str) -> None:
        self.name = name
        self._core = core
        self._open = False

    def __enter__(self) -> bool:
        self._open = self._core.begin(self)
        return self._open

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._open:
            self._open = False
            self._core.end(self)


class RunDriver(Generic[E]):
    """What whoever drives a run holds: the only object that can publish, open work and finish.

    `run` is what to hand out. `run_id` names the run (default: a uuid4). `on_cancel` is called once, on the cancelling
    thread, after `run.cancellation` was set. `verdict(event)` says how a terminal event ends the run ("completed",
    "failed", "cancelled") and None for any other event; by default that is the attribute `ends` of the event's class.
    An event with a method `stamped(run_id, seq)` is published as what that returns.

    All methods are plain calls for any thread; none waits for a reader (R-80 to R-82). A driver that is collected with
    its run unfinished ends it as failed and warns (R-83): see `drive` for one that is hosted.
    """

    __slots__ = ("__weakref__", "_core", "on_cancel", "run")

    handle: ClassVar[type[Run[Any]]] = Run
    """The class of `run`, for drivers whose handle can do more."""

    def __init__(
        self,
        *,
        run_id: str | None = None,
        on_cancel: Callable[[], object] | None = None,
        verdict: Callable[[E], Verdict | None] | None = None,
    ) -> None:
        if not isinstance(run_id, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # not everybody checks
            raise TypeError(f"run_id is a string, not {type(run_id).__name__}")
        check_hook("on_cancel", on_cancel)
        check_hook("verdict", verdict)
        self._core = core = Core(str(uuid.uuid4()) if run_id is None else run_id, verdict)
        core.place.home = current_home()
        core.driver = weakref.ref(self)
        self.on_cancel = on_cancel
        self.run: Run[E] = self.handle.__new__(self.handle)
        self.run._core = core  # pyright: ignore[reportPrivateUsage]  # the other face of the same core

    @property
    def home(self) -> Home | None:
        """The event loop that drives the run, where blocking would stop it; a host says which."""
        return self._core.place.home

    @home.setter
    def home(self, home: Home | None) -> None:
        self._core.place.home = home

    def emit(self, event: E) -> bool:
        """Publish an event. True: accepted and in its place; False: the run is over, and nothing has happened.

        Raises `UsageError` for a terminal event, and whatever the event's own `stamped` raises.
        """
        return self._core.emit(event)

    def finish(
        self,
        terminal: E | None,
        *,
        final: str = "",
        messages: Iterable[Any] = (),
        error: str | None = None,
        attempts: Iterable[Any] = (),
        reason: str | None = None,
        interrupts: Iterable[Any] = (),
        spent: Any = None,
        outcome: Verdict | None = None,
    ) -> bool:
        """End the run with these parts as its result. True the first time, False ever after.

        The outcome is the verdict on `terminal`. `terminal=None` is for a source that never said how it ended; only
        then is `outcome` to be given. A cancelled outcome has neither error nor reason. Raises `UsageError` for an
        event that is not terminal and for an `outcome` that is missing or not wanted (R-22, R-23), `ValueError` for an
        unknown reason (R-27).
        """
        verdict = self._verdict_on(terminal, outcome)
        if verdict is None:
            return self._core.finish_with_other(terminal)
        if reason is not None and reason not in REASONS:
            raise ValueError(f"reason is one of {', '.join(REASONS)}, or None, not {reason!r}")
        cancelled = verdict == "cancelled"
        parts = Outcome(
            outcome=verdict,
            final=final,
            messages=tuple(messages),
            error=None if cancelled else error,
            attempts=tuple(attempts),
            reason=None if cancelled else reason,
            interrupts=tuple(interrupts),
            spent=spent,
        )
        is_first = self._core.finish(terminal, parts)
        if is_first:
            self.on_cancel = None  # mostly a method of the driver's: of a run that is over no circle is left to collect
        return is_first

    def _verdict_on(self, terminal: E | None, outcome: Verdict | None) -> Verdict | None:
        if terminal is None:
            if outcome not in VERDICTS:
                raise UsageError(f"finish(None, outcome=...) needs one of {', '.join(VERDICTS)}, not {outcome!r}")
            return outcome
        if outcome is not None:
            raise UsageError("the outcome follows from the terminal event; leave out `outcome`, or finish(None, ...)")
        judge = self._core.verdict
        verdict = traits_of(type(terminal)).ends if judge is None else judge(terminal)
        if verdict is not None and verdict not in VERDICTS:
            raise UsageError(f"a terminal event ends a run as {', '.join(VERDICTS)}, not {verdict!r}")
        return verdict

    def begin_work(self, name: str = "") -> bool:
        """Open a work section; `drained` waits for it. False on a closed run: then do not pair it with `end_work`."""
        return self._core.begin(Section(name))

    def end_work(self) -> None:
        """End the newest section that `begin_work` opened. Once too often does nothing; any thread, any time."""
        self._core.end(None)

    def work(self, name: str = "") -> AbstractContextManager[bool]:
        """The paired form: ends its section on every path. Yields False on a closed run, and then does nothing."""
        return _Work(self._core, name)

    def __del__(self) -> None:
        core: Core[E] | None = getattr(self, "_core", None)
        if core is not None:
            core.lose_driver()
