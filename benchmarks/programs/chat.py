"""From a key to the screen, while an answer streams into `handrail chat`.

    chat SHAPE KEYS     milliseconds from a key to the bytes that show it: the worst of so many keys, and the median

The chat runs in a terminal of its own, 80 by 24, and the answer comes in 200 pieces a second whatever the chat is
busy with: pieces that were held up come together. Shapes: the keys of `SHAPES`.
"""

from __future__ import annotations

import fcntl
import os
import pty
import random
import select
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from benchmarks.programs.clock import say

EVENTS = 200  # a second
SIZE = (24, 80)
LETTERS = [chr(code) for code in (*range(0x3B1, 0x3C2), *range(0x410, 0x460), *range(0x10D0, 0x10F1))]
"""What is typed: each letter once, and none that is in an answer."""

PATIENCE = 60.0
FILLED = 2.0  # seconds until the screen is full and whatever is done once has been done
BETWEEN = (0.05, 0.15)  # seconds between two keys

MIXED = """
## Part {0}

Some **words** with a [link](http://a.b) and `code`, before there is

1. an item
   - with one in it
2. and another

> that somebody said

| name | value |
|------|-------|
| {0} | text |

```python
x = f({0})
```
"""
SHAPES = {
    "paragraph": ("word {0} and **bold** ", *("word and **bold** ",) * 60, "\n\n"),
    "list": ("- item {0} with *some* words\n",),
    "nested-list": tuple(f"{'  ' * depth}- item {{0}} with *some* words\n" for depth in (0, 1, 2, 3, 2, 1)),
    "quote": ("> quote {0} with *some* words\n\n",),
    "nested-quote": ("> " * 6 + "quote {0} with *some* words\n\n",),
    "table": ("\n| number | text |\n|---|---|\n", *("| {0} | some *words* |\n",) * 60),
    "code": ("\n```python\n", *("x = f({0})  # as it was\n",) * 60, "```\n"),
    "mixed": tuple(MIXED[start : start + 6] for start in range(0, len(MIXED), 6)),
}


class Model:
    """A model that goes on in one shape, for good."""

    max_tokens = None

    def __init__(self, shape: str) -> None:
        self.model = shape

    @asynccontextmanager
    async def stream(self, request: Any) -> AsyncGenerator[AsyncIterator[Any]]:
        yield self._pieces()

    async def _pieces(self) -> AsyncIterator[Any]:
        from anyio import sleep

        from handrail.loop import TextDelta

        began = time.monotonic()
        pieces = (piece for _ in count() for piece in SHAPES[self.model])
        for number, piece in enumerate(pieces):
            await sleep(max(0, began + number / EVENTS - time.monotonic()))
            yield TextDelta(piece.replace("{0}", str(number)))


def __getattr__(name: str) -> Any:
    """The loop of a shape, for `handrail chat benchmarks.programs.chat:SHAPE`."""
    if name not in SHAPES:
        raise AttributeError(name)
    from handrail import Loop

    return Loop(backends=[Model(name)])


class Terminal:
    """A terminal with the chat in it."""

    def __init__(self, shape: str) -> None:
        self._end, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "handrail", "chat", f"{__spec__.name}:{shape}"],
            env=os.environ | {"TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._end)

    def press(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def shows(self, text: str, seconds: float = PATIENCE) -> bool:
        """Whether this text comes, as it is, within so much time."""
        seen, until = b"", time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            if select.select([self._end], [], [], left)[0]:
                seen = seen[-100:] + os.read(self._end, 65_536)
                if text.encode() in seen:
                    return True
        return False


def waits(shape: str, keys: int) -> Iterator[float]:
    """Milliseconds that each of so many keys waits for the screen."""
    terminal = Terminal(shape)
    try:
        if not terminal.shows("rite a message"):
            raise RuntimeError("the chat does not come up")
        terminal.press("go\r")
        terminal.shows("\0", FILLED)
        for letter in LETTERS[:keys]:
            terminal.shows("\0", random.uniform(*BETWEEN))
            pressed = time.perf_counter()
            terminal.press(letter)
            if not terminal.shows(letter):
                raise RuntimeError("a key is never shown")
            yield (time.perf_counter() - pressed) * 1_000
    finally:
        terminal.close()


if __name__ == "__main__":
    shape, keys = sys.argv[1:]
    waited = sorted(waits(shape, int(keys)))
    say({"handrail": waited[-1], "the median key": statistics.median(waited)})
