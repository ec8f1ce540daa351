"""What both sides of a run share, and the one place where anything happens to it.

A `Core` has the only lock of a run, and everything that can happen is decided by one cell of the lifecycle table inside
it (R-1). The lock is a strict leaf: nothing that could wait, call back or take another lock
happens inside, the event's own `stamped` excepted. Waking and the cancel hook come after it is let go.

*The same thread twice.* A signal handler or a finaliser may run between any two steps of Python code, in a thread that
is inside the section, and ask the same run for something. An ordinary lock would wait for itself. A re-entrant one
would let it in and show it half a decision. Here the lock is re-entrant and the section knows that it is occupied
(`_inside`; only the very thread that holds the lock can see it so): what comes then is put in a queue and carried out
right behind the decision that it interrupted, before the lock is let go. Its answer is known all the same, since
nothing can come between: an ask of an open run is accepted unless the interrupted one, or one queued before, closes
the run.

*Closing* stores the result, then where the log ends, then `drained`, and appends the terminal event last: whoever sees
the event finds all the rest in place (R-24).

*The hook* belongs to the driver, and the core knows the driver only weakly. So a consumer that holds a `Run` does not
keep a lost driver alive, and the run of a driver that was collected can end instead of hanging (R-83).
"""

from __future__ import annotations

import logging
import threading
import warnings
import weakref
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, cast

from handrail.errors import UsageError
from handrail.run._lifecycle import TABLE, Do, Phase
from handrail.run._log import Log
from handrail.run._outcome import Outcome, Verdict
from handrail.run._settled import Place, Settled, put, wake
from handrail.run._waiters import Waiters

__all__ = ["Core", "Driver", "Section", "traits_of"]

E = TypeVar("E")
T = TypeVar("T")

_logger = logging.getLogger("handrail.run")

_APPEND = Do.APPEND  # looked up once: a member of an Enum costs more than the rest of the decision


class Driver(Protocol):
    """What the core needs of a driver: its hook."""

    on_cancel: Callable[[], object] | None


class Section:
    """A piece of work that keeps a run from being drained. `is_paired`: whoever opened it ends this very one."""

    __slots__ = ("name",)
    is_paired: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        self.name = name


class Traits(NamedTuple):
    """What the class of an event says to a run; a field of one of these names says nothing."""

    ends: Verdict | None
    is_stamped: bool


@lru_cache(maxsize=1024)  # to look at the class of a pydantic model for each event costs 5 us
def traits_of(kind: type) -> Traits:
    ends = getattr(kind, "ends", None)
    return Traits(
        ends=ends if isinstance(ends, str) else None,  # pyright: ignore[reportArgumentType]  # `finish` judges the string
        is_stamped=callable(getattr(kind, "stamped", None)),
    )


def _no() -> bool:
    return False


def _not_to_emit(event: object) -> UsageError:
    name = type(event).__name__
    return UsageError(f"emit() does not take a terminal event ({name}); end the run with finish(event, ...)")


class Core(Generic[E]):
    """What both sides share: the lock, the phase, the log, the three settled values and the work sections."""

    __slots__ = (
        "_closing",
        "_inside",
        "_later",
        "_lock",
        "_row",
        "_waiters",
        "cancellation",
        "drained",
        "driver",
        "ended",
        "id",
        "log",
        "place",
        "result",
        "sections",
        "verdict",
    )

    def __init__(self, run_id: str, verdict: Callable[[E], Verdict | None] | None) -> None:
        self.id = run_id
        self.verdict = verdict
        self.place = Place()
        self.log: Log[E] = Log()
        self._waiters = Waiters()
        self.result: Settled[Outcome] = Settled(self.place, self._waiters)
        self.cancellation: Settled[None] = Settled(self.place, self._waiters)
        self.drained: Settled[None] = Settled(self.place, self._waiters)
        self.sections: list[Section] = []
        self.ended: Verdict | None = None
        self.driver: weakref.ref[Driver] | None = None
        self._row = TABLE[Phase.RUNNING]
        self._lock = threading.RLock()
        self._inside = False
        self._closing = False
        self._later: list[Callable[[], object]] = []

    # -- the section ---------------------------------------------------------------------------------------------

    def _decide(
        self,
        act: Callable[[], T],
        foretell: Callable[[], T],
        later: Callable[[], object] | None = None,
        closes: bool = False,
    ) -> T:
        """Carry out `act` in the critical section, or `later` right behind the ask that this thread is inside of."""
        behind: list[Callable[[], object]] = []
        try:
            with self._lock:
                if self._inside:
                    foretold = foretell()
                    self._closing = self._closing or closes
                    self._later.append(later or act)
                    return foretold
                self._closing = self._closing or closes
                self._inside = True
                try:
                    return act()
                finally:
                    self._inside = False
                    if self._later:
                        behind = self._catch_up()
        finally:
            for follow in behind:
                follow()

    def _catch_up(self) -> list[Callable[[], object]]:
        """Carry out what a signal handler or finaliser asked meanwhile; gives what is to follow outside the lock."""
        behind: list[Callable[[], object]] = []
        while self._later:
            act = self._later.pop(0)
            self._inside = True
            try:
                follow = act()
                if callable(follow):
                    behind.append(follow)
            except Exception:  # only `stamped` can raise here, and its caller has long returned
                _logger.exception("run %s: an event emitted from a signal handler or finaliser was lost", self.id)
            finally:
                self._inside = False
        return [self.wake_all, *behind]

    def wake_all(self) -> None:
        """Tell everybody who waits; those with nothing new go back to sleep."""
        for waiters in (self._waiters, self.log.waiters):
            if waiters.wakers:
                waiters.wake_all()

    # -- the asks ------------------------------------------------------------------------------------------------

    def emit(self, event: E) -> bool:
        """`_decide` written out: this is the one ask that comes once per token."""
        verdict = self.verdict
        traits = traits_of(type(event))
        given: Any = event
        ends = traits.ends if verdict is None else verdict(event)
        log = self.log
        behind: list[Callable[[], object]] | None = None
        try:
            with self._lock:
                if self._inside:
                    return self._emit_later(event, ends)
                self._inside = True
                try:
                    cell = self._row.emit if ends is None else self._row.emit_terminal
                    if cell.do is _APPEND:
                        items = log.items
                        items.append(given.stamped(self.id, len(items)) if traits.is_stamped else given)
                    elif cell.do is Do.REFUSE:
                        raise _not_to_emit(event)
                finally:
                    self._inside = False
                    if self._later:
                        behind = self._catch_up()
        finally:
            if behind is not None:
                for follow in behind:
                    follow()
        if log.waiters.wakers:
            log.waiters.wake_all()
        return cell.answer is True

    def _emit_later(self, event: E, ends: Verdict | None) -> bool:
        if ends is not None:
            raise _not_to_emit(event)
        if self._closing or self._row.emit.do is not _APPEND:
            return False
        self._later.append(lambda: self._append_if_open(event))
        return True

    def _append_if_open(self, event: E) -> None:
        if self._row.emit.do is _APPEND:
            self.log.items.append(self._stamp(event))

    def _stamp(self, event: E) -> E:
        if not traits_of(type(event)).is_stamped:
            return event
        return cast("Any", event).stamped(self.id, len(self.log.items))

    def finish(self, terminal: E | None, outcome: Outcome) -> bool:
        closed = self._decide(lambda: self._close(terminal, outcome), self._is_open_still, closes=True)
        self.wake_all()
        return closed

    def _is_open_still(self) -> bool:
        """What an ask that is queued will find, since nothing but what is queued before it can come between."""
        return self._row.finish.do is Do.CLOSE and not self._closing

    def _close(self, terminal: E | None, outcome: Outcome) -> bool:
        cell = self._row.finish
        if cell.do is Do.CLOSE:
            log = self.log
            try:
                last = [] if terminal is None else [self._stamp(terminal)]
            except BaseException:
                self._closing = False
                raise
            put(self.result, outcome)
            self.ended = outcome.outcome
            log.end = len(log.items) + len(last)
            if not self.sections:
                put(self.drained, None)
            self._row = TABLE[cell.then]
            log.items.extend(last)
        return cell.answer is True

    def finish_with_other(self, event: object) -> bool:
        """`finish` was given an event that ends nothing."""
        cell = self._row.finish_with_other
        if cell.do is Do.REFUSE:
            raise UsageError(f"finish() takes a terminal event; {type(event).__name__} is not one: emit() it")
        return cell.answer is True

    def cancel(self) -> None:
        driver = self.driver() if self.driver is not None else None
        hook = None if driver is None else driver.on_cancel  # looked up here: a finish just behind lets go of it
        follow = partial(self._call_hook, hook)
        if self._decide(self._call_off, _no, lambda: follow if self._call_off() else None):
            follow()

    def _call_off(self) -> bool:
        cell = self._row.cancel
        self._row = TABLE[cell.then]
        if cell.do is not Do.CALL_OFF:
            return False
        put(self.cancellation, None)
        return True

    def _call_hook(self, hook: Callable[[], object] | None) -> None:
        wake(self.cancellation)
        if hook is None:
            return
        try:
            hook()
        except KeyboardInterrupt:  # Ctrl-C, and not the hook's
            raise
        except BaseException:  # whoever cancels is not to blame for the driver's hook
            _logger.exception("run %s: the on_cancel hook raised", self.id)

    def begin(self, section: Section) -> bool:
        return self._decide(lambda: self._open(section), self._is_open_still)

    def _open(self, section: Section) -> bool:
        cell = self._row.begin_work
        if cell.do is Do.OPEN:
            self.sections.append(section)
        return cell.answer is True

    def end(self, section: Section | None) -> None:
        """End one section: the given one, or the newest that is not paired. Nothing if there is none."""
        if self._decide(lambda: self._end(section), _no):
            wake(self.drained)

    def _end(self, section: Section | None) -> bool:
        if self._row.end_work.do is not Do.END:
            return False
        if section is None:
            section = next((s for s in reversed(self.sections) if not s.is_paired), None)
        if section is not None and section in self.sections:
            self.sections.remove(section)
        return self.ended is not None and not self.sections and put(self.drained, None)

    def lose_driver(self) -> None:
        """The driver was collected: end the run and all that was open (R-83)."""
        if self.ended is None and self.finish(None, Outcome("failed", error="the driver of this run was lost")):
            for section in tuple(self.sections):
                self.end(section)
            warnings.warn(
                f"the driver of run {self.id} was collected before it finished the run; keep it, or use drive()",
                ResourceWarning,
                stacklevel=3,
            )
