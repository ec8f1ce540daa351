"""What a call asks for: judged, and then begun.

Judging changes nothing, and is done twice: when the call is made, as far as that can be known, and when its turn has
come. Beginning makes the request, and only when that stands does it touch the books, so a call that raises leaves the
thread as it was (S-34).
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ag_ui.core import Context, ResumeEntry, UserMessage
from ag_ui.core import Tool as Declaration

from handrail.agui._approvals import Given
from handrail.agui._interrupts import unsent_reason
from handrail.agui._json import encode_json
from handrail.agui._warnings import WarningRecord
from handrail.client._exchange import Exchange, Setting
from handrail.client._params import RunParams
from handrail.client._requests import Request, build
from handrail.errors import RunIdReusedError

__all__ = ["Wish", "own_params", "own_state"]


def own_params(given: RunParams | None) -> RunParams:
    """A copy of what the caller gave. Raises `TypeError` or `ValueError` for what is none."""
    if given is None:
        return RunParams()
    if not isinstance(given, RunParams):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise TypeError(f"params is a RunParams, not {type(given).__name__}")
    if not isinstance(given.run_id, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"run_id is a string, not {type(given.run_id).__name__}")
    return RunParams(
        run_id=given.run_id,
        tools=tuple(Declaration.model_validate(tool).model_copy(deep=True) for tool in given.tools),
        context=tuple(Context.model_validate(item).model_copy(deep=True) for item in given.context),
        forwarded_props=deepcopy(given.forwarded_props),
    )


def own_state(given: Any) -> Any:
    """A copy of what the caller gave as the shared state. Raises `ValueError` for what JSON cannot hold."""
    try:
        encode_json(given)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"the state is a JSON value, and this cannot be written as one: {error}") from error
    return deepcopy(given)


@dataclass(frozen=True, slots=True)
class Wish:
    """One call of `send` (with a `turn`), `resume` (with `answers`) or `run`."""

    params: RunParams
    turn: UserMessage | None = None
    answers: tuple[Given, ...] | None = None
    validate: bool = True

    def refuse_used_id(self, setting: Setting) -> None:
        """Raises `RunIdReusedError` for a run id that this thread has seen."""
        run_id = self.params.run_id
        if run_id is not None and run_id in setting.ledger.run_ids:
            raise RunIdReusedError(f"run id {run_id!r} was used before on this thread; leave it out", run_id)

    def carried(self, setting: Setting, now: datetime) -> tuple[ResumeEntry, ...]:
        """The entries that the call carries; raises what the state of the thread does not allow (S-30, S-37, S-84)."""
        questions = setting.ledger.questions
        if self.answers is not None:
            return questions.entries(self.answers, now, self.validate)
        questions.refuse_if_unanswered()
        return questions.owed

    def begin(self, exchange: Exchange, setting: Setting, now: datetime) -> Request:
        """Judge the call by the thread as it is now, and make it history."""
        self.refuse_used_id(setting)
        carried = self.carried(setting, now)
        ledger, tools = setting.ledger, tuple(setting.registry.values())
        run_id = setting.new_id() if self.params.run_id is None else self.params.run_id
        request = build(ledger, tools, self.params, run_id, turn=self.turn, carried=carried, warn=setting.warn)
        with ledger.lock:
            self._warn_of_declarations(setting)
            if self.answers is not None:
                ledger.questions.owe(self.answers, carried)
                ledger.hold()
                self._warn_of_reasons(setting, carried)
            elif carried and ledger.questions.reached_the_agent:
                named = ", ".join(entry.interrupt_id for entry in carried)
                words = f"the answers to {named} go out again; a run that carried them had begun and may have used them"
                ledger.note(WarningRecord("answers-resent", words))
            ledger.begin_exchange()
            exchange.adopt(request)
        setting.publish()
        return request

    def _warn_of_declarations(self, setting: Setting) -> None:
        for name in (tool.name for tool in self.params.tools if tool.name in setting.registry):
            words = f"{name} is declared by the caller and by the session; the caller's declaration stands"
            setting.ledger.note(WarningRecord("duplicate-tool", words))

    def _warn_of_reasons(self, setting: Setting, entries: tuple[ResumeEntry, ...]) -> None:
        for answer, entry in zip(self.answers or (), entries, strict=True):
            reason = unsent_reason(answer, entry)
            if reason is not None:
                words = f"the question {entry.interrupt_id} takes no reason; not sent: {reason}"
                setting.ledger.note(WarningRecord("reason-not-sent", words))
