"""What the chat draws: a transcript laid out as blocks, one below the other.

Pure. A block is a key and what is to be seen under it, all of it safe to draw. The blocks of a part that did not change
are the same objects as last time, so that whoever draws them compares by identity.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, count
from operator import is_not
from typing import Any, Literal

from handrail.apps._visible import clipped, one_line, spelled, visible
from handrail.apps.chat._leaves import Leaves
from handrail.client._ledger import RUN_ENDED
from handrail.transcript import (
    ActivityPart,
    FilePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    Transcript,
    TranscriptMessage,
)

__all__ = ["Block", "Look", "Sheet"]

Look = Literal["speaker", "said", "prose", "thought", "call", "good", "bad", "waiting", "note"]
"""What a block is: who speaks, their words, Markdown, reasoning, a call as it stands, anything else."""

_SHORT = 300
_FULL = 20_000
_ROW = 80  # characters

_STATUS: dict[str, tuple[Look, str]] = {
    "streaming_arguments": ("call", "… arguments arriving"),
    "awaiting_result": ("call", "… waiting for its result"),
    "awaiting_approval": ("waiting", "? waiting for your approval"),
    "running": ("call", "… running here"),
    "complete": ("good", "✓ complete"),
    "failed": ("bad", "✗ failed"),
    "denied": ("bad", "✗ denied"),
}
_LOST: tuple[Look, str] = ("bad", "✗ the run ended before its result")
_SPEAKERS = {"user": "you", "assistant": "agent", "activity": "activity"}


@dataclass(frozen=True, slots=True)
class Block:
    """Something to draw. `text` is what is always seen, `more` what is seen when it is unfolded ("" for nothing).

    `weight` is how many rows it takes, about.
    """

    key: str
    look: Look
    text: str
    more: str = ""
    weight: int = 1


class Sheet:
    """Lays out the transcripts of one conversation, one after the other, by looking at what changed."""

    def __init__(self) -> None:
        self._messages: Sequence[TranscriptMessage] = ()
        self._pages: dict[str, tuple[TranscriptMessage, Sequence[Block]]] = {}
        self._parts: dict[str, tuple[Part, Sequence[Block]]] = {}
        self._leaves: dict[str, Leaves] = {}
        self._behind: set[str] = set()  # the parts of whose text only a beginning is laid out
        self._verdicts: dict[int, str] = {}  # by the number of the exchange
        self._verdict_blocks: dict[Block, Block] = {}
        self._blocks: list[Block] = []
        self._ends: list[int] = []  # of the pages, among the blocks

    @property
    def is_behind(self) -> bool:
        """Whether there was more text than is laid out at once: the same transcript once more goes on with it."""
        return bool(self._behind)

    def blocks(self, transcript: Transcript) -> list[Block]:
        """Everything there is to draw, in order."""
        before, messages = self._messages, transcript.messages
        same = 0 if self._behind else _same(before, messages)
        ids = {message.id for message in messages[same:]}
        self._forget([message for message in before[same:] if message.id not in ids])
        del self._ends[same:]
        del self._blocks[self._ends[-1] if self._ends else 0 :]
        before_it = messages[same - 1] if same else None
        for message in messages[same:]:
            _, page = self._pages[message.id] = message, self._page(message)
            if before_it is not None and _goes_on(before_it, message):
                page = page[1:]
            elif before_it is not None and before_it.exchange != message.exchange:
                self._blocks += self._verdict_behind(before_it)
            self._blocks += page
            self._ends.append(len(self._blocks))
            before_it = message
        self._messages = messages
        return list(self._blocks)

    def ended(self, transcript: Transcript, verdict: str) -> None:
        """Remember how the exchange of the last message ended, "" for well; it is said in front of what follows."""
        if transcript.messages:
            self._verdicts[transcript.messages[-1].exchange] = verdict

    def _verdict_behind(self, message: TranscriptMessage) -> Sequence[Block]:
        verdict = self._verdicts.get(message.exchange)
        if not verdict:
            return ()
        block = Block(f"end:{message.id}", "note", verdict, weight=1 + len(verdict) // _ROW)
        return (self._verdict_blocks.setdefault(block, block),)

    def _page(self, message: TranscriptMessage) -> Sequence[Block]:
        """The blocks of a message behind the name of its speaker; of one that did not change, those of last time."""
        before = self._pages.get(message.id)
        if before is not None and before[0] is message and not self._behind:
            return before[1]
        blocks = [Block(f"speaker:{message.id}", "speaker", _speaker(message))]
        for part in message.parts:
            drawn = self._parts.get(part.id)
            if drawn is None or drawn[0] is not part or part.id in self._behind:
                drawn = self._parts[part.id] = (part, self._drawn(part, message.role))
            blocks.extend(drawn[1])
        if before is not None:
            kept = {part.id for part in message.parts}
            self._drop([part.id for part in before[0].parts if part.id not in kept])
        return blocks

    def _drawn(self, part: Part, role: str) -> Sequence[Block]:
        if not isinstance(part, TextPart):
            return (_fold(part),)
        if role != "assistant":
            text, streaming = clipped(part.text, _FULL), part.streaming
            said = visible(text) + ("▌" if streaming else "")
            return (Block(part.id, "said", said, weight=1 + said.count("\n") + len(said) // _ROW),)
        return self._prose(part)

    def _prose(self, part: TextPart) -> Sequence[Block]:
        """A block for each leaf; all but the last of last time stand."""
        leaves = self._leaves.setdefault(part.id, Leaves())
        before = self._parts[part.id][1] if part.id in self._parts else ()
        stands = leaves.grow(part.text, is_whole=not part.streaming)
        (self._behind.add if leaves.is_behind else self._behind.discard)(part.id)
        blocks = list(before[:stands])
        for number in range(len(blocks), len(leaves.all)):
            block = Block(f"{part.id}/{number}", "prose", leaves.all[number], weight=leaves.weights[number])
            blocks.append(before[number] if number < len(before) and before[number] == block else block)
        return blocks

    def _forget(self, messages: Sequence[TranscriptMessage]) -> None:
        for message in messages:
            del self._pages[message.id]
            self._drop([part.id for part in message.parts])

    def _drop(self, part_ids: Sequence[str]) -> None:
        for part_id in part_ids:
            self._parts.pop(part_id, None)
            self._leaves.pop(part_id, None)
            self._behind.discard(part_id)


def _same(before: Sequence[TranscriptMessage], after: Sequence[TranscriptMessage]) -> int:
    """How many at the beginning are the same objects."""
    return next(compress(count(), map(is_not, before, after)), min(len(before), len(after)))


def _goes_on(before: TranscriptMessage, message: TranscriptMessage) -> bool:
    """Whether it needs no name in front: one speaker in one exchange. Two tries at an answer are never joined."""
    return (_speaker(before), before.exchange) == (_speaker(message), message.exchange)


def _speaker(message: TranscriptMessage) -> str:
    speaker = _SPEAKERS.get(message.role, message.role)
    return f"{speaker} ({one_line(clipped(message.name, 60))})" if message.name else speaker


def _fold(part: ReasoningPart | ToolCallPart | ActivityPart | FilePart) -> Block:
    match part:
        case ReasoningPart():
            size = f"{len(part.text):,} characters"
            state = f"thinking… {size}" if part.streaming else f"reasoning, {size}"
            return Block(part.id, "thought", state, visible(clipped(part.text, _FULL)))
        case ToolCallPart():
            return _call(part)
        case ActivityPart():
            content = _json(part.content)
            name = one_line(clipped(part.activity_type, 80))
            return Block(part.id, "note", f"activity {name}  {_line(content)}", _long(content))
        case FilePart():
            return Block(part.id, "note", _file(part))


def _call(part: ToolCallPart) -> Block:
    look, status = _LOST if _is_lost(part) else _STATUS[part.status]
    by = " here" if part.local and part.status == "complete" else ""
    arguments = spelled(part.arguments) if part.arguments.strip() else "{}" if part.arguments_complete else ""
    answer = _answer(part)
    lines = [f"{one_line(clipped(part.name, 80)) or 'a call nobody announced'}  {status}{by}"]
    if arguments:
        lines.append(f"→ {_line(arguments)}")
    if answer:
        lines.append(f"← {_line(answer)}")
    is_clipped = max(len(arguments), len(answer)) > _SHORT or "\n" in answer.strip()
    more = f"arguments\n{_long(arguments)}\n\nresult\n{_long(answer) or '(none yet)'}" if is_clipped else ""
    return Block(part.id, look, "\n".join(lines), more)


def _is_lost(part: ToolCallPart) -> bool:
    """Whether the run ended first, and how the tool did is not known; the next request says that much of it."""
    return part.status == "failed" and (part.result is None or part.error == RUN_ENDED)


def _answer(part: ToolCallPart) -> str:
    if part.result is None:
        return f"(none: {part.error})" if part.error else ""
    if isinstance(part.result, str):
        result = part.result or "(empty)"
    else:
        result = "\n".join(getattr(piece, "text", None) or f"[{piece.type}]" for piece in part.result)
    return f"{part.error}\n{result}" if part.error and part.error not in result else result


def _file(part: FilePart) -> str:
    where = f"{len(part.data):,} characters of base64" if part.data else part.url or part.file_id or "nowhere"
    kind = f"{part.kind} {part.mime_type}" if part.mime_type else part.kind
    keeper = f", kept by {_line(part.provider)}" if part.provider else ""
    return f"file: {_line(kind)}, {_line(where)}{keeper}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _line(text: str) -> str:
    return one_line(clipped(text, _SHORT))


def _long(text: str) -> str:
    return visible(clipped(text, _FULL))
