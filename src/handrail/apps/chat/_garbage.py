"""The collector of garbage, kept from looking through everything that was ever said.

It stops the program while it looks, for about a millisecond a thousand objects, and a conversation keeps six objects
for each event. What has stayed through a collection stays, nearly all of it: so it is taken out of what is looked
through, once it is so much that a person would feel it. The price is that what is on the screen at that moment is not
collected later. It is little: at 200 events a second the chat grows by 0.22 MB a second, and 0.19 of that is what a
session without a screen keeps.
"""

from __future__ import annotations

import gc
from asyncio import sleep
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["MOST", "collect_if_due", "short_collections"]

MOST = 25_000
"""Objects that a collection may leave to be looked through by the next one, about."""

_DUE, _AT_LATEST = 10, 100  # collections of what is new, to one of everything

_WRITTEN = 0.01
"""Seconds in which a thread of Textual's writes what was drawn; a collection would hold it up."""


@contextmanager
def short_collections() -> Generator[None]:
    """Within this, collections stay short, however much is kept. What was there before is not looked through at all."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*thresholds[:2], _AT_LATEST)
    gc.callbacks.append(_noted)
    try:
        yield
    finally:
        gc.callbacks.remove(_noted)
        gc.set_threshold(*thresholds)
        gc.unfreeze()


async def collect_if_due() -> bool:
    """Collect now what would be collected in the middle of something else; whether there was anything to do."""
    is_due = gc.get_count()[2] >= _DUE
    if is_due:
        await sleep(_WRITTEN)
        gc.collect()
    return is_due


def _noted(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2 and len(gc.get_objects(2)) > MOST:
        gc.freeze()
