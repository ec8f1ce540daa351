"""`handrail demo`: what a newcomer sees first."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from handrail.apps.cli import app

pytestmark = pytest.mark.slow  # the script speaks at the pace of a person who reads


def test_the_demo_shows_what_the_handle_is_for() -> None:
    """Two rounds, a tool call, an attempt that fails in mid-sentence and is retried; no key and no network."""
    done = subprocess.run(
        [sys.executable, "-m", "handrail", "demo"], capture_output=True, timeout=50, env={"PYTHONIOENCODING": "utf-8"}
    )
    lines = done.stdout.decode().splitlines()
    assert (done.returncode, done.stderr) == (0, b"")
    assert "✗ retracted: Bergen is known for its sunshine, so you can saf" in lines
    assert any(line.startswith("  attempt 1 failed: ") for line in lines)
    assert '→ forecast {"city": "Bergen"}' in lines
    assert any(line.startswith("← forecast {") for line in lines)
    assert re.fullmatch(
        r"completed · 2 rounds · \d+ tokens in, \d+ out · cost unknown · \d+\.\d s · drained", lines[-1]
    )


def test_the_demo_as_json() -> None:
    result = CliRunner().invoke(app, ["demo", "--json"])
    *events, outcome = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [event["kind"] for event in events].count("round-started") == 2
    assert [event["kind"] for event in events].count("attempt-failed") == 1
    assert outcome["outcome"] == "completed"
    assert outcome["spent"]["complete"] is True
    assert "cost" not in outcome["spent"]
