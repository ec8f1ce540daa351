"""Tool calls on the page: their arguments as they arrive, and their status.

A call is *open* while its arguments arrive and *waiting* from then on until somebody answers it; a waiting call may be
*held* by a question that the user has to answer first. The end of a run visits open and waiting calls only.

A call that is known from before this run may be streamed again: a replay. Its arguments are collected aside, and judged
when they are complete: equal ones change nothing; others are appended while nobody has answered the call, and are a new
call under the same id when somebody has (S-132, S-133). An answer that comes meanwhile waits, since it is for the call
that the replay turns out to be. Within one run a call that is started again goes on (S-134); one that an earlier run
was cut off in starts over, as it does on the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import (
    Interrupt,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from handrail.agui._copies import copied
from handrail.transcript._arguments import Parsed
from handrail.transcript._model import CallStatus, ToolCallPart
from handrail.transcript._page import Page
from handrail.transcript._restore import result_of
from handrail.transcript._text import GrowingText

__all__ = ["Calls"]


@dataclass(slots=True)
class _Replay:
    start: ToolCallStartEvent
    text: GrowingText = field(default_factory=GrowingText)
    answers: list[tuple[ToolCallResultEvent, str | None]] = field(
        default_factory=list[tuple[ToolCallResultEvent, str | None]]
    )


class Calls:
    """What happens to the calls of a page. `place_for(event)` says where a new call is written, and as whose."""

    def __init__(self, page: Page, place_for: Callable[[str, str | None], tuple[int, str]]) -> None:
        self._page = page
        self._place_for = place_for
        self._open: dict[str, str] = {}
        self._waiting: dict[str, None] = {}
        self._started: set[str] = set()
        self._replays: dict[str, _Replay] = {}
        self._held: frozenset[str] = frozenset()
        self._denied: dict[str, str] = {}

    def begin_run(self) -> None:
        """What was streamed from here on belongs to a new run."""
        self._started.clear()

    def recount(self) -> None:
        """The page was rewritten: forget the calls that are gone, and find those that wait."""
        page = self._page
        self._open = {call: part for call, part in self._open.items() if part in page.calls.get(call, ())}
        self._waiting = {}
        for message in page.messages:
            for part in message.parts:
                if not isinstance(part, ToolCallPart):
                    continue
                if part.status in _UNANSWERED:
                    self._waiting[part.id] = None
                elif part.result is not None and part.tool_call_id in self._denied and part.status != "denied":
                    page.change(part.id, status="denied", error=self._denied[part.tool_call_id])
        self._hold_again()

    # -- arguments -------------------------------------------------------------------------------------------------

    def start(self, event: ToolCallStartEvent) -> None:
        known = self._page.call(event.tool_call_id)
        if known is None:
            self._begin(event, event.parent_message_id)
        elif not known.name:  # its result came before it
            self._page.give(known.id, self._page.owner_of_call(event.tool_call_id, event.parent_message_id))
            self._reopen(known, event.tool_call_name)
        elif event.tool_call_id in self._started:
            self._reopen(known, event.tool_call_name)
        elif not known.arguments_complete and known.result is None:
            self._reopen(known, event.tool_call_name, arguments="", error=None)
        else:
            self._replays[event.tool_call_id] = _Replay(copied(event))

    def grow(self, event: ToolCallArgsEvent) -> None:
        if not event.delta:
            return
        part_id = self._open.get(event.tool_call_id)
        if part_id is not None:
            self._page.grow(part_id, event.delta)
        elif (replay := self._replays.get(event.tool_call_id)) is not None:
            replay.text = replay.text.plus(event.delta)

    def end(self, event: ToolCallEndEvent) -> None:
        replay = self._replays.pop(event.tool_call_id, None)
        if replay is not None:
            self._judge(replay.start, replay.text.read())
            self._answer_all(replay)
        if (part_id := self._open.pop(event.tool_call_id, None)) is not None:
            self._complete(event.tool_call_id, part_id)

    def _begin(self, event: ToolCallStartEvent, parent: str | None) -> None:
        call_id = event.tool_call_id
        at, owner = self._place_for(call_id, parent)
        part = ToolCallPart(
            f"tool:{call_id}", owner, call_id, event.tool_call_name, subagent_run_id=event.subagent_run_id
        )
        self._open[call_id] = self._page.add(at, part).id
        self._started.add(call_id)
        self._denied.pop(call_id, None)

    def _reopen(self, part: ToolCallPart, name: str, **changes: Any) -> None:
        self._waiting.pop(part.id, None)
        self._open[part.tool_call_id] = part.id
        self._started.add(part.tool_call_id)
        changes |= {"name": name, "status": "streaming_arguments", "arguments_complete": False}
        self._page.change(part.id, parsed_arguments=None, **changes)

    def _judge(self, event: ToolCallStartEvent, arguments: str) -> None:
        known = self._page.call(event.tool_call_id)
        if known is None:
            return
        if known.name != event.tool_call_name or (arguments != known.arguments and known.result is not None):
            self._begin(event, self._page.free_owner(event.tool_call_id, event.parent_message_id))
        elif arguments != known.arguments:
            self._reopen(known, known.name)
        else:
            return
        if arguments:
            self._page.grow(self._open[event.tool_call_id], arguments)

    def _complete(self, call_id: str, part_id: str) -> None:
        page = self._page
        if page.get(part_id, "result") is None:
            self._waiting[part_id] = None
            status = self._unanswered(call_id)
        else:
            status = _answered(page.get(part_id, "error"))
        parsed = Parsed(page.get(part_id, "arguments"))
        page.change(part_id, arguments_complete=True, parsed_arguments=parsed, status=status)

    # -- answers ---------------------------------------------------------------------------------------------------

    def answer(self, event: ToolCallResultEvent | ToolMessage, error: str | None, *, local: bool, denied: bool) -> None:
        """Write the answer to a call. One for a call that nobody made gets a part of its own, without a name."""
        call_id = event.tool_call_id
        replay = self._replays.get(call_id)
        if replay is not None and isinstance(event, ToolCallResultEvent):
            replay.answers.append((copied(event), error))
            return
        page = self._page
        part_id = self._meant_by(event)
        if part_id is None:
            at, owner = self._place_for(call_id, None)
            part = ToolCallPart(f"tool:{call_id}", owner, call_id, "", arguments_complete=True, status="complete")
            part_id = page.add(at, part).id
        denial = self._denied.get(call_id)
        error = denial if error is None else error
        told: dict[str, Any] = {"result": result_of(event.content), "error": error, "local": local}
        status = page.get(part_id, "status")
        if status != "streaming_arguments":
            self._waiting.pop(part_id, None)
            denied = denied or denial is not None or status == "denied"
            told["status"] = "denied" if denied else _answered(error)
        if any(page.get(part_id, name) != value for name, value in told.items()):
            page.change(part_id, **told)

    def _meant_by(self, event: ToolCallResultEvent | ToolMessage) -> str | None:
        """The latest call with the id; for what was answered here, an earlier one where only that has no answer."""
        parts = self._page.calls.get(event.tool_call_id)
        if not parts or isinstance(event, ToolCallResultEvent):
            return parts[-1] if parts else None
        return next((part_id for part_id in reversed(parts) if self._page.get(part_id, "result") is None), parts[-1])

    def _answer_all(self, replay: _Replay) -> None:
        for event, error in replay.answers:
            self.answer(event, error, local=False, denied=False)

    def waits(self, call_id: str) -> bool:
        """Whether the latest call with this id is complete, unanswered and not given up."""
        parts = self._page.calls.get(call_id)
        return bool(parts) and parts[-1] in self._waiting

    def run_tool(self, call_id: str) -> None:
        """The tool of a call has been started on this side."""
        part = self._page.call(call_id)
        if part is not None and part.id in self._waiting:
            self._page.change(part.id, status="running")

    def hold(self, held: Iterable[str], denied: Mapping[str, str]) -> None:
        """Say which calls open questions stand before, and which ones the user refused (S-101, S-104)."""
        self._held = frozenset(held)
        self._denied = dict(denied)
        self._hold_again()

    def held_by(self, interrupts: Iterable[Interrupt]) -> set[str]:
        """The calls that questions of this run stand before: those they name, or all of the run for one without."""
        held: set[str] = set()
        for interrupt in interrupts:
            if interrupt.tool_call_id is not None:
                held.add(interrupt.tool_call_id)
            else:
                held.update(self._started)
        return held

    def _hold_again(self) -> None:
        for part_id in tuple(self._waiting):
            part: ToolCallPart = self._page.part(part_id)
            status = self._unanswered(part.tool_call_id)
            if status != part.status and part.status != "running":
                self._page.change(part_id, status=status)
            denial = self._denied.get(part.tool_call_id)
            if denial is not None and part.tool_call_id not in self._held:
                del self._waiting[part_id]
                self._page.change(part_id, status="denied", result=denial, error=denial, local=True)

    def _unanswered(self, call_id: str) -> CallStatus:
        return "awaiting_approval" if call_id in self._held else "awaiting_result"

    # -- the end of a run ------------------------------------------------------------------------------------------

    def settle(self, error: str | None) -> None:
        """The run is over: calls whose arguments are not complete will never be."""
        replays, self._replays = self._replays, {}
        for call_id, replay in replays.items():
            known, arguments = self._page.call(call_id), replay.text.read()
            if replay.answers and known is not None and not known.arguments.startswith(arguments):
                self._judge(replay.start, arguments)
            self._answer_all(replay)
        for part_id in self._open.values():
            self._page.change(part_id, status="failed", error=error)
        self._open.clear()

    def give_up(self, error: str | None) -> None:
        """The run did not succeed: nobody will answer what it called, unless a question is still open."""
        for part_id in tuple(self._waiting):
            part: ToolCallPart = self._page.part(part_id)
            if part.status != "awaiting_approval":
                del self._waiting[part_id]
                self._page.change(part_id, status="failed", error=error)


def _answered(error: str | None) -> CallStatus:
    return "complete" if error is None else "failed"


_UNANSWERED = ("awaiting_result", "awaiting_approval", "running")
