"""One mock server for all tests of the adapters; what it counts, it counts per test id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.aimock import Aimock, running


@pytest.fixture(scope="session")
def aimock(peers: Path, shared: Path) -> Iterator[Aimock]:
    with running(peers, shared / "peers" / "aimock" / "openai.json") as mock:
        yield mock
