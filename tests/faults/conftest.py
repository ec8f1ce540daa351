"""What all faults are counted in, and the processes that are harmed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from tests.faults.forker import Forker, forking

SURVIVED: Counter[str] = Counter()
SLOWEST: Counter[str] = Counter()


@pytest.fixture
def survived() -> Counter[str]:
    """To be counted up by one for each fault that did no harm."""
    return SURVIVED


@pytest.fixture
def slowest() -> Counter[str]:
    """What took longest, in seconds, by its name."""
    return SLOWEST


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
