"""What all faults are counted in, and the processes that are harmed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from tests.faults.forker import Forker, forking

SURVIVED: Counter[str] = Counter()
SLOWEST: dict[str, float] = {}


@pytest.fixture
def survived() -> Counter[str]:
    """To be counted up by one for each fault that did no harm."""
    return SURVIVED


@pytest.fixture
def took() -> Callable[[str, float], None]:
    """To be told how long something took, in seconds; the longest of each is told at the end."""

    def note(what: str, seconds: float) -> None:
        SLOWEST[what] = max(seconds, SLOWEST.get(what, 0.0))

    return note


@pytest.fixture
def quiet(forker: Forker) -> Iterator[None]:
    """The processes have nothing to complain of, no task that nobody waited for, no error in a log.

    But for a request that is none: that is what uvicorn says to a first line or a header that came to harm.
    """
    before = len(forker.complaints())
    yield
    assert forker.complaints()[before:].replace("Invalid HTTP request received.\n", "") == ""


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    with forking() as made:
        yield made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if SURVIVED:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(SURVIVED.items()))
        terminalreporter.write_line(f"{SURVIVED.total()} faults survived: {kinds}")
    for what, seconds in SLOWEST.items():
        terminalreporter.write_line(f"slowest: {what} after {seconds:.3f} s")
