"""What the fold keeps of a message while it grows: a model as it was last read, and what came since.

Reading builds a new model and takes in what came, so a model once handed out is never touched again, and an event costs
no more than noting it down. What is streamed begins as one of a few shared models with nothing in them yet, so that
no model is built before somebody reads. An entry outlives its models: it keeps its place, its calls and what hangs
behind it.
"""

from __future__ import annotations

from typing import Any, cast

from ag_ui.core import FunctionCall, Message, TextPart, ToolCall

from handrail.agui._models import changed, made
from handrail.agui._patch import Document
from handrail.agui._text import join

__all__ = ["Call", "Entry"]

_NO_CALL = made(ToolCall, id="", type="function", function=made(FunctionCall, name="", arguments=""))
"""What a call that is streamed begins as."""


class Call:
    """A tool call of an assistant message: its arguments while they grow, and the message that answers it."""

    __slots__ = (
        "_metadata",
        "_model",
        "_pieces",
        "complete",
        "encrypted_value",
        "entry",
        "id",
        "name",
        "result",
        "run",
    )

    def __init__(self, model: ToolCall, entry: Entry, *, run: int | None, complete: bool) -> None:
        self._model = model
        self._pieces: list[str] = []
        self._metadata: dict[str, Any] | None = None
        self.id = model.id
        self.name = model.function.name
        self.encrypted_value = model.encrypted_value
        self.entry = entry
        self.run = run
        """The run that streamed it; None when it came whole."""
        self.complete = complete
        """Whether its arguments have ended."""
        self.result: Entry | None = None

    @classmethod
    def begun(cls, id: str, name: str, entry: Entry, *, run: int, complete: bool) -> Call:
        """A call that nothing is known of but this."""
        call = cls(_NO_CALL, entry, run=run, complete=complete)
        call.id, call.name = id, name
        return call

    def append(self, arguments: str) -> None:
        self._pieces.append(arguments)
        self.entry.stale = True

    def clear(self) -> None:
        """Forgets the arguments that have come so far."""
        self._model = changed(self._model, {"function": changed(self._model.function, {"arguments": ""})})
        self._pieces = []
        self.entry.stale = True

    def merge(self, metadata: dict[str, Any] | None) -> None:
        """Takes metadata in key by key; the last write wins (P-58)."""
        if metadata is not None:
            self._metadata = _merged(self._metadata, self._model.metadata, metadata)
        self.entry.stale = True

    def build(self) -> ToolCall:
        """The call as it stands, in a model that nobody changes any more."""
        model = self._model
        update: dict[str, Any] = {}
        if self._pieces or self.name != model.function.name:
            arguments = join([model.function.arguments, *self._pieces])
            update["function"] = changed(model.function, {"name": self.name, "arguments": arguments})
        if self.id != model.id:
            update["id"] = self.id
        if self._metadata is not None:
            update["metadata"] = self._metadata
        if self.encrypted_value != model.encrypted_value:
            update["encrypted_value"] = self.encrypted_value
        if update:
            self._model = changed(model, update)
            self._pieces, self._metadata = [], None
        return self._model


class Entry:
    """A message and its place; the tool messages that stand directly behind it hang on it, in order."""

    __slots__ = (
        "_changes",
        "_document",
        "_metadata",
        "_model",
        "_new_part",
        "_pieces",
        "answers",
        "behind",
        "calls",
        "id",
        "made_in",
        "role",
        "stale",
        "streamed_in",
    )

    def __init__(self, message: Message, *, made_in: int, streamed_in: int | None = None) -> None:
        self.behind: list[Entry] = []
        self.calls: list[Call] = []
        self.answers: Call | None = None
        """The call that it is the result of."""
        self.made_in = made_in
        self.streamed_in = streamed_in
        """The run that streamed into it last; None when it came whole."""
        self.replace(message)

    @classmethod
    def begun(cls, blank: Message, fields: dict[str, Any], *, made_in: int) -> Entry:
        """A message that begins with these fields, its `id` among them; the rest is as `blank` has it."""
        entry = cls(blank, made_in=made_in)
        entry._changes, entry.id, entry.stale = fields, fields["id"], True
        return entry

    def replace(self, message: Message) -> None:
        """Puts another message in the place of this one. Calls are the fold's to renew."""
        self._model: Any = message
        self._pieces: list[str] = []
        self._new_part = False
        self._metadata: dict[str, Any] | None = None
        self._changes: dict[str, Any] = {}
        self._document: Document | None = None
        self.id: str = message.id
        self.role: str = message.role or ""
        self.stale = False

    @property
    def has_text(self) -> bool:
        """Whether its content says anything, read or not yet."""
        return bool(self._model.content) or any(self._pieces)

    def change(self, field: str, value: Any) -> None:
        self._changes[field] = value
        self.stale = True

    def merge(self, metadata: dict[str, Any] | None) -> None:
        """Takes metadata in key by key; the last write wins (P-58)."""
        if metadata is not None:
            self._metadata = _merged(self._metadata, self._model.metadata, metadata)
            self.stale = True

    def open_text(self) -> None:
        """Says that a stream begins; to a content made of parts it will add a part of its own."""
        if isinstance(self._model.content, list):
            self.build()
            self._new_part = True

    def append(self, text: str) -> None:
        if text or not self._pieces:  # one empty piece makes a content where there was none; more say nothing
            self._pieces.append(text)
        self.stale = True

    def document(self) -> Document:
        """The content of an activity, to be patched in place."""
        if self._document is None:
            self._document = Document(self._model.content)
        self.stale = True
        return self._document

    def build(self) -> Message:
        """The message as it stands, in a model that nobody changes any more."""
        if self.stale:
            update = self._changes
            if self._pieces:
                update["content"] = self._grown(self._pieces)
            if self._document is not None:
                update["content"] = self._document.read()
            if self._metadata is not None:
                update["metadata"] = self._metadata
            if self.calls:
                update["tool_calls"] = [call.build() for call in self.calls]
            self._model = changed(self._model, update)
            self._pieces, self._metadata, self._changes = [], None, {}
            self.stale = False
        return self._model

    def _grown(self, pieces: list[str]) -> Any:
        content = self._model.content
        if not isinstance(content, list):
            return join((content or "", *pieces))
        if self._new_part:
            self._new_part = False
            return [*cast("list[Any]", content), made(TextPart, type="text", text=join(pieces))]
        parts = cast("list[Any]", content)
        last = parts[-1]
        return [*parts[:-1], changed(last, {"text": join((last.text, *pieces))})]


def _merged(own: dict[str, Any] | None, before: dict[str, Any] | None, metadata: dict[str, Any]) -> dict[str, Any]:
    """`own` with `metadata` in it; made of what stood there `before` the first time, which stays as it is."""
    if own is None:
        own = dict(before or {})
    own.update(metadata)
    return own
