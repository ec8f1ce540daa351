"""What the model is told of a call that gave no result of its own.

A call that was started and not seen to end is "unknown"; one that was not started was "not run". The two are never
mixed up, and neither is called a failure: nobody saw one.
"""

from __future__ import annotations

from handrail.events import AbandonReason

__all__ = ["UNRECORDED", "abandoned"]

UNRECORDED = "No result of this call was recorded: its outcome is unknown. It may or may not have taken effect."

_NOT_RUN: dict[AbandonReason, str] = {
    "cancelled": "This call was not run: the run was cancelled first.",
    "deadline": "This call was not run: a call before it did not end in time.",
    "budget-exhausted": "This call was not run: the budget of the run is used up.",
    "denied": "This call was not run: a person denied it.",
    "withdrawn": "This call was not run: the question whether to run it was withdrawn.",
    "aborted": "This call was not run: the run was stopped first.",
}
_UNKNOWN: dict[AbandonReason, str] = {
    "cancelled": "This call was running when the run was cancelled: its outcome is unknown.",
    "deadline": "This call did not end in time: its outcome is unknown. It may still take effect.",
    "aborted": "This call was running when the run was stopped: its outcome is unknown.",
    "unrecorded": UNRECORDED,
}


def abandoned(reason: AbandonReason, dispatched: bool, detail: str | None = None) -> str:
    """The text of a call that was given up; `detail` is a person's own reason."""
    text = (_UNKNOWN if dispatched else _NOT_RUN)[reason]
    return f"{text} Reason given: {detail}" if detail else text
