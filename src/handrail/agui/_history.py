"""The messages of the next request, made of the messages of a thread (P-61).

What a thread holds and what an agent may be sent differ: activities are for the screen; a call whose arguments never
ended can be neither executed nor answered; a result without its call, a result far from it, a second result and a call
nobody answered are refused by most models. Ids, texts and encrypted values go back as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from ag_ui.core import ActivityMessage, AssistantMessage, Message, ToolCall, ToolMessage

__all__ = ["Repair", "answers", "history", "stopped_answer", "without_unfinished"]

Repair = Callable[[ToolCall], ToolMessage | None]
"""What stands for the missing answer of a call; None leaves it unanswered."""


def history(
    messages: Sequence[Message],
    *,
    unfinished: Collection[tuple[str, str]] = (),
    repair: Repair = lambda call: None,
) -> tuple[Message, ...]:
    """`messages` as the next request carries them.

    `unfinished` names calls whose arguments never ended, by message id and call id: they are left out, and with them an
    assistant message that has nothing else. Each call is followed, behind its assistant message, by at most one tool
    message: the last that came, else what `repair` makes. Everything else keeps its order and its very objects.
    """
    results = {(at, result.tool_call_id): result for at, result in answers(messages) if at is not None}
    return tuple(_sendable(messages, results, frozenset(unfinished), repair))


def answers(messages: Sequence[Message]) -> Iterator[tuple[int | None, ToolMessage]]:
    """Each tool message with the position of the message that holds its call; None where no message does.

    It belongs to the assistant message it stands behind, if that has such a call, else to the latest that has: one call
    id may be used by two messages.
    """
    latest = {call.id: index for index, message in enumerate(messages) for call in _calls(message)}
    head = -1
    for index, message in enumerate(messages):
        if not isinstance(message, ToolMessage):
            head = index
            continue
        name = message.tool_call_id
        beside = head >= 0 and any(call.id == name for call in _calls(messages[head]))
        yield head if beside else latest.get(name), message


def _calls(message: Message) -> Iterable[ToolCall]:
    return (message.tool_calls or ()) if isinstance(message, AssistantMessage) else ()


def without_unfinished(message: Message, unfinished: Collection[tuple[str, str]]) -> Message | None:
    """The message without its calls whose arguments never ended; None where nothing else is in it."""
    if not isinstance(message, AssistantMessage) or not message.tool_calls:
        return message
    calls = [call for call in message.tool_calls if (message.id, call.id) not in unfinished]
    if len(calls) == len(message.tool_calls):
        return message
    return message.model_copy(update={"tool_calls": calls or None}) if calls or message.content else None


def _sendable(
    messages: Sequence[Message],
    results: dict[tuple[int, str], ToolMessage],
    unfinished: frozenset[tuple[str, str]],
    repair: Repair,
) -> Iterator[Message]:
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage | ActivityMessage):
            continue
        sent = without_unfinished(message, unfinished)
        if sent is not None:
            yield sent
            yield from _answers(index, tuple(_calls(sent)), results, repair)


def _answers(
    index: int, calls: Sequence[ToolCall], results: dict[tuple[int, str], ToolMessage], repair: Repair
) -> Iterator[Message]:
    """The results in the order in which they stand, then what is made for the calls that have none."""
    names = {call.id for call in calls}
    yield from (result for (owner, name), result in results.items() if owner == index and name in names)
    for call in calls:
        if (index, call.id) not in results and (made := repair(call)) is not None:
            yield made


def stopped_answer(new_id: Callable[[], str]) -> Repair:
    """The repair after a run that failed or was cancelled; each answer gets an id of `new_id`."""

    def answer(call: ToolCall) -> ToolMessage:
        text = "Not executed: the run was stopped before this call was answered"
        return ToolMessage(id=new_id(), role="tool", content=text, tool_call_id=call.id, error=text)

    return answer
