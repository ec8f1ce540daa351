"""`handrail serve`, as the command does it, with an agent of `tests.live`."""

from __future__ import annotations

import io
import re
import sys

from tests.faults.forker import say

from handrail.apps._serve import serve


class _Greeting(io.StringIO):
    """What the command says to a person: where it serves, as soon as it does."""

    def write(self, text: str) -> int:
        if found := re.search(r"http://[^:]+:(\d+)", text):
            say(what="up", port=int(found[1]))
        return len(text)


def play(port: int = 0) -> None:
    """Serve at a port of this machine until killed."""
    sys.stdout = _Greeting()
    serve("tests.live.handrail_server:loop_for", host="127.0.0.1", port=port, path="/")


def warm() -> None:
    """It loads nothing that the other server does not."""
