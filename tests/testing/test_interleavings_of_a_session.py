"""A session's queue in every interleaving of its callers: tasks of one loop, loops in threads, and whoever stops it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from tests.client.kit import R, Session, session
from tests.testing.exploring import Explorer, Players, explored, found
from tests.transcript.events import ca, ce, cs, rf, rs, tc, te, ts

from handrail import Failed, Finished, RunState, SessionClosedError
from handrail.client._turns import Turns
from handrail.run import Settled
from handrail.run._settled import settle
from handrail.testing import check_messages
from handrail.transcript import Transcript

__all__ = ["explored"]


class Callers:
    """Calls of one session, what came of each, and what must be true of the session behind them all."""

    def __init__(self, calls: int) -> None:
        answers = ([rs(R), ts(f"m{n}"), tc(f"m{n}", f"answer {n}"), te(f"m{n}"), rf(R)] for n in range(calls))
        self.session: Session = session(*answers)
        self.called: list[str] = []
        self.came: dict[str, RunState | type[BaseException]] = {}
        self.versions: list[int] = []
        self.session.subscribe(lambda transcript: self.versions.append(transcript.version))

    async def send(self, text: str) -> None:
        self.called.append(text)
        try:
            self.came[text] = await self.session.send(text)
        except (anyio.get_cancelled_exc_class(), SessionClosedError) as error:
            self.came[text] = type(error)
            if not isinstance(error, SessionClosedError):
                raise

    def check(self) -> None:
        ours, agent = self.session, self.session.script
        assert not ours.busy
        assert ours._turns.is_free or ours._turns.is_closed, "S-39: the turn was never given back"
        assert not ours._turns._waiting
        assert all(run.is_done and run.drained.is_set for run in agent.runs), "S-155: a run of the agent was left"
        assert check_messages(ours.messages) == []
        turns = [message.content for message in ours.messages if message.role == "user"]
        assert turns == [text for text in self.called if text in turns], "S-39: not in the order of the calls"
        assert len(turns) == len(set(turns)), "S-29: a turn is there twice"
        shown = [message.text for message in ours.transcript.messages if message.role == "user"]
        assert shown == turns, "the screen and the history tell two stories"
        for number, asked in enumerate(agent.inputs):
            sent = [message.content for message in asked.messages if message.role == "user"]
            assert sent == turns[: len(sent)], "S-53: a request without what was said before"
            assert number == 0 or len(sent) > len(agent.inputs[number - 1].messages) // 2
        for text, state in self.came.items():
            if isinstance(state, Finished):
                assert state.ok
                assert text in turns
            elif isinstance(state, Failed):
                assert state.code == "CANCELLED"
        assert set(self.came) == set(self.called), "a call never came back"
        assert self.versions == sorted(set(self.versions)), "S-145: not in order"
        assert self.versions[-1:] in ([], [ours.transcript.version])


def calls_stopped_and_cancelled() -> Iterator[Players]:
    callers = Callers(3)

    async def user() -> None:
        async with anyio.create_task_group() as group:
            second = anyio.CancelScope()

            async def may_be_cancelled() -> None:
                with second:
                    await callers.send("two")

            async def stops() -> None:
                await anyio.lowlevel.checkpoint()
                callers.session.stop()

            async def cancels() -> None:
                await anyio.lowlevel.checkpoint()
                second.cancel()

            group.start_soon(callers.send, "one")
            group.start_soon(may_be_cancelled)
            group.start_soon(callers.send, "three")
            group.start_soon(stops)
            group.start_soon(cancels)

    yield [user]
    callers.check()


def calls_and_the_end() -> Iterator[Players]:
    callers = Callers(2)
    asked: list[int] = []

    async def end() -> None:
        await callers.session.aclose()
        assert not callers.session.busy
        asked.append(len(callers.session.script.inputs))

    async def user() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(callers.send, "one")
            group.start_soon(callers.send, "two")
            group.start_soon(end)

    yield [user]
    callers.check()
    assert asked == [len(callers.session.script.inputs)], "something was asked behind aclose"


def calls_and_the_end_elsewhere() -> Iterator[Players]:
    callers = Callers(2)
    asked: list[int] = []

    async def one() -> None:
        await callers.send("one")

    async def end() -> None:
        await callers.session.aclose()
        assert not callers.session.busy
        asked.append(len(callers.session.script.inputs))

    yield [one, end]
    callers.check()
    assert asked == [len(callers.session.script.inputs)], "something was asked behind aclose"


def a_reader_elsewhere() -> Iterator[Players]:
    callers = Callers(1)
    seen: list[Transcript] = []

    async def user() -> None:
        await callers.send("one")
        await callers.session.aclose()

    async def reader() -> None:
        seen.extend([transcript async for transcript in callers.session.changes()])

    yield [user, reader]
    assert all(before is not after for before, after in itertools.pairwise(seen))
    assert seen[-1] is callers.session.transcript


def calls_of_two_loops() -> Iterator[Players]:
    callers = Callers(2)

    async def one() -> None:
        await callers.send("one")

    async def two() -> None:
        await callers.send("two")

    yield [one, two, callers.session.stop]
    callers.called.sort(key=[m.content for m in callers.session.messages if m.role == "user"].index)
    callers.check()


def a_tool_and_a_stop() -> Iterator[Players]:
    executed: list[str] = []

    def note(words: str) -> str:
        """Write something down."""
        executed.append(words)
        return "noted"

    called = [cs("c1", "note"), ca("c1", '{"words": "fjord"}'), ce("c1")]
    said = [ts("m1"), tc("m1", "Noted."), te("m1")]
    ours = session([rs(R), *called, rf(R)], [rs(R), *said, rf(R)], tools=[note])
    states: list[RunState] = []

    async def user() -> None:
        states.append(await ours.send("one"))
        ours.script.push([rs(R), rf(R)])
        states.append(await ours.run())

    yield [user, ours.stop]
    assert len(states) == 2
    assert not ours.busy
    assert ours.still_running() == ()
    assert executed in ([], ["fjord"]), "S-77: a call was executed twice"
    for asked in ours.script.inputs:
        assert check_messages(asked.messages) == [], "S-57: a request carried a call without an answer"


def turns_of_two_loops() -> Iterator[Players]:
    turns = Turns()
    at_it: list[int] = []
    taken: list[int] = []

    async def takes() -> None:
        await turns.take()
        try:
            taken.append(len(taken))
            assert not at_it, "S-39: two at once"
            at_it.append(1)
            await anyio.lowlevel.checkpoint()
        finally:
            at_it.clear()
            turns.give()

    async def leaves() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(takes)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    def tries() -> None:
        if turns.try_take():
            assert not at_it, "S-39: two at once"
            turns.give()

    yield [takes, leaves, takes, tries]
    assert turns.is_free
    assert len(taken) in (2, 3)


def turns_and_the_end() -> Iterator[Players]:
    turns = Turns()
    turns.try_take()
    refused: list[bool] = []

    async def takes() -> None:
        try:
            await turns.take()
        except SessionClosedError:
            refused.append(True)

    yield [takes, turns.close]
    assert refused == [True], "S-51: whoever waits, or comes later, is refused"


SCENARIOS: dict[str, tuple[Any, int]] = {
    "stopped and cancelled": (calls_stopped_and_cancelled, 50),
    "closed": (calls_and_the_end, 50),
    "two loops": (calls_of_two_loops, 20),
    "a tool": (a_tool_and_a_stop, 20),
    "turns": (turns_of_two_loops, 70),
    "turns, closed": (turns_and_the_end, 70),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_queue(name: str, explored: Explorer) -> None:
    """S-39, S-41 to S-46, S-51, S-57, S-145, S-155: whatever comes in between, each call has its turn or none."""
    scenario, limit = SCENARIOS[name]
    assert explored(scenario, limit=limit, random=limit // 2).count >= limit


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [calls_and_the_end_elsewhere, a_reader_elsewhere])
def test_across_loops(scenario: Any, explored: Explorer) -> None:
    """S-51, S-144: nothing is asked behind `aclose`, and no reader has one transcript twice, on another loop either."""
    lines = ["handrail.client._session", "handrail.client._observe"]
    assert explored(scenario, limit=60, random=30, lines_of=lines).count >= 60


# -- planted bugs ------------------------------------------------------------------------------------------------------


def leave_with_the_turn(self: Turns, place: Settled[bool]) -> None:
    """`Turns._leave`, but who leaves in the moment in which the turn is handed to him keeps it."""
    with self._lock:
        if place in self._waiting:
            self._waiting.remove(place)


def try_take_unlocked(self: Turns) -> bool:
    """`Turns.try_take`, but it looks outside the lock."""
    if self._taken or self.is_closed:
        return False
    self._taken = True
    return True


def give_and_look(self: Turns) -> None:
    """`Turns.give`, but who comes between the look and the giving back is not seen."""
    if self._waiting:
        settle(self._waiting.popleft(), True)
    else:
        self._taken = False


def close_for_those_who_wait(self: Turns) -> None:
    """`Turns.close`, but who comes while the others are told is let in line."""
    while self._waiting:
        settle(self._waiting.popleft(), False)
    self.is_closed = True


PLANTED: dict[str, tuple[str, Any, Any, str]] = {
    "whoever leaves with the turn keeps it": ("_leave", leave_with_the_turn, calls_stopped_and_cancelled, "deadlock"),
    "two take the turn at once": ("try_take", try_take_unlocked, turns_of_two_loops, "S-39"),
    "a turn is given back unseen": ("give", give_and_look, turns_of_two_loops, "deadlock"),
    "the queue is closed behind a late one": ("close", close_for_those_who_wait, turns_and_the_end, "deadlock"),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """S-39, S-42, S-51: with the bug in place an interleaving fails, and fails again when it is replayed."""
    name, broken, scenario, told = PLANTED[bug]
    monkeypatch.setattr(Turns, name, broken)
    how = found(bug, scenario, told, lines_of=[__name__])
    with capsys.disabled():
        print(f"\n{how}", end="")
