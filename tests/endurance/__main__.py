"""Thousands of runs, then thousands of sessions, and what is left of them: nothing.

    python -m tests.endurance [RUNS SESSIONS]

20,000 and 2,000 unless told otherwise. Everything is played for a while before it is measured, since libraries load,
compile and cache at first use. Behind that memory, threads, descriptors, tasks and objects of handrail have to be where
they were, within 5 %, in this process and in the server's, and neither may have made a noise. Exit code 1 otherwise.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from tests.endurance import runs, sessions
from tests.endurance.figures import Figures, compared, fill_caches, taken
from tests.endurance.noise import Noise

WARM_UP = (800, 75)
"""Runs and sessions before the first measurement."""


def judged(title: str, count: int, before: Figures, after: Figures) -> list[str]:
    """Print how both compare; gives what has grown."""
    table, grown = compared(before, after, count)
    print(f"\n{title}\n{table}", flush=True)
    return [f"{title}: {what}" for what in grown]


def timed(count: int, what: str, play: Callable[[], Any]) -> None:
    start, cpu = time.monotonic(), time.process_time()
    play()
    print(
        f"{count:,} {what} in {time.monotonic() - start:.0f} s ({time.process_time() - cpu:.0f} s of CPU)", flush=True
    )


def main(run_count: int, session_count: int) -> int:
    noise = Noise()
    fill_caches()
    runs.play(WARM_UP[0])
    before = taken()
    timed(run_count, "runs", lambda: runs.play(run_count))
    wrong = judged(f"{run_count:,} runs", run_count, before, taken())
    with sessions.serving() as server:
        sessions.play(server, WARM_UP[1])
        there, here = server.figures(), taken()
        timed(session_count, "sessions", lambda: sessions.play(server, session_count))
        there_now, here_now = server.figures(), taken()
        noise_there = server.noise()
    wrong += judged(f"{session_count:,} sessions, at the client", session_count, here, here_now)
    wrong += judged(f"{session_count:,} sessions, at the server", session_count, there, there_now)
    wrong += noise.heard + noise_there
    print("\n" + "\n".join([f"WRONG: {what}" for what in wrong] or ["Everything is where it was."]))
    return 1 if wrong else 0


if __name__ == "__main__":
    counts = [int(count) for count in sys.argv[1:]] or [20_000, 2_000]
    sys.exit(main(*counts))
