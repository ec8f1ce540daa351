"""What an import brings along, in a process of its own."""

from __future__ import annotations

import time

import pytest

from ._kit import LOADED, child

EXTRAS = ["httpx", "httpcore", "openai", "starlette", "uvicorn", "textual", "typer", "click", "rich", "pydantic_ai"]


def imported(statement: str) -> set[str]:
    """The top-level and handrail modules in `sys.modules` after the statement."""
    done = child(f"{statement}\nimport sys\nprint(*sys.modules)")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return set(done.stdout.split())


def test_the_front_door_brings_no_extra_along() -> None:
    """F-16: nor `ag_ui`, which takes as long as all of it may."""
    modules = imported("import handrail")
    assert modules.isdisjoint([*EXTRAS, "ag_ui", "trio"])


@pytest.mark.parametrize("statement", ["import handrail.run", "from handrail import Run, RunDriver, drive, RunScope"])
def test_the_handle_brings_nothing_but_anyio_along(statement: str) -> None:
    """F-16, R-81: neither the protocol's models, nor the other rooms of the package, nor trio."""
    modules = imported(statement)
    assert modules.isdisjoint([*EXTRAS, "ag_ui", "pydantic", "trio"])
    rooms = {name.split(".")[1] for name in modules if name.startswith("handrail.")}
    assert rooms == {"run", "errors"}


def test_the_lifecycle_table_stands_alone() -> None:
    """R-1: the table's own module imports no clock, no thread and no event loop."""
    import handrail.run._lifecycle as lifecycle

    assert not {"threading", "time", "asyncio", "anyio", "random", "logging"} & set(vars(lifecycle))


def test_import_is_quick() -> None:
    """F-16: at most 0.3 s on a quiet machine, over what the bare interpreter takes; the best of five."""

    def best(statement: str) -> float:
        times = []
        for _ in range(5):
            before = time.perf_counter()
            assert child(statement).returncode == 0
            times.append(time.perf_counter() - before)
        return min(times)

    assert best("import handrail") - best("pass") < 0.3 * LOADED


WITHOUT = """
import asyncio
from handrail.run import RunScope, drive

async def body(driver):
    driver.emit("a")
    await asyncio.sleep(0)
    driver.finish(None, outcome="completed")

async def main():
    async with RunScope():
        run = drive(body)
        assert [event async for event in run.events] == ["a"]
        assert (await run.result).ok
    endless = drive(lambda driver: asyncio.sleep(3600))
    endless.cancel()
    assert (await endless.result).outcome == "cancelled"

asyncio.run(main())
assert drive(body).result.wait(20).ok
"""


@pytest.mark.parametrize(
    "trio",
    [
        "import sys; sys.modules['trio'] = None",
        "import sys, types; sys.modules['trio'] = types.ModuleType('trio')",
    ],
    ids=["absent", "being imported by another thread"],
)
def test_the_handle_needs_no_trio(trio: str) -> None:
    """R-11, section 8: everything of asyncio works where trio cannot be imported, or is only half there yet."""
    done = child(f"{trio}\n{WITHOUT}")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
