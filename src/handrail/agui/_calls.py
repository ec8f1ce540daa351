"""Tool calls and their results, event by event (P-50 to P-52, P-62).

A call id may be seen again. In the run that streamed it, the call goes on. One that an earlier run was cut off in
starts over: half its arguments are of no use to anybody. Else the server repeats itself, or goes on with a call nobody
answered, or uses the id for another call; which one it is shows in the arguments, so until they have ended they are
collected aside (`_Replay`) and the known call stays as it is. A result that comes meanwhile is the known call's, unless
it is clear already that this is another one, and is taken back from it if it turns out so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ag_ui.core import (
    AssistantMessage,
    Message,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from handrail.agui._entries import Call, Entry
from handrail.agui._models import made
from handrail.agui._text import join
from handrail.agui._thread import Thread

__all__ = ["ToolCalls"]

_CARRIER = made(AssistantMessage, id="", role="assistant")
"""What a message begins as that a call needs to stand in."""


class _Replay:
    """The id of a call of an earlier run, started once more: what came, until its end says what it was."""

    __slots__ = ("metadata", "pieces", "replaced", "start", "was_answered")

    def __init__(self, start: ToolCallStartEvent, known: Call) -> None:
        self.start = start
        self.was_answered = known.result is not None
        self.pieces: list[str] = []
        self.metadata: dict[str, Any] | None = None
        self.replaced: Message | None = None
        """The result of the known call, if another has come in its place since the start."""

    def append(self, arguments: str) -> None:
        self.pieces.append(arguments)

    def merge(self, metadata: dict[str, Any] | None) -> None:
        if metadata is not None:
            self.metadata = {**(self.metadata or {}), **metadata}

    def repeats(self, known: Call) -> bool:
        """Whether all that has come may be the beginning of the known call."""
        function = known.build().function
        return self.start.tool_call_name == function.name and function.arguments.startswith(join(self.pieces))

    def goes_on(self, known: Call) -> bool:
        """Whether other arguments are more of the known call's."""
        return self.start.tool_call_name == known.name and not self.was_answered

    def is_another(self, known: Call) -> bool:
        """Whether it can no longer be the known call; asked until the known call is given another result."""
        return self.replaced is None and not self.goes_on(known) and not self.repeats(known)


class ToolCalls:
    """The calls of a thread as its events tell of them; `warn` takes a code and a text."""

    __slots__ = ("_listed", "_started", "_streaming", "_thread", "_warn")

    def __init__(self, thread: Thread, warn: Callable[[str, str], None]) -> None:
        self._thread = thread
        self._warn = warn
        self._streaming: dict[str, Call | _Replay] = {}
        self._started: dict[str, None] = {}
        self._listed: tuple[str, ...] = ()

    @property
    def pending(self) -> tuple[str, ...]:
        """The calls of this run without a result, in call order; else the list that its success gave (P-62)."""
        calls = self._thread.calls
        return self._listed or tuple(name for name in self._started if name in calls and calls[name].result is None)

    def begin_run(self) -> None:
        self.end_run()
        self._started, self._listed = {}, ()

    def end_run(self) -> None:
        """What is open was cut off; a result that it took from a call which it cannot be is given back."""
        streaming, self._streaming = self._streaming, {}
        for name, replay in streaming.items():
            known = self._thread.calls.get(name)
            if isinstance(replay, _Replay) and known is not None and replay.replaced and not replay.repeats(known):
                self._reuse(replay, known, complete=False)

    def list_pending(self, ids: Iterable[str]) -> None:
        """Takes the list of a success as it is; an empty one says nothing."""
        self._listed = tuple(ids)

    def forget_dropped(self) -> None:
        """After a snapshot: what was still receiving arguments and is no longer there."""
        for name, call in list(self._streaming.items()):
            renewed = self._thread.calls.get(name)
            if isinstance(call, Call) and renewed is not None:
                self._streaming[name] = renewed
            elif renewed is None:
                del self._streaming[name]
                self._warn("snapshot-dropped-open", f"the snapshot leaves out tool call {name!r}, which is still open")

    def start(self, event: ToolCallStartEvent) -> None:
        name = event.tool_call_id
        self._started[name] = None
        call: Call | _Replay | None = self._thread.calls.get(name)
        if call is None:
            call = self._add(event, self._carrier(event), complete=False)
        elif call.run == self._thread.run:
            self._warn("tool-call-reopened", f"tool call {name!r} is started again and its arguments go on")
            self._rename(call, event.tool_call_name)
            call.complete = False
        elif not call.complete and call.result is None:
            self._warn("tool-call-reopened", f"tool call {name!r}, cut off in an earlier run, starts over")
            self._rename(call, event.tool_call_name)
            call.clear()
            call.run = self._thread.run
        else:
            call = _Replay(event, call)
        call.merge(event.metadata)
        self._streaming[name] = call

    def args(self, event: ToolCallArgsEvent) -> None:
        call = self._streaming.get(event.tool_call_id)
        if call is not None:
            call.append(event.delta)
            call.merge(event.metadata)

    def end(self, event: ToolCallEndEvent) -> None:
        call = self._streaming.pop(event.tool_call_id, None)
        if call is None:
            return
        call.merge(event.metadata)
        if isinstance(call, _Replay):
            self._judge(call)
        else:
            call.complete = True

    def result(self, event: ToolCallResultEvent) -> None:
        name = event.tool_call_id
        call = self._thread.calls.get(name)
        replay = self._streaming.get(name)
        if call is not None and isinstance(replay, _Replay) and replay.is_another(call):
            call = self._streaming[name] = self._reuse(replay, call, complete=False)
        before = call.result if call is not None else self._result_without_call(event)
        if before is not None:
            self._warn("second-result", f"a second result for tool call {name!r} replaces the first")
        elif name in self._streaming:
            self._warn("result-before-end", f"the result of tool call {name!r} came before its end")
        message = made(
            ToolMessage,
            id=self._free_id(event, before),
            role="tool",
            content=event.content,
            tool_call_id=name,
            subagent_run_id=event.subagent_run_id,
            metadata=event.metadata,
        )
        if before is None:
            self._thread.add(message)
            return
        if isinstance(replay, _Replay) and replay.was_answered and replay.replaced is None:
            replay.replaced = before.build()
        self._thread.put(before, message)

    def _result_without_call(self, event: ToolCallResultEvent) -> Entry | None:
        self._warn(
            "result-without-call", f"result {event.message_id!r} is for tool call {event.tool_call_id!r}, unknown here"
        )
        entry = self._thread.by_id.get(event.message_id)
        message = entry.build() if entry is not None else None
        return entry if isinstance(message, ToolMessage) and message.tool_call_id == event.tool_call_id else None

    def _free_id(self, event: ToolCallResultEvent, before: Entry | None) -> str:
        """The id of a result, which no other message may have."""
        taken = self._thread.by_id.get(event.message_id)
        if taken is None or taken is before:
            return event.message_id
        name = self._thread.free_id(event.message_id)
        code = "message-id-reused" if taken.role == "tool" else "message-kind"
        held = f"that of a message of role {taken.role}"
        self._warn(code, f"the id {event.message_id!r} of a result is {held}; kept as {name!r}")
        return name

    def _add(self, event: ToolCallStartEvent, entry: Entry, *, complete: bool) -> Call:
        return self._thread.begin_call(entry, event.tool_call_id, event.tool_call_name, complete=complete)

    def _rename(self, call: Call, name: str) -> None:
        if call.name != name:
            self._warn("call-renamed", f"tool call {call.id!r} was of {call.name!r} and is now of {name!r}")
            call.name = name

    def _carrier(self, event: ToolCallStartEvent) -> Entry:
        """The assistant message for a new call: its parent if that is one, else a new one (P-50)."""
        parent = event.parent_message_id
        entry = self._thread.by_id.get(parent) if parent is not None else None
        if entry is not None and entry.role != "assistant":
            whose = f"the parent {parent!r} of tool call {event.tool_call_id!r}"
            self._warn("message-kind", f"{whose} is a message of role {entry.role}")
        elif entry is not None:
            return entry
        if parent is not None and entry is None:
            return self._new_carrier(event, parent)
        own = self._thread.by_id.get(event.tool_call_id)
        if own is not None and own.role == "assistant":
            return own
        return self._new_carrier(event, event.tool_call_id)

    def _new_carrier(self, event: ToolCallStartEvent, wanted: str) -> Entry:
        return self._thread.begin(_CARRIER, self._thread.free_id(wanted), event.subagent_run_id)

    def _judge(self, replay: _Replay) -> None:
        """Says what a call of an earlier run was, now that its arguments have come once more (P-51)."""
        call = self._thread.calls.get(replay.start.tool_call_id)
        if call is None:
            return
        arguments = join(replay.pieces)
        if replay.repeats(call) and arguments == call.build().function.arguments:
            call.complete = True
            call.merge(replay.metadata)
        elif replay.goes_on(call):
            self._warn("tool-call-reopened", f"tool call {call.id!r} of an earlier run goes on with other arguments")
            call.run, call.complete = self._thread.run, True
            call.append(arguments)
            call.merge(replay.metadata)
        else:
            self._reuse(replay, call, complete=True)

    def _reuse(self, replay: _Replay, known: Call, *, complete: bool) -> Call:
        """Makes another call of a replay, under the same id and in a message of its own, with the result it brought."""
        event, before = replay.start, known.result
        self._warn("call-id-reused", f"the id {known.id!r} of an earlier tool call is used for another call")
        parent = event.parent_message_id
        wanted = parent if parent is not None and parent not in self._thread.by_id else known.id
        call = self._add(event, self._new_carrier(event, wanted), complete=complete)
        call.append(join(replay.pieces))
        call.merge(replay.metadata)
        if replay.replaced is not None and before is not None:
            result = before.build()
            self._thread.put(before, replay.replaced)
            self._thread.add(result)
        return call
