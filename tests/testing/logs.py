"""Events of runs that never were, for the checkers to look at."""

from __future__ import annotations

from typing import Any

from handrail import Usage, assistant
from handrail import events as ev
from handrail.loop._attempts import Attempt


def attempt_started(attempt: int = 1, round: int = 1, model: str = "m") -> ev.AttemptStarted:
    return ev.AttemptStarted(round=round, attempt=attempt, backend_index=0, model=model, message_id=f"a{round}")


def tokens(*texts: str, attempt: int = 1, round: int = 1) -> list[ev.Token]:
    return [ev.Token(text=text, round=round, attempt=attempt) for text in texts]


def attempt_failed(attempt: int = 1, round: int = 1, **changes: Any) -> ev.AttemptFailed:
    said: dict[str, Any] = {"error": "no", "error_class": "other", "disposition": "retry-same", "model": "m"}
    return ev.AttemptFailed(round=round, attempt=attempt, backend_index=0, **(said | changes))


def attempt_succeeded(attempt: int = 1, round: int = 1) -> ev.AttemptSucceeded:
    return ev.AttemptSucceeded(
        round=round, attempt=attempt, backend_index=0, model="m", finish_reason="stop", usage=Usage(), latency=0.1
    )


def committed(text: str, round: int = 1, calls: Any = ()) -> ev.AssistantMessage:
    return ev.AssistantMessage(message=assistant(text, tool_calls=calls, id=f"a{round}"), round=round)


def discarded(reason: Any = "failed", round: int = 1) -> ev.TurnDiscarded:
    return ev.TurnDiscarded(reason=reason, round=round)


def completed(final: str, **more: Any) -> ev.RunCompleted:
    return ev.RunCompleted(final=final, rounds=1, message_count=2, **more)


def attempt_record(attempt: int | None = 1, round: int = 1, result: str = "ok", **changes: Any) -> Attempt:
    return Attempt(round=round, attempt=attempt, backend_index=0, model="m", result=result, **changes)  # pyright: ignore
