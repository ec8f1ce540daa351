"""A twentieth of what `make soak` plays, and that it would find what is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.endurance.figures import compared, taken

from handrail import RunDriver

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc")


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_nothing_is_left_of_1_000_runs_and_100_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    """R-103: memory, threads, descriptors, tasks and objects are where they were, and nothing was complained of."""
    played = [sys.executable, "-m", "tests.endurance", "1000", "100"]
    done = subprocess.run(played, cwd=ROOT, capture_output=True, text=True)
    with capsys.disabled():
        print(f"\n{done.stdout}")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_what_is_left_behind_is_found() -> None:
    """Runs that are kept, threads that wait, files that are open; and nothing where there is nothing."""
    gate = threading.Event()
    before = taken()
    kept = [RunDriver[int]() for _ in range(50)]
    threads = [threading.Thread(target=gate.wait, daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    files = [Path(__file__).open() for _ in range(10)]  # noqa: SIM115 - left open for a while: that is the test
    table, grown = compared(before, taken(), 50)
    assert "objects of handrail" in table
    for what in ("threads", "descriptors", "handrail.run._run.Run", "handrail.run._core.Core"):
        assert [line for line in grown if line.startswith(f"{what}: ")], what
    while kept:
        kept.pop().finish(None, outcome="completed")
    gate.set()
    for thread, file in zip(threads, files, strict=True):
        thread.join()
        file.close()
    assert compared(before, taken(), 50)[1] == []
