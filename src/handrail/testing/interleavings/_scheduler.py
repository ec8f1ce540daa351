"""One thread at a time, and who goes next is chosen.

Every thread that takes part holds a baton of its own and waits for it. Whoever runs hands over by releasing another's
baton and waiting for its own, so exactly one of them is ever between two waits, and what happens is decided by the
choices alone. It may hand over at two kinds of places:

    point()        it could go on; the others are offered as well
    block(ready)   it cannot go on until `ready()`; somebody else has to

Locks, events and event loops are made of `block`, so a thread that waits for one is known to be waiting. When nobody
can go on that is a *deadlock*, seen at once; steps without end are a *livelock*.

*Time* stands still while anybody can go on, and then goes on to the earliest time that somebody waits for. A timeout
may also come early, as one more option at every choice: a machine can be that slow. One of an hour or more never comes.

*The director* is the thread that makes the scenario, waits until its players have ended and nobody else can go on, and
then checks. Threads that still wait at that point are left over, and no fault.

*Winding up.* When the director is through, or at the first fault, what is left is ended one by one: each thread goes
on alone, and its next wait that is not over yet raises `Abandoned`, which nothing is meant to catch. A thread that
makes no step, because it waits for something the scheduler does not know or turns in a circle, is told of and stays
behind; the interpreter raises `Abandoned` in it as soon as it is in Python again.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from inspect import currentframe
from threading import get_ident

from handrail.testing.interleavings._crew import Crew
from handrail.testing.interleavings._lines import Lines
from handrail.testing.interleavings._search import Choices
from handrail.testing.interleavings._story import Story, frame_of, place_of, way_to

__all__ = ["Abandoned", "Fault", "Player", "Scheduler"]

NEVER = 3600.0
"""Seconds from which on a wait counts as one without end."""

PATIENCE = 10.0
"""Real seconds without a step after which a thread counts as waiting for something unknown."""

_STEPS_WINDING_UP = 10_000


class Abandoned(BaseException):
    """Raised in a thread that is to end because the interleaving is over."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong, and the exception if it was one. `in_setup`: before anything ran side by side.

    `is_stuck`: it took all the patience there is to find out.
    """

    what: str
    cause: BaseException | None = None
    in_setup: bool = False
    is_stuck: bool = False


class Player:
    """A thread that takes part. `doing` is which task of its event loop it carries out."""

    __slots__ = ("baton", "doing", "gone", "has_ended", "ident", "is_staged", "name", "ready", "tasks", "until")

    def __init__(self, name: str, is_staged: bool) -> None:
        self.name = name
        self.is_staged = is_staged
        self.doing = ""
        self.ident = 0
        self.baton = threading.Lock()
        self.baton.acquire()
        self.has_ended = False
        self.gone = threading.Event()
        self.ready: Callable[[], bool] | None = None
        self.until: float | None = None
        self.tasks: Callable[[], Iterable[str]] | None = None

    def can_go(self, now: float) -> bool:
        return self.ready is None or self.ready() or (self.until is not None and self.until <= now)

    def __str__(self) -> str:
        return f"{self.name} / {self.doing}" if self.doing else self.name


class Scheduler:
    """Carries out one interleaving."""

    def __init__(self, choices: Choices, crew: Crew, lines: Lines, max_steps: int, story: Story | None = None) -> None:
        self.choices = choices
        self.now = 0.0
        self.steps = 0
        self.is_over = False
        self.at_rest = False
        self.fault: Fault | None = None
        self._story = story
        self._crew = crew
        self._lines = lines
        self._max_steps = max_steps
        self._players: list[Player] = []
        self._names: dict[str, int] = {}
        self._done = threading.Lock()
        self._done.acquire()
        self._director: Player | None = None
        self._running: Player | None = None
        self._is_traced = False

    # -- from outside ------------------------------------------------------------------------------------------------

    def perform(self, direct: Callable[[], object]) -> Fault | None:
        """Run `direct` in a thread of its own, and all that it starts; what went wrong, None if nothing did."""
        director = self._director = self._running = self.start(direct, "scenario")
        try:
            director.baton.release()
            seen = -1
            while not self._done.acquire(timeout=PATIENCE):
                if self.steps == seen:
                    self._tell_of_unknown_wait()
                    break
                seen = self.steps
        finally:
            self._wind_up()
        return self.fault

    def _tell_of_unknown_wait(self) -> None:
        player = self._running
        assert player is not None
        where = place_of(frame_of(player.ident))
        self.fault = Fault(f"{player} waits for something that is not explored, at {where}", is_stuck=True)
        self.is_over = True
        self._forget(player)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(player.ident), ctypes.py_object(Abandoned))

    def _forget(self, player: Player) -> None:
        with suppress(ValueError):  # the one that is given up may end in the same moment
            self._players.remove(player)

    def _wind_up(self) -> None:
        self.is_over = True
        while self._players:
            player = self._running = self._players.pop()
            self.steps = 0
            player.baton.release()
            if not player.gone.wait(PATIENCE):
                where = place_of(frame_of(player.ident))
                self.fault = Fault(f"{player} does not end when all is over, at {where}", is_stuck=True)
                return

    # -- what the stand-ins are made of --------------------------------------------------------------------------------

    @property
    def story(self) -> Story | None:
        """Where to tell what happens, if anybody wants to know; winding up is not told."""
        return None if self.is_over else self._story

    @property
    def has_turn(self) -> bool:
        """Whether the calling thread is the one that runs: others take no part, and are to be served as usual."""
        return self._running is not None and self._running.ident == get_ident()

    def start(self, work: Callable[[], object], name: str, *, is_staged: bool = False) -> Player:
        """A new thread that takes part; it goes on when it is chosen. `is_staged`: the scenario waits for its end."""
        count = self._names[name] = self._names.get(name, 0) + 1
        player = Player(name if count == 1 else f"{name} #{count}", is_staged)
        if len(self._players) > 1 and not self._is_traced:
            self._is_traced = True
            if self._running is not self._director:
                self._lines.watch()
        self._players.append(player)
        self._crew.start(partial(self._live, player, work))
        return player

    def point(self) -> None:
        """The calling thread could go on, and may be left here."""
        me = self._running
        if me is None or me.ident != get_ident():
            return
        self._step(me)
        if len(self._players) == 1 or self.is_over:
            return
        others, late = self._who_can_go(me)
        options = 1 + len(others) + (late is not None)
        option = self.choices.choose(options, 1) if options > 1 else 0
        if option == 0:
            return
        self._tell(me, "is left before")
        self._hand_over(others[option - 1] if option <= len(others) else self._let_pass(late))
        me.baton.acquire()

    def block(
        self,
        ready: Callable[[], bool],
        until: float | None = None,
        tasks: Callable[[], Iterable[str]] | None = None,
    ) -> bool:
        """Wait until `ready()`; False when `until` came first. `tasks` tells what waits in the calling thread."""
        me = self._running
        assert me is not None
        assert me.ident == get_ident()
        if until is not None and until - self.now >= NEVER:
            until = None
        me.ready, me.until, me.tasks = ready, until, tasks
        while not me.can_go(self.now):
            if self.is_over:
                raise Abandoned
            self._step(me)
            self._tell(me, "waits at" if tasks is None else "has nothing to do")
            to = self._next()
            if to is None:
                self._fail(me, self._deadlock())
            elif to is not me:
                self._hand_over(to)
                me.baton.acquire()
        me.ready = me.until = me.tasks = None
        return ready()

    def choose(self, options: int) -> int:
        """Which of so many things the calling thread does next; any but the first costs a preemption."""
        return self.choices.choose(options, 1) if options > 1 and not self.is_over else 0

    @contextmanager
    def doing(self, what: str) -> Generator[Callable[[str], None]]:
        """For the story: the calling thread carries out this; gives what tells where that stopped."""
        me, story = self._running, self.story
        assert me is not None
        assert story is not None
        me.doing = what
        who = str(me)
        try:
            yield lambda until: story.add(who, until)
        finally:
            me.doing = ""

    # -- who is next ---------------------------------------------------------------------------------------------------

    def _next(self) -> Player | None:
        """Whom to hand over to when the one that runs cannot go on; None when nobody can."""
        able, late = self._who_can_go()
        if able:
            options = len(able) + (late is not None)
            option = self.choices.choose(options, len(able)) if options > 1 else 0
            return able[option] if option < len(able) else self._let_pass(late)
        if late is not None:
            return self._let_pass(late)
        if not self.at_rest and not any(player.is_staged for player in self._players):
            self.at_rest = True
            return self._director
        return None

    def _who_can_go(self, but: Player | None = None) -> tuple[list[Player], Player | None]:
        """All that can go on, and of the others the one that waits for the earliest time."""
        now = self.now
        able: list[Player] = []
        late: Player | None = None
        for player in self._players:
            if player is but:
                continue
            if player.ready is None or player.can_go(now):
                able.append(player)
            elif player.until is not None and (late is None or player.until < (late.until or 0)):
                late = player
        return able, late

    def _let_pass(self, late: Player | None) -> Player:
        assert late is not None
        assert late.until is not None
        if self.story is not None:
            self.story.add("time", f"goes on by {late.until - self.now:g} s")
        self.now = late.until
        return late

    def _hand_over(self, to: Player) -> None:
        self._running = to
        to.baton.release()

    # -- one thread ----------------------------------------------------------------------------------------------------

    def _live(self, me: Player, work: Callable[[], object]) -> None:
        me.ident = get_ident()
        me.baton.acquire()
        fault: Fault | None = None
        try:
            if not self.is_over:
                if self._is_traced and me is not self._director:
                    self._lines.watch()
                work()
        except Abandoned:
            pass
        except BaseException as error:  # whatever it is, it is a player's, and for whoever explores
            in_setup = me is self._director and not self._names.keys() - {"scenario"}
            fault = Fault(f"{me.name} raises {type(error).__name__}: {error}", error, in_setup)
        finally:
            sys.settrace(None)
        me.has_ended = True
        self._leave(me, fault)
        me.gone.set()

    def _leave(self, me: Player, fault: Fault | None) -> None:
        if self.is_over:
            return
        self._forget(me)
        if self.story is not None:
            self.story.add(str(me), "ends" if fault is None else "raises")
        to = None
        if fault is None and me is not self._director:
            to = self._next()
            fault = self._deadlock() if to is None else None
        if to is None:
            self.fault = fault
            self.is_over = True
            self._done.release()
        else:
            self._hand_over(to)

    def _step(self, me: Player) -> None:
        self.steps += 1
        if self.is_over:
            if self.steps > _STEPS_WINDING_UP:
                raise Abandoned
        elif self.steps > self._max_steps:
            self._fail(
                me, Fault(f"no end after {self._max_steps} steps; the last is {me} at {place_of(currentframe())}")
            )

    def _fail(self, me: Player, fault: Fault) -> None:
        self.fault = fault
        self.is_over = True
        self._done.release()
        me.baton.acquire()
        raise Abandoned

    def _deadlock(self) -> Fault:
        lines: list[str] = []
        for player in self._players:
            if player is self._director and not self.at_rest:
                continue
            if player.tasks is None:
                lines.append(f"{player.name} waits at {way_to(frame_of(player.ident))}")
            else:
                lines += [f"{player.name}: {task}" for task in player.tasks()]
        return Fault("\n  ".join(["deadlock, nobody can go on:", *lines]))

    def _tell(self, me: Player, how: str) -> None:
        if self.story is not None and (me is not self._director or self.at_rest):
            self.story.add(str(me), how if me.tasks is not None else f"{how} {place_of(currentframe())}")
