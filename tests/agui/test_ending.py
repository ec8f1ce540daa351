"""The accounts of a terminal event: what was reported and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from ag_ui.core import RunAgentInput

from handrail.agui._ending import ending
from handrail.loop import Attempt
from handrail.run import Outcome, Spend

GIVEN = RunAgentInput(thread_id="t1", run_id="r1", messages=[])


def attempt(model: str = "m", number: int | None = 1) -> Attempt:
    return Attempt(round=1, attempt=number, backend_index=0, model=model, result="ok")


def accounts(spent: Spend | None, *attempts: Attempt, how: Any = "completed") -> dict[str, Any]:
    """The usage and the metadata of the event, where it has them."""
    event = ending(GIVEN, Outcome(how, attempts=attempts, spent=spent))
    values = event.model_dump(by_alias=True)
    return {key: values[key] for key in ("usage", "metadata") if key in values}


def spent(total: int, *, complete: bool = True, **counts: int) -> Spend:
    return Spend(total_tokens=total, wall_clock=1.0, complete=complete, **counts)


NOT_ALL = {"metadata": {"handrail.usageComplete": False}}


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
@pytest.mark.parametrize(
    ("spend", "attempts", "expected"),
    [
        (None, [attempt()], {}),
        (spent(15), [attempt()], {"usage": [{"totalTokens": 15, "model": "m"}]}),
        (
            spent(15, prompt_tokens=10, completion_tokens=5, cached_prompt_tokens=4),
            [attempt(), attempt()],
            {
                "usage": [
                    {
                        "model": "m",
                        "inputTokens": 10,
                        "outputTokens": 5,
                        "totalTokens": 15,
                        "cachedInputTokens": 4,
                    }
                ]
            },
        ),
        (spent(15, prompt_tokens=10), [attempt()], {"usage": [{"totalTokens": 15, "model": "m"}]}),
        (
            spent(25, prompt_tokens=10, completion_tokens=5, cached_prompt_tokens=4),
            [attempt(), attempt("n")],
            {"usage": [{"totalTokens": 25}]},
        ),
        (
            spent(15, complete=False),
            [attempt(), attempt("n", None)],
            {"usage": [{"totalTokens": 15, "model": "m"}]} | NOT_ALL,
        ),
        (spent(0), [attempt()], {"usage": [{"totalTokens": 0, "model": "m"}]}),
        (spent(0, complete=False), [attempt()], NOT_ALL),
        *(
            (
                spent(0, complete=False, **{only: 0}),
                [attempt()],
                {"usage": [{"totalTokens": 0, "model": "m"}]} | NOT_ALL,
            )
            for only in ("prompt_tokens", "completion_tokens", "cached_prompt_tokens")
        ),
        (spent(0), [], {}),
        (spent(0), [attempt(number=None)], {}),
        (
            spent(0, complete=False, prompt_tokens=0, completion_tokens=0),
            [attempt(), attempt("n")],
            {"usage": [{"totalTokens": 0, "inputTokens": 0, "outputTokens": 0}]} | NOT_ALL,
        ),
    ],
)
def test_usage(spend: Spend | None, attempts: list[Attempt], expected: dict[str, Any], how: Any) -> None:
    """P-92: one entry; halves that add up, the model when there was one; what is unknown is left out, 0 is not."""
    assert accounts(spend, *attempts, how=how) == expected
