"""A snapshot of the messages, reconciled with what is on the screen (S-135 to S-142).

The wire knows messages, the screen knows parts in the order in which they arrived, and that order is worth keeping. So
a snapshot is held against the screen piece by piece:

- what a message says itself (its text, its reasoning, its activity, its files) by the message's id;
- a call by its id, wherever the snapshot puts it;
- a result by its call; of two calls with one id, by the one it stands behind.

Equal content leaves the part alone, the same object in the same place. Then what the snapshot brings under a new id
with the content of something that it dropped takes over that part (a server that numbers anew). What is left over is
new, and goes to the end; what nothing claimed is gone.

Reasoning stays as it is under a snapshot without any reasoning, and activities under one without any activity. Results
made on this side stay where their call stays.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from ag_ui.core import ActivityMessage, AssistantMessage, Message, ReasoningMessage, ToolMessage

from handrail.agui._history import answers
from handrail.transcript._model import (
    CallStatus,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    TranscriptMessage,
    changed,
)
from handrail.transcript._names import Names
from handrail.transcript._restore import Content, call_of, content_of, parts_of, result_of

__all__ = ["Here", "Reconciled", "add", "reconcile", "without"]

_Slot: TypeAlias = list[Part]
"""The place of one part, and what stands there in the end: that part, another, several or none."""

_Group: TypeAlias = list[_Slot]
"""The places of all that one message of the wire says itself."""


@dataclass(frozen=True, slots=True)
class Here:
    """Where the screen stands when a snapshot comes; `turn` is the place of the message that the open turn writes."""

    turn: int | None = None
    run_id: str | None = None
    exchange: int = 0


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The screen behind a snapshot; `written` are the messages of the wire whose words the snapshot brought."""

    messages: tuple[TranscriptMessage, ...]
    turn: int | None
    written: set[str]


def reconcile(shown: Iterable[TranscriptMessage], snapshot: Sequence[Message], here: Here) -> Reconciled:
    """The screen as it is after the snapshot."""
    latest = {message.id: message for message in snapshot}
    work = _Reconciliation([_Draft(message) for message in shown], tuple(latest.values()), here)
    work.claim_words()
    work.claim_calls()
    work.place_the_rest()
    return work.finished()


def add(shown: Iterable[TranscriptMessage], messages: Sequence[Message], here: Here) -> Reconciled:
    """The screen with messages that it does not know yet; what it shows stays as it is."""
    drafts = [_Draft(message) for message in shown]
    work = _Reconciliation(drafts, messages, here)
    for draft in drafts:
        for slot in draft.slots:
            if isinstance(part := slot[0], ToolCallPart) and part.result is None:
                slot[0] = work.answered(part)
    work.place_the_rest()
    return work.finished()


def without(shown: Iterable[TranscriptMessage], message_id: str, here: Here) -> Reconciled:
    """The screen without what a message of the wire says and calls."""
    drafts = [_Draft(message) for message in shown]
    for draft in drafts:
        for slot in draft.slots:
            if slot[0].message_id == message_id:
                slot.clear()
    return _Reconciliation(drafts, (), here).finished()


class _Draft:
    """A message of the screen while it is rewritten."""

    def __init__(self, message: TranscriptMessage) -> None:
        self.message = message
        self.slots: list[_Slot] = [[part] for part in message.parts]

    def extend(self, parts: Iterable[Part]) -> None:
        self.slots.extend([part] for part in parts)

    def finished(self, messages: Names, parts: Names) -> TranscriptMessage:
        """The message as it is now: the same object if nothing of it changed."""
        left = [_named(part, parts) for slot in self.slots for part in slot]
        message = _named(self.message, messages)
        before = self.message.parts
        if len(left) == len(before) and all(new is old for new, old in zip(left, before, strict=True)):
            return message
        return changed(message, parts=tuple(left))


class _Reconciliation:
    def __init__(self, drafts: list[_Draft], snapshot: Sequence[Message], here: Here) -> None:
        self._drafts = drafts
        self._snapshot = snapshot
        self._here = here
        self._turn = None if here.turn is None else drafts[here.turn]
        self._role_of: dict[str, str] = {message.id: message.role for message in snapshot}
        self._roles = {message.role for message in snapshot}
        self._homes: dict[str, _Draft] = {}
        self._written: set[str] = set()
        self._words: dict[tuple[str, str], list[Part]] = {}
        self._calls: dict[str, deque[ToolCallPart]] = defaultdict(deque)
        self._results: dict[tuple[str, str], ToolMessage] = {}
        """The results by the message that holds the call, and the call."""
        self._unclaimed: dict[str, ToolMessage] = {}
        """The results of calls that no message of the snapshot holds."""
        for message in snapshot:
            self._read(message)
        for at, result in answers(snapshot):
            if at is None:
                self._unclaimed[result.tool_call_id] = result
            else:
                self._results[snapshot[at].id, result.tool_call_id] = result

    def _read(self, message: Message) -> None:
        if parts := parts_of(message):
            self._words[message.role, message.id] = parts
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls or ():
                self._calls[call.id].append(call_of(call, message))

    # -- what the screen has already -------------------------------------------------------------------------------

    def claim_words(self) -> None:
        """Hold what every message of the wire says on the screen against the snapshot."""
        dropped: dict[tuple[str, Content], deque[_Group]] = defaultdict(deque)
        for (role, wire_id), group in self._groups().items():
            said = content_of(part for slot in group for part in slot)
            told = self._words.pop((role, wire_id), [])
            if self._role_of.get(wire_id) == role and said == content_of(told):
                _renew(group[-1], told)
            elif told:
                self._written.add(wire_id)
                _replace(group, told)
            else:
                dropped[role, said].append(group)
        self._take_over(dropped)

    def _groups(self) -> dict[tuple[str, str], _Group]:
        groups: dict[tuple[str, str], _Group] = defaultdict(list)
        for draft in self._drafts:
            for slot in draft.slots:
                part = slot[0]
                role = "reasoning" if isinstance(part, ReasoningPart) else draft.message.role
                if role == "assistant":
                    self._homes.setdefault(part.message_id, draft)
                survives = role in ("reasoning", "activity") and role not in self._roles
                survives = survives and part.message_id not in self._role_of  # else it is of another kind now
                if not survives and not isinstance(part, ToolCallPart):
                    groups[role, part.message_id].append(slot)
        return groups

    def _take_over(self, dropped: dict[tuple[str, Content], deque[_Group]]) -> None:
        """Give what was dropped to messages that say the same under a new id, in order; the rest is gone."""
        for (role, wire_id), told in tuple(self._words.items()):
            heirs = dropped.get((role, content_of(told)))
            if heirs:
                del self._words[role, wire_id]
                for slot in heirs.popleft():
                    slot[0] = changed(slot[0], message_id=wire_id)
        for groups in dropped.values():
            for group in groups:
                for slot in group:
                    slot.clear()

    def claim_calls(self) -> None:
        """Hold every call on the screen, and its result, against the snapshot."""
        for draft in self._drafts:
            for slot in draft.slots:
                if slot and isinstance(part := slot[0], ToolCallPart):
                    renewed = self._renewed(part)
                    slot[:] = [] if renewed is None else [renewed]

    def _renewed(self, part: ToolCallPart) -> ToolCallPart | None:
        told = self._calls.get(part.tool_call_id)
        if not told:
            return self.answered(part) if part.tool_call_id in self._unclaimed else None
        call = told.popleft()
        if (part.message_id, part.encrypted_value) != (call.message_id, call.encrypted_value):
            part = changed(part, message_id=call.message_id, encrypted_value=call.encrypted_value)
        if not part.streaming and (part.name, part.arguments) != (call.name, call.arguments):
            part = changed(part, name=call.name, arguments=call.arguments, parsed_arguments=call.parsed_arguments)
        if not part.streaming and not part.arguments_complete:  # it was cut off, and is whole now
            part = changed(part, arguments_complete=True, parsed_arguments=call.parsed_arguments)
            part = changed(part, status="awaiting_result", error=None)
        return self.answered(part)

    def answered(self, part: ToolCallPart) -> ToolCallPart:
        """The call with the result that the snapshot has for it, or without one if it has none and it is not ours."""
        call_id = part.tool_call_id
        message = self._results.get((part.message_id, call_id)) or self._unclaimed.pop(call_id, None)
        if message is None:
            if part.result is None or part.local:
                return part
            return _stands(changed(part, result=None, error=None), "awaiting_result")
        result = result_of(message.content)
        if part.result == result and (part.error == message.error or part.status == "denied"):
            return part
        status = "denied" if part.status == "denied" else "complete" if message.error is None else "failed"
        return _stands(changed(part, result=result, error=message.error, local=False), status)

    # -- what is new -----------------------------------------------------------------------------------------------

    def place_the_rest(self) -> None:
        """Write what is new, in the snapshot's order, at the end or with the message that it belongs to."""
        last_user = max((at for at, message in enumerate(self._snapshot) if message.role == "user"), default=-1)
        group: _Draft | None = None
        for at, message in enumerate(self._snapshot):
            words = self._words.pop((message.role, message.id), [])
            calls = self._left_calls(message)
            if message.role not in ("assistant", "reasoning", "tool"):
                group = None
                if words:
                    self._begin(message.role, message, words)
                    self._turn = self._turn if at < last_user else None
            elif words or calls:
                if words:
                    self._written.add(message.id)
                if message.id in self._homes:
                    self._write_at_home(message.id, words, calls)
                elif self._here.run_id is not None and at > last_user:
                    self._turn = self._write(self._turn, message, [*words, *calls])
                else:
                    group = self._write(group, message, [*words, *calls])

    def _left_calls(self, message: Message) -> list[Part]:
        """The calls of a message that are not on the screen; of a tool message a result that is for no call."""
        if isinstance(message, ToolMessage):
            call_id = message.tool_call_id
            if self._unclaimed.get(call_id) is not message:
                return []
            part = ToolCallPart(
                f"tool:{call_id}", message.id, call_id, "", arguments_complete=True, status="awaiting_result"
            )
            return [self.answered(part)]
        left: list[Part] = []
        for call in (message.tool_calls or ()) if isinstance(message, AssistantMessage) else ():
            told = self._calls[call.id]
            if told and told[0].message_id == message.id:
                left.append(self.answered(told.popleft()))
        return left

    def _write_at_home(self, message_id: str, words: list[Part], calls: list[Part]) -> None:
        """Words of a message whose calls are shown go before those; more calls go behind."""
        home = self._homes[message_id]
        own = (at for at, slot in enumerate(home.slots) if slot and slot[0].message_id == message_id)
        first = next(own, len(home.slots))
        home.slots[first:first] = [[part] for part in words]
        home.extend(calls)

    def _write(self, draft: _Draft | None, message: Message, parts: list[Part]) -> _Draft:
        if draft is None:
            return self._begin("assistant", message, parts)
        draft.extend(parts)
        return draft

    def _begin(self, role: Role, message: Message, parts: list[Part]) -> _Draft:
        first, here = parts[0], self._here
        draft = _Draft(
            TranscriptMessage(
                first.tool_call_id if isinstance(first, ToolCallPart) else first.message_id,
                role,
                name=None if isinstance(message, ToolMessage | ReasoningMessage | ActivityMessage) else message.name,
                run_id=here.run_id,
                exchange=here.exchange,
            )
        )
        draft.extend(parts)
        self._drafts.append(draft)
        return draft

    def finished(self) -> Reconciled:
        """The drafts as messages, with ids that are unique; messages that nothing is left of are gone."""
        left = [draft for draft in self._drafts if any(draft.slots)]
        messages, parts = Names(), Names()
        turn = next((at for at, draft in enumerate(left) if draft is self._turn), None)
        return Reconciled(tuple(draft.finished(messages, parts) for draft in left), turn, self._written)


def _renew(slot: _Slot, told: list[Part]) -> None:
    """The words are the same; the value that a provider put beside them may not be."""
    part = slot[0]
    fresh = told[0] if told else None
    if not isinstance(part, ReasoningPart) or not isinstance(fresh, ReasoningPart):
        return
    if part.encrypted_value != fresh.encrypted_value:
        slot[0] = changed(part, encrypted_value=fresh.encrypted_value)


def _replace(group: _Group, told: list[Part]) -> None:
    """Other words: in the place, and where it is of the same kind under the id, of the first part; the rest goes."""
    first, fresh = group[0][0], told[0]
    if type(fresh) is type(first):
        fresh = changed(fresh, id=first.id)
        if isinstance(first, TextPart | ReasoningPart):
            fresh = changed(fresh, streaming=first.streaming)
    for slot in group:
        slot.clear()
    group[0].extend([fresh, *told[1:]])


def _stands(part: ToolCallPart, status: CallStatus) -> ToolCallPart:
    return part if part.streaming else changed(part, status=status)


_V = TypeVar("_V", Part, TranscriptMessage)


def _named(value: _V, names: Names) -> _V:
    name = names.take(value.id)
    return value if name == value.id else changed(value, id=name)
