"""Seconds on the clock that `import handrail` takes, over what the bare interpreter takes; and ag_ui beside it.

imports TIMES      the best of so many
"""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.programs.clock import say


def took(statement: str, count: int) -> float:
    times: list[float] = []
    for _ in range(count):
        before = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True)
        times.append(time.perf_counter() - before)
    return min(times)


if __name__ == "__main__":
    count = int(sys.argv[1])
    bare = took("pass", count)
    statements = {"handrail": "import handrail", "ag_ui.core": "import ag_ui.core"}
    say({name: took(statement, count) - bare for name, statement in statements.items()})
