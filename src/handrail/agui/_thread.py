"""The messages of a thread in their order, each found by its id, each call by its own.

Entries stand in a list; tool messages hang behind the entry they follow, so that a result gets its place, behind the
assistant message that holds its call and past the results already there, without anything being moved (S-56). Of calls
that share an id, the latest is the one that is found. A result that came before its call stays where it stands, and is
the call's as soon as there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ag_ui.core import AssistantMessage, Message, ToolMessage

from handrail.agui._entries import Call, Entry
from handrail.agui._numbered import Numbered

__all__ = ["Thread"]


class Thread:
    """The entries of a thread. `run` counts the runs folded into it; 0 is before the first."""

    __slots__ = ("_heads", "_numbered", "_unclaimed", "answered", "by_id", "calls", "run")

    def __init__(self, messages: Iterable[Message]) -> None:
        self.run = 0
        self.by_id: dict[str, Entry] = {}
        self.calls: dict[str, Call] = {}
        self.answered: set[str] = set()
        """The ids whose latest call ever had a result, also where a snapshot has taken it back."""
        self._heads: list[Entry] = []
        self._unclaimed: dict[str, Entry] = {}
        """The latest result for each call that no message holds, by the id of the call."""
        self._numbered = Numbered()
        self._place([Entry(message, made_in=0) for message in messages])

    def __iter__(self) -> Iterator[Entry]:
        for head in self._heads:
            yield head
            yield from head.behind

    @property
    def taken_back(self) -> tuple[str, ...]:
        """The calls that had a result, and have none any more; those that were cut off left aside."""
        return tuple(sorted(name for name in self.answered if self._lost_result(name)))

    def _lost_result(self, name: str) -> bool:
        call = self.calls.get(name)
        return name not in self._unclaimed if call is None else call.complete and call.result is None

    def newest_first(self) -> Iterator[Entry]:
        """The entries but for the results that hang behind another, from the end."""
        return reversed(self._heads)

    def append(self, message: Message) -> Entry:
        """Adds a message at the end."""
        entry = Entry(message, made_in=self.run)
        self._hang(entry, behind=entry.role == "tool")
        self._adopt_calls(entry, message, {})
        return entry

    def begin(self, blank: Message, id: str, owner: str | None, name: str | None = None) -> Entry:
        """Adds a message that is about to be streamed, at the end; `blank` is what it begins as."""
        fields = {"id": id}
        if name is not None:
            fields["name"] = name
        if owner is not None:
            fields["subagent_run_id"] = owner
        entry = Entry.begun(blank, fields, made_in=self.run)
        self._hang(entry, behind=False)
        return entry

    def begin_call(self, entry: Entry, id: str, name: str, *, complete: bool) -> Call:
        """Adds a call to an assistant message; from now on it is the one found by its id."""
        self.answered.discard(id)  # this is another call
        call = self._adopt(Call.begun(id, name, entry, run=self.run, complete=complete))
        entry.stale = True
        return call

    def add(self, message: Message) -> None:
        """Takes a message in: the first result of a call goes behind the message that holds it, all else to the end."""
        call = self._meant_by(message) if isinstance(message, ToolMessage) else None
        if call is None or call.result is not None:
            self._link(call, self.append(message))
            return
        entry = self.by_id[message.id] = Entry(message, made_in=self.run)
        call.entry.behind.append(entry)
        self._link(call, entry)

    def _meant_by(self, result: ToolMessage) -> Call | None:
        """The latest call with the id; where that is answered, an earlier one that is not."""
        latest = self.calls.get(result.tool_call_id)
        if latest is None or latest.result is None:
            return latest
        namesakes = (call for head in self.newest_first() for call in head.calls if call.id == latest.id)
        return next((call for call in namesakes if call.result is None), latest)

    def put(self, entry: Entry, message: Message) -> Entry:
        """Puts another message in the place of an entry, with its calls if it has any.

        Another result is that of the same call; anything else leaves the call without one.
        """
        if self.by_id.get(entry.id) is entry:
            del self.by_id[entry.id]
        answered = self._unlink(entry)
        for call in entry.calls:
            if self.calls.get(call.id) is call:
                del self.calls[call.id]
                if call.result is not None:
                    call.result.answers = None
                    self._unclaimed[call.id] = call.result
        entry.replace(message)
        self.by_id[entry.id] = entry
        self._adopt_calls(entry, message, {})
        self._link(answered, entry)
        return entry

    def free_id(self, wanted: str) -> str:
        """`wanted`, or one of `wanted#2`, `wanted#3`, ... that no message has."""
        return self._numbered.free(wanted, self.by_id)

    def reconcile(self, snapshot: Sequence[Message]) -> list[Entry]:
        """Takes over a list of messages by id (P-53) and returns the entries that were dropped.

        Known messages are replaced in their places, unknown ones appended; local ones that are not named go, except
        activities and reasoning where the snapshot has none of that role. Costs the size of the thread.
        """
        named = {message.id: message for message in snapshot}  # of a repeated id: first place, last content
        survivors = {"activity", "reasoning"} - {message.role for message in snapshot}
        order: list[Entry] = []
        dropped: list[Entry] = []
        for entry in self:
            message = named.pop(entry.id, None)
            if message is not None:
                entry.replace(message)
            (order if message is not None or entry.role in survivors else dropped).append(entry)
        self._place([*order, *(Entry(message, made_in=self.run) for message in named.values())])
        return dropped

    def _place(self, order: Sequence[Entry]) -> None:
        """Builds the list and both indexes anew; calls keep what is known of their streaming."""
        before, self.calls, self.by_id, self._heads = self.calls, {}, {}, []
        self._unclaimed, self._numbered = {}, Numbered()
        for entry in order:
            message = entry.build()
            entry.behind, entry.answers = [], None
            self._hang(entry, behind=entry.role == "tool")
            self._adopt_calls(entry, message, before)
        for head in self._heads:
            own = {call.id: call for call in head.calls}
            for entry in (head, *head.behind):
                message = entry.build()
                if isinstance(message, ToolMessage):
                    self._link(own.get(message.tool_call_id) or self.calls.get(message.tool_call_id), entry)

    def _hang(self, entry: Entry, *, behind: bool) -> None:
        (self._heads[-1].behind if behind and self._heads else self._heads).append(entry)
        self.by_id[entry.id] = entry

    def _adopt_calls(self, entry: Entry, message: Message, before: Mapping[str, Call]) -> None:
        """Takes the calls of a message for complete ones, but for those whose arguments arrive right now (P-53)."""
        entry.calls = []
        for model in (message.tool_calls or ()) if isinstance(message, AssistantMessage) else ():
            known = before.get(model.id)
            if model.id in self.calls and (known is None or known.entry.id != entry.id):
                self.answered.discard(model.id)  # this is another call
            run, complete = (None, True) if known is None else (known.run, known.complete or known.run != self.run)
            self._adopt(Call(model, entry, run=run, complete=complete))

    def _adopt(self, call: Call) -> Call:
        """Makes a call the one that is found by its id, answered if its result has come before it."""
        self.calls[call.id] = call
        call.entry.calls.append(call)
        result = self._unclaimed.pop(call.id, None)
        if result is not None:
            self._link(call, result)
        return call

    def _link(self, call: Call | None, entry: Entry) -> None:
        """Makes a tool message the result of a call, if that has none; without a call it waits for one."""
        message = entry.build()
        if not isinstance(message, ToolMessage):
            return
        if call is None or self.calls.get(call.id) is call:
            self.answered.add(message.tool_call_id)
        if call is None:
            self._unclaimed[message.tool_call_id] = entry
        elif call.result is None:
            call.result, entry.answers = entry, call

    def _unlink(self, entry: Entry) -> Call | None:
        """Makes a message nobody's result; returns the call that it was the result of."""
        call, entry.answers = entry.answers, None
        if call is not None:
            call.result = None
        message = entry.build()
        if isinstance(message, ToolMessage) and self._unclaimed.get(message.tool_call_id) is entry:
            del self._unclaimed[message.tool_call_id]
        return call
