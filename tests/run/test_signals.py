"""A signal handler or a finaliser at every place of the handle's code where the interpreter would let one in.

CPython looks for signals behind calls, at the start of a function and where a loop jumps back, and collects garbage
where it makes a container. Here a trace function stands in for either: it runs the handler at the n-th such place in
the code of `handrail.run`, in the same thread, and each scenario is repeated for every n there is. What a lucky signal
would hit once in a million runs is hit in each.
"""

from __future__ import annotations

import dis
import sys
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import anyio
import pytest

from handrail.run import RunDriver, Settled
from handrail.run._settled import settle
from handrail.run._waiters import Waiters

from ._kit import PATIENCE, Completed, Crew, Said, check_order, elsewhere, turns

LOOKS = ("CALL", "RESUME", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")
COLLECTS = ("BUILD_", "LIST_", "DICT_", "MAP_")
"""Where the collector may run, and with it a finaliser, until Python 3.12."""


_TRACED: set[CodeType] = set()


class Interrupting:
    """Calls `handler` once, at the n-th place; `fired` says whether there was one.

    `is_warm` says whether every function that came by had been traced before: if not, the same place is to be tried
    again. `warm` is called first, with tracing on, for an act that calls each of its functions only once.
    """

    def __init__(self, place: int, handler: Callable[[], object]) -> None:
        self.left = place
        self.handler = handler
        self.fired = False
        self._looking: dict[FrameType, bool] = {}
        self._codes: dict[Any, set[int]] = {}
        self.is_warm = True

    def run(self, act: Callable[[], object], warm: Callable[[], object] = lambda: None) -> object:
        before, place = sys.gettrace(), self.left
        sys.settrace(self.enter)
        try:
            self.left = sys.maxsize
            warm()
            self.left = place
            return act()
        finally:
            sys.settrace(before)

    def enter(self, frame: FrameType, kind: str, _arg: object) -> Any:
        if not frame.f_globals.get("__name__", "").startswith("handrail.run"):
            return None
        if frame.f_code not in _TRACED:  # CPython 3.12 and 3.13 report no steps of a function's first traced call
            _TRACED.add(frame.f_code)
            self.is_warm = False
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: FrameType, kind: str, _arg: object) -> Any:
        if kind == "opcode" and not self.fired:
            if self._looking.pop(frame, False):
                self.left -= 1
                if self.left < 0:
                    self.fired = True
                    self.handler()
            self._looking[frame] = frame.f_lasti in self._places(frame)
        elif kind == "return":
            self._looking.pop(frame, None)
        return self._step

    def _places(self, frame: FrameType) -> set[int]:
        code = frame.f_code
        if code not in self._codes:
            self._codes[code] = {i.offset for i in dis.get_instructions(code) if i.opname.startswith(LOOKS + COLLECTS)}
        return self._codes[code]


class Scene:
    """A driver whose hook finds out whether the critical section is free while it runs."""

    def __init__(self) -> None:
        self.hooked = 0
        self.free: list[bool] = []
        self.driver: RunDriver[Said] = RunDriver(on_cancel=self._hook)
        self.run = self.driver.run

    def _hook(self) -> None:
        self.hooked += 1
        before = sys.gettrace()
        sys.settrace(None)
        crew = Crew()
        crew.start(self.driver.begin_work, "hook")
        try:
            if crew.join()[0]:
                self.driver.end_work()
            self.free.append(True)
        except AssertionError:
            self.free.append(False)
        sys.settrace(before)

    def check(self) -> None:
        """Facts that hold wherever the interruption was; the run is over."""
        assert self.free == [True] * self.hooked
        assert self.hooked == self.run.is_cancelled == self.run.cancellation.is_set
        assert self.run.is_done
        assert self.run.result.value.outcome == self.run.status
        assert self.run.open_work == ()
        assert self.run.drained.is_set
        assert elsewhere(self.driver.emit, Said("late")) is False
        check_order(self.run.events, self.run.id)


def emit_and_finish(scene: Scene) -> None:
    assert scene.driver.emit(Said("a")) is True
    assert scene.driver.finish(Completed()) is True


def work_and_finish(scene: Scene) -> None:
    with scene.driver.work("paired"):
        assert scene.driver.begin_work("unpaired") is True
        scene.driver.end_work()
    assert scene.driver.finish(Completed()) is True


def cancel_and_finish(scene: Scene) -> None:
    scene.run.cancel()
    assert scene.driver.finish(Completed()) is True


def finish_with_work_open(scene: Scene) -> None:
    scene.driver.begin_work("w")
    assert scene.driver.finish(Completed()) is True
    scene.driver.end_work()


def look_and_finish(scene: Scene) -> None:
    with pytest.raises(TimeoutError):
        scene.run.result.wait(0.0005)
    assert scene.run.events.so_far() == ()
    scene.driver.finish(Completed())
    assert scene.run.result.wait(PATIENCE).ok
    assert len(list(scene.run.events)) == 1


SCENARIOS = [emit_and_finish, work_and_finish, cancel_and_finish, finish_with_work_open, look_and_finish]


def everywhere(scenario: Callable[[Scene], None], handler: Callable[[Scene], Callable[[], object]]) -> int:
    """Play the scenario once for every place; the number of places."""
    place = 0
    while True:
        scene = Scene()
        interruption = Interrupting(place, handler(scene))
        interruption.run(lambda scene=scene: scenario(scene))
        scene.check()
        if not interruption.fired and interruption.is_warm:
            return place
        if not interruption.fired:
            continue
        place += 1


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_cancel_at_every_place(scenario: Callable[[Scene], None]) -> None:
    """R-61, R-62: no deadlock, no lost cancel, and the hook once, outside the critical section."""
    assert everywhere(scenario, lambda scene: scene.run.cancel) > 10


@pytest.mark.parametrize("scenario", [emit_and_finish, work_and_finish, cancel_and_finish, finish_with_work_open])
def test_sections_and_cancel_from_a_finaliser_at_every_place(scenario: Callable[[Scene], None]) -> None:
    """R-84, R-73: what `__del__` methods do (open, end, cancel), in the middle of whatever the thread was doing."""

    def handler(scene: Scene) -> Callable[[], object]:
        def dying() -> None:
            with scene.driver.work("finaliser"):
                pass
            scene.run.cancel()

        return dying

    assert everywhere(scenario, handler) > 10


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_is_seen_at_every_place_is_never_half_done(scenario: Callable[[Scene], None]) -> None:
    """R-24, R-70, R-3: whoever looks at any moment and sees the terminal event, or `drained`, sees the result."""
    seen: list[tuple[bool, bool, bool]] = []

    def looking(scene: Scene) -> Callable[[], object]:
        def look() -> None:
            ended = any(event.ends for event in scene.run.events.so_far())
            drained = scene.run.drained.is_set
            seen.append((ended, drained, scene.run.result.is_set))
            assert scene.run.is_done is scene.run.result.is_set
            assert repr(scene.run)

        return look

    everywhere(scenario, looking)
    assert all(result for ended, drained, result in seen if ended or drained)
    assert len(set(seen)) > 1


def test_a_finish_from_a_finaliser_at_every_place() -> None:
    """R-84, R-1: two ends, one of them inside the other; one wins, and everybody is told the truth."""
    place, outer_won, inner_won = 0, 0, 0
    while True:
        scene = Scene()
        answers: list[bool] = []

        def dying(scene: Scene = scene, answers: list[bool] = answers) -> None:
            answers.append(scene.driver.finish(Completed("inner"), final="inner"))
            answers.append(scene.driver.emit(Said("late")))

        def outer(scene: Scene = scene, answers: list[bool] = answers) -> bool:
            return scene.driver.finish(Completed("outer"), final="outer")

        interruption = Interrupting(place, dying)
        won = interruption.run(outer)
        scene.check()
        if not interruption.fired and interruption.is_warm:
            break
        if not interruption.fired:
            continue
        assert sorted([won, answers[0]]) == [False, True]
        assert answers[1] is False
        assert scene.run.result.value.final == ("outer" if won else "inner")
        outer_won, inner_won, place = outer_won + bool(won), inner_won + answers[0], place + 1
    assert outer_won
    assert inner_won


def test_an_emit_from_a_finaliser_at_every_place() -> None:
    """R-84, R-41: accepted means it is in the log, refused that it is not; around an emit and around a finish."""
    place, accepted, refused = 0, 0, 0
    while True:
        scene = Scene()
        answers: list[bool] = []

        def dying(scene: Scene = scene, answers: list[bool] = answers) -> None:
            answers.append(scene.driver.emit(Said("inner")))

        interruption = Interrupting(place, dying)
        interruption.run(lambda scene=scene: emit_and_finish(scene))
        scene.check()
        if not interruption.fired and interruption.is_warm:
            break
        if not interruption.fired:
            continue
        assert [event.text for event in scene.run.events].count("inner") == answers.count(True)
        accepted, refused, place = accepted + answers.count(True), refused + answers.count(False), place + 1
    assert accepted
    assert refused


def test_an_interrupt_at_every_place_of_an_emit() -> None:
    """R-1, R-15: a KeyboardInterrupt leaves the run usable for every thread; the event is in the log or it is not."""
    place = 0

    other: RunDriver[Said] = RunDriver()

    def interrupt() -> None:
        raise KeyboardInterrupt

    while True:
        scene = Scene()
        interruption = Interrupting(place, interrupt)
        try:
            interruption.run(lambda scene=scene: scene.driver.emit(Said("a")), warm=lambda: other.emit(Said("warm")))
        except KeyboardInterrupt:
            assert interruption.fired
        assert elsewhere(scene.driver.emit, Said("b")) is True
        assert [event.text for event in scene.run.events.so_far()] in (["a", "b"], ["b"])
        scene.run.cancel()
        scene.driver.finish(Completed())
        scene.check()
        if not interruption.fired and interruption.is_warm:
            break
        if not interruption.fired:
            continue
        place += 1
    assert place > 3
    other.finish(Completed())


def test_a_waiter_is_not_left_behind_wherever_waking_is_interrupted() -> None:
    """R-11, R-84: a waking inside a waking; the thread that both woke waits again, and the third reaches it."""
    place = 0
    while True:
        waiters, said = Waiters(), 0
        crew = Crew()

        def wait_for_three(waiters: Waiters = waiters) -> None:
            for number in (1, 2, 3):
                assert waiters.block_until(lambda number=number: said >= number, 2 * PATIENCE)  # noqa: B023

        def again(waiters: Waiters = waiters) -> None:
            nonlocal said
            said = 2
            waiters.wake_all()
            is_waiting(waiters)

        crew.start(wait_for_three)
        is_waiting(waiters)
        said = 1
        interruption = Interrupting(place, again)
        interruption.run(waiters.wake_all, warm=Waiters().wake_all)
        is_waiting(waiters)
        for said in (2, 3):  # noqa: B007 - the thread looks at it
            waiters.wake_all()
        crew.join()
        if not interruption.fired and interruption.is_warm:
            break
        if not interruption.fired:
            continue
        place += 1
    assert place > 3


def is_waiting(waiters: Waiters) -> None:
    """Return when a waiter is registered."""
    until = time.monotonic() + PATIENCE / 10
    while not waiters.wakers and time.monotonic() < until:
        time.sleep(0)


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_a_value_set_at_every_place_of_a_wait(library: str) -> None:
    """R-61, R-11: before the waiter is registered, on its way to sleep, in between: it is woken all the same."""

    async def once(place: int) -> bool:
        settled: Settled[int] = Settled()
        interruption = Interrupting(place, lambda: settle(settled, 1))

        async def otherwise() -> None:
            await turns(20)
            if not interruption.fired:
                sys.settrace(None)
                settle(settled, 1)

        with anyio.fail_after(PATIENCE / 10):
            async with anyio.create_task_group() as group:
                group.start_soon(otherwise)
                sys.settrace(interruption.enter)
                try:
                    assert await settled == 1
                finally:
                    sys.settrace(None)
        return interruption.fired or not interruption.is_warm

    async def main() -> int:
        place = 0
        while await once(place):
            place += 1
        return place

    assert elsewhere(lambda: anyio.run(main, backend=library)) > 10
