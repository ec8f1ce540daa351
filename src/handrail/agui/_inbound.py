"""Everything that comes in, by whatever way: bytes or payloads to checked events, applied one at a time.

    frames > JSON > what older peers send > shapes > chunks > order > messages and state > verdict

A payload goes the whole way before the next is looked at, also when both came in one read. What it expands to is judged
together: if one event of it is refused, none of it is applied. After a refusal nothing further is judged, and what was
applied before stays. Nothing here raises for what a peer did: the verdict has it.

Most payloads are deltas, and take the quick pass (`_enforce`) instead of JSON, translation and shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, cast

from ag_ui.core import Event, Message, RunErrorEvent, RunFinishedEvent, RunStartedEvent

from handrail.agui._chunks import CHUNKS, ChunkExpansion
from handrail.agui._compat import LegacyEvents, version_warning
from handrail.agui._enforce import quick_event, read_event
from handrail.agui._fold import Fold
from handrail.agui._json import decode_utf8, excerpt, parse_json
from handrail.agui._shapes import kind_of
from handrail.agui._sse import EventStreamFraming
from handrail.agui._verdict import Verdict, VerdictLatch
from handrail.agui._verify import Verifier
from handrail.agui._warnings import WarningRecord, WarningSink
from handrail.errors import RemoteDecodeError, RemoteProtocolError, WireError

__all__ = ["DEFAULT_MAX_EVENT_BYTES", "Framing", "Inbound"]

DEFAULT_MAX_EVENT_BYTES = 16 * 2**20
_LIFE_OF_A_RUN = frozenset[type]({RunStartedEvent, RunFinishedEvent, RunErrorEvent})


class Framing(Protocol):
    """How a body holds its payloads; the event stream is one way (`EventStreamFraming`), another binding another."""

    def feed(self, read: bytes, /) -> Iterable[bytes]:
        """The payloads that this read completes."""
        ...

    def end(self) -> bytes | None:
        """The payload that the end of the body cut off, or None."""
        ...


class Inbound:
    """One stream coming in. Feed it as it arrives and take the events out; ask it for the rest at any time.

    `warn` is told of everything tolerated, `new_id` gives ids for what old peers send without. `thread_id` and `run_id`
    are those of the request, None where there was none; `messages` and `state` what the thread held before.
    `lenient` is for servers older than 1.0: null in any optional field reads as absent, and ids that disagree are a
    warning. No method raises for what the peer did; `verdict` says it.
    """

    def __init__(
        self,
        *,
        warn: WarningSink,
        new_id: Callable[[], str],
        thread_id: str | None = None,
        run_id: str | None = None,
        messages: Sequence[Message] = (),
        state: Any = None,
        lenient: bool = False,
        max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES,
        framing: Framing | None = None,
    ) -> None:
        self._warn = warn
        self._lenient = lenient
        self._framing: Framing = framing or EventStreamFraming(max_event_bytes)
        self._legacy = LegacyEvents(warn, new_id)
        self._verifier = Verifier(thread_id=thread_id, mismatch=warn if lenient else None)
        self._chunks = ChunkExpansion(self._verifier.owner_of)
        self.fold = Fold(messages, state, warn=warn)
        """The messages and the state that the events have made, and what is pending."""
        self._latch = VerdictLatch(thread_id, run_id, warn)
        self._index = -1
        self._has_told_encoding = False
        self.is_over = False
        """Whether nothing further is read: something was refused, or reading ended."""

    def feed(self, read: bytes) -> Iterator[Event]:
        """The events of a read of the body; to be taken to the end before the next read is fed."""
        return self._events(self._framing.feed(read), self._read_bytes, quick_event)

    def feed_payload(self, payload: dict[str, Any]) -> Iterator[Event]:
        """The events of a payload that needs no framing and no JSON; the payload is not changed."""
        return self._events((payload,), self._read_object)

    def end(self) -> Iterator[Event]:
        """The body ended: the events of a last frame without its blank line, then the verdict is final."""
        rest = None if self.is_over else self._framing.end()
        if rest is not None and self._is_whole(rest):
            self._warn(WarningRecord("unfinished-frame", f"the body ended inside its last frame: {excerpt(rest)}"))
            yield from self._events((rest,), self._read_bytes, quick_event)
        self._latch.end(self._verifier.open_items())
        self._stop()

    def fail(self, error: WireError) -> None:
        """The connection failed, or it was never a stream: the verdict, unless one stands."""
        self._latch.fail(error)
        self._stop()

    def cancel(self) -> None:
        """The caller stopped the run, or the reading after its end: the verdict, unless one stands."""
        self._latch.cancel()
        self._stop()

    @property
    def has_verdict(self) -> bool:
        """Whether the agent has said how its last run ended."""
        return self._latch.stands

    @property
    def verdict(self) -> Verdict:
        """How the last run on the stream ended; how it would, were the body to end now."""
        return self._latch.verdict()

    def _events(
        self,
        payloads: Iterable[Any],
        read: Callable[[Any], Event | None],
        quick: Callable[[Any], Event | None] = lambda payload: None,
    ) -> Iterator[Event]:
        chunks, accept, apply = self._chunks, self._verifier.accept, self.fold.apply
        try:
            for payload in () if self.is_over else payloads:
                self._index += 1
                try:
                    event = quick(payload) or read(payload)
                except RemoteDecodeError as error:
                    if not self._latch.stands:
                        raise
                    self._latch.refuse(error)
                    continue
                if event is None:
                    continue
                if chunks.open or type(event) in CHUNKS:
                    parts = chunks.expand(event)
                    if self._verifier.phase != "running" and type(event) in CHUNKS:
                        accept(event)  # it is refused as what it is, and not as what it stands for
                    for part in parts:
                        accept(part)
                else:
                    accept(event)
                    parts = (event,)
                for part in parts:
                    apply(part)
                    if type(part) in _LIFE_OF_A_RUN:
                        self._note(part)
                    yield part
        except WireError as error:
            if isinstance(error, RemoteProtocolError):
                error.index = self._index
            elif isinstance(error, RemoteDecodeError) and error.index is None:
                error.index = self._index + 1  # the framing's: the event did not become one
            self._latch.refuse(error)
            self._stop()

    def _note(self, event: Any) -> None:
        self._latch.note(event)
        if isinstance(event, RunStartedEvent) and (said := version_warning(event.protocol_version)) is not None:
            self._warn(said)

    def _read_bytes(self, payload: bytes) -> Event | None:
        return self._read_object(self._decode(payload))

    def _read_object(self, payload: Any) -> Event | None:
        _check_payload(payload, self._index)
        return read_event(self._legacy.translate(payload), self._warn, null_is_absent=self._lenient)

    def _decode(self, payload: bytes) -> Any:
        text, was_mended = decode_utf8(payload)
        if was_mended and not self._has_told_encoding:
            self._has_told_encoding = True
            self._warn(WarningRecord("encoding", "the stream is not UTF-8: invalid bytes are read as U+FFFD"))
        try:
            return parse_json(text)
        except ValueError as error:
            raise _not_an_object(payload, str(error), self._index) from None

    def _is_whole(self, payload: bytes) -> bool:
        try:
            _check_payload(parse_json(decode_utf8(payload)[0]), self._index)
        except (ValueError, RemoteDecodeError):
            return False
        return True

    def _stop(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._latch.stop()


def _check_payload(payload: Any, index: int) -> None:
    if not isinstance(payload, dict):
        raise _not_an_object(payload, "it is another kind of value", index)
    members = cast("dict[str, Any]", payload)
    if "type" not in members:
        raise _not_an_object(members, "it has no type", index)
    name = members["type"]
    if not isinstance(name, str) or not name:
        raise _not_an_object(members, f"its type is not a name but {kind_of(name)}", index)


def _not_an_object(payload: object, why: str, index: int) -> RemoteDecodeError:
    shown = excerpt(payload)
    text = f"the agent sent something that is not one JSON object with a type, as event {index}: {why}: {shown}"
    return RemoteDecodeError(text, index=index, excerpt=shown)
