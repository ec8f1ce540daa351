"""How a run of a thread stands: not yet, going on, finished in the agent's words, or failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from ag_ui.core import Interrupt

from handrail.agui._copies import copied
from handrail.agui._verdict import CANCELLED_CODE, CLIENT_ERROR_CODE
from handrail.errors import WireError
from handrail.events._handed_out import hands_out_copies

__all__ = [
    "CANCELLED_CODE",
    "CANCELLED_MESSAGE",
    "CLIENT_ERROR_CODE",
    "Failed",
    "FailureKind",
    "Finished",
    "Idle",
    "RunState",
    "Running",
]

CANCELLED_MESSAGE = "Run cancelled"

FailureKind = Literal["agent", "cancelled", "protocol", "decode", "truncated", "transport", "http", "local", "error"]


@dataclass(frozen=True, slots=True)
class Idle:
    """No run of this thread has started yet."""

    ok: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Running:
    """A run is going on; its ids are the agent's own."""

    thread_id: str
    run_id: str
    ok: ClassVar[bool] = False


@hands_out_copies("result", "interrupts", read=copied)
@dataclass(frozen=True, slots=True)
class Finished:
    """The agent said that its run is over, and how.

    `result` is set on success only, `interrupts` on "interrupt" only. `late_error` is what the agent reported after it
    had finished; the verdict stands, and so does `ok`.
    """

    thread_id: str
    run_id: str
    outcome: Literal["success", "interrupt", "cancelled"] = "success"
    result: Any = None
    interrupts: tuple[Interrupt, ...] = ()
    late_error: Failed | None = None

    @property
    def ok(self) -> bool:
        """Whether the run ended in success; asking and being cancelled are neither success nor failure."""
        return self.outcome == "success"


@dataclass(frozen=True, slots=True)
class Failed:
    """The run failed, or was cancelled on this side.

    `code` is the agent's own or None, `CLIENT_ERROR_CODE` or `CANCELLED_CODE`. `cause` is the exception behind a
    failure that the client found, and None where the agent reported it or somebody cancelled.
    """

    message: str
    code: str | None = None
    cause: BaseException | None = None
    ok: ClassVar[bool] = False

    @property
    def kind(self) -> FailureKind:
        """Where the failure came from, read off the cause; "error" is an exception that is no matter of the wire."""
        if isinstance(self.cause, WireError):
            return self.cause.kind  # pyright: ignore[reportReturnType]  # the tree of WireError has just these kinds
        if self.cause is not None or self.code == CLIENT_ERROR_CODE:
            return "error"
        return "cancelled" if (self.message, self.code) == (CANCELLED_MESSAGE, CANCELLED_CODE) else "agent"


RunState: TypeAlias = Idle | Running | Finished | Failed
