"""Warnings of one run, for whoever asks: those that came before the asking, too."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from inspect import iscoroutinefunction

from handrail.agui._warnings import WarningRecord, WarningSink

__all__ = ["WarningLog"]

_logger = logging.getLogger("handrail.agui")


class WarningLog:
    """Keeps every warning and hands it on, in order; without anybody to hand it to, it is logged. Any thread."""

    __slots__ = ("_lock", "_records", "_sinks", "_told")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._records: list[WarningRecord] = []
        self._told = 0
        self._sinks: list[WarningSink] = []

    @property
    def records(self) -> tuple[WarningRecord, ...]:
        """All that came so far."""
        return tuple(self._records)

    def __call__(self, record: WarningRecord) -> None:
        self.keep(record)
        self.tell()

    def keep(self, record: WarningRecord) -> None:
        """Take a warning before anybody had the chance to ask for it; `tell` hands it on."""
        self._records.append(record)

    def tell(self) -> None:
        """Hand on what has only been kept so far."""
        with self._lock:
            while self._told < len(self._records):
                record = self._records[self._told]
                self._told += 1
                for sink in tuple(self._sinks) or (_log,):
                    _hand(record, sink)

    def subscribe(self, sink: WarningSink) -> Callable[[], None]:
        """Hand everything to `sink`, what came before first; returns the function that ends it.

        Raises `TypeError` for what cannot be called, and for a coroutine function, which nobody would await.
        """
        if not callable(sink) or iscoroutinefunction(sink):
            raise TypeError(f"a sink for warnings is a plain function of one WarningRecord, not {sink!r}")
        with self._lock:
            for record in self._records[: self._told]:
                _hand(record, sink)
            self._sinks.append(sink)
            self.tell()
        return lambda: self._unsubscribe(sink)

    def _unsubscribe(self, sink: WarningSink) -> None:
        with self._lock:
            self._sinks = [one for one in self._sinks if one is not sink]


def _log(record: WarningRecord) -> None:
    _logger.warning("%s: %s", record.code, record.message)


def _hand(record: WarningRecord, sink: WarningSink) -> None:
    try:
        sink(record)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # whoever listens is not to change how a run goes, and cancels nobody
        _logger.exception("a sink for warnings raised on %s", record.code)
