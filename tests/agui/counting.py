"""Work as a count of calls, which no load on the machine can move."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any


def calls(action: Callable[[], object], *kinds: str) -> int:
    """How many calls `action` makes: "call" are those of Python functions, "c_call" those of C."""
    count = 0

    def profile(frame: Any, kind: str, argument: Any) -> None:
        nonlocal count
        count += kind in kinds

    before = sys.getprofile()
    gc.disable()  # a collection calls back into whoever asked for it
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count
