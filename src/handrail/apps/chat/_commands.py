"""What can be typed with a slash in front instead of a message."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMANDS", "KEYS", "Command", "command_in", "help_text"]


class Command(NamedTuple):
    """`/name argument`; `action` is the method of the app, called with the argument where there is one."""

    name: str
    argument: str
    what: str
    action: str


COMMANDS = (
    Command("save", "FILE", "keep the conversation in a file, open questions included", "save"),
    Command("open", "FILE", "go on with a kept conversation", "open"),
    Command("copy", "[N]", "copy the last answer, or the Nth from the end", "copy"),
    Command("retry", "", "ask again after a failure, without saying it twice", "retry"),
    Command("abandon", "", "give open questions up on this side, when the server has forgotten them", "abandon"),
    Command("warnings", "", "what was tolerated so far", "warnings"),
    Command("theme", "", "dark or light", "toggle_theme"),
    Command("help", "", "this page", "help"),
    Command("quit", "", "leave at once", "leave"),
)

KEYS = (
    ("Enter", "send; while a run goes on the message waits for its end"),
    ("Ctrl+J", "new line"),
    ("Esc", "stop the run; what waits comes back to be edited"),
    ("Ctrl+R", "ask again after a failure"),
    ("Ctrl+Y", "copy the last answer; a selection made with the mouse: Ctrl+C"),
    ("Tab", "go to the cards; Enter unfolds one"),
    ("PageUp, PageDown", "scroll; Ctrl+End goes to the end"),
    ("Ctrl+S", "send the answers to open questions"),
    ("Ctrl+T", "dark or light"),
    ("Ctrl+Q", "leave at once"),
)

_BY_NAME = {command.name: command for command in COMMANDS}


def command_in(text: str) -> tuple[Command, str] | None:
    """The command and its argument, or None for a message; what begins with two slashes is a message.

    Raises `ValueError` for a command that there is none of, or that lacks its argument.
    """
    if not text.startswith("/") or text.startswith("//") or "\n" in text.strip():
        return None
    name, _, argument = text.strip()[1:].partition(" ")
    command, argument = _BY_NAME.get(name), argument.strip()
    if command is None:
        raise ValueError(f"There is no command /{name}; /help lists them. To send it as it is, begin with //.")
    if command.argument.isupper() and not argument:
        raise ValueError(f"/{name} needs a {command.argument}.")
    if argument and not command.argument:
        raise ValueError(f"/{name} takes nothing behind it.")
    return command, argument


def help_text() -> str:
    """All keys and commands, one a line."""
    rows = [*KEYS, ("", ""), *((f"/{one.name} {one.argument}".strip(), one.what) for one in COMMANDS)]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {what}".rstrip() for name, what in rows)
