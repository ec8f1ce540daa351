"""Input that is no legal history is repaired, never refused. Pure.

A legal history answers every call, before the next turn, with exactly one tool message, in call order. Four things are
mended, and each is told:

| found                                         | done                                                      |
|-----------------------------------------------|-----------------------------------------------------------|
| a call id used a second time                  | renamed, with its answer                                  |
| a tool message without a call, or a second one | dropped                                                  |
| a tool message that stands elsewhere          | moved behind the turn it answers                          |
| a call without an answer, and nobody's to give | answered: no result was recorded, the outcome is unknown |

A tool message answers the nearest call before it that has its id; within one turn the first that is still open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ag_ui.core import AssistantMessage, DeveloperMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

from handrail.loop._words import UNRECORDED

__all__ = ["Repaired", "repair"]

_TURNS = (AssistantMessage, DeveloperMessage, SystemMessage, UserMessage)


@dataclass(slots=True)
class Repaired:
    """A legal history, what was done to it, and the calls that were answered in nobody's name with their answers."""

    messages: list[Message] = field(default_factory=list[Message])
    remarks: list[str] = field(default_factory=list[str])
    unrecorded: list[tuple[ToolCall, ToolMessage]] = field(default_factory=list[tuple[ToolCall, ToolMessage]])


@dataclass(slots=True)
class _Call:
    """A call of the input: where its turn stands, the id it came with, and its answer."""

    turn: int
    old_id: str
    call: ToolCall
    answer: ToolMessage | None = None
    answer_place: int = -1


def repair(messages: Sequence[Message], is_waiting: Callable[[ToolCall], bool], new_id: Callable[[], str]) -> Repaired:
    """The history made legal. `is_waiting` says whether an open call of the last turn is to stay open."""
    done = Repaired()
    if {type(message) for message in messages}.isdisjoint((AssistantMessage, ToolMessage)):
        done.messages.extend(messages)
        return done
    turns, calls = _renamed(messages, done, new_id)
    _pair(messages, calls, done)
    last_turn = max((call.turn for call in calls), default=-1)
    last_assistant = max((i for i, m in enumerate(messages) if isinstance(m, AssistantMessage)), default=-1)
    for call in calls:
        stays_open = call.turn == last_turn == last_assistant and is_waiting(call.call)
        if call.answer is None and not stays_open:
            call.answer = ToolMessage(id=new_id(), tool_call_id=call.call.id, content=UNRECORDED)
            done.unrecorded.append((call.call, call.answer))
            done.remarks.append(f"call {call.old_id!r} ({call.call.function.name}) had no answer; it was given one")
    _lay_out(messages, turns, calls, done)
    return done


def _renamed(
    messages: Sequence[Message], done: Repaired, new_id: Callable[[], str]
) -> tuple[dict[int, AssistantMessage], list[_Call]]:
    """The turns with calls, by place, and all calls, with ids that are used once."""
    turns: dict[int, AssistantMessage] = {}
    calls: list[_Call] = []
    used: set[str] = set()
    for place, message in enumerate(messages):
        if not isinstance(message, AssistantMessage) or not message.tool_calls:
            continue
        own: list[ToolCall] = []
        for call in message.tool_calls:
            old_id = call.id
            if old_id in used:
                call = call.model_copy(update={"id": new_id()})
                done.remarks.append(f"call id {old_id!r} was used before; the later call is now {call.id!r}")
            used.add(call.id)
            own.append(call)
            calls.append(_Call(place, old_id, call))
        if own != message.tool_calls:
            message = message.model_copy(update={"tool_calls": own})
        turns[place] = message
    return turns, calls


def _pair(messages: Sequence[Message], calls: Sequence[_Call], done: Repaired) -> None:
    """Find for each tool message the call that it answers."""
    by_old_id: dict[str, list[_Call]] = {}
    for call in calls:
        by_old_id.setdefault(call.old_id, []).append(call)
    for place, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            continue
        meant = _meant(by_old_id.get(message.tool_call_id, []), place)
        if meant is None:
            done.remarks.append(f"a tool message for {message.tool_call_id!r} answers no call; it was dropped")
        elif meant.answer is not None:
            done.remarks.append(f"call {message.tool_call_id!r} was answered before; the later answer was dropped")
        else:
            if meant.call.id != message.tool_call_id:
                message = message.model_copy(update={"tool_call_id": meant.call.id})
            meant.answer, meant.answer_place = message, place


def _meant(candidates: Sequence[_Call], place: int) -> _Call | None:
    before = [call for call in candidates if call.turn < place]
    nearest = [call for call in before if call.turn == before[-1].turn] if before else list(candidates[:1])
    return next((call for call in nearest if call.answer is None), nearest[0] if nearest else None)


def _lay_out(
    messages: Sequence[Message], turns: dict[int, AssistantMessage], calls: Sequence[_Call], done: Repaired
) -> None:
    """Put every message in its place, the answers of each turn in call order."""
    turn_end = _ends_of_turns(messages)
    waiting: dict[int, list[_Call]] = {}
    slots: dict[int, ToolMessage] = {}
    for turn in turns:
        own = [call for call in calls if call.turn == turn and call.answer is not None]
        near = sorted(c.answer_place for c in own if turn < c.answer_place < turn_end[turn])
        if any(c.answer_place >= 0 and c.answer_place not in near for c in own):
            moved = [c.call.id for c in own if c.answer_place >= 0 and c.answer_place not in near]
            done.remarks.append(
                f"the answer to {', '.join(map(repr, moved))} stood elsewhere; it was moved to its call"
            )
        if len(near) == len(own):
            slots.update((place, call.answer) for place, call in zip(near, own, strict=True) if call.answer)
        else:
            waiting[turn] = own
    for place, message in enumerate(messages):
        if place in turns:
            done.messages.append(turns[place])
            done.messages.extend(call.answer for call in waiting.get(place, ()) if call.answer)
        elif place in slots:
            done.messages.append(slots[place])
        elif not isinstance(message, ToolMessage):
            done.messages.append(message)


def _ends_of_turns(messages: Sequence[Message]) -> dict[int, int]:
    """For each assistant message the place of the next message that is a turn."""
    ends: dict[int, int] = {}
    end = len(messages)
    for place in range(len(messages) - 1, -1, -1):
        if isinstance(messages[place], AssistantMessage):
            ends[place] = end
        if isinstance(messages[place], _TURNS):
            end = place
    return ends
