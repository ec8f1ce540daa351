"""The lifecycle table of the specification as a model of a few lines, and a driver that is compared with it.

The model knows nothing of threads, loops or readers: it says what each ask returns and what can be read afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from handrail.errors import UsageError
from handrail.run import RunDriver

from ._kit import Cancelled, Completed, Failed, Said

REFUSED = "refused with UsageError"
TERMINALS = {"completed": Completed, "failed": Failed, "cancelled": Cancelled}


class Model:
    """What the table says, in plain lists."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.sections: list[str] = []
        self.asked = False
        self.outcome: str | None = None

    @property
    def closed(self) -> bool:
        return self.outcome is not None

    def emit(self, text: str) -> bool:
        if not self.closed:
            self.texts.append(text)
        return not self.closed

    def finish(self, outcome: str, *, terminal: bool) -> bool:
        if self.closed:
            return False
        self.outcome = outcome
        if terminal:
            self.texts.append(outcome)
        return True

    def cancel(self) -> None:
        self.asked = self.asked or not self.closed

    def begin(self, name: str) -> bool:
        if not self.closed:
            self.sections.append(name)
        return not self.closed

    def end(self) -> None:
        if self.sections:
            self.sections.pop()

    def facts(self) -> dict[str, Any]:
        return {
            "texts": self.texts,
            "status": self.outcome or ("cancelling" if self.asked else "running"),
            "is_done": self.closed,
            "result": self.outcome,
            "is_cancelled": self.asked,
            "cancellation": self.asked,
            "hooked": int(self.asked),
            "open_work": tuple(self.sections),
            "drained": self.closed and not self.sections,
        }


class Pair:
    """A real driver beside the model: every ask goes to both, and after it both must show the same."""

    def __init__(self) -> None:
        self.hooked = 0
        self.model = Model()
        self.driver: RunDriver[Said] = RunDriver(on_cancel=self._hook)
        self.run = self.driver.run

    def _hook(self) -> None:
        self.hooked += 1

    def facts(self) -> dict[str, Any]:
        run = self.run
        return {
            "texts": [event.text for event in run.events.so_far()],
            "status": run.status,
            "is_done": run.is_done,
            "result": run.result.value.outcome if run.result.is_set else None,
            "is_cancelled": run.is_cancelled,
            "cancellation": run.cancellation.is_set,
            "hooked": self.hooked,
            "open_work": run.open_work,
            "drained": run.drained.is_set,
        }

    def ask(self, real: Callable[[], object], expected: object) -> None:
        try:
            answer = real()
        except UsageError:
            answer = REFUSED
        assert answer == expected
        assert answer is expected or not isinstance(expected, bool)
        assert self.facts() == self.model.facts()

    def emit(self, text: str = "x") -> None:
        self.ask(lambda: self.driver.emit(Said(text)), self.model.emit(text))

    def emit_terminal(self, outcome: str = "completed") -> None:
        self.ask(lambda: self.driver.emit(TERMINALS[outcome](outcome)), REFUSED)

    def finish(self, outcome: str = "completed") -> None:
        self.ask(
            lambda: self.driver.finish(TERMINALS[outcome](outcome)),
            self.model.finish(outcome, terminal=True),
        )

    def finish_unsaid(self, outcome: str = "failed") -> None:
        self.ask(lambda: self.driver.finish(None, outcome=outcome), self.model.finish(outcome, terminal=False))

    def finish_non_terminal(self) -> None:
        self.ask(lambda: self.driver.finish(Said("no end")), REFUSED)

    def cancel(self) -> None:
        self.ask(self.run.cancel, self.model.cancel())

    def begin(self, name: str = "w") -> None:
        self.ask(lambda: self.driver.begin_work(name), self.model.begin(name))

    def end(self) -> None:
        self.ask(self.driver.end_work, self.model.end())


ASKS = (
    Pair.emit,
    Pair.emit_terminal,
    Pair.finish,
    Pair.finish_unsaid,
    Pair.finish_non_terminal,
    Pair.cancel,
    Pair.begin,
    Pair.end,
)


def check_every_sequence(length: int, asks: Sequence[Callable[[Pair], None]] = ASKS) -> int:
    """Every sequence of asks of this length, each against the model; the number of sequences."""
    sequences = 0
    for sequence in itertools.product(asks, repeat=length):
        pair = Pair()
        for ask in sequence:
            ask(pair)
        if not pair.run.is_done:  # a driver that is dropped unfinished would warn
            pair.finish()
        sequences += 1
    return sequences
