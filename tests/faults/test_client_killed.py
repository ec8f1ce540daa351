"""SIGKILL for the client, whenever something new was on its screen; then another goes on from what it had kept."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import ToolMessage
from tests.agui.effort import FACTOR
from tests.faults.conversation import SCENARIOS, go_on
from tests.faults.forker import Child, Forker
from tests.faults.judge import WITHIN, calls_at, executed_once, left_at, nothing_twice, talking, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0 if FACTOR > 1 else 180), pytest.mark.usefixtures("quiet")]


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_client_is_killed(
    scenario: str,
    anyio_backend: str,
    forker: Forker,
    tmp_path: Path,
    survived: Counter[str],
    took: Callable[[str, float], None],
) -> None:
    """P-93, S-57, S-152: the server's run is over within a second, nothing is left there, nothing is said twice.

    Half of the points are gone on from in each of the event loops.
    """
    server = forker.start("server")
    url = f"http://127.0.0.1:{server.wait('up')['port']}/"
    before = left_at(url)
    points = points_of(forker, url, scenario, tmp_path)
    assert len(points) > 10
    for point in points if FACTOR > 1 else points[anyio_backend == "trio" :: 2]:
        file = tmp_path / f"{point['number']}.json"
        client = stopped(forker, url, scenario, file, point)
        killed_at = time.monotonic()
        client.kill()
        took("server's run over behind a killed client", until_the_runs_are_over(server, file.stem, killed_at))
        kept = json.loads(file.read_text())
        async with talking(url, kept) as watched:
            assert watched.session.thread_id == file.stem
            await go_on(watched.session)
            nothing_twice(watched, scenario)
            if not watched.asked[0].resume:  # what it answers was asked before this session was made
                watched.judge()
            watched.calls += [line["call"] for line in client.told("tool")]
            results = [m.content for m in watched.asked[0].messages if isinstance(m, ToolMessage)]
            assert set(shown_results(kept)) <= set(results), "a result that was shown was not sent"
            executed_once(watched, calls_at([server], file.stem), sent_before=len(kept["owed"]))
        survived["clients killed"] += 1
    assert server.told("ran", outcome="cancelled"), "some were killed while their run was going on"
    await until(lambda: left_at(url) == before, f"{left_at(url)} are open, and {before} were")
    server.kill()


def shown_results(kept: Any) -> list[str]:
    """Those of tools of the client's, on the screen that was kept."""
    parts = [part for message in kept["transcript"]["messages"] for part in message["parts"]]
    return [
        part["result"] for part in parts if part["type"] == "tool" and part["local"] and part["status"] == "complete"
    ]


def points_of(forker: Forker, url: str, scenario: str, folder: Path) -> list[dict[str, Any]]:
    """The points of a whole conversation at which it can be killed; that of an event is the one behind it."""
    client = forker.start("client", url=url, scenario=scenario, file=str(folder / "whole.json"))
    client.wait("ended")
    points = client.told("point")
    return [
        point
        for point, following in zip(points, [*points[1:], None], strict=True)
        if following is None or FACTOR > 1 or following["events"] == point["events"]
    ]


def stopped(forker: Forker, url: str, scenario: str, file: Path, point: dict[str, Any]) -> Child:
    """A client that stands still at a point, and whose server has no more than the next event for it."""
    options = {"url": url, "scenario": scenario, "file": str(file)}
    client = forker.start("client", **options, stop_at=point["number"], hold=point["events"] + 1)
    client.wait("point", number=point["number"])
    return client


def until_the_runs_are_over(server: Child, thread: str, since: float) -> float:
    """Wait for it; how many seconds that took."""
    ends = [server.wait("ran", run=began["run"], within=WITHIN)["at"] for began in server.told("began", thread=thread)]
    return max([0.0, *(end - since for end in ends)])
