"""`handrail demo`: a run of a scripted agent, with no key and no network.

Two rounds, one tool call, and a first attempt whose connection breaks in mid-sentence: what was streamed is taken
back, the attempt is made again, and the run still ends exactly once and says how.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from handrail.apps._watch import watch
from handrail.loop import Budget, Loop, RetryPolicy
from handrail.testing import ScriptedBackend, call, delay, fail, reasoning, text, usage
from handrail.tools import tool

__all__ = ["demo"]

_QUESTION = "Do I need an umbrella in Bergen today?"
_BETWEEN_WORDS = 0.05  # seconds


@tool
def forecast(city: str) -> dict[str, object]:
    """Today's weather in a city."""
    return {"city": city, "sky": "heavy showers", "high": 11, "rain_mm": 18}


def demo(*, as_json: bool) -> int:
    """Run the script and show it; returns the exit code."""
    backend = ScriptedBackend(
        [
            [
                *_spoken("Bergen is known for its sunshine, so you can saf"),
                usage(prompt=61, completion=12),
                fail("connection", message="reset by peer"),
            ],
            [
                *_spoken("Better to look than to guess.", as_=reasoning),
                *_spoken("Let me look at the forecast."),
                call("forecast", {"city": "Bergen"}),
                usage(prompt=61, completion=24),
            ],
            [
                *_spoken("Yes, take it: heavy showers are coming, 18 mm of rain at 11 °C."),
                usage(prompt=118, completion=21),
            ],
        ],
        model="scripted",
    )
    if not as_json:
        print("A scripted agent: no key, no network. Ctrl-C cancels, a second one leaves.\n")
        print(f"you: {_QUESTION}")
    loop = Loop(backends=[backend], tools=[forecast], budget=Budget(), retry=RetryPolicy(backoff_cap=1.0))
    return watch(loop.run(_QUESTION), as_json=as_json)


def _spoken(words: str, as_: Callable[..., Any] = text) -> Iterator[Any]:
    """Steps that say `words` one by one, as a model does."""
    for word in re.findall(r"\s*\S+", words):
        yield delay(_BETWEEN_WORDS)
        yield as_(word)
