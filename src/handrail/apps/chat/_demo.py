"""The agent that `handrail chat` talks to when none is named: scripted, with no key and no network.

It is a `Loop` like any other, with a model that answers by a word of what was said. Each word shows something a chat
has to cope with.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from ag_ui.core import Message

from handrail.loop import BackendRequest, Budget, Loop
from handrail.testing import ScriptedBackend, Step, call, delay, fail, reasoning, text, usage
from handrail.tools import tool

__all__ = ["demo_loop"]

_BETWEEN_WORDS = 0.03  # seconds

_GREETING = """
I am a **scripted agent**: no key, no network, no model. Say a sentence with one of these words in it:

- `weather`: I think, call a tool, and answer
- `delete`: I ask before I do it, and you approve, deny or edit
- `long`: I go on for a while; *Esc* stops me
- `fail`: I fail, and *Ctrl+R* asks again

To talk to a real one: `handrail chat http://localhost:8000/agent`, or `handrail chat module:loop`.
"""
_LONG = """
# A long answer

Text arrives in pieces, and a piece need not be whole.

```python
async def main() -> None:
    async for transcript in session.changes():
        print(transcript.text)
```

| what     | how          |
|----------|--------------|
| keys     | shown below  |
| scrolling| `PgUp`       |

"""


@tool
def forecast(city: str) -> dict[str, object]:
    """Today's weather in a city."""
    return {"city": city, "sky": "heavy showers", "high": 11, "rain_mm": 18}


@tool(needs_approval=True)
def delete_file(path: str) -> str:
    """Delete a file. Nothing is really deleted."""
    return f"{path} is gone (not really)"


def demo_loop() -> Loop:
    """The agent, as a loop."""
    return Loop(backends=[_Script()], tools=[forecast, delete_file], budget=Budget())


class _Script:
    """A model that knows five answers."""

    model = "scripted"
    max_tokens = None

    def __init__(self) -> None:
        self._failed = False

    def stream(self, request: BackendRequest) -> AbstractAsyncContextManager[AsyncIterator[Any]]:
        return ScriptedBackend([self._answer(request.messages)], model=self.model).stream(request)

    def _answer(self, messages: Any) -> Step:
        last: Message = messages[-1]
        if last.role == "tool":
            return [*_spoken(_about(str(last.content))), usage(prompt=118, completion=21)]
        words = set(re.findall(r"\w+", str(last.content).lower()))
        if "weather" in words:
            thought = _spoken("They want to know about the weather. Better to look than to guess.", as_=reasoning)
            asked = call("forecast", {"city": "Bergen"})
            return [*thought, *_spoken("Let me look at the forecast."), asked, usage(prompt=61, completion=24)]
        if "delete" in words:
            asked = call("delete_file", {"path": "notes.txt"})
            return [*_spoken("I would delete it now."), asked, usage(prompt=61, completion=24)]
        if "fail" in words and not self._failed:
            self._failed = True
            return [*_spoken("This sentence will never"), fail("http", status=401, message="no such key")]
        self._failed = False
        if "long" in words:
            more = "".join(f"{number}. the point number {number}\n" for number in range(1, 101))
            return [*_spoken(_LONG + more), usage(prompt=61, completion=1_000)]
        return [*_spoken(_GREETING), usage(prompt=61, completion=96)]


def _about(result: str) -> str:
    if "showers" in result:
        return "Take an umbrella: **heavy showers** are coming, 18 mm of rain at 11 °C."
    return f"The tool said: {result}"


def _spoken(words: str, as_: Any = text) -> Iterator[Any]:
    """Steps that say `words` one by one, as a model does."""
    for word in re.findall(r"\s*\S+\s*?(?=\s|$)|\s+$", words):
        yield delay(_BETWEEN_WORDS)
        yield as_(word)
