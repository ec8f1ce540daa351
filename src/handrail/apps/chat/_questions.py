"""The form in which open questions are answered: each one by itself, all of them sent together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from ag_ui.core import Interrupt
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Button, Input, Select, Static, TextArea

from handrail.agui._interrupts import Answer
from handrail.apps._visible import clipped, one_line, visible
from handrail.apps.chat._form import Choice, Field, arguments_of, choices, decided, fields

__all__ = ["Questions"]


class _Choices(Static, can_focus=True):
    """One of a few words; which one it is can be seen without colour."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "move(1)", "Choose", key_display="←→"),
        Binding("left", "move(-1)", show=False),
        Binding("space", "keep", show=False),
    ]

    class Changed(Message):
        """Another one is chosen."""

    def __init__(self, words: Sequence[Choice]) -> None:
        super().__init__(classes="choices")
        self._words = words
        self.chosen: Choice | None = None
        self._redraw()

    def action_move(self, by: int) -> None:
        if self.chosen is None:
            here = 0 if by > 0 else -1
        else:
            here = (self._words.index(self.chosen) + by) % len(self._words)
        self.action_choose(self._words[here])

    def action_keep(self) -> None:
        """Space chooses where nothing is chosen yet, and never something else than what is."""
        if self.chosen is None:
            self.action_move(1)

    def action_choose(self, word: Choice) -> None:
        self.focus()
        self.chosen = word
        self._redraw()
        self.post_message(self.Changed())

    def _redraw(self) -> None:
        """The words are ours, so they may be markup."""
        self.update(
            "   ".join(
                f"[@click=choose('{one}')]{'(•)' if one == self.chosen else '( )'} {one}[/]" for one in self._words
            )
        )


class Questions(VerticalScroll, can_focus=False):
    """All questions that are open now; hidden while there is none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "decide", "Send answers")]

    class Decided(Message):
        """The person has answered every question."""

        def __init__(self, answers: Sequence[Answer]) -> None:
            super().__init__()
            self.answers = answers

    def __init__(self) -> None:
        super().__init__(id="questions")
        self.display = False
        self._asked: Sequence[Interrupt] = ()

    async def ask(self, asked: Sequence[Interrupt], arguments: Mapping[str, str]) -> None:
        """Show these questions, or none; what was filled in stays while the same ones are open.

        `arguments` are the arguments of the calls on screen, by call id.
        """
        if [one.id for one in asked] == [one.id for one in self._asked]:
            return
        self._asked = tuple(asked)
        await self.remove_children()
        self.display = bool(asked)
        if asked:
            rows = [
                _Question(one, arguments_of(one, arguments), f"{number} of {len(asked)}" if len(asked) > 1 else "")
                for number, one in enumerate(asked, 1)
            ]
            send = Button("Send answers (Ctrl+S)", id="send", compact=True, variant="primary")
            await self.mount(*rows, send)
            rows[0].query_one(_Choices).focus()

    def complain(self, text: str) -> None:
        """Say why the answers were not taken."""
        for row in self.query(_Question):
            row.complain("")
        rows = self.query(_Question)
        if rows:
            rows.last().complain(text)

    @on(Button.Pressed, "#send")
    def action_decide(self) -> None:
        answers: list[Answer] = []
        for row in self.query(_Question):
            try:
                answers.append(row.decided())
                row.complain("")
            except ValueError as problem:
                row.complain(str(problem))
                row.query_one(_Choices).focus()
                return
        self.post_message(self.Decided(answers))


class _Question(Vertical):
    def __init__(self, interrupt: Interrupt, arguments: str, number: str) -> None:
        super().__init__(classes="question")
        self._interrupt = interrupt
        self._arguments = arguments
        self._number = number
        self._fields: Sequence[Field] = ()

    def compose(self) -> ComposeResult:
        yield Static(self._text(), markup=False, classes="asked")
        yield _Choices(choices(self._interrupt, datetime.now(UTC)))
        yield Vertical(classes="fields")
        problem = Static(markup=False, classes="problem")
        problem.display = False
        yield problem

    def _text(self) -> str:
        interrupt = self._interrupt
        asked = visible(clipped(interrupt.message or f"The agent asks ({interrupt.reason}).", 600))
        lines = [f"? {self._number + ': ' if self._number else ''}{asked}"]
        if value := (interrupt.metadata or {}).get("value"):
            lines.append(one_line(clipped(str(value), 600)))
        if self._arguments not in ("", "{}") and "".join(self._arguments.split()) not in "".join(asked.split()):
            lines.append(f"→ {one_line(clipped(self._arguments, 600))}")
        if interrupt.expires_at:
            lines.append(f"expires {one_line(clipped(interrupt.expires_at, 60))}")
        return "\n".join(lines)

    @on(_Choices.Changed)
    async def choose(self, event: _Choices.Changed) -> None:
        """Show what there is to fill in for the choice."""
        event.stop()
        self.complain("")
        area = self.query_one(".fields", Vertical)
        await area.remove_children()
        self._fields = fields(self._choice(), self._interrupt)
        for field in self._fields:
            await area.mount(Static(field.label, markup=False, classes="label"), self._entry(field))

    def _entry(self, field: Field) -> Widget:
        if field.kind == "choice":
            return Select([(Content(option), option) for option in field.options], allow_blank=True, compact=True)
        if field.kind == "json":
            text = self._arguments if self._choice() == "edit" else ""
            return TextArea(text, compact=True, classes="entry", highlight_cursor_line=False)
        return Input(compact=True, classes="entry")

    def decided(self) -> Answer:
        """The answer as it is filled in. Raises `ValueError` where it is none yet."""
        return decided(self._choice(), self._interrupt, [_typed(entry) for entry in self._entries()])

    def _entries(self) -> Sequence[Widget]:
        return [child for child in self.query_one(".fields", Vertical).children if not isinstance(child, Static)]

    def _choice(self) -> Choice:
        chosen = self.query_one(_Choices).chosen
        if chosen is None:
            raise ValueError("choose one, with the arrows")
        return chosen

    def complain(self, text: str) -> None:
        """Say what is wrong with this answer; "" is nothing."""
        problem = self.query_one(".problem", Static)
        problem.update(visible(clipped(text, 400)))
        problem.display = bool(text)


def _typed(entry: Widget) -> str:
    match entry:
        case TextArea():
            return entry.text
        case Input():
            return entry.value
        case Select():
            value = entry.value
            return value if isinstance(value, str) else ""
        case _:
            return ""
