"""Where a run is shown: on a terminal for people, or as JSON lines for programs.

Both write to standard output as things happen. Colour is for terminals only, and `NO_COLOR` switches it off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, Protocol

from rich.console import Console
from rich.text import Text

from handrail.apps._render import Piece, Screen, Style, last_line
from handrail.events import RunEvent
from handrail.run import Outcome

__all__ = ["JsonLines", "Report", "Terminal"]

_LOOKS: dict[Style, str] = {
    "text": "",
    "reasoning": "dim italic",
    "retracted": "dim strike",
    "note": "dim",
    "call": "cyan",
    "result": "blue",
    "warning": "yellow",
    "error": "red",
    "good": "green",
}


class Report(Protocol):
    """What is told of a run: each event, then how it ended."""

    def event(self, event: RunEvent) -> None:
        """One event, in the order of the run."""
        ...

    def ended(self, outcome: Outcome, *, running: Sequence[str], asked: bool, hint: str | None) -> None:
        """The end; see `last_line`. `hint` is what the person could do about a failure."""
        ...

    def left(self, *, running: Sequence[str]) -> None:
        """Nobody waits for the end any longer; `running` is what is left behind."""
        ...


class Terminal:
    """Streams a run as styled text; plain text where standard output is no terminal."""

    def __init__(self) -> None:
        self._console = _Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
        self._screen = Screen()

    def event(self, event: RunEvent) -> None:
        self._write(self._screen.show(event))

    def ended(self, outcome: Outcome, *, running: Sequence[str], asked: bool, hint: str | None) -> None:
        note = (Piece(hint + "\n", "note"),) if hint else ()
        end = last_line(outcome, rounds=self._screen.rounds, running=running, asked=asked)
        self._write((*self._screen.end_line(), *note, end))

    def left(self, *, running: Sequence[str]) -> None:
        end = last_line(None, rounds=self._screen.rounds, running=running, asked=True)
        self._write((*self._screen.end_line(), end))

    def _write(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            self._console.print(Text(piece.text, _LOOKS[piece.style]), end="")


class JsonLines:
    """One JSON object a line: the events as they come, then the outcome. Pure ASCII, so nothing in it is obeyed."""

    def event(self, event: RunEvent) -> None:
        self._write(event.to_dict())

    def ended(self, outcome: Outcome, *, running: Sequence[str], asked: bool, hint: str | None) -> None:
        self._write(outcome.to_dict())

    def left(self, *, running: Sequence[str]) -> None:
        """There is no outcome to tell."""

    def _write(self, data: dict[str, Any]) -> None:
        print(json.dumps(data), file=sys.stdout, flush=True)


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise  # the console calls this while handling it; the caller ends the run first
