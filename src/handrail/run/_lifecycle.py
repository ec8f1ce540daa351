"""The lifecycle of a run: what each ask does in each phase. A table and nothing else.

A run is in one of three phases. `RUNNING` becomes `CANCELLING` when somebody asks for an end that the driver has not
brought about yet, and both become `OVER` when the driver finishes. There is no way back from any of them, and no way
from `OVER` to anywhere: that is the whole of "a run ends exactly once".

Seven things can be asked of a run. Whether an event is terminal is known before the table is read, so the two forms of
`emit` and of `finish` are asks of their own: publishing a terminal event by `emit`, or finishing with one that is not
terminal, is misuse in every phase.

Each cell says what is to be done (`Do`), which phase follows, and what the caller is told (None: nothing). Whoever
acts on the table (see `_run`) decides an ask by reading one cell inside the run's one critical section, and so no two
asks can interleave: of a cancel and a finish, or of two finishes, one is first and the other finds another row.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["TABLE", "Cell", "Do", "Phase", "Row"]


class Phase(Enum):
    """Where a run is."""

    RUNNING = "running"
    CANCELLING = "cancelling"
    OVER = "over"


class Do(Enum):
    """What a cell has done."""

    NOTHING = "nothing"
    REFUSE = "refuse"  # misuse: UsageError, and nothing has happened
    APPEND = "append"  # the event takes its place in the log
    CLOSE = "close"  # result set, terminal appended, log closed, drained if no section is open
    CALL_OFF = "call-off"  # cancellation set, then the hook is called
    OPEN = "open"  # one more work section
    END = "end"  # one work section less; drained set when the run is over and it was the last


class Cell(NamedTuple):
    """One decision."""

    do: Do
    then: Phase
    answer: bool | None = None


class Row(NamedTuple):
    """All decisions of one phase."""

    emit: Cell
    emit_terminal: Cell
    finish: Cell
    finish_with_other: Cell
    cancel: Cell
    begin_work: Cell
    end_work: Cell


def _open_row(here: Phase, cancel: Cell) -> Row:
    return Row(
        emit=Cell(Do.APPEND, here, True),
        emit_terminal=Cell(Do.REFUSE, here),
        finish=Cell(Do.CLOSE, Phase.OVER, True),
        finish_with_other=Cell(Do.REFUSE, here),
        cancel=cancel,
        begin_work=Cell(Do.OPEN, here, True),
        end_work=Cell(Do.END, here),
    )


TABLE: Mapping[Phase, Row] = MappingProxyType(
    {
        Phase.RUNNING: _open_row(Phase.RUNNING, cancel=Cell(Do.CALL_OFF, Phase.CANCELLING)),
        Phase.CANCELLING: _open_row(Phase.CANCELLING, cancel=Cell(Do.NOTHING, Phase.CANCELLING)),
        Phase.OVER: Row(
            emit=Cell(Do.NOTHING, Phase.OVER, False),
            emit_terminal=Cell(Do.REFUSE, Phase.OVER),
            finish=Cell(Do.NOTHING, Phase.OVER, False),
            finish_with_other=Cell(Do.REFUSE, Phase.OVER),
            cancel=Cell(Do.NOTHING, Phase.OVER),
            begin_work=Cell(Do.NOTHING, Phase.OVER, False),
            end_work=Cell(Do.END, Phase.OVER),
        ),
    }
)
