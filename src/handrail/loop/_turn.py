"""What one attempt has said so far: deltas joined into text, reasoning and calls. Pure.

Providers disagree about how the fragments of a call name the call they belong to. The rule: an index decides; a new id
or another name at a known index opens a new call there; without an index an id not seen before opens a call, a known
one continues its call, and no id continues the last call. Calls stand in the order in which they first appeared.

A character may be cut between two fragments, each with half of a surrogate pair. No half goes any further: the first
one is held back until the second comes, and one without a partner becomes U+FFFD.
"""

from __future__ import annotations

from typing import get_args

from handrail.agui._text import whole
from handrail.loop._backend import FinishDelta, FinishReason, ReasoningDelta, ToolCallDelta, Usage

__all__ = ["CallDraft", "Turn", "without_half"]


_CUT = ("length", "content-filter")
_REASONS = get_args(FinishReason)


class CallDraft:
    """A call as far as it has been streamed."""

    __slots__ = ("fragments", "id", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name: str | None = None
        self.fragments: list[str] = []

    @property
    def arguments(self) -> str:
        """The argument text as the model wrote it; absent is ""."""
        return whole("".join(self.fragments))

    def takes(self, delta: ToolCallDelta) -> bool:
        """Whether the fragment can belong to this call."""
        other_id = delta.id and self.id and delta.id != self.id
        other_name = delta.name and self.name and delta.name != self.name
        return not (other_id or other_name)

    def add(self, delta: ToolCallDelta) -> None:
        self.id = self.id or delta.id
        self.name = self.name or delta.name
        if delta.arguments:
            self.fragments.append(delta.arguments)


def without_half(text: str) -> tuple[str, str]:
    """The text, and the first half of a character at its end, which is held back; "" if there is none."""
    if "\ud800" <= text[-1:] <= "\udbff":
        return whole(text[:-1]), text[-1]
    return whole(text), ""


class Turn:
    """An answer in the making; `cut_text` and `cut_reasoning` are halves of characters that are held back."""

    __slots__ = (
        "_by_index",
        "calls",
        "cut_reasoning",
        "cut_text",
        "finish",
        "opaque",
        "reasoning_fragments",
        "text_fragments",
        "usage",
    )

    def __init__(self) -> None:
        self.text_fragments: list[str] = []
        self.reasoning_fragments: list[str] = []
        self.opaque: str | None = None
        self.calls: list[CallDraft] = []
        self.usage: Usage | None = None
        self.finish: FinishDelta | None = None
        self.cut_text = ""
        self.cut_reasoning = ""
        self._by_index: dict[int, CallDraft] = {}

    @property
    def text(self) -> str:
        return "".join(self.text_fragments)

    @property
    def reasoning(self) -> str:
        return "".join(self.reasoning_fragments)

    def add_reasoning(self, delta: ReasoningDelta) -> str:
        """A fragment of reasoning, given back without cut characters; of opaque values the last one counts."""
        text, self.cut_reasoning = without_half(self.cut_reasoning + delta.text)
        self.reasoning_fragments.append(text)
        self.opaque = delta.opaque or self.opaque
        return text

    def add_finish(self, delta: FinishDelta) -> None:
        """Why the model finished. Of several reasons the last one counts, but none makes a cut answer whole again."""
        if delta.reason is not None and delta.reason not in _REASONS:
            delta = FinishDelta("other", delta.model)
        if self.finish is None or self.finish.reason not in _CUT:
            self.finish = delta

    def add_call(self, delta: ToolCallDelta) -> None:
        """A fragment of a call."""
        call = self._meant_by(delta)
        if call is None or not call.takes(delta):
            call = CallDraft()
            self.calls.append(call)
        if delta.index is not None:
            self._by_index[delta.index] = call
        call.add(delta)

    def _meant_by(self, delta: ToolCallDelta) -> CallDraft | None:
        if delta.index is not None:
            return self._by_index.get(delta.index)
        if delta.id:
            return next((call for call in self.calls if call.id == delta.id), None)
        return self.calls[-1] if self.calls else None
