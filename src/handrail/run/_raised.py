"""What an exception that came out of a piece of work means for those around it.

Three things it can be: a cancellation, which is whose it is and goes on to them; something for the host, as
KeyboardInterrupt and SystemExit are; or no more than the failure of that work, whatever class it has. A task group of
anyio or asyncio raises a group for what its tasks raised, and a nursery of trio wraps even a cancellation into one: a
group means what all that it is made of mean.
"""

from __future__ import annotations

import math

import anyio

from handrail.errors import leaves_of
from handrail.run._loops import cancelled_class, cancelled_classes
from handrail.run._trio import in_trio_run

__all__ = ["is_cancellation", "is_child_cancelled_with_host", "is_for_host"]


def is_cancellation(error: BaseException) -> bool:
    """Whether it looks like a cancellation on this event loop; somebody need not have sent it."""
    return all(isinstance(leaf, cancelled_class()) for leaf in leaves_of(error))


def is_for_host(error: BaseException) -> bool:
    """Whether it is meant for more than the work that it came from."""
    of_the_work = (Exception, GeneratorExit, *cancelled_classes())
    return not all(isinstance(leaf, of_the_work) for leaf in leaves_of(error))


def is_child_cancelled_with_host() -> bool:
    """Whether the current child is stopped by a scope round its maker: trio does that; under asyncio its maker must."""
    return in_trio_run() and anyio.current_effective_deadline() == -math.inf
