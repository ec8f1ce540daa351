"""The lifecycle table: what every ask returns and leaves behind, open and closed."""

from __future__ import annotations

import re
import threading
import uuid
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from handrail.errors import UsageError
from handrail.run import Run, RunDriver

from ._kit import PATIENCE, TERMINALS, Completed, Crew, Said, check_order, elsewhere
from ._model import Pair, check_every_sequence


def test_every_short_sequence_of_asks_does_what_the_table_says() -> None:
    """R-1, R-2, R-3: all 4,096 sequences of four asks, each step compared with the model."""
    assert check_every_sequence(4) == 8**4


class Lifecycle(RuleBasedStateMachine):
    """R-1, R-2, R-3, R-70: long random lives of one run against the model of the table."""

    outcomes = st.sampled_from(["completed", "failed", "cancelled"])
    names = st.sampled_from(["", "model", "tool", "schlüssel"])

    @initialize()
    def make(self) -> None:
        self.pair = Pair()

    @rule(text=st.text(max_size=3))
    def emit(self, text: str) -> None:
        self.pair.emit(text)

    @rule(outcome=outcomes)
    def emit_terminal(self, outcome: str) -> None:
        self.pair.emit_terminal(outcome)

    @rule(outcome=outcomes)
    def finish(self, outcome: str) -> None:
        self.pair.finish(outcome)

    @rule(outcome=outcomes)
    def finish_unsaid(self, outcome: str) -> None:
        self.pair.finish_unsaid(outcome)

    @rule()
    def finish_non_terminal(self) -> None:
        self.pair.finish_non_terminal()

    @rule()
    def cancel(self) -> None:
        self.pair.cancel()

    @rule(name=names)
    def begin(self, name: str) -> None:
        self.pair.begin(name)

    @rule()
    def end(self) -> None:
        self.pair.end()

    def teardown(self) -> None:
        if not self.pair.run.is_done:
            self.pair.finish()
        while self.pair.run.open_work:
            self.pair.end()
        assert self.pair.run.drained.is_set
        texts = [event.text for event in self.pair.run.events.so_far()]
        assert [event.text for event in self.pair.run.events] == texts


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, derandomize=True)


def test_two_asks_never_interleave() -> None:
    """R-1: while one thread is inside `stamped`, an emit of another thread waits and comes behind it."""
    driver: RunDriver[Said] = RunDriver()
    inside, second_called, order = threading.Event(), threading.Event(), []

    class Slow(Said):
        def stamped(self, run_id: str, seq: int) -> Said:
            inside.set()
            second_called.wait(PATIENCE)
            order.append("first")
            return Said("first", run_id, seq)

    class Quick(Said):
        def stamped(self, run_id: str, seq: int) -> Said:
            order.append("second")
            return Said("second", run_id, seq)

    def second() -> bool:
        inside.wait(PATIENCE)
        second_called.set()
        return driver.emit(Quick())

    crew = Crew()
    crew.start(driver.emit, Slow())
    crew.start(second)
    assert crew.join() == [True, True]
    assert order == ["first", "second"]
    driver.finish(Completed())
    assert [(e.text, e.seq) for e in driver.run.events] == [("first", 0), ("second", 1), ("", 2)]


@pytest.mark.parametrize("ask", ["emit", "finish", "cancel", "begin_work", "end_work"])
@pytest.mark.parametrize("raises", [False, True], ids=["closing", "stamp raises"])
def test_an_ask_of_another_thread_waits_for_a_finish_that_is_being_decided(ask: str, raises: bool) -> None:
    """R-1, R-40: its answer is that of the run it finds afterwards, closed or, if the stamp raised, still open."""
    driver: RunDriver[Said] = RunDriver()
    driver.begin_work("w")
    asks: dict[str, Any] = {
        "emit": lambda: driver.emit(Said("second")),
        "finish": lambda: driver.finish(Completed("second")),
        "cancel": driver.run.cancel,
        "begin_work": lambda: driver.begin_work("second"),
        "end_work": driver.end_work,
    }
    inside, called, answered = threading.Event(), threading.Event(), threading.Event()
    before: list[bool] = []

    class Slow(Completed):
        def stamped(self, run_id: str, seq: int) -> Said:
            inside.set()
            called.wait(PATIENCE)
            before.append(answered.wait(0.02))
            if raises:
                raise ValueError("no stamp")
            return Completed(self.text, run_id, seq)

    def first() -> object:
        try:
            return driver.finish(Slow("first"))
        except ValueError:
            return None

    def second() -> object:
        inside.wait(PATIENCE)
        called.set()
        answer = asks[ask]()
        answered.set()
        return answer

    crew = Crew()
    crew.start(first)
    crew.start(second)
    answers = crew.join()
    assert before == [False]
    is_asked_for_an_answer = ask in ("emit", "finish", "begin_work")
    assert answers == [None if raises else True, raises if is_asked_for_an_answer else None]
    assert driver.run.is_cancelled is (ask == "cancel" and raises)
    assert len(driver.run.open_work) == 1 + (ask == "begin_work" and raises) - (ask == "end_work")
    driver.finish(Completed())
    check_order(driver.run.events, driver.run.id)


def test_nothing_of_the_users_runs_inside_the_critical_section() -> None:
    """R-1, R-48, R-62: hook and callback ask the run from another thread and get their answer while they run."""
    answers: list[tuple[str, object]] = []

    def ask_from_elsewhere(who: str) -> None:
        answers.append((who, elsewhere(driver.emit, Said(who))))

    driver: RunDriver[Said] = RunDriver(on_cancel=lambda: ask_from_elsewhere("hook"))
    called = threading.Event()

    def callback(event: Said) -> None:
        if event.text == "go":
            ask_from_elsewhere("callback")
            called.set()

    driver.run.events.subscribe(callback)
    driver.emit(Said("go"))
    assert called.wait(PATIENCE)
    driver.run.cancel()
    assert answers == [("callback", True), ("hook", True)]
    driver.finish(Completed())


@pytest.mark.parametrize("terminal", TERMINALS)
@pytest.mark.parametrize("asked", [False, True])
def test_status_moves_only_along(terminal: type[Said], asked: bool) -> None:
    """R-2: running, cancelling if asked, then the end, and there it stays."""
    driver: RunDriver[Said] = RunDriver()
    run = driver.run
    seen = [run.status]
    if asked:
        run.cancel()
        seen.append(run.status)
    driver.finish(terminal())
    seen.append(run.status)
    run.cancel()
    driver.emit(Said())
    driver.finish(Completed())
    seen.append(run.status)
    assert seen == ["running", *["cancelling"] * asked, terminal.ends, terminal.ends]


def test_is_done_can_be_polled_from_any_thread() -> None:
    """R-3: a thread that only polls sees it become True, together with the result."""
    driver: RunDriver[Said] = RunDriver()
    polling = threading.Event()

    def poll() -> bool:
        polls = 0
        while not driver.run.is_done:
            polls += 1
            if polls == 3:
                polling.set()
        return driver.run.result.is_set

    crew = Crew()
    crew.start(poll)
    assert polling.wait(PATIENCE)
    assert not driver.run.is_done
    driver.finish(Completed())
    assert crew.join() == [True]


def test_id_is_the_given_one_or_a_fresh_uuid4() -> None:
    """R-4"""
    named: RunDriver[Said] = RunDriver(run_id="run-7")
    assert named.run.id == "run-7"
    others = [RunDriver[Said]() for _ in range(100)]
    ids = [driver.run.id for driver in others]
    assert len(set(ids)) == 100
    for text in ids:
        assert isinstance(text, str)
        assert uuid.UUID(text).version == 4
        assert str(uuid.UUID(text)) == text
    for driver in [named, *others]:
        driver.finish(None, outcome="completed")


def test_repr_shows_id_status_events_and_drained() -> None:
    """R-5: every fact is there, and changes with the run."""
    driver: RunDriver[Said] = RunDriver(run_id="run-x")
    run = driver.run
    before = repr(run)
    assert "run-x" in before
    assert "running" in before
    assert re.search(r"\b0\b", before)
    for _ in range(7):
        driver.emit(Said())
    driver.begin_work("tool")
    run.cancel()
    assert "cancelling" in repr(run)
    assert re.search(r"\b7\b", repr(run))
    driver.finish(Completed())
    working = repr(run)
    assert "completed" in working
    assert re.search(r"\b8\b", working)
    driver.end_work()
    assert repr(run) != working
    assert "drained" in repr(run)


def test_repr_does_not_wait_while_another_thread_holds_the_run(gate: threading.Event) -> None:
    """R-5: also from inside the critical section, and from a second thread at that time."""
    driver: RunDriver[Said] = RunDriver(run_id="run-9")
    inside = threading.Event()
    texts: list[str] = []

    class Holding(Said):
        def stamped(self, run_id: str, seq: int) -> Said:
            texts.append(repr(driver.run))
            inside.set()
            gate.wait(PATIENCE)
            return Said("held", run_id, seq)

    crew = Crew()
    crew.start(driver.emit, Holding())
    assert inside.wait(PATIENCE)
    texts.append(elsewhere(repr, driver.run))
    texts.append(elsewhere(str, driver.run))
    assert not driver.run.is_done
    gate.set()
    crew.join()
    assert all("run-9" in text for text in texts)
    driver.finish(Completed())


def test_a_consumer_cannot_make_or_end_a_run() -> None:
    """R-6"""
    with pytest.raises(TypeError, match="RunDriver"):
        Run()
    driver: RunDriver[Said] = RunDriver()
    for name in ("emit", "finish", "begin_work", "end_work", "work", "driver"):
        assert not hasattr(driver.run, name)
    public = {name for name in dir(driver.run) if not name.startswith("_")}
    assert public == {
        *("id", "events", "result", "cancellation", "drained", "status"),
        *("is_done", "is_cancelled", "cancel", "open_work"),
    }
    driver.finish(Completed())


def test_a_runs_facts_cannot_be_set_from_outside() -> None:
    """R-6: what a consumer reads, it cannot write."""
    driver: RunDriver[Said] = RunDriver()
    for name in ("id", "events", "result", "cancellation", "drained", "status", "is_done", "is_cancelled", "open_work"):
        with pytest.raises(AttributeError):
            setattr(driver.run, name, None)
    driver.finish(Completed())
    assert driver.run.status == "completed"


def test_one_driver_has_one_run() -> None:
    """R-1: `driver.run` is the same handle every time."""
    driver: RunDriver[Said] = RunDriver()
    assert driver.run is driver.run
    assert isinstance(driver.run, Run)
    driver.finish(Completed())


def test_misuse_changes_nothing() -> None:
    """R-22, R-23 and the table: every wrong ask is refused with a sentence, and the run is as it was."""
    pair = Pair()
    pair.emit("a")
    pair.begin("tool")
    driver = pair.driver
    wrong: list[tuple[Any, str, Any]] = [
        (UsageError, "finish", lambda: driver.emit(Completed())),
        (UsageError, "emit", lambda: driver.finish(Said())),
        (UsageError, "outcome", lambda: driver.finish(Completed(), outcome="completed")),
        (UsageError, "outcome", lambda: driver.finish(None)),
        ((UsageError, ValueError), "stopped", lambda: driver.finish(None, outcome="stopped")),
        (ValueError, "reason", lambda: driver.finish(None, outcome="failed", reason="tired")),
        (TypeError, "int", lambda: driver.finish(None, outcome="failed", messages=5)),
        (TypeError, "on_cancel", lambda: RunDriver(on_cancel="not callable")),
        (TypeError, "verdict", lambda: RunDriver(verdict="not callable")),
        (TypeError, "run_id", lambda: RunDriver(run_id=7)),
        (TypeError, "positional", lambda: RunDriver("positional")),
        (TypeError, "function|callable", lambda: driver.run.events.subscribe("not callable")),
    ]
    for error, word, ask in wrong:
        with pytest.raises(error, match=word):
            ask()
        assert pair.facts() == pair.model.facts()
    pair.finish("completed")
    for ask in (lambda: driver.emit(Completed()), lambda: driver.finish(Said())):
        with pytest.raises(UsageError):
            ask()
        assert pair.facts() == pair.model.facts()
    pair.end()
    check_order(pair.run.events, pair.run.id)
