"""What is true of every request a session makes, and of every stream it was answered with.

Judged from the recorded bytes alone: what was asked is held against what the agent had said before, as an `Inbound` of
its own reads it, never against what the session believes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ag_ui.core import (
    AssistantMessage,
    CustomEvent,
    Event,
    Message,
    RunAgentInput,
    RunFinishedEvent,
    ToolMessage,
    UserMessage,
)
from tests.agui.wires import Reading, read
from tests.client.kit import violations

from handrail.agui._fold import Fold

FREE = frozenset({"state", "forwardedProps", "payload", "parameters", "metadata", "value"})
"""Members whose value is anybody's JSON, null included."""


@dataclass
class Spoken:
    """One request and what was answered to it. `taken` are the events that the session took; by default all."""

    request: dict[str, Any]
    body: bytes
    is_lenient: bool = False
    taken: Sequence[Event] | None = None
    messages: tuple[Message, ...] | None = None
    """Those of the session when the run's verdict was in; None where it had none."""

    @cached_property
    def given(self) -> RunAgentInput:
        return RunAgentInput.model_validate(self.request)

    @cached_property
    def reading(self) -> Reading:
        """The stream as another reads it who was asked the same."""
        return read(
            [self.body],
            thread_id=self.given.thread_id,
            run_id=self.given.run_id,
            messages=self.given.messages,
            state=self.given.state,
            lenient=self.is_lenient,
        )

    @property
    def events(self) -> Sequence[Event]:
        return self.reading.events if self.taken is None else self.taken

    @cached_property
    def fold(self) -> Fold:
        """What was asked with, and the events that the session took."""
        fold = Fold(self.given.messages, self.given.state)
        for event in self.events:
            fold.apply(event)
        return fold

    @property
    def unsendable(self) -> set[str]:
        """The ids of messages that the session has and no request carries as they are: their calls are cut off."""
        sent = self.fold.history()
        return {message.id for message in self.fold.messages if message not in sent}

    @property
    def carried(self) -> list[str]:
        """The ids of the questions this request answers, in its order."""
        return [entry["interruptId"] for entry in self.request.get("resume", [])]

    @property
    def command(self) -> bool:
        """Whether it answers a question as older servers want it."""
        return "resume" in (self.request.get("forwardedProps") or {}).get("command", {})


@dataclass
class Open:
    """What an agent waits for an answer to, by what it said so far."""

    questions: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """The call that each question names, by its id."""
    is_legacy: bool = False

    def hear(self, spoken: Spoken) -> None:
        """The run is over: its questions take the place of what it was asked with; one that failed changes nothing."""
        finished = [event for event in spoken.events if isinstance(event, RunFinishedEvent)]
        if not finished:
            return
        outcome: Any = finished[-1].outcome
        asked = outcome.interrupts if outcome is not None and outcome.type == "interrupt" else ()
        self.questions = {interrupt.id: interrupt.tool_call_id for interrupt in asked}
        self.is_legacy = outcome is None and any(
            isinstance(event, CustomEvent) and event.name == "on_interrupt" for event in spoken.events
        )

    def held(self, spoken: Spoken) -> set[str]:
        """The calls that may be without an answer in a request that answers these questions."""
        named = {self.questions.get(name) for name in spoken.carried}
        if None in named or (self.is_legacy and spoken.command):
            return {call.id for message in spoken.given.messages for call in _calls(message)}
        return {name for name in named if name is not None}


def faults(thread: Sequence[Spoken], given_up: Collection[str] = ()) -> list[str]:
    """What is wrong with the requests of one thread, in order, and with what the session made of the answers.

    `given_up` are questions that the application has abandoned on its side.
    """
    found: list[str] = []
    waiting, before, unsendable = Open(), list[Spoken](), set[str]()
    for number, spoken in enumerate(thread):
        of_this = [
            *_malformed(spoken),
            *_reused(spoken, before),
            *_answers(spoken, waiting, given_up),
            *violations(spoken.given.messages, waiting.held(spoken)),
            *(_forgotten(spoken, before[-1]) if before else ()),
            *_heard_otherwise(spoken, unsendable),
        ]
        found += [f"request {number}: {fault}" for fault in of_this]
        waiting.hear(spoken)
        before.append(spoken)
        unsendable |= spoken.unsendable
    return found


def _malformed(spoken: Spoken) -> Iterator[str]:
    if spoken.request.get("protocolVersion") != "1.0":
        yield f"protocolVersion is {spoken.request.get('protocolVersion')!r}"
    yield from (f"{path} is null" for path in _nulls(spoken.request, ""))
    if spoken.request.get("resume") == []:
        yield "resume is empty"


def _nulls(value: Any, path: str) -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, dict):
        for name, member in value.items():
            if name not in FREE or member is None:
                yield from _nulls(member, f"{path}/{name}")
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _nulls(member, f"{path}/{index}")


def _reused(spoken: Spoken, before: Sequence[Spoken]) -> Iterator[str]:
    if spoken.given.run_id in {one.given.run_id for one in before}:
        yield f"run id {spoken.given.run_id} is used again"
    if before and spoken.given.thread_id != before[-1].given.thread_id:
        yield "the thread id has changed"


def _answers(spoken: Spoken, waiting: Open, given_up: Collection[str]) -> Iterator[str]:
    """Exactly the open questions are answered, each once, in the way the server asked."""
    carried, due = spoken.carried, set(waiting.questions)
    if len(carried) != len(set(carried)):
        yield f"a question is answered twice: {carried}"
    if set(carried) != due and (carried or not due <= set(given_up)):
        yield f"open are {sorted(due)}, answered {sorted(carried)}"
    if spoken.command != waiting.is_legacy and not given_up:
        yield "a question of the older kind is not answered" if waiting.is_legacy else "an answer nobody asked for"


def _forgotten(spoken: Spoken, last: Spoken) -> Iterator[str]:
    """The whole history goes along, unchanged and in order; new are answers to open calls, and a turn at the end."""
    history = last.fold.history()
    known = {message.id for message in history}
    asked = spoken.given.messages
    if _plain([message for message in asked if message.id in known]) != _plain(history):
        yield "the history is not what was said before"
    answered = {message.tool_call_id for message in history if isinstance(message, ToolMessage)}
    added = [message for message in asked if message.id not in known]
    if added and isinstance(added[-1], UserMessage) and added[-1] is asked[-1]:
        added = added[:-1]
    for message in added:
        if not isinstance(message, ToolMessage):
            yield f"{message.role} message {message.id} was never said"
        elif message.tool_call_id in answered:
            yield f"call {message.tool_call_id} had an answer already"
    if spoken.given.state != last.fold.state:
        yield "the state is not the last one"


def _heard_otherwise(spoken: Spoken, unsendable: Collection[str]) -> Iterator[str]:
    """What the session took is what another reads in the same bytes, and it made the same messages of it."""
    read_here = spoken.reading.events
    if list(spoken.events) != read_here[: len(spoken.events)]:
        yield "the session took other events than those in the stream"
    if spoken.messages is None:
        return
    if len(spoken.events) != len(read_here):
        yield f"the session took {len(spoken.events)} events of {len(read_here)}, and had a verdict"
    ours = [message for message in spoken.messages if message.id not in unsendable]
    theirs = [message for message in spoken.reading.inbound.fold.messages if message.id not in unsendable]
    for what, part in (("said", _said), ("results", _results)):
        if part(ours) != part(theirs):
            yield f"the session has other {what} than the stream gives: {part(ours)} for {part(theirs)}"


def _said(messages: Sequence[Message]) -> list[Any]:
    return _plain([message for message in messages if not isinstance(message, ToolMessage)])


def _results(messages: Sequence[Message]) -> dict[str, Any]:
    """By id: a snapshot may have them in another place, and requests put them behind their calls."""
    return {message.id: one for message in messages if isinstance(message, ToolMessage) for one in _plain([message])}


def _plain(messages: Sequence[Message]) -> list[Any]:
    return [message.model_dump(by_alias=True, exclude_none=True) for message in messages]


def _calls(message: Message) -> Sequence[Any]:
    return (message.tool_calls or ()) if isinstance(message, AssistantMessage) else ()
