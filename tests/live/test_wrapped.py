"""Agents of other frameworks behind a `Run`, by the recipes of docs/recipes.md: each in its own environment.

What the page says of them is here: a cancel reaches the stream and closes it, a failure is data, unknown usage is not
zero, and `drained` waits for what the framework waits for, and for sections.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
from tests.conftest import ROOT
from tests.live.environments import Unavailable, python_of
from tests.live.kit import servers_have_to_start

pytestmark = servers_have_to_start

ENVIRONMENTS = {"pydantic_ai": None, "openai_agents": "openai-agents", "langgraph": "langgraph"}

COMPLETED = {"outcome": "completed", "ok": True, "final": "Hello, Ada.", "error": None}
CANCELLED = {"outcome": "cancelled", "ok": False, "error": None, "complete": None}
NOTHING_LEFT = {"waits": False, "left_at_work": False, "tasks_left": 0}
LEFT_AT_WORK = {"open_work": ["run"], "waits": False, "left_at_work": True}
SEEN = {"open_work": ["run", "tool"], "waits": True}


@cache
def found_with(framework: str) -> dict[str, Any]:
    environment = ENVIRONMENTS[framework]
    python = sys.executable if environment is None else str(python_of(environment))
    program = [python, "-m", "tests.live.wrapped.scenarios", framework]
    ran = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture(params=ENVIRONMENTS)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What was found with a framework, by scenario."""
    try:
        return found_with(request.param)
    except Unavailable as unavailable:
        pytest.skip(str(unavailable))


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("answers", COMPLETED | NOTHING_LEFT | {"complete": True, "closed": True}),
        ("counts nothing", COMPLETED | NOTHING_LEFT | {"complete": False}),
        (
            "breaks",
            {"outcome": "failed", "error": "ValueError: broken", "complete": None, "closed": True} | NOTHING_LEFT,
        ),
        ("asks", {"outcome": "completed", "ok": False, "questions": 1, "final": ""} | NOTHING_LEFT),
        ("stalls", CANCELLED | NOTHING_LEFT | {"closed": True}),
        ("asleep", CANCELLED | NOTHING_LEFT),
        ("stubborn, in a section", CANCELLED | SEEN),
        ("plain function", CANCELLED | LEFT_AT_WORK),
        ("plain function, in a section", CANCELLED | SEEN),
    ],
)
def test_what_becomes_of_a_run(found: dict[str, Any], scenario: str, expected: dict[str, Any]) -> None:
    """R-85, R-86: however it ends, and whatever goes on behind it."""
    assert {name: found[scenario].get(name) for name in expected} == expected


@pytest.mark.parametrize("found", ENVIRONMENTS, indirect=True)
def test_a_cancellation_that_nobody_sent_cancels_no_run(found: dict[str, Any]) -> None:
    """R-92: a tool raised it."""
    assert found["cancels itself"]["outcome"] != "cancelled"


@pytest.mark.parametrize("found", ["pydantic_ai", "langgraph"], indirect=True)
def test_who_waits_for_an_async_tool_that_goes_on(found: dict[str, Any]) -> None:
    assert found["stubborn"].items() >= (CANCELLED | {"open_work": ["run"], "waits": True}).items()


@pytest.mark.parametrize("found", ["openai_agents"], indirect=True)
def test_who_does_not(found: dict[str, Any]) -> None:
    assert found["stubborn"].items() >= (CANCELLED | LEFT_AT_WORK).items()
