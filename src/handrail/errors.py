"""Every exception of the package, one tree.

A run that failed or was cancelled is data, not an exception: it is in no tree. What stands here is either misuse,
raised at once and before anything changed, or a cause that a result carries along.

    HandrailError
    |-- UsageError (RuntimeError)            a call in the wrong place; the text names the right one
    |   `-- NotSettled                       `.value` was read before there was one
    |-- BackendError                         how a backend fails an attempt; never leaves the loop
    |-- AbortRun                             raised by a tool to end the whole run
    |-- Refuse                               raised by an `authorize` or `loop` callable of a server
    |-- WireError                            something is wrong with what is on the wire; `kind` says what
    |   |-- RemoteProtocolError              the peer broke a shape or an order
    |   |-- RemoteDecodeError                a payload is not one JSON object, or too large
    |   |-- TruncatedError                   the body ended without a terminal event
    |   |-- TransportError                   the connection failed or fell silent
    |   |-- HttpError                        the status or the content type is not that of a stream
    |   `-- LocalProtocolError               what we are about to send breaks the protocol
    |-- PatchError                           a JSON Patch does not apply
    |-- InterruptedThreadError (RuntimeError)  the thread has open questions
    |-- NotInterruptedError (RuntimeError)   there is no question to answer
    |-- ResumeError (ValueError)             the answers do not fit the questions
    |-- RunIdReusedError (ValueError)        a run id was used before on this thread
    |-- ReentrantCallError (RuntimeError)    a tool calls the session that is executing it
    |-- SessionBusyError (RuntimeError)      not while an exchange is going on
    `-- SessionClosedError (RuntimeError)    the session was closed
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeVar, cast

__all__ = [
    "AbortRun",
    "BackendError",
    "HandrailError",
    "HttpError",
    "InterruptedThreadError",
    "LocalProtocolError",
    "NotInterruptedError",
    "NotSettled",
    "PatchError",
    "ReentrantCallError",
    "Refuse",
    "RemoteDecodeError",
    "RemoteProtocolError",
    "ResumeError",
    "RunIdReusedError",
    "SessionBusyError",
    "SessionClosedError",
    "TransportError",
    "TruncatedError",
    "UsageError",
    "WireError",
]


E = TypeVar("E", bound=BaseException)


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """The exceptions that a group is made of, however deep; any other exception is made of itself."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for part in cast("BaseExceptionGroup[BaseException]", error).exceptions:
        yield from leaves_of(part)


def first_of(error: BaseException, kind: type[E]) -> E | None:
    """The exception, or the first of this kind that a group is made of."""
    return next((leaf for leaf in leaves_of(error) if isinstance(leaf, kind)), None)


def words_of(error: BaseException) -> str:
    """What an exception says, and what those say that a group is made of; "" if its text raises, as anybody's may."""
    try:
        words = str(error)
    except Exception:  # whatever an exception's own text raises, it is still a failure like any other
        return ""
    parts = [f"{type(leaf).__name__}: {words_of(leaf)}" for leaf in leaves_of(error) if leaf is not error]
    return f"{words}: {'; '.join(parts)}" if parts else words


class HandrailError(Exception):
    """The root of every exception this package raises of its own. Each can be pickled, as a pool of processes does."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args), self.__dict__


def _again(cls: type[HandrailError], args: tuple[Any, ...]) -> HandrailError:
    """An exception without its `__init__`, which asks for more than `args`; what that had set comes behind it."""
    return cls.__new__(cls, *args)


class UsageError(HandrailError, RuntimeError):
    """A call in the wrong place or state; nothing has changed, and the text names the right call."""


class NotSettled(UsageError):
    """`Settled.value` was read before the value was set."""


class BackendError(HandrailError):
    """How a backend fails an attempt; the loop classifies it by structure and it never leaves the loop.

    `kind` is one of "http", "connection", "timeout", "response", "overflow", "content-filter", "unsupported",
    "misuse" or "other"; `status` an HTTP status; `retry_after` seconds; `usage` what the attempt had used.
    """

    def __init__(
        self,
        message: str,
        kind: str = "other",
        status: int | None = None,
        retry_after: float | None = None,
        usage: Any = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.usage = usage


class AbortRun(HandrailError):
    """Raised by a tool to end the whole run; the text becomes the error of the outcome."""


class Refuse(HandrailError):
    """Raised by a server's `authorize` or `loop` callable to answer with a status instead of a stream."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


class WireError(HandrailError):
    """Something is wrong on the wire; `kind` says what, the text who is to blame."""

    kind: str = "error"


class RemoteProtocolError(WireError):
    """The peer broke a shape or an order of the protocol."""

    kind = "protocol"

    def __init__(
        self,
        message: str,
        *,
        rule: str,
        event_type: str | None = None,
        index: int | None = None,
        path: str | None = None,
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.event_type = event_type
        self.index = index
        self.path = path


class RemoteDecodeError(WireError):
    """A payload of the peer is not one JSON object, or too large."""

    kind = "decode"

    def __init__(self, message: str, *, index: int | None = None, excerpt: str = "") -> None:
        super().__init__(message)
        self.index = index
        self.excerpt = excerpt


class TruncatedError(WireError):
    """The body ended cleanly with no terminal event."""

    kind = "truncated"

    def __init__(
        self,
        message: str = "Stream ended before RUN_FINISHED: it ended without a terminal event",
        *,
        run_started: bool = False,
        open_items: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.run_started = run_started
        self.open_items = tuple(open_items)


class TransportError(WireError):
    """The connection failed or fell silent; `phase` says when, `__cause__` why."""

    kind = "transport"

    def __init__(self, message: str, *, phase: Literal["connect", "send", "read", "idle"]) -> None:
        super().__init__(message)
        self.phase = phase


class HttpError(WireError):
    """The answer is not a stream: its status is not 200, or its content type another."""

    kind = "http"

    def __init__(
        self,
        message: str,
        *,
        status: int,
        content_type: str | None = None,
        location: str | None = None,
        body: bytes = b"",
        payload: Any = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.content_type = content_type
        self.location = location
        self.body = body
        self.payload = payload


class LocalProtocolError(WireError):
    """What we are about to send breaks the protocol; nothing has been sent."""

    kind = "local"

    def __init__(self, message: str, *, rule: str, path: str | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.path = path


class PatchError(HandrailError):
    """A JSON Patch does not apply; the value it was for is unchanged."""

    def __init__(self, message: str, *, index: int, op: str, path: str, why: str) -> None:
        super().__init__(message)
        self.index = index
        self.op = op
        self.path = path
        self.why = why


class InterruptedThreadError(HandrailError, RuntimeError):
    """The thread waits for answers; `interrupts` are the open questions."""

    def __init__(self, message: str, interrupts: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.interrupts = tuple(interrupts)


class NotInterruptedError(HandrailError, RuntimeError):
    """`resume` was called while no question is open."""


class ResumeError(HandrailError, ValueError):
    """The answers do not fit the open questions; each tuple lists all ids of its kind."""

    def __init__(
        self,
        message: str,
        *,
        uncovered: Sequence[str] = (),
        unknown: Sequence[str] = (),
        duplicate: Sequence[str] = (),
        expired: Sequence[str] = (),
        invalid: Sequence[tuple[str, str, str]] = (),
    ) -> None:
        super().__init__(message)
        self.uncovered = tuple(uncovered)
        self.unknown = tuple(unknown)
        self.duplicate = tuple(duplicate)
        self.expired = tuple(expired)
        self.invalid = tuple(invalid)


class RunIdReusedError(HandrailError, ValueError):
    """A run id was used before on this thread; nothing was sent."""

    def __init__(self, message: str, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class ReentrantCallError(HandrailError, RuntimeError):
    """A tool called the session that is executing it, which would wait for itself."""


class SessionBusyError(HandrailError, RuntimeError):
    """Not while an exchange of this session is going on."""


class SessionClosedError(HandrailError, RuntimeError):
    """The session was closed; its values stay readable."""
