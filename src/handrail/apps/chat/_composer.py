"""Where the person writes: Enter sends, Ctrl+J begins a new line."""

from __future__ import annotations

from asyncio import Event
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Key, Paste
from textual.message import Message
from textual.widgets import Input, TextArea

__all__ = ["Composer"]

_KEYS = {"enter": "send", "ctrl+j": "new_line", "shift+enter": "new_line", "alt+enter": "new_line"}


class Composer(TextArea):
    """A text of several lines that is sent whole."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send"),
        Binding("ctrl+j", "new_line", "New line"),
    ]

    class Sent(Message):
        """The person has sent what was written."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__(
            id="composer", compact=True, highlight_cursor_line=False, placeholder="Write a message, or /help"
        )

    async def _on_key(self, event: Key) -> None:
        """In their turn among the other keys: a binding with priority would overtake the letters typed before it."""
        action = _KEYS.get(event.key)
        if action is None:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        await self.run_action(action)

    def action_send(self) -> None:
        if self.text.strip():
            self.post_message(self.Sent(self.text))
            self.clear()

    def action_new_line(self) -> None:
        self.insert("\n")

    def action_copy(self) -> None:
        """Ctrl+C copies, from the conversation too; with nothing selected, whoever presses it wants to get out."""
        if self.selected_text or self.screen.get_selected_text():
            super().action_copy()
        else:
            self.notify("Ctrl+Q leaves, and Esc stops a run.")

    def take(self, event: Key | Paste) -> None:
        """Write on with what was meant for no other entry, which passes a paste on also where it took it."""
        text = event.text if isinstance(event, Paste) else event.character if event.is_printable else None
        if text and not isinstance(self.screen.focused, (Input, TextArea)):
            self.focus()
            self.insert(text)

    async def seen(self) -> None:
        """Wait until what was typed is on the screen, if there still is one."""
        seen = Event()
        if self.call_after_refresh(seen.set):
            await seen.wait()

    def give_back(self, text: str) -> None:
        """Put a text in front of what is being written."""
        self.text = "\n".join(filter(None, [text, self.text]))
        self.move_cursor(self.document.end)
