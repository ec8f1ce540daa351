"""A scenario of threads and tasks, carried out in many orders.

What two threads or tasks do to each other depends on where each is left and goes on, and a test sees one such
interleaving, mostly the same one. `explore` takes over who goes next, at every line, lock and await that matters, and
tries them one after the other: some at random, then all with few switches. What fails can be carried out again.

From the bottom: `_search` (which choices), `_lines` (where a thread may be left), `_crew` and `_scheduler` (one thread
at a time), `_stand_ins` and `_loop` (what waits there), `_story` (what is told), `_explore` (the two functions).
"""

from handrail.testing.interleavings._explore import Explored, InterleavingError, explore, replay

__all__ = ["Explored", "InterleavingError", "explore", "replay"]
