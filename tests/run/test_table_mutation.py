"""The table decides, and the checks see all of it: whichever cell is changed, a short run shows it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import handrail.run._core
from handrail.run._lifecycle import TABLE, Cell, Do, Phase, Row

from ._model import check_every_sequence

LENGTH = 4
"""Three asks reach every cell, and a fourth shows what it did to the one behind it."""

ACTS = {
    "emit": Do.APPEND,
    "emit_terminal": Do.APPEND,
    "finish": Do.CLOSE,
    "finish_with_other": Do.CLOSE,
    "cancel": Do.CALL_OFF,
    "begin_work": Do.OPEN,
    "end_work": Do.END,
}
"""What each ask does where it is granted."""


def changes(phase: Phase, ask: str, cell: Cell) -> Iterator[Cell]:
    """The cell with its decision turned round, its answer turned round, or a move that leads elsewhere."""
    act = ACTS[ask]
    yield cell._replace(do=Do.NOTHING if cell.do is act else act)
    if cell.answer is not None:
        yield cell._replace(answer=not cell.answer)
    if cell.then is not phase:
        yield from (cell._replace(then=other) for other in Phase if other is not cell.then)


CASES = [
    pytest.param(phase, ask, cell, id=f"{phase.value}-{ask}-{cell.do.value}-{cell.then.value}-{cell.answer}")
    for phase in Phase
    for ask in Row._fields
    for cell in changes(phase, ask, getattr(TABLE[phase], ask))
]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a driver that was stopped in the middle is dropped unfinished
@pytest.mark.parametrize(("phase", "ask", "cell"), CASES)
def test_a_changed_cell_is_seen(monkeypatch: pytest.MonkeyPatch, phase: Phase, ask: str, cell: Cell) -> None:
    """R-1: the run acts on this cell, and the comparison with the model fails when it is another."""
    changed = {**TABLE, phase: TABLE[phase]._replace(**{ask: cell})}
    monkeypatch.setattr(handrail.run._core, "TABLE", changed)
    with pytest.raises(Exception):  # noqa: B017, PT011 - a difference from the model, or a run that breaks
        check_every_sequence(LENGTH)
    gc.collect()


def test_the_table_as_it_is_passes() -> None:
    """R-1: what the mutations are compared with; and it has a row for every phase and a cell for every ask."""
    assert check_every_sequence(3) == 8**3
    assert set(TABLE) == set(Phase)
    assert all(isinstance(cell, Cell) for row in TABLE.values() for cell in row)


def test_nobody_changes_the_table() -> None:
    """R-1: neither its rows nor its cells."""
    with pytest.raises(TypeError):
        TABLE[Phase.RUNNING] = TABLE[Phase.OVER]  # type: ignore[index]
    with pytest.raises(AttributeError):
        TABLE[Phase.RUNNING].emit = TABLE[Phase.OVER].emit  # type: ignore[misc]


def test_no_way_leads_back() -> None:
    """R-2: from the table itself: running, cancelling, over, and nothing in the other direction."""
    order = list(Phase)
    for phase, row in TABLE.items():
        for cell in row:
            assert order.index(cell.then) >= order.index(phase)
