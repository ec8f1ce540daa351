"""Step 5 of a round: asking one backend after the other until one has answered.

Every attempt that is opened is closed by exactly one event: here, or by the epilogue of the run when the run ends in
the middle of one. Tokens of a failed attempt are void, and two attempts are never joined: each has a turn of its own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from handrail.errors import BackendError
from handrail.events import CancelStage, Disposition
from handrail.loop._attempts import Attempt, AttemptResult, Failure, RetryPolicy, Step, classify, next_step, with_usage
from handrail.loop._backend import NO_USAGE, Backend, BackendRequest, Usage, cap_of
from handrail.loop._budget import Budget, Estimate, Ledger, is_clip, is_near_window, misfit
from handrail.loop._drafts import AttemptFailed, AttemptStarted, AttemptSucceeded
from handrail.loop._driver import LoopDriver
from handrail.loop._end import End
from handrail.loop._stream import Stream
from handrail.loop._turn import Turn

__all__ = ["Answer", "Chain"]


class Answer(NamedTuple):
    """A complete answer that nobody has committed yet, and where it came from."""

    turn: Turn
    message_id: str
    backend_index: int
    model: str


@dataclass(slots=True)
class _Open:
    """The attempt that is under way."""

    round: int
    number: int
    index: int
    backend: Backend
    message_id: str
    started_at: float
    stream: Stream | None = None


class Chain:
    """The backends of a run and what became of every attempt; `is_uncommitted`: something was streamed and not kept."""

    __slots__ = (
        "_backends",
        "_driver",
        "_estimate",
        "_idle_timeout",
        "_ledger",
        "_open",
        "_retry",
        "_windows",
        "attempts",
        "is_uncommitted",
    )

    def __init__(
        self,
        driver: LoopDriver,
        backends: Sequence[Backend],
        retry: RetryPolicy,
        budget: Budget,
        ledger: Ledger,
        idle_timeout: float | None,
    ) -> None:
        self._driver = driver
        self._backends = backends
        self._retry = retry
        self._windows = budget.windows
        self._estimate = Estimate(budget.count)
        self._ledger = ledger
        self._idle_timeout = idle_timeout
        self._open: _Open | None = None
        self.attempts: list[Attempt] = []
        self.is_uncommitted = False

    async def ask(self, request: Callable[[int], BackendRequest], tripped: Callable[[], str | None]) -> Answer | End:
        """One answer, or how the run ends. `request(n)` is the request of attempt n; `tripped` says which cap is."""
        first_of_round = len(self.attempts)
        number = 0
        refused: list[bool] = []
        for index, backend in enumerate(self._backends):
            if self._windows and self._skips(index, backend, request(number + 1)):
                refused.append(True)
                continue
            tried = 0
            step: Step | None = None
            failure: Failure | None = None
            while step is None or step.disposition == "retry-same":
                if number and self._driver.is_called_off:
                    return End.cancelled("streaming")
                if number and (cap := tripped()):
                    return End.failed(cap, "budget-exhausted")
                number, tried = number + 1, tried + 1
                answer = await self._attempt(index, backend, request(number))
                if not isinstance(answer, Failure):
                    return answer
                failure = answer
                is_last = index == len(self._backends) - 1
                step = next_step(failure, self._retry, tried=tried, is_last=is_last, draw=random.random())
                self._close_failed(failure, step)
                if step.disposition == "abort":
                    return End.failed(failure.error, failure.ends_as)
                if step.backoff is not None and (cap := tripped()):
                    return End.failed(cap, "budget-exhausted")
                if step.backoff is not None and await self._is_cancelled_during(step.backoff):
                    return End.cancelled("backoff")
            refused.append(failure is not None and failure.size_refusal)
        return self._all_failed(self.attempts[first_of_round:], on_size=all(refused))

    def _skips(self, index: int, backend: Backend, request: BackendRequest) -> bool:
        window = self._windows.get(backend.model)
        why = window and misfit(window, self._estimate.of(request, index), cap_of(backend))
        if not why:
            return False
        self._driver.log("info", f"backend {index} ({backend.model}) is skipped: {why}")
        self.attempts.append(
            Attempt(
                round=request.round, attempt=None, backend_index=index, model=backend.model, result="skipped", error=why
            )
        )
        return True

    async def _attempt(self, index: int, backend: Backend, request: BackendRequest) -> Answer | Failure | End:
        driver = self._driver
        opened = _Open(request.round, request.attempt, index, backend, driver.new_id(), driver.monotonic())
        self._open = opened
        self.is_uncommitted = True
        driver.emit(
            AttemptStarted(
                ts=driver.now(),
                round=request.round,
                attempt=request.attempt,
                backend_index=index,
                model=backend.model,
                message_id=opened.message_id,
            )
        )
        stream = opened.stream = Stream(driver, backend, request)
        fell_silent = await self._is_silent(stream)
        if driver.is_called_off or fell_silent:
            stream.abandon()
        if driver.is_called_off:
            return End.cancelled("streaming")
        if fell_silent:
            silence = BackendError(f"nothing arrived for {self._idle_timeout} s", "timeout")
            return with_usage(classify(silence, self._retry), stream.turn.usage)
        error = stream.take_error()
        if error is not None:
            return with_usage(classify(error, self._retry), stream.turn.usage)
        return self._cut(opened, stream.turn, request) or self._succeeded(opened, stream.turn, request)

    async def _is_silent(self, stream: Stream) -> bool:
        """Wait until the stream is over or the run cancelled; True: nothing came for too long."""
        limit = self._idle_timeout
        left = limit
        while not (self._driver.is_called_off or stream.is_over()):
            if left is not None and left <= 0:
                return True
            await self._driver.wait(stream.is_over, left)
            left = None if limit is None else stream.last_sign + limit - self._driver.monotonic()
        return False

    def _cut(self, opened: _Open, turn: Turn, request: BackendRequest) -> Failure | None:
        """The answer as a failure, if it is no whole answer."""
        assert turn.finish is not None
        reason, cap = turn.finish.reason, cap_of(opened.backend)
        if reason != "length" and is_clip(turn.usage, cap):
            billed = turn.usage and turn.usage.completion_tokens
            self._driver.log(
                "warning", f"finish reason {reason!r}, but {billed} completion tokens reach the cap of {cap}: a cut"
            )
        elif reason == "content-filter":
            return Failure(
                error="the provider's content filter stopped the answer",
                error_class="content-filter",
                asks_for="advance",
                degrades=False,
                usage=turn.usage,
            )
        elif reason != "length":
            return None
        window = self._windows.get(opened.backend.model)
        if window is not None and is_near_window(
            window, turn.usage, lambda: self._estimate.of(request, opened.index), cap
        ):
            return Failure(
                error=f"the answer was cut: the window of {window.context} tokens is full",
                error_class="length",
                asks_for="advance",
                degrades=False,
                size_refusal=True,
                usage=turn.usage,
            )
        remedy = "" if window else "; raise max_tokens, or declare the model's Window if its context was full"
        return Failure(
            error=f"the answer was cut at the completion cap (max_tokens {cap or 'of the provider'}){remedy}",
            error_class="length",
            asks_for="abort",
            ends_as="completion-truncated",
            usage=turn.usage,
        )

    def _succeeded(self, opened: _Open, turn: Turn, request: BackendRequest) -> Answer:
        assert turn.finish is not None
        driver = self._driver
        self._estimate.learn(request, opened.index, turn.usage)
        self._record(opened, "ok", usage=turn.usage)
        driver.emit(
            AttemptSucceeded(
                ts=driver.now(),
                round=opened.round,
                attempt=opened.number,
                backend_index=opened.index,
                model=opened.backend.model,
                model_used=turn.finish.model,
                finish_reason=turn.finish.reason,
                usage=turn.usage or NO_USAGE,
                latency=driver.monotonic() - opened.started_at,
            )
        )
        return Answer(turn, opened.message_id, opened.index, opened.backend.model)

    def _close_failed(self, failure: Failure, step: Step) -> None:
        self._close("failed", failure, step.disposition, step.backoff)

    @property
    def stage(self) -> CancelStage | None:
        """Where a cancellation finds the run, if it finds it here."""
        if self._open is not None:
            return "streaming"
        return "backoff" if self.is_uncommitted else None

    def close(self, end: End) -> None:
        """Close the attempt that the end of the run finds open, if there is one."""
        opened = self._open
        if opened is None:
            return
        if opened.stream is not None:
            opened.stream.abandon()
        usage = opened.stream and opened.stream.turn.usage
        if end.how == "cancelled":
            self._close("cancelled", Failure(error="cancelled", error_class="cancelled", usage=usage), "abort")
        else:
            self._close("failed", Failure(error=end.error, error_class="other", usage=usage), "abort")

    def _close(
        self, result: AttemptResult, failure: Failure, disposition: Disposition, backoff: float | None = None
    ) -> None:
        opened = self._open
        assert opened is not None
        self._record(opened, result, failure, disposition)
        self._driver.emit(
            AttemptFailed(
                ts=self._driver.now(),
                round=opened.round,
                attempt=opened.number,
                backend_index=opened.index,
                model=opened.backend.model,
                error=failure.error,
                error_class=failure.error_class,
                status=failure.status,
                disposition=disposition,
                backoff=backoff,
                usage=failure.usage,
            )
        )

    def _record(
        self,
        opened: _Open,
        result: AttemptResult,
        failure: Failure | None = None,
        disposition: Disposition | None = None,
        usage: Usage | None = None,
    ) -> None:
        """The attempt is over: what it used counts, whatever became of it."""
        usage = failure.usage if failure else usage
        self._ledger.add(usage)
        self.attempts.append(
            Attempt(
                round=opened.round,
                attempt=opened.number,
                backend_index=opened.index,
                model=opened.backend.model,
                result=result,
                error=failure and failure.error,
                error_class=failure and failure.error_class,
                status=failure and failure.status,
                disposition=disposition,
                usage=usage,
                text=opened.stream.turn.text if failure and opened.stream else "",
            )
        )
        self._open = None

    async def _is_cancelled_during(self, seconds: float) -> bool:
        await self._driver.wait(lambda: False, seconds)
        return self._driver.is_called_off

    def _all_failed(self, records: Sequence[Attempt], on_size: bool) -> End:
        failures = Counter(f"[{one.backend_index}] {one.model}: {one.error}" for one in records)
        told = "; ".join(f"{failure} ({times} times)" if times > 1 else failure for failure, times in failures.items())
        if on_size:
            self.is_uncommitted = False
            return End.failed(f"the conversation fits no backend: {told}", "context-exhausted")
        return End.failed(f"every backend failed: {told}")
