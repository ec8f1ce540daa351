"""The handle on a run: one thing to watch, to await, to cancel; for any driver and any event type.

`Run` is what a consumer holds, `RunDriver` what a driver holds, `drive` puts anything asynchronous behind a `Run`, and
`RunScope` gives runs a task group to live in (needed under trio). Nothing here knows a model, a tool or a protocol.
"""

from handrail.run._hosting import drive
from handrail.run._log import EventStream
from handrail.run._outcome import Outcome, Spend, Verdict
from handrail.run._run import Run, RunDriver
from handrail.run._scope import RunScope
from handrail.run._settled import Settled
from handrail.run._threads import Ended, start_thread

__all__ = [
    "Ended",
    "EventStream",
    "Outcome",
    "Run",
    "RunDriver",
    "RunScope",
    "Settled",
    "Spend",
    "Verdict",
    "drive",
    "start_thread",
]
