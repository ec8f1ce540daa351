"""What a process complains of when nobody listens: the hooks of last resort, and errors in the log.

An exception in a finaliser or in a thread, a task that failed and that nobody awaited, a resource that was left open.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings


class Noise(logging.Handler):
    """`heard` is all there was since this was made."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []
        sys.unraisablehook = lambda said: self.heard.append(f"in {said.object!r}: {said.exc_value!r}")
        threading.excepthook = lambda said: self.heard.append(f"in {said.thread!r}: {said.exc_value!r}")
        logging.getLogger().addHandler(self)
        warnings.simplefilter("error", ResourceWarning)

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(f"{record.name}: {record.getMessage()}")
