"""A page of plain text over the conversation, closed by Esc."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from handrail.apps._visible import visible

__all__ = ["Page"]


class Page(ModalScreen[None]):
    """Shows `text` under `title` until it is closed."""

    AUTO_FOCUS = "#page"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss(None)", "Close")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._shown = f"{title}\n\n{visible(text)}"

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="page"):
            yield Static(self._shown, markup=False)
        yield Footer(compact=True, show_command_palette=False)
