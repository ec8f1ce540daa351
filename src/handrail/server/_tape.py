"""What a run says on the wire: frames, encoded once and kept for any number of readers (P-95).

A tape has no task of its own. Whoever reads it has it take over what the run has said since it was last asked, so a
run that nobody reads costs nothing, and of ten readers the first one pays. Between reads a reader leaves its waker in
`waiters`, where the run itself will find it.

Whatever happens while events are translated and encoded, the tape ends with one terminal event: a failure at this end
closes what is open, says so with a code, and calls the run off (P-90).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ag_ui.core import Event

from handrail.agui._encode import encode, encode_next
from handrail.agui._ending import internal_error
from handrail.agui._outbound import ErrorText, Outbound
from handrail.events import RunEvent
from handrail.run import Run
from handrail.run._log import Log
from handrail.run._run import log_of
from handrail.run._waiters import Waiters

__all__ = ["Tape"]

_logger = logging.getLogger("handrail.server")

_MOST_AT_ONCE = 512
"""Events translated before other tasks get their turn; a run that went on unread may have many."""
_MOST_BYTES = 64 * 1024
"""What a send holds of small frames."""


class Tape:
    """The frames of one run, which may not have started yet."""

    __slots__ = ("_error_text", "_frames", "_log", "_out", "_read", "_run", "is_complete", "waiters")

    def __init__(self, out: Outbound, error_text: ErrorText | None) -> None:
        self._out: Outbound | None = out
        self._error_text = error_text
        self._run: Run[RunEvent] | None = None
        self._log: Log[RunEvent] | None = None
        self._read = 0
        self._frames: list[bytes] = []
        self.waiters = Waiters()
        """Where a waker is found when the run has something to say, or has begun."""
        self.is_complete = False
        """Whether the terminal event is on it."""

    def record(self, run: Run[RunEvent]) -> None:
        """From now on the tape takes over what this run says."""
        unstarted = self.waiters
        self._run, self._log = run, log_of(run)
        self.waiters = self._log.waiters
        unstarted.wake_all()

    def frames(self, start: int) -> tuple[bytes, int, bool]:
        """Frames from number `start` on that are ready, in one piece; the number behind them; whether more are."""
        has_more = self._take_over()
        ready = self._frames
        if start >= len(ready) - 1:
            return (ready[start] if start < len(ready) else b""), max(start, len(ready)), has_more
        end, size = start, 0
        for frame in ready[start : start + _MOST_AT_ONCE]:
            size += len(frame)
            if size > _MOST_BYTES and end > start:
                break
            end += 1
        return b"".join(ready[start:end]), end, has_more or end < len(ready)

    def has_news(self, start: int) -> bool:
        """Whether there is anything for a reader at `start`; takes nothing over."""
        is_further = self._log is not None and self._log.has_more(self._read)
        return is_further or start < len(self._frames) or self.is_complete

    def is_exhausted_at(self, start: int) -> bool:
        """Whether nothing is left for a new reader of a run that is over."""
        while self._take_over():
            pass
        return start >= len(self._frames)

    def _take_over(self) -> bool:
        """Translate what the run has said since the last look; whether there is more of it."""
        run, log, out = self._run, self._log, self._out
        if run is None or log is None or out is None:
            return False
        fresh = log.items[self._read : self._read + _MOST_AT_ONCE]
        self._read += len(fresh)
        try:
            for event in fresh:
                if (delta := out.next_delta(event)) is None:
                    self._add(out.feed(event))
                else:
                    self._frames.append(encode_next(len(self._frames), *delta))
            if log.end is not None and log.is_over(self._read):
                self._add(out.finish(run.result.value, self._error_text))
                self._complete()
        except Exception:
            _logger.exception("run %s cannot be told to its client any further; it is cancelled", run.id)
            run.cancel()
            self._fail(out)
        return not self.is_complete and self._read < len(log.items)

    def _fail(self, out: Outbound) -> None:
        before = len(self._frames)
        try:
            self._add(out.fail())
        except Exception:
            _logger.exception("nor can what is open be closed")
            del self._frames[before:]
            self._add([internal_error()])
        self._complete()

    def _complete(self) -> None:
        self.is_complete = True
        self._out = self._run = self._log = None
        self.waiters.wake_all()

    def _add(self, events: Sequence[Event]) -> None:
        for event in events:
            self._frames.append(encode(len(self._frames), event))
