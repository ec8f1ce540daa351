"""The tables of the pages that are tables of the code, printed from it.

    python docs/tables.py

writes each between its marks, `<!-- table: NAME -->` and `<!-- end -->`. A test holds the pages to it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import get_args

from handrail import errors, events
from handrail.agui import _verify as verify
from handrail.run._lifecycle import TABLE, Cell, Do, Phase, Row
from handrail.tools._credentials import SHAPES

__all__ = ["PAGES", "filled"]

PAGES = sorted(Path(__file__).parent.glob("*.md"))
_PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

_DONE = {
    Do.NOTHING: "nothing",
    Do.REFUSE: "`UsageError`",
    Do.APPEND: "the event takes its place",
    Do.CLOSE: "result set, log closed",
    Do.CALL_OFF: "`cancellation` set, then the hook is called",
    Do.OPEN: "one more section",
    Do.END: "one section less",
}
_ASKED = {
    "emit": "`emit(event)`",
    "emit_terminal": "`emit(terminal event)`",
    "finish": "`finish(terminal event or None)`",
    "finish_with_other": "`finish(any other event)`",
    "cancel": "`cancel()`",
    "begin_work": "`begin_work()`",
    "end_work": "`end_work()`",
}
_STANDING: dict[verify._Standing, str] = {
    "open": "the item is open",
    "closed": "it is not open",
    "ended": "it has ended, and opens once only",
}


def filled(text: str) -> str:
    """A page with its tables as they are now."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{_TABLES[place[2]]()}\n{place[3]}", text)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = (f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))
    return "".join(f"{line}\n" for line in lines)


def _lifecycle() -> str:
    def said(phase: Phase, cell: Cell) -> str:
        answer = "" if cell.answer is None else f"; `{cell.answer}`"
        return f"{_DONE[cell.do]}{answer}" + (f" → **{cell.then.value}**" if cell.then is not phase else "")

    rows = ((_ASKED[ask], *(said(phase, getattr(row, ask)) for phase, row in TABLE.items())) for ask in Row._fields)
    return _table(["asked", *(phase.value for phase in TABLE)], rows)


def _runs() -> str:
    table = verify._RUN_TABLE
    events = list(dict.fromkeys(event for _, event in table))
    rows = ((phase, *(table[phase, event] or "refused" for event in events)) for phase in get_args(verify.RunPhase))
    return _table(["the stream is", *(f"`{event}`" if event.isupper() else event for event in events)], rows)


def _brackets() -> str:
    def events_of(kind: object, move: str) -> str:
        names = (f"`{_wire_name(event)}`" for event, rule in verify._BRACKET_OF.items() if rule == (kind, move))
        return ", ".join(names) or "–"

    def rows() -> Iterator[tuple[str, ...]]:
        for kind in verify._CLOSED_AT_THE_END:
            moves = (events_of(kind, move) for move in get_args(verify._Move))
            yield kind.noun, *moves, "opens again" if kind.reopens else "refused"

    return _table(["bracket", "opened by", "goes on by", "ended by", "opened once more in the same run"], rows())


def _moves() -> str:
    table = verify._BRACKET_TABLE
    rows = ((move, *("refused" if table[move][at] else "taken" for at in _STANDING)) for move in table)
    return _table(["an event that makes it", *_STANDING.values()], rows)


def _events() -> str:
    classes = [made for made in vars(events).values() if inspect.isclass(made) and issubclass(made, events.RunEvent)]
    rows = ((f"`{made.kind}`", _payload_of(made), _first_line(made)) for made in classes if made is not events.RunEvent)
    return _table(["kind", "payload", ""], rows)


def _payload_of(made: type[events.RunEvent]) -> str:
    return ", ".join(f"{name}?" if name in made._optional else name for name in made._payload)


def _first_line(made: type) -> str:
    return (inspect.getdoc(made) or "").splitlines()[0]


def _credentials() -> str:
    return _table(["hidden"], ((shape.what,) for shape in SHAPES))


def _errors() -> str:
    """The tree as the module draws it."""
    drawn = [line for line in (inspect.getdoc(errors) or "").splitlines() if line.startswith("    ")]
    return "\n".join(["```text", *(line[4:].rstrip() for line in drawn), "```", ""])


def _wire_name(event: type) -> str:
    return event.model_fields["type"].default.value  # type: ignore[attr-defined]


_TABLES: dict[str, Callable[[], str]] = {
    "credentials": _credentials,
    "errors": _errors,
    "events": _events,
    "lifecycle": _lifecycle,
    "runs": _runs,
    "brackets": _brackets,
    "moves": _moves,
}

if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text()))
