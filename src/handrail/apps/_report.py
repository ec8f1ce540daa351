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
_FLOWING: frozenset[Style] = frozenset({"text", "reasoning"})


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
        self._console = _Console(markup=False, emoji=False, highlight=False)
        self._screen = Screen()

    def event(self, event: RunEvent) -> None:
        self._write(self._screen.show(event))

    def ended(self, outcome: Outcome, *, running: Sequence[str], asked: bool, hint: str | None) -> None:
        self._end(outcome, running, asked, hint)

    def left(self, *, running: Sequence[str]) -> None:
        self._end(None, running, True, None)

    def _end(self, outcome: Outcome | None, running: Sequence[str], asked: bool, hint: str | None) -> None:
        self._write(self._screen.end_line())
        if hint:
            self._write([Piece(hint + "\n", "note")])
        self._write([last_line(outcome, rounds=self._screen.rounds, running=running, asked=asked)])

    def _write(self, pieces: Iterable[Piece]) -> None:
        """Lines of ours are wrapped between words on a terminal; what flows in bits is left to the terminal."""
        for text, style in pieces:
            unwrapped = style in _FLOWING or not self._console.is_terminal
            self._console.print(Text(text, _LOOKS[style]), end="", soft_wrap=unwrapped)


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
